package tokenizer

import (
	"errors"
	"strings"
	"testing"
)

const eachMessage = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"

// A message that the template leaves out is an error, however the template treats it otherwise.
func TestUnusedMessages(t *testing.T) {
	tok := open(t, "../models/needle-qwen2")
	user := []Message{{Role: "user", Content: " Hello 1 "}}
	both := []Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hello"}}
	turns := append(both[:2:2], Message{Role: "assistant", Content: "Hi"}, Message{Role: "user", Content: "And?"})
	for _, c := range []struct {
		template string
		messages []Message
		unused   int // its place, or -1
	}{
		{eachMessage, user, -1},
		{eachMessage, turns, -1},
		{"{{ messages[-1].content | trim | upper }}", user, -1},
		{"{{ messages[0].content.split('</think>')[-1][:4] }}", user, -1},
		{"{% if messages[0].content.startswith(' H') %}{{ messages[0].content }}{% else %}{{ raise_exception('no') }}{% endif %}", user, -1},
		{"{% for m in messages %}{% if m.role != 'assistant' %}{{ m.content }}{% endif %}{% endfor %}", turns, -1},
		{"{% for m in messages %}{{ m.content | trim }}{% endfor %}x", []Message{{Role: "user", Content: " \n"}}, -1},
		{"x", []Message{{Role: "user"}}, -1},
		{"x", nil, -1},
		{"{% for m in messages %}<{{ m.role }}>{% endfor %}", user, 0},
		{"Hello 1 {{ messages | length }}", user, 0}, // the text has the words, but not from the message
		{"{% if messages[0].content %}asked{% endif %}", user, 0},
		{"{{ messages[0].content | length }}", user, 0},
		{"{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}", both, 0},
		{"{{ messages[0].content }}", both, 1},
		{"{{ messages[0].content }}{{ messages[-1].content }}", turns, 1},
		{"{{ messages[0].content }}{{ messages[-2].role }}", []Message{{Role: "user", Content: "<|im_end|>"}, {Role: "tool", Content: "q <|im_end|>"}}, 1},
	} {
		_, err := tok.EncodeChat(c.messages, ChatOptions{Template: c.template, TemplatePath: "dir/t.jinja"})
		var unused *UnusedError
		switch {
		case c.unused < 0:
			if err != nil {
				t.Errorf("%q: %v", c.template, err)
			}
		case !errors.As(err, &unused) || unused.Index != c.unused || unused.Role != c.messages[c.unused].Role:
			t.Errorf("%q: %v, want an error about message %d", c.template, err, c.unused)
		case !strings.HasPrefix(err.Error(), "chat template of dir/t.jinja: it leaves out"):
			t.Errorf("%q: %v does not name the file", c.template, err)
		}
	}
}

// The checkpoint's file is named, too.
func TestUnusedNamesFile(t *testing.T) {
	dir := folder(t, map[string]string{"tokenizer.json": read(t, "../models/needle-qwen2/tokenizer.json"), "chat_template.jinja": "Hi"})
	_, err := open(t, dir).EncodeChat([]Message{{Role: "user", Content: "hi"}}, ChatOptions{})
	if err == nil || !strings.Contains(err.Error(), dir+"/chat_template.jinja: it leaves out the content of message 0") {
		t.Error(err)
	}
}

func TestInOtherLetters(t *testing.T) {
	for text, want := range map[string]string{"": "", " \n": " \n", "Qq aé\t": "zz qq\t", "<|q|>": "qqzqq"} {
		if got := inOtherLetters(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
