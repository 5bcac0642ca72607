"""Makes operators.json: what Jinja2 renders for expressions, written by hand and at random, with "error" where it has
one. "refused" marks those that it renders and we refuse. Run: python operators.py > operators.json (Jinja2 3.1.6)."""

import json
import random

from jinja2.sandbox import ImmutableSandboxedEnvironment

REFUSED = """
'%s' % 'x' | '%s-%s' % ('a', 'b') | '%d' % 3 | '%03d' % 7 | 7.5 % 2 | 7.5 // 2 | 7 % 2.5 | 2 ** -1 | 2 ** 0.5
10 ** 20 | [1] * 2 | [1, 2] < [1, 3] | 10000000000 * 10000000000 | 9223372036854775807 + 1 | 1e3 | 'a' 'b'
"""
EXPRESSIONS = """
7 % 3 | -7 % 3 | 7 % -3 | -7 % -3 | 7 // 2 | -7 // 2 | 7 // -2 | 7 / 2 | 6 / 2 | 1 / 3 | 7 % 0 | 7 // 0 | 7 / 0 | 7 / 0.0
2 ** 3 | -2 ** 2 | 2 ** 3 * 2 | 0 ** -1 | true + 1 | -true | (-1) ** 101 | -3 ** 3 | 3 ** 0
'a' + 1 | 1 + 'a' | 'a' + none | none + 'a' | 'a' + true | 'a' + zzz | zzz + 'a' | zzz + 1 | 'a' + [1] | [1] + ['b'] | [1] + 1
{} + {} | 1 + 1.5 | 1.0 + 1 | 'a' - 'b' | 1 - '1' | '5' - 3 | none - 1 | 'ab' * 2 | 2 * 'ab' | 0 * 'ab' | 2 * 1.5
1 < 'a' | '1' < 2 | 'a' < none | none < 1 | zzz < 1 | zzz >= 1 | 1 < 1.5 | true < 2 | 'B' < 'a' | 'a' <= 'a' | 'é' > 'z' | {} < {}
1 == '1' | 1 == true | 0 == false | none == false | none == none | zzz == none | '' == none | 1 == 1.0 | [1] == [true]
{'a': 1} == {'a': 1.0} | {'a': 1} != {'a': 2} | [1] != [1, 2] | 'a' == ['a'] | zzz == zzz
1 < 2 < 3 | 3 > 2 > 2 | 1 < 3 > 2 | 3 < 2 < 'a' | 1 < 2 < 'a' | 1 == 1 in [1, 2] | 1 in [1] == true
1 in 5 | 1 in 'a1' | '1' in [1] | 1 in [1.0] | true in [1] | 'a' in none | 'a' in zzz | none in [none] | 'a' in {'a': 1} | none in {'a': 1}
'b' not in 'abc' | 'd' not in 'abc' | zzz in 'abc' | zzz in [1] | not 'a' in 'abc' | 1 not in 'a'
-'a' | -none | -zzz | +'a' | +1 | - [1] | -1.5 | - -1 | -(-1) | -messages|length | -1 | 1 - -1 | 1--1 | -n + 1
messages|length % 2 | messages|length - 1 | (-1)|abs | -1|abs | -1|string ~ 'a' | 3 is odd | 4 - 1 is odd | not 1 is odd | 1 + 1 is defined
'a' ~ none | 'a' ~ 1.5 | 'a' ~ 2.0 | 'a' ~ zzz | 'a' ~ true ~ 1 | 1 ~ 2 + 3 | 1 + 2 ~ 3 | 'a' ~ 1 * 2 | 'a' ~ [1, 'b'] | 'a' + 'b' ~ 1 | 'a' ~ 1 + 'b'
10 - 2 - 3 | 8 // 3 * 2 | 7 - 2 % 3 | 2 + 3 * 4 - 1 | not 1 == 2 | 1 + 1 == 2 | 1 == 2 or 3 | 1 and 2 or 3 | 0 or 1 and none | not 0 or 1
1 if zzz else 2 | (1 < 'a') if false else 3 | 'a' if 1 > 2 else 'b' if 2 > 1 else 'c' | 1 + 2 if 1 else 3 | 'x' if 0 | false and 1 < 'a' | true or 1 < 'a'
none | 2.0 | -0.0 | none | string | 2.0 | string + 'a' | zzz | string | zzz.replace('a', 'b') | zzz.format() | 1.0.format(2) | 0.1 + 0.2 | 1.5 * 2 | 3 / 1 | 1 / 1000000 | 100000.0 * 100000 | 10 ** 15 / 0.001 | 123456789.0 * 1000 | 1 / 30000
[1.0, none, true, 'a', "it's", '"', "'\\"", 'a\\nb\\\\', 'é', '\\x07\\x7f\\u200b\\xa0'] | {'a': [2.0], "b'": none} | [] | {} | [zzz is defined]
'{}-{}'.format(1.0, none) | 'a1b'.replace('1', 2 | string) | n.replace('a', 'b') + 'c' | text.replace('x', '-')[1:] + 'y' | 'a' in text.replace('x', 'a')
text[1 + 1] | text[:n - 2] | text[-1] | text[n // 2:] | messages[n - 3].role + 'x' | messages[-1]['ro' + 'le'] | range(n - 1) | list
['a', 'b'][1 - 1] | {'a': 1 + 1}['a'] | {'a' + 'b': 1}['ab'] | (1 + 2) * 3 | ((1)) + (2) | dict(a=1 + 1)['a'] | [1 + 1, 2 == 2] | text | default(1 + 1)
zzz.a | zzz['a'] | zzz[0] | zzz[1:] | messages[0].zzz | messages[0].zzz.y | messages[9] | messages[9].content | messages[-1].content | messages[-2]
none.a | none['a'] | none[0] | n.a | n[0] | text['upper2'] | text['a'] | text[0] | text[9] | text[-4] | text[-5] | text[true] | text[1.0] | text[none] | text[zzz]
messages['role'] | messages[0]['role'] | messages[0]['zzz'] | messages[0][0] | messages[0][none] | messages[0][zzz] | [1, 2]['a'] | [1, 2][-1] | [1, 2][true] | [1, 2][2] | [1, 2][1.0] | 'é日本'[1] | 'é日本'[-1]
zzz.a is defined | zzz is defined and zzz.a | messages[0].zzz is defined | (zzz or {'a': 1}).a | (zzz if false).a | {'a': [{'b': 'c'}]}.a[0].b | [[1, 2], [3]][0][1] | [1, 2, 3][:2][1] | text[1:][0] | text.upper()[0] | ([1] + [2])[1]
text | length == 4 | text | upper + '!' | text.upper() + '!' | 'a' ~ text | length | text is string and n is number | text is not defined or n == 3
""".strip().replace("\n", " | ")
VALUES = {"n": 3, "text": "axbx", "messages": [{"role": "user", "content": "hi"}]}


