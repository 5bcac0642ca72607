package tokenizer

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var checkpointFiles = []string{"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"}

// A file that is there but cannot be read is never taken for one that is absent, and nothing waits for a pipe.
func TestFilesThatAreNone(t *testing.T) {
	vocabulary := read(t, "../models/needle-qwen2/tokenizer.json")
	for kind, c := range map[string]struct {
		put  func(path string) error
		want string
	}{
		"link":   {func(path string) error { return os.Symlink("../../blobs/0123", path) }, "is a link to ../../blobs/0123, which is missing: download it again"},
		"pipe":   {func(path string) error { return syscall.Mkfifo(path, 0o644) }, "is not a regular file: download it again"},
		"folder": {func(path string) error { return os.Mkdir(path, 0o755) }, "is not a regular file: download it again"},
	} {
		for _, name := range checkpointFiles {
			dir := folder(t, map[string]string{"tokenizer.json": vocabulary})
			path := filepath.Join(dir, name)
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
			if err := c.put(path); err != nil {
				t.Fatal(err)
			}
			tok, err := Open(dir)
			if err == nil { // a template is needed only by who renders
				_, err = tok.Render(nil, ChatOptions{})
				_ = tok.Close()
			}
			if err == nil || !strings.Contains(err.Error(), path+" "+c.want) {
				t.Errorf("%s %s: %v, want an error with %q", kind, name, err, c.want)
			}
		}
	}
}

// Errors name the file and what belongs there, and show little of what they found, escaped.
func TestFilesOfTheWrongForm(t *testing.T) {
	vocabulary := read(t, "../models/needle-qwen2/tokenizer.json")
	long := "\x1b[2J" + strings.Repeat("x", 10000)
	for _, c := range []struct{ name, text, want string }{
		{"tokenizer.json", `[]`, "/tokenizer.json: the whole is array, expected an object: download it again"},
		{"tokenizer.json", `{"model": {"vocab": {"a": "b"}}}`, "is string, expected a whole number"},
		{"tokenizer.json", strings.Replace(vocabulary, `"merges": [`, `"merges": [7, `, 1), ": download it again"},
		{"tokenizer.json", strings.Replace(vocabulary, `"vocab": {`, `"vocab": {"\u0000b": -2, "\u0000a": -1, `, 1), `/tokenizer.json: token "\x00a" has the id -1: `},
		{"tokenizer.json", strings.NewReplacer(`"&":`, `"no &":`, `"'":`, `"no '":`).Replace(vocabulary), `no token '&' for the byte 26: text with it would be lost: download the file again`},
		{"tokenizer.json", `{"model": `, "/tokenizer.json is not JSON: byte 10"},
		{"tokenizer.json", strings.Replace(vocabulary, `"vocab": {`, `"continuing_subword_prefix": "##", "vocab": {`, 1), `/tokenizer.json: continuing_subword_prefix "##" and end_of_word_suffix "" are not supported`},
		{"tokenizer.json", strings.Replace(vocabulary, `"vocab": {`, `"end_of_word_suffix": "</w>", "vocab": {`, 1), `/tokenizer.json: continuing_subword_prefix "" and end_of_word_suffix "</w>" are not supported`},
		{"tokenizer.json", strings.Replace(vocabulary, `"decoder": {`, `"decoder": {"x": "\uD83d", `, 1), "/tokenizer.json: decoder has half a character in it"},
		{"tokenizer.json", `{"model": {"type": "` + long[4:] + `"}}`, "is not supported"},
		{"tokenizer.json", strings.Replace(vocabulary, `"merges":`, `"merge":`, 1), "/tokenizer.json: model.merges is missing: download it again"},
		{"tokenizer.json", strings.Replace(vocabulary, `"vocab":`, `"vocabulary":`, 1), "/tokenizer.json: model.vocab is missing: download it again"},
		{"tokenizer.json", strings.Replace(vocabulary, `"model":`, `"models":`, 1), "/tokenizer.json: model.vocab is missing: download it again"},
		{"tokenizer.json", strings.Replace(vocabulary, `"merges": [`, `"merges": ["abc", `, 1), "/tokenizer.json: model.merges lacks a field or has one of the wrong form"},
		{"tokenizer.json", strings.Replace(vocabulary, `"post_processor": {`, `"post_processor": {}, "post": {`, 1), "/tokenizer.json: post_processor lacks a field or has one of the wrong form"},
		{"tokenizer.json", strings.Replace(vocabulary, `"pre_tokenizer": {`, `"pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true}]}, "pre": {`, 1), "/tokenizer.json: missing field `pattern` at line "},
		{"tokenizer_config.json", `3`, "/tokenizer_config.json: the whole is number, expected an object"},
		{"tokenizer_config.json", `{"eos_token": 7}`, "/tokenizer_config.json: eos_token: expected a text"},
		{"tokenizer_config.json", `{"eos_token": "<none>"}`, `eos_token: "<none>" is not in tokenizer.json: take both from one download`},
		{"tokenizer_config.json", `{"eos_token": "\u001b` + long[1:] + `"}`, `\x1b[2Jxxx`},
		{"special_tokens_map.json", `[1]`, "/special_tokens_map.json: the whole is array, expected an object"},
		{"chat_template.jinja", "ab\xff", "/chat_template.jinja is not UTF-8: byte 2 is 0xff"},
		{"chat_template.jinja", "{{ raise_exception('" + long + "') }}", `/chat_template.jinja: the template refuses these messages: "\x1b[2Jxxx`},
		{"chat_template.jinja", "{{ 1 | " + long[4:] + " }}", "/chat_template.jinja: unknown filter"},
		{"chat_template.jinja", "", "/chat_template.jinja is empty"},
		{"tokenizer_config.json", `{"chat_template": [{"name": "default", "template": ""}]}`, "/tokenizer_config.json is empty"},
		{"tokenizer_config.json", `{"chat_template": 1}`, "/tokenizer_config.json: chat_template is neither"},
	} {
		files := map[string]string{"tokenizer.json": vocabulary}
		files[c.name] = c.text
		tok, err := Open(folder(t, files))
		if err == nil {
			_, err = tok.EncodeChat([]Message{{Role: "user", Content: "hi"}}, ChatOptions{})
			_ = tok.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > 600 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%s %.60q: %v, want an error with %q", c.name, c.text, err, c.want)
		}
	}
}

// An id with two pieces would decode by chance.
func TestSharedIDs(t *testing.T) {
	model := func(doc map[string]any) map[string]any {
		return doc["model"].(map[string]any)["vocab"].(map[string]any)
	}
	for _, c := range []struct {
		edit func(doc map[string]any)
		want string
	}{
		{func(doc map[string]any) { model(doc)["zz"], model(doc)["yy"] = 4090, 4090 }, `have the same id 4090`},
		{func(doc map[string]any) { model(doc)["zz"], model(doc)["yy"] = 5000, 5000 }, `the tokens "yy" and "zz" have the same id 5000`},
		{func(doc map[string]any) {
			added := doc["added_tokens"].([]any)
			again := map[string]any{}
			for name, value := range added[0].(map[string]any) {
				again[name] = value
			}
			again["id"] = 1 << 23
			doc["added_tokens"] = append([]any{again}, added...)
		}, "has two ids, 8388608 and "},
	} {
		dir := edited(t, c.edit)
		for range 3 {
			if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error with %q", err, c.want)
			}
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
