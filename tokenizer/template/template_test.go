package template

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/ardanlabs/jinja"

	"blitzen/internal/golden"
)

// conversation is what a template sees of one message.
func conversation(content string) map[string]jinja.Value {
	message := jinja.NewDict()
	message.AsDict().Set("role", jinja.NewString("user"))
	message.AsDict().Set("content", jinja.NewString(content))
	return map[string]jinja.Value{"messages": jinja.NewList([]jinja.Value{message})}
}

func fromJSON(t testing.TB, texts map[string]json.RawMessage) map[string]jinja.Value {
	t.Helper()
	values := map[string]jinja.Value{}
	for name, text := range texts {
		value, err := FromJSON(text, func(s string) string { return s })
		if err != nil {
			t.Fatal(err)
		}
		values[name] = value
	}
	return values
}

// What Jinja2 renders for the constructs that chat templates use, and for random white space around tags.
func TestTemplatesAsJinja(t *testing.T) {
	var want struct {
		Tools    json.RawMessage
		Messages map[string]json.RawMessage
		Cases    []struct {
			Template, Messages string
			Rendered, Error    *string
		}
	}
	golden.JSON(t, "testdata/templates.json", &want)
	for _, w := range want.Cases {
		got, err := Render(w.Template, fromJSON(t, map[string]json.RawMessage{
			"messages": want.Messages[w.Messages], "tools": want.Tools, "add_generation_prompt": json.RawMessage("true"),
			"bos_token": json.RawMessage(`"<s>"`), "eos_token": json.RawMessage(`"</s>"`),
		}))
		if w.Error != nil {
			if err == nil || !strings.Contains(err.Error(), *w.Error) {
				t.Errorf("%q of %s: %v, want the error %q", w.Template, w.Messages, err, *w.Error)
			}
		} else if err != nil || got != *w.Rendered {
			t.Errorf("%q of %s:\n got %q, %v\nwant %q", w.Template, w.Messages, got, err, *w.Rendered)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	for template, want := range map[string]string{
		"a\n{{ b":                                "line 2: tag without }}",
		"{# c":                                   "line 1: comment without #}",
		"{% raw %} a":                            "raw without endraw",
		"{{ 'a }}":                               "string without closing '",
		"{% if a %}":                             "unclosed if",
		"a\nb\n\n{%- if a b %}{% endif %}":       "line 4",
		"{{ a | nosuchfilter }}":                 "nosuchfilter",
		"{{ raise_exception('no tools here') }}": "no tools here",
		"{{ messages | tojson(indent=2) }}":      "tojson with an indent",
		strings.Repeat(" ", maxTemplateBytes+1):  "too long",
		"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}": "macros call each other",
	} {
		text, err := Render(template, conversation("hi"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %q, %v, want an error with %q", template, text, err, want)
		}
	}
}

// What is given to Render is as it was afterwards, even when the template fails.
func TestRenderKeepsVariables(t *testing.T) {
	for _, template := range []string{"{% set messages = 1 %}{{ range(2) }}", "{{ raise_exception('no') }}", "{% set x = 1 %}{{ x / 0 }}"} {
		variables := conversation("hi")
		_, _ = Render(template, variables)
		if names := slices.Collect(maps.Keys(variables)); !slices.Equal(names, []string{"messages"}) || !equal(variables["messages"], conversation("hi")["messages"]) {
			t.Errorf("%q: left %v, %v", template, names, variables["messages"])
		}
	}
}

func TestFromJSON(t *testing.T) {
	upper := func(s string) string { return strings.ToUpper(s) }
	value, err := FromJSON(json.RawMessage(`{"z": ["a", 1, 2.5, null, true], "a": {"b": "c"}}`), upper)
	if want := "{'Z': ['A', 1, 2.5, None, True], 'A': {'B': 'C'}}"; err != nil || literal(value) != want {
		t.Errorf("%s, %v, want %s", literal(value), err, want)
	}
	for _, text := range []string{"", "[}", `{"a"`, "1 2"} {
		if _, err := FromJSON(json.RawMessage(text), upper); err == nil || !strings.Contains(err.Error(), "JSON ") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A template may fail, never panic or hang.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{
		"{% for m in messages %}{{ m.role ~ m['content'] | trim }}{% endfor %}",
		"{%- if tools -%}{{ tools | tojson }}{%+ else +%}{# c #}{% raw %}{{{% endraw %}{% endif %}",
		"{% set ns = namespace(a=1) %}{% set ns.a = [1, {'b': 'c'}][-1] %}{{ ns.a.items() | list }}",
		"{% macro f(a, b='x') %}{{ a[1:2] }}{{ caller }}{% endmacro %}{{ f('abc') }}{{ '\\x41\\'' }}",
		`{{ -1 // 2 % 3 ** 2 if a is defined and not (b or c) else "d" }}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, template string) {
		_, _ = Render(template, conversation("hi"))
	})
}