def split(text):
    """The expressions of a list, in which a bar with blanks around it, but not one before a filter's name, is a border."""
    parts = []
    for part in text.strip().replace("\n", " | ").split(" | "):
        if part.split("(")[0].split(" ")[0] in ("list", "string", "string)", "length", "upper", "default") and parts:
            parts[-1] += " | " + part
        else:
            parts.append(part)
    return parts


def expression(rng, depth):
    """A random expression."""
    inner = lambda: expression(rng, depth - 1)
    if depth == 0 or rng.random() < 0.2:
        return rng.choice(["0", "1", "2", "3", "n", "1.5", "'a'", "''", "text", "none", "true", "zzz", "[1]", "'%d'", "messages", "text[1]"])
    form = rng.random()
    if form < 0.6:
        operator = rng.choice(["+", "-", "~", "%", "/", "//", "==", "!=", "<", ">=", "in", "not in", "and", "or", "+", "-", "~", "**"])
        return inner() + " " + operator + " " + inner()
    return rng.choice([
        lambda: "(" + inner() + ")",
        lambda: "-" + inner(),
        lambda: "not " + inner(),
        lambda: inner() + " if " + inner() + " else " + inner(),
        lambda: inner() + " * 2",
        lambda: "(" + inner() + ") | string",
        lambda: inner() + " is " + rng.choice(["", "not "]) + rng.choice(["defined", "string", "none"]),
        lambda: "[" + inner() + ", " + inner() + "]",
        lambda: "text[" + rng.choice(["0", "1", "n - 1"]) + ":]",
    ])()


def render(template):
    try:
        return {"rendered": ImmutableSandboxedEnvironment().from_string(template).render(VALUES)}
    except Exception as error:
        return {"error": type(error).__name__ + ": " + str(error)}


rng = random.Random(1)
cases = []
for e in split(EXPRESSIONS):
    cases.append({"template": "{{ %s }}" % e, **render("{{ %s }}" % e)})
for e in split(REFUSED):
    cases.append({"template": "{{ %s }}" % e, **render("{{ %s }}" % e), "refused": True})
for e in sorted({expression(rng, rng.randint(1, 3)) for _ in range(1500)}):
    t = rng.choice(["{{ %s }}", "{%% set v = %s %%}{{ v }}", "{%% if %s %%}a{%% endif %%}"]) % e
    cases.append({"template": t, **render(t), "random": True})
print('{"values": %s,\n "cases": [\n  %s\n ]}' % (json.dumps(VALUES), ",\n  ".join(json.dumps(c) for c in cases)))
