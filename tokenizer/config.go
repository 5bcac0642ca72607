package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// config is what is used of tokenizer_config.json and special_tokens_map.json.
type config struct {
	bos, eos       token
	addBOS, addEOS *bool // nil: tokenizer.json's post-processor decides
	chatTemplate   json.RawMessage
}

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
			return t, fmt.Errorf("neither a string nor an object with content: %w", err)
		}
		t.text = object.Content
	}
	id, ok := ids[t.text]
	if !ok && t.text != "" {
		return t, fmt.Errorf("%q is not in tokenizer.json", t.text)
	}
	t.id = id
	return t, nil
}

// readTemplate finds the chat template: chat_template.jinja, else what tokenizer_config.json holds, which is a text or a
// list of named texts whose "default" is taken. A checkpoint without one can still encode, so why there is none is told
// only to who asks for it.
func readTemplate(dir string, raw json.RawMessage) (string, error) {
	data, err := readFile(filepath.Join(dir, "chat_template.jinja"))
	if err == nil {
		return string(data), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if isNull(raw) || string(raw) == `""` {
		return "", ErrNoTemplate
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	path := filepath.Join(dir, "tokenizer_config.json")
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", fmt.Errorf("%s: chat_template is neither a text nor a list of named texts: %w", path, err)
	}
	var names []string
	for _, t := range named {
		if t.Name == "default" {
			return t.Template, nil
		}
		names = append(names, t.Name)
	}
	return "", fmt.Errorf("%s: none of the chat templates (%s) is named default: give one as a file", path, strings.Join(names, ", "))
}

// readJSON reads an optional file.
func readJSON(path string, into any) error {
	data, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
