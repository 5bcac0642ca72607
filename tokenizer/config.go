package tokenizer

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"blitzen/internal/excerpt"
)

// config is what is used of tokenizer_config.json and special_tokens_map.json.
type config struct {
	bos, eos       token
	addBOS, addEOS *bool // nil: tokenizer.json's post-processor decides
	chatTemplate   json.RawMessage
}

// decides tells whether the configuration says which special tokens a text gets, in place of the post-processor.
func (c *config) decides() bool { return c.addBOS != nil || c.addEOS != nil }

type token struct {
	text string // "" when there is none
	id   int32
}

type configFile struct {
	AddBOS       *bool           `json:"add_bos_token"`
	AddEOS       *bool           `json:"add_eos_token"`
	BOS          json.RawMessage `json:"bos_token"`
	EOS          json.RawMessage `json:"eos_token"`
	ChatTemplate json.RawMessage `json:"chat_template"`
}

// readConfig reads the optional configuration beside tokenizer.json.
func readConfig(dir string, ids map[string]int32) (c config, err error) {
	path := filepath.Join(dir, "tokenizer_config.json")
	var main, older configFile
	if err = readJSON(path, &main); err != nil {
		return c, err
	}
	if err = readJSON(filepath.Join(dir, "special_tokens_map.json"), &older); err != nil {
		return c, err
	}
	c.addBOS, c.addEOS, c.chatTemplate = main.AddBOS, main.AddEOS, main.ChatTemplate
	for _, field := range []struct {
		name       string
		raw, older json.RawMessage
		add        *bool
		dst        *token
	}{
		{"bos_token", main.BOS, older.BOS, c.addBOS, &c.bos},
		{"eos_token", main.EOS, older.EOS, c.addEOS, &c.eos},
	} {
		raw := field.raw
		if raw == nil { // absent, which is not null
			raw = field.older
		}
		if *field.dst, err = readToken(raw, ids); err != nil {
			return c, fmt.Errorf("%s: %s: %w", path, field.name, err)
		}
		if field.add != nil && *field.add && field.dst.text == "" {
			return c, fmt.Errorf("%s: add_%s is true but there is no %[2]s", path, field.name)
		}
	}
	return c, nil
}

// readToken reads a token that is null, a string, or an object with its content.
func readToken(raw json.RawMessage, ids map[string]int32) (t token, err error) {
	if isNull(raw) {
		return t, nil
	}
	if err := json.Unmarshal(raw, &t.text); err != nil {
		var object struct{ Content string }
		if err := json.Unmarshal(raw, &object); err != nil {
			return t, errors.New("expected a text, an object with content, or null: download it again")
		}
		t.text = object.Content
	}
	id, ok := ids[t.text]
	if !ok && t.text != "" {
		return t, fmt.Errorf("%s is not in tokenizer.json: take both from one download", excerpt.Quoted(t.text))
	}
	t.id = id
	return t, nil
}

// chatTemplate is a chat template and the file that it comes from.
type chatTemplate struct {
	text string // "" when there is none
	path string
}

// readTemplate finds the chat template: chat_template.jinja, else what tokenizer_config.json holds, which is a text or a
// list of named texts whose "default" is taken. A checkpoint without one can still encode, so why there is none is told
// only to who asks for it.
func readTemplate(dir string, raw json.RawMessage) (chatTemplate, error) {
	t := chatTemplate{path: filepath.Join(dir, "chat_template.jinja")}
	data, err := readFile(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		if isNull(raw) || string(raw) == `""` {
			return chatTemplate{}, ErrNoTemplate
		}
		t.path = filepath.Join(dir, "tokenizer_config.json")
		t.text, err = defaultTemplate(raw)
		if err != nil {
			err = fmt.Errorf("%s: %w", t.path, err)
		}
	}
	if err != nil {
		return chatTemplate{}, err
	}
	t.text = cmp.Or(t.text, string(data))
	if t.text == "" {
		return chatTemplate{}, fmt.Errorf("the chat template of %s is empty: download it again, give one as a file, or use the text as it is", t.path)
	}
	if at := invalidUTF8(t.text); at >= 0 {
		return chatTemplate{}, fmt.Errorf("the chat template of %s is not UTF-8: byte %d is %#02x: download it again", t.path, at, t.text[at])
	}
	return t, nil
}

// defaultTemplate reads the field chat_template.
func defaultTemplate(raw json.RawMessage) (text string, err error) {
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var named []struct{ Name, Template string }
	if json.Unmarshal(raw, &named) != nil {
		return "", errors.New("chat_template is neither a text nor a list of objects with name and template")
	}
	var names []string
	for _, t := range named {
		if t.Name == "default" {
			return t.Template, nil
		}
		names = append(names, t.Name)
	}
	return "", fmt.Errorf("none of the chat templates (%s) is named default: give one as a file", excerpt.Quoted(strings.Join(names, ", ")))
}
