"""Makes templates.json: what Jinja2, set up as transformers sets it up, renders for small templates and for random
white space around tags. Run: python templates.py > templates.json (Jinja2 3.1.6)."""

import json
import random

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

TOOLS = [{"type": "function", "function": {"name": "f", "description": "x'<\u00e9>", "parameters": {
    "type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "number", "default": 1.5}}}}}]
MESSAGES = {
    "many": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi <|im_end|> there"},
        {"role": "assistant", "content": "<think>\nabc\n</think>\n\nok "},
        {"role": "user", "content": " last  "},
    ],
    "one": [{"role": "user", "content": "hi"}],
    "tools": [
        {"role": "user", "content": "w"},
        {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": {
            "name": "g", "arguments": {"z": 1, "a": [1, 2.5, None, True, "q\"\n"]}}}]},
        {"role": "tool", "content": "17"},
        {"role": "tool", "content": "18"},
    ],
}
TEMPLATES = [
    "Hello {% if true %}x{% endif %} y {% if true %}\nz{% endif %}",
    "a\n   {% if true %}b{% endif %}\n   c {{ 1 }}\n",
    "a  \n {%- if true -%}  \n b \n{%- endif %} c",
    "{{ messages[-1].content }}|{{ messages[-1]['role'] }}",
    "{{ messages[-(messages|length)].role }}",
    "{% for m in messages[1:] %}{{ m.role }},{% endfor %}{% for m in messages[::-1] %}{{ loop.index0 }}{{ m.role }};{% endfor %}",
    "{% set ns = namespace(found=false, i=-1) %}{% for m in messages %}{% if m.role=='user' %}{% set ns.found = true %}{% set ns.i = loop.index0 %}{% endif %}{% endfor %}{{ ns.found }} {{ ns.i }}",
    "{{ messages[-1].content | trim }}|",
    "{{ messages[2].content.split('</think>')[-1].lstrip('\\n') if messages|length > 2 else 'n' }}|",
    "{% for m in messages %}{% if '</think>' in m.content %}{{ m.content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}{% endif %}{% endfor %}",
    "{{ messages[0].zzz is defined }}{{ messages[0]['zzz'] is defined }}{{ messages[0].content is defined }}",
    "{{ 'a' ~ 1 ~ true }}{{ 'a' + 'b' }}",
    "{{ 'role' in messages[0] }}{{ 'x' in messages[0] }}{{ 'user' in ['user','b'] }}{{ 'b' not in ['a'] }}",
    "{{ messages[0].content is string }}{{ messages is string }}{{ messages[0] is mapping }}{{ messages is iterable }}{{ messages[0].content is iterable }}",
    "{{ tools | tojson }}",
    "{{ {'b': 1, 'a': [1, 2.5, none, true], 'c': '\u00e9\"'} | tojson }}",
    "{% for k, v in tools[0].function.items() %}{{ k }},{% endfor %}{% for k,v in tools[0].function.parameters.properties.items() %}{{ k }}:{{ v.type }};{% endfor %}",
    "{% for k in tools[0].function.parameters.properties %}{{ k }} {% endfor %}{% for k, v in tools[0].function.parameters.properties | items %}{{ k }}={{ v.type }} {% endfor %}",
    "{{ messages[0].get('role') }}{{ messages[0].get('nope','d') }}",
    "{% for m in messages %}{% if loop.previtem is defined %}{{ loop.previtem.role }}{% endif %}{% if loop.nextitem is defined %}>{{ loop.nextitem.role }}{% endif %} {% endfor %}",
    "{% for m in messages %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }} {% endfor %}",
    "{% for m in messages %}{{ messages[loop.index0 - 1].role }} {% if loop.index0 + 1 < messages|length %}{{ messages[loop.index0 + 1].role }}{% endif %};{% endfor %}",
    "{% for m in messages if m.role == 'user' %}{{ loop.index }}{{ m.content }}{% else %}none{% endfor %}",
    "{% macro f(a, b='x') %}[{{ a }}{{ b }}]{% endmacro %}{{ f(1) }}{{ f('q', b=2) }}",
    "{% set x %}  abc {% endset %}{{ x | trim }}|",
    "{% set x = 1 %}{% for i in [1,2] %}{% set x = i %}{% endfor %}{{ x }}{% if true %}{% set x = 9 %}{% endif %}{{ x }}",
    "{{ messages | selectattr('role','equalto','user') | list | length }}",
    "{{ messages | rejectattr('role','equalto','user') | list | length }}",
    "{{ messages | map(attribute='role') | join(',') }}",
    "{{ messages[0].content.startswith('Be') }}{{ messages[0].content.endswith('.') }}{{ 'AbC'.upper() }}{{ 'AbC'|lower }}{{ 'abc'.title() }}{{ 'a-b'.replace('-','+') }}",
    "{{ '  a '.strip() }}|{{ '  a '.lstrip() }}|{{ '  a '.rstrip() }}|",
    "{{ 'a' if false else 'b' }}{{ 'a' if false }}",
    "{% for m in messages %}{% if loop.index == 2 %}{% break %}{% endif %}{{ m.role }}{% endfor %}{% for m in messages %}{% if loop.index == 2 %}{% continue %}{% endif %}{{ m.role }}{% endfor %}",
    "{{ undefinedvar | default('d') }}{{ '' | default('e', true) }}{{ messages[0].nope | default('f') }}",
    "{% raw %}{{ x }}{% endraw %}",
    "a{# c #}b\n{#- d -#}\nc",
    "{{ 'a\\nb\\t\\\\ \\u00e9 \\'' }}|{{ \"x\\\"y\" }}",
    "{{ ['a', 1, none, true, 1.5] }}|{{ {'a': 1} }}",
    "{{ messages | length }}{{ 'h\u00e9\u00e9' | length }}{{ messages|count }}",
    "{{ (messages|first).role }}{{ (messages|last).role }}",
    "{{ not messages }}{{ not '' }}{{ not undefinedvar }}{{ not 0 }}{{ not [] }}",
    "{{ 1 < 2 }}{{ 'a' < 'b' }}{{ 1 == 1.0 }}{{ 'a' != 'b' }}{{ none == none }}{{ true and 'x' }}{{ '' or 'y' }}",
    "{{ messages[0]['content'][:2] }}{{ messages[0].content[-2:] }}{{ messages[0].content[0] }}",
    "{{ 'h\u00e9llo'[1] }}{{ 'h\u00e9llo'[1:3] }}",
    "{% if messages[0].role != 'zzz' %}{{ raise_exception('bad role: ' + messages[0].role) }}{% endif %}",
    "{% for m in messages %}{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}{% endif %}{% endfor %}",
    "{% for m in messages %}{% if m.tool_calls is defined and m.tool_calls %}T{% endif %}{% if 'tool_calls' in m %}U{% endif %}{% endfor %}",
    "{{ '5' | int + 1 }}{{ 5 | string + 'x' }}{{ 2.7|int }}{{ 'abc'|upper }}{{ 'abc'|capitalize }}",
    "{% for i in range(3) %}{{ i }}{% endfor %}{{ range(3)|list|length }}",
    "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
    "{%- if messages[0][\"role\"] == \"system\" %}\n    {%- set system_message = messages[0][\"content\"] %}\n    {%- set loop_messages = messages[1:] %}\n{%- else %}\n    {%- set loop_messages = messages %}\n{%- endif %}\n{{- bos_token }}\n{%- for message in loop_messages %}\n    {%- if message[\"role\"] == \"user\" %}\n        {%- if loop.last and system_message is defined %}\n            {{- \"[INST] \" + system_message + \"\\n\\n\" + message[\"content\"] + \"[/INST]\" }}\n        {%- else %}\n            {{- \"[INST] \" + message[\"content\"] + \"[/INST]\" }}\n        {%- endif %}\n    {%- elif message.role == \"assistant\" %}{{- \" \" + message[\"content\"]|trim + eos_token}}{%- endif %}\n{%- endfor %}\n",
    "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}{{ message.role }}{% endfor %}",
    "{{ 'a' + 'b' | upper }}{{ 1 + 2 * 3 }}{{ not 1 == 2 }}{{ 1 if 2 > 1 and not false else 3 }}",
    "{% if a is not defined %}{% set a = false %}{% endif %}{% if not a and messages|length == 1 %}one{% elif messages|length > 1 %}many{% else %}zero{% endif %}",
    "{%- for m in messages -%}\n  {{ m.role }}\n{%- endfor -%}\nend\n\n",
    "{% if true %}\n\n x\n{% endif %}\n\n",
    "a\n  {%+ if true %}b{% endif +%}\nc",
    "{{ dict(a=1)['a'] }}",
    "{% filter upper %}abc{% endfilter %}",
    "{{ 'aXb' | replace('X', 'Y') }}{{ 'a,b'.split(',') | join('-') }}",
    "{{ 'a\nb' | indent(2) }}",
    "{% if messages[0].role in ('system','user') %}y{% endif %}{{ (1,2)[0] }}",
    "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}{{ c.text }}{% endfor %}{% endif %}{% endfor %}",
    "{{ undefinedvar }}|{{ x is defined }}|{{ none is defined }}|{{ none is none }}|{{ undefinedvar is none }}",
    "{{ true }} {{ 1 == 1 }} {{ not true }} {{ 3 // 2 }} {{ 3 / 2 }} {{ 7 % 3 }} {{ 2 ** 3 }} {{ -1 }} {{ 0.1 + 0.2 }}",
    "User: {{ messages[0].content }}{%- if true %} [/u]{% endif %}",
    "{{ {'a': {'b': 1}}['a']['b'] }}{{ {'}}': 2}['}}'] }}",
    "{{ 'tab\\tend \\x41\\u00e9\\U0001f642 \\'q\\' \\d' }}",
    "{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}",
]


