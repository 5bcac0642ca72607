package tokenizer

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"blitzen/internal/golden"
)

// What Jinja2 renders for the constructs that chat templates use, and for random white space around tags.
func TestTemplatesAsJinja(t *testing.T) {
	var want struct {
		Tools    []json.RawMessage
		Messages map[string][]map[string]json.RawMessage
		Cases    []struct {
			Template, Messages string
			Rendered, Error    *string
		}
	}
	golden.JSON(t, "testdata/templates.json", &want)
	tok := open(t, "../models/needle-qwen2")
	tok.config.bos.text, tok.config.eos.text = "<s>", "</s>"
	for _, w := range want.Cases {
		var messages []Message
		for _, fields := range want.Messages[w.Messages] {
			messages = append(messages, message(t, fields))
		}
		got, err := tok.Render(messages, ChatOptions{Tools: want.Tools, Template: w.Template, AddGenerationPrompt: true})
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
	tok := open(t, "../models/needle-qwen2")
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
		text, err := tok.Render([]Message{{Role: "user", Content: "hi"}}, ChatOptions{Template: template})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "chat template") {
			t.Errorf("%.60q: %q, %v, want an error with %q", template, text, err, want)
		}
	}
}

func TestTemplateFiles(t *testing.T) {
	vocabulary := read(t, "../models/needle-qwen2/tokenizer.json")
	for name, c := range map[string]struct {
		files map[string]string
		want  string
		err   string
	}{
		"configuration": {map[string]string{"tokenizer_config.json": `{"chat_template": "A"}`}, "A", ""},
		"file wins":     {map[string]string{"tokenizer_config.json": `{"chat_template": "A"}`, "chat_template.jinja": "B"}, "B", ""},
		"named":         {map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "rag", "template": "R"}, {"name": "default", "template": "D"}]}`}, "D", ""},
		"no default":    {map[string]string{"tokenizer_config.json": `{"chat_template": [{"name": "rag", "template": "R"}]}`}, "", "rag"},
		"null":          {map[string]string{"tokenizer_config.json": `{"chat_template": null}`}, "", "no chat template"},
		"nothing":       {nil, "", "no chat template"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"tokenizer.json": vocabulary}
			for name, text := range c.files {
				files[name] = text
			}
			tok := open(t, folder(t, files))
			got, err := tok.Render(nil, ChatOptions{})
			if got != c.want || tok.Template() != c.want || (err != nil) != (c.err != "") {
				t.Fatalf("%q, %v, want %q and error %q", got, err, c.want, c.err)
			}
			if err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want one with %q", err, c.err)
			}
			if name == "nothing" && !errors.Is(err, ErrNoTemplate) {
				t.Errorf("error %v is not ErrNoTemplate", err)
			}
			if got, err := tok.Render(nil, ChatOptions{Template: "given"}); got != "given" || err != nil {
				t.Errorf("given template: %q, %v", got, err)
			}
		})
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
	tok := open(f, "../models/needle-qwen2")
	f.Fuzz(func(t *testing.T, template string) {
		_, _ = tok.Render([]Message{{Role: "user", Content: "hi"}}, ChatOptions{Template: template})
	})
}
