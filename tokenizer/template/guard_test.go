package template

import (
	"strings"
	"testing"
)

// Templates that would end the program, or never end, fail.
func TestHostileTemplates(t *testing.T) {
	double := "{% set ns = namespace(x=START) %}{% for i in range(60) %}{% set ns.x = STEP %}{% endfor %}{{ ns.x }}"
	doubling := func(start, step string) string {
		return strings.NewReplacer("START", start, "STEP", step).Replace(double)
	}
	const (
		long  = "larger than 16"
		grown = "{% set x = 'a' * 999 %}{% set x = x * 999 %}" // about 1 MB
	)
	for template, want := range map[string]string{
		"{% set x = [] %}{{ x.append(x) }}{{ x }}":                                                             "line 1: .append is not supported",
		"{% set x = [1] %}\n{{ x .\tinsert(0, x) == x }}":                                                      "line 2: .insert is not supported",
		"{% set x = {} %}{% set f = x.update %}{{ f({'a': x}) }}{{ x | tojson }}":                              ".update is not supported",
		"{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}":                                                "a namespace inside another value",
		"{% set ns = namespace() %}{% set ns.a = [{'b': ns}] %}{{ ns | tojson }}":                              "a namespace inside another value",
		"{% set m = messages[0] %}{% set m.a = m %}{{ m == m }}":                                               "anything but a namespace",
		"{% set n = namespace() %}{{ [n] }}":                                                                   "a namespace inside another value",
		`{{ "a" * 10000000000 }}`:                                                                              "one multiplication in a tag",
		`{% set n = 10000000000 %}{{ "a" * n }}`:                                                               "one multiplication in a tag",
		`{{ "a" * 999 * 999 * 999 }}`:                                                                          "one multiplication in a tag",
		`{{ "a" * 2 * messages[0].n }}`:                                                                        "one multiplication in a tag",
		"{{ 'a\nb' | indent(10000000000) }}":                                                                   "indent needs a width in 0..100",
		"{{ 'a\nb' |\n indent(first=true, width=-1) }}":                                                        "indent needs a width in 0..100",
		"{{ 1" + strings.Repeat(" - 1", 50000) + " }}":                                                         "more than 500 operations in one tag",
		"{{ 1" + strings.Repeat(" if 1", 50000) + " }}":                                                        "more than 500 operations in one tag",
		"{{ 1" + strings.Repeat(" is a()", 30000) + " }}":                                                      "more than 500 operations in one tag",
		"{{ " + strings.Repeat("not ", 50000) + "1 }}":                                                         "more than 200 deep",
		"{{ " + strings.Repeat("-", 100000) + "1 }}":                                                           "more than 200 deep",
		"{{ " + strings.Repeat("(", 100000) + " }}":                                                            "more than 200 deep",
		"{{ " + strings.Repeat("a[", 100000) + " }}":                                                           "more than 200 deep",
		"{{ 1" + strings.Repeat(" if 1 else 1", 20000) + " }}":                                                 "more than 200",
		"{% for i in range(10**12) %}{% endfor %}":                                                             "a range has more than",
		"{% for i in range(1000000000000) %}{% endfor %}":                                                      "a range has more than",
		"{{ range(0, -1000000000000, -1) | length }}":                                                          "a range has more than",
		"{% set é = 'a' %}":                                                                                    "only ASCII is supported",
		"{{ 'é' }}{% set\u00a0x = 'a' %}":                                                                      "only ASCII is supported",
		"{% macro __print(x) %}{% endmacro %}":                                                                 "the name __print is reserved",
		"{% set x[0] = 1 %}":                                                                                   "cannot read the tag",
		"{% for a.b in [1] %}{% endfor %}":                                                                     "cannot read the tag",
		"{{ range(1, 2, 0) }}":                                                                                 "range cannot go",
		"{% for i in range(9223372036854775807, 0, -9223372036854775807) %}{% endfor %}":                       "range cannot go",
		doubling("'ab'", "ns.x + ns.x"):                                                                        long,
		doubling("'ab'", "ns.x ~ ns.x"):                                                                        long,
		doubling("[1]", "ns.x + ns.x"):                                                                         long,
		doubling("[1]", "[ns.x, ns.x]"):                                                                        long,
		"{% set x = 'a' %}" + strings.Repeat("{% set x = x ~ x %}", 60):                                        long,
		"{% macro f(x, n=0) %}{{ f([x, x]) }}{% endmacro %}{{ f(1) }}":                                         long,
		strings.Repeat("{% for y in [[y, y]] %}", 60) + "{{ y == y }}" + strings.Repeat("{% endfor %}", 60):    long,
		strings.Repeat("{% for i in range(1000) %}", 9) + strings.Repeat("{% endfor %}", 9):                    "loops and macros take more than",
		"{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(100) }}":          "loops and macros take more than",
		"{% macro f(a=f()) %}{% endmacro %}{{ f() }}":                                                          "a macro's default value",
		"{% macro f(a=1, b=1|f) %}{% endmacro %}{{ f() }}":                                                     "a macro's default value",
		"{% for i in range(100000) %}" + strings.Repeat("x", 1000) + "{% endfor %}":                            "it prints more than 16",
		"{{ ''" + strings.Repeat(" ~ 'a'", 101) + " }}":                                                        "more than 100 additions",
		"{% set ns = namespace(x=1) %}{% for i in range(2000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}": "nested more than",
		grown + "{{ x | replace('a', x) }}":                                                                    long,
		grown + "{{ x\n|\treplace ('a', x) | replace('a', x) }}":                                               long,
		grown + "{{ x.replace('a', x).replace('a', x) }}":                                                      long,
		grown + "{% if ('a' ~ x).replace('', x) == 'a' %}{% endif %}":                                          long,
		grown + "{% if not(x).strip().replace('', x, 1000000000) %}{% endif %}":                                long,
		grown + "{{ range(1000000) | join(x) }}":                                                               long,
		grown + "{{ range(1000000) | join(d=x) }}":                                                             long,
		grown + "{{ range(1000000) | list | tojson(separators=(x, x)) }}":                                      long,
		grown + "{{ ('{0}' * 999).format(x) }}{{ x.format() }}":                                                long,
		grown + "{% set y = '{0}' * 999 %}{% set y = y * 99 %}{{ y.format(x) }}":                               long,
		grown + "{% set y = '{0}{1}' * 99 %}{{ y.format(y, y, y).format(y, y).format(y) }}":                    long,
		grown + "{{ [" + strings.Repeat("x,", 1000) + "] | upper }}":                                           long,
	} {
		text, err := Render(template, conversation("hi"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.120q: %.60q, %v, want an error with %q", template, text, err, want)
		}
	}
}

// The guard does not change what templates do.
func TestGuardedTemplates(t *testing.T) {
	for template, want := range map[string]string{
		"{{ '.append(x) a*b | indent' }}":                                                                         ".append(x) a*b | indent",
		"{{ '-' * 3 }}{{ 2 * 4 }}{% set n = 5 %}{{ 10 * n }}{{ 2**3 }}":                                           "---8508",
		"{{ 'a\nb' | indent }};{{ 'a\nb' | indent(2, true) }};{{ 'a\nb'|indent(width=1, first=true) }}":           "a\n    b;  a\n  b; a\n b",
		"{% for i in range(5, -1, -2) %}{{ i }}{% endfor %}{{ range(2, 4) }}":                                     "531[2, 3]",
		"{% set ns = namespace(b=1, a=[2]) %}{% set ns.a = ns.a + [ns.b == 1] %}{{ ns.a }}":                       "[2, True]",
		"{% for k, v in {'x': 1}.items() %}{{ k }}{{ v }}{% endfor %}{{ undefined }}{{ none }}":                   "x1None",
		"{% macro f(a, b='(|') %}<{{ caller(a) }}{{ b }}>{% endmacro %}{% call(x) f(1) %}{{ x }}{% endcall %}":    "<1(|>",
		"{{ ['abc'][0] . replace('b', 'x') if 1 else ('a' ~ x).strip() }}{{ not('a').replace('a', '').strip() }}": "axcTrue",
		"{{ ('a' ~ 'b.c').replace('.', '') }}{{ 'a' if {'b': 'cc'}['b'].replace('c', 'd', 1) == 'dc' else 'x' }}": "abca",
		"{{ 'aaa' | replace('a', 'b', 2) }}{{ 'aaa'|replace('a','b',count=1)|upper }}{{ 110|replace(1, 2) }}":     "bbaBAA220",
		"{{ '{}{0}{1}'.format(1, 'x') }}{{ 'a'.upper().format().replace( 'A' ,'(' ).replace('(', 'b)') }}":        "11xb)",
		"{{ [1, 'a'] | join }}{{ [{'a': 1}, {'a': 2}] | join(attribute='a', d=';') }}{{ [1, 2] | join (', ') }}":  "1a1;21, 2",
		"{{ {'a': [1, none]} | tojson }}{{ [1, 2] | tojson(separators=(',', ':')) }}":                             `{"a": [1, null]}[1,2]`,
		"{% set x = {'y': ['z']} %}{% macro f(a=x.y[0], b=-1) %}{{ a }}{{ b }}{% endmacro %}{{ f() }}":            "z-1",
		"{% set x %}a{% endset %}{% set y = x if x == 'a' else 'b' %}{{ y }}":                                     "a",
	} {
		got, err := Render(template, nil)
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", template, got, err, want)
		}
	}
	// Large messages make room for themselves.
	long := strings.Repeat("long ", 8<<20)
	if got, err := Render("{% set c = messages[0].content %}{{ c }}{{ c }}", conversation(long)); err != nil || got != long+long {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
