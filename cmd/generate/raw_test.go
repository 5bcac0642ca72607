package main

import (
	"os"
	"strings"
	"testing"
)

// A model for chats whose template is lost says so once; base models, and users who
// know, read nothing new.
func TestLostTemplate(t *testing.T) {
	root := t.TempDir()
	model := func(name string, edit func(dir string)) string {
		dir := root + "/" + name
		if err := os.CopyFS(dir, os.DirFS(needle)); err != nil {
			t.Fatal(err)
		}
		edit(dir)
		return dir
	}
	config := func(replace ...string) func(dir string) {
		return func(dir string) {
			for _, name := range []string{"tokenizer_config.json", "generation_config.json", "config.json"} {
				write(t, dir+"/"+name, strings.NewReplacer(replace...).Replace(read(t, dir+"/"+name)))
			}
		}
	}
	lost := []string{`"chat_template"`, `"chat_templates"`}
	misspelt := model("misspelt", config(lost...))
	missing := model("missing", func(dir string) { remove(t, dir, "tokenizer_config.json") })
	base := model("base", config(append(lost, "<|im_end|>", "<|endoftext|>", "4095", "4093")...))
	named := model("Qwen2.5-0.5B", config(lost...))
	restored := model("restored", func(dir string) {
		config(lost...)(dir)
		write(t, dir+"/chat_template.jinja", "{{ messages[-1].content }}")
	})
	write(t, root+"/prompt", "Hello")
	write(t, root+"/rows.jsonl", strings.Repeat(`{"input": "What?", "outputs": ["x"]}`+"\n", 3))
	write(t, root+"/t.jinja", "{{ messages[-1].content }}")
	const note = `DIR: neither tokenizer_config.json nor chat_template.jinja has a chat template, though the token "<|im_end|>" is for chats: ` +
		"text is read raw, which such a model does not answer well: download the file again, give --chat-template FILE, or --raw where raw is meant\n"
	for _, c := range []struct {
		dir  string
		args []string
		want string
	}{
		{misspelt, []string{"-p", "Hello", "-n", "1"}, note},
		{misspelt, []string{"-f", root + "/prompt", "-n", "1", "--json"}, note},
		{misspelt, []string{"-f", root + "/prompt", "-n", "1", "-v"}, note},
		{missing, []string{"-p", "Hello", "-n", "1"}, note},
		{misspelt, []string{"compare", "-p", "What is the code of the door?", "-n", "1", "--control=false", "--b", "dense"}, note},
		{misspelt, []string{"evaluate", "--tasks", root + "/rows.jsonl", "-n", "1", "--attention", "dense"}, note},
		{misspelt, []string{"-p", "Hello", "-n", "1", "--raw"}, ""},
		{misspelt, []string{"-p", "Hello", "-n", "1", "--chat-template", root + "/t.jinja"}, ""},
		{misspelt, []string{"-p", "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n", "-n", "1"}, ""},
		{misspelt, []string{"--prompt-ids", "1,2,3", "-n", "1"}, ""},
		{misspelt, []string{"bench", "--attention-op", "--rows", "512", "--drawn", "2", "--heads", "14/2"}, ""},
		{base, []string{"-p", "Hello", "-n", "1"}, ""},
		{named, []string{"-p", "Hello", "-n", "1"}, ""},
		{restored, []string{"-p", "Hello", "-n", "1"}, ""},
		{needle, []string{"-p", "Hello", "-n", "1"}, ""},
	} {
		o := answer(t, "", append(c.args, c.dir)...)
		var notes strings.Builder
		for line := range strings.Lines(o.errors) {
			if strings.Contains(line, "text is read raw") {
				notes.WriteString(strings.ReplaceAll(line, c.dir, "DIR"))
			}
		}
		if notes.String() != c.want {
			t.Errorf("%q: %q, want %q", c.args, notes.String(), c.want)
		}
	}
}

// Tokens of a speaker show a model for chats, whatever ends an answer.
func TestChatToken(t *testing.T) {
	whole := read(t, needle+"/tokenizer.json")
	for _, c := range []struct {
		as   string // in place of <|im_start|>
		eos  []int32
		want string
	}{
		{"<|im_start|>", nil, ""},
		{"<|im_start|>", []int32{4093, 7, 4095}, "<|im_end|>"},
		{"<|im_start|>", []int32{4093, 4094}, ""},
		{"<｜User｜>", []int32{4093}, "<｜User｜>"},
		{"<|user|>", nil, "<|user|>"},
		{"<|Assistant|>", nil, "<|Assistant|>"},
	} {
		dir := t.TempDir()
		write(t, dir+"/tokenizer.json", strings.ReplaceAll(whole, "<|im_start|>", c.as))
		tok, err := openTokenizer(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := chatToken(tok, c.eos); got != c.want {
			t.Errorf("%s, end tokens %v: %q, want %q", c.as, c.eos, got, c.want)
		}
		if err := tok.Close(); err != nil {
			t.Error(err)
		}
	}
}