def spaced(rng):
    """A template of tags with random signs and white space around them."""
    gap = lambda: "".join(rng.choice(["", " ", "\n", "\t", "a", "b ", "\r\n", "  \n", "\x0b", "\u00a0"]) for _ in range(rng.randint(0, 4)))
    begin, end = lambda: rng.choice(["", "", "-", "+"]), lambda: rng.choice(["", "", "-", "+"])
    parts = [gap()]
    for _ in range(rng.randint(1, 4)):
        parts.append(rng.choice([
            lambda: "{{%s 1 %s}}" % (rng.choice(["", "-"]), rng.choice(["", "-"])),
            lambda: "{#%s c %s#}" % (begin(), end()),
            lambda: "{%%%s if true %s%%}%s{%%%s endif %s%%}" % (begin(), end(), gap(), begin(), end()),
            lambda: "{%%%s for i in [1, 2] %s%%}%s{{ i }}%s{%%%s endfor %s%%}" % (begin(), end(), gap(), gap(), begin(), end()),
            lambda: "{%%%s raw %s%%}%s{{ x }}%s{%%%s endraw %s%%}" % (begin(), rng.choice(["", "-"]), gap(), gap(), begin(), end()),
        ])())
        parts.append(gap())
    return "".join(parts)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    env.globals["raise_exception"] = raise_exception
    return env


def render(template, messages):
    try:
        return {"rendered": environment().from_string(template).render(
            messages=messages, tools=TOOLS, bos_token="<s>", eos_token="</s>", add_generation_prompt=True)}
    except jinja2.exceptions.TemplateError as error:
        return {"error": str(error)}


rng = random.Random(1)
cases = [{"template": t, "messages": name, **render(t, m)} for t in TEMPLATES for name, m in MESSAGES.items()]
cases += [{"template": t, "messages": "one", **render(t, MESSAGES["one"])} for t in (spaced(rng) for _ in range(400))]
rows = ",\n  ".join(json.dumps(c) for c in cases)
print('{"tools": %s,\n "messages": %s,\n "cases": [\n  %s\n ]}' % (json.dumps(TOOLS), json.dumps(MESSAGES), rows))
