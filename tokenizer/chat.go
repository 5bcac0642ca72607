package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ardanlabs/jinja"

	"blitzen/tokenizer/template"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string // system, user, assistant or tool; the template decides
	Content string
	// Extra holds further fields as JSON by name, such as tool_calls.
	Extra map[string]json.RawMessage
}

// ChatOptions choose how messages become a prompt.
type ChatOptions struct {
	AddGenerationPrompt bool              // open the assistant's answer
	Prefill             string            // the beginning of that answer, put after the rendered text
	Tools               []json.RawMessage // descriptions of functions, in the form that the template expects
	Template            string            // instead of the checkpoint's template
	TemplatePath        string            // where Template comes from, for errors
}

// ErrNoTemplate says that a checkpoint has no chat template and none was given.
var ErrNoTemplate = errors.New("no chat template (neither chat_template.jinja nor chat_template in tokenizer_config.json): give one as a file, or use the text as it is")

// Render renders messages by the chat template. Published templates write bos_token themselves where it belongs, so
// the result is to be encoded without AddSpecial.
func (t *Tokenizer) Render(messages []Message, o ChatOptions) (string, error) {
	text, _, err := t.render(messages, o)
	return text, err
}

// EncodeChat renders messages and encodes the result. Special tokens that the template writes become their ids; the
// same characters inside messages, tools and prefill are encoded as plain text, so that no one can close his own turn.
// (A template that puts a role between "<|" and "|>" still makes a special token of it.) Between two special tokens of the
// template all text is encoded as one stretch, since merges reach over the border of template and content: in "User: hi"
// the token " hi" does. A message that the template leaves out is an UnusedError.
func (t *Tokenizer) EncodeChat(messages []Message, o ChatOptions) ([]int32, error) {
	text, marked, err := t.render(messages, o)
	if err == nil {
		err = t.checkUsed(t.source(o), text, messages, o)
	}
	if err != nil {
		return nil, err
	}
	if marked == "" {
		return t.Encode(text, EncodeOptions{})
	}
	return t.encodeMarked(marked)
}

// render returns the rendered text and, when contents hold what could be read as a special token, the same text with
// marks, else "".
func (t *Tokenizer) render(messages []Message, o ChatOptions) (text, marked string, err error) {
	source := t.source(o)
	if source.text == "" {
		return "", "", fmt.Errorf("%s: %w", t.dir, t.noTemplate)
	}
	if err := validUTF8(messages, o); err != nil {
		return "", "", err
	}
	needed := false
	marked, err = t.fill(source, messages, o, func(s string) string {
		m := t.vocab.markControl(s)
		needed = needed || m != s
		return m
	})
	if err != nil || !needed {
		return marked, "", err
	}
	text, err = t.fill(source, messages, o, unedited)
	switch {
	case err != nil:
	case strings.Contains(text, mark):
		err = fmt.Errorf("the messages hold both special tokens and the character %+q, which is used to tell them from the template's: remove one", mark)
	case strings.ReplaceAll(marked, mark, "") != text:
		err = errors.New("the messages hold special tokens, and the chat template changes such text: remove them")
	}
	return text, marked, err
}

// source is the template to use.
func (t *Tokenizer) source(o ChatOptions) chatTemplate {
	if o.Template == "" || o.Template == t.template.text {
		return t.template
	}
	return chatTemplate{text: o.Template, path: cmp.Or(o.TemplatePath, "the given file")}
}

// fill renders a template with messages that are edited (see variables).
func (t *Tokenizer) fill(source chatTemplate, messages []Message, o ChatOptions, edit func(string) string) (string, error) {
	variables, err := t.variables(messages, o, edit)
	if err != nil {
		return "", err
	}
	text, err := source.execute(variables)
	return text + edit(o.Prefill), err
}

// execute renders the template.
func (t chatTemplate) execute(variables map[string]jinja.Value) (string, error) {
	text, err := template.Render(t.text, variables)
	if at := invalidUTF8(text); err == nil && at >= 0 {
		err = fmt.Errorf("it cuts a character in two: byte %d of what it renders is %#02x", at, text[at])
	}
	if err != nil {
		return "", fmt.Errorf("chat template of %s: %w", t.path, err)
	}
	return text, nil
}

func unedited(s string) string { return s }

func validUTF8(messages []Message, o ChatOptions) error {
	check := func(text, what string, args ...any) error {
		if at := invalidUTF8(text); at >= 0 {
			return fmt.Errorf("%s is not UTF-8: byte %d is %#02x: convert it", fmt.Sprintf(what, args...), at, text[at])
		}
		return nil
	}
	for i, m := range messages {
		if err := cmp.Or(check(m.Role, "message %d: role", i), check(m.Content, "message %d: content", i)); err != nil {
			return err
		}
		for name, text := range m.Extra {
			if err := check(string(text), "message %d: %s", i, name); err != nil {
				return err
			}
		}
	}
	for i, tool := range o.Tools {
		if err := check(string(tool), "tool %d", i); err != nil {
			return err
		}
	}
	return cmp.Or(check(o.Template, "the given chat template"), check(o.Prefill, "prefill"))
}

// variables are what a template sees; edit is applied to every string that does not come from the checkpoint.
func (t *Tokenizer) variables(messages []Message, o ChatOptions, edit func(string) string) (map[string]jinja.Value, error) {
	list := make([]jinja.Value, len(messages))
	for i, m := range messages {
		list[i] = jinja.NewDict()
		dict := list[i].AsDict()
		dict.Set("role", jinja.NewString(edit(m.Role)))
		dict.Set("content", jinja.NewString(edit(m.Content)))
		for _, name := range slices.Sorted(maps.Keys(m.Extra)) {
			value, err := template.FromJSON(m.Extra[name], edit)
			if err != nil {
				return nil, fmt.Errorf("message %d: %s: %w", i, name, err)
			}
			dict.Set(name, value)
		}
	}
	v := map[string]jinja.Value{
		"messages":              jinja.NewList(list),
		"add_generation_prompt": jinja.NewBool(o.AddGenerationPrompt),
		"tools":                 jinja.None(),
		"documents":             jinja.None(),
	}
	if len(o.Tools) > 0 {
		tools := jinja.NewList(nil)
		for i, tool := range o.Tools {
			value, err := template.FromJSON(tool, edit)
			if err != nil {
				return nil, fmt.Errorf("tool %d: %w", i, err)
			}
			tools.AsList().Append(value)
		}
		v["tools"] = tools
	}
	for name, token := range map[string]token{"bos_token": t.config.bos, "eos_token": t.config.eos} {
		if token.text != "" {
			v[name] = jinja.NewString(token.text)
		}
	}
	return v, nil
}
