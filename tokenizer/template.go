package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/ardanlabs/jinja"
)

// execute renders a template. The engine is made for chat templates (trim_blocks and lstrip_blocks set, tojson,
// strftime_now, namespace, loop controls) and reads no files. Operators and printing are the guard's (see operators.go). Known
// differences from Jinja: a tuple is a list, and filters and tests are less strict about the kinds of values (none | length
// is 0). The engine may panic on a malformed template: that is an error here.
func (t template) execute(variables map[string]jinja.Value) (text string, err error) {
	size, err := sizeOf(variables)
	if err == nil {
		text, err = render(t.text, variables, usual(size))
	}
	if at := invalidUTF8(text); err == nil && at >= 0 {
		err = fmt.Errorf("it cuts a character in two: byte %d of what it renders is %#02x", at, text[at])
	}
	if err != nil {
		return "", fmt.Errorf("chat template of %s: %w", t.path, err)
	}
	return text, nil
}

// render renders a template within limits.
func render(source string, variables map[string]jinja.Value, l limits) (string, error) {
	return watch(l, func(done <-chan struct{}) (string, error) { return renderUntil(done, source, variables) })
}

func renderUntil(done <-chan struct{}, source string, variables map[string]jinja.Value) (text string, err error) {
	if len(source) > maxTemplateBytes {
		return "", fmt.Errorf("%d bytes are too long, the limit is %d", len(source), maxTemplateBytes)
	}
	if source, err = rewrite(source); err != nil {
		return "", err
	}
	defer func() {
		if p := recover(); p != nil {
			text, err = "", fmt.Errorf("the template engine failed: %s", excerpt(fmt.Sprint(p)))
		}
	}()
	compiled, err := jinja.Compile(source)
	if err != nil {
		return "", engineError(err)
	}
	if err := (&guard{done: done}).addTo(variables); err != nil {
		return "", err
	}
	var raised error // kept apart: the engine puts its own words around errors
	variables["raise_exception"] = jinja.NewCallable("raise_exception", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		raised = errors.New("the template refuses these messages")
		if len(args) > 0 && args[0].IsString() {
			raised = fmt.Errorf("the template refuses these messages: %s", quoted(args[0].AsString()))
		}
		return jinja.Undefined(), raised
	})
	text, err = compiled.RenderValues(variables)
	if raised != nil {
		return "", raised
	}
	if err != nil {
		return "", engineError(err)
	}
	return text, nil
}

// engineError repeats what the engine says, which can hold parts of the template, so that it is safe to print.
func engineError(err error) error {
	text := excerpt(err.Error())
	if strings.ContainsFunc(text, unicode.IsControl) {
		text = strconv.Quote(text)
	}
	return errors.New(text)
}

// jsonValue converts a JSON text, keeping the order of its keys; edit is applied to each string and key in it.
func jsonValue(text json.RawMessage, edit func(string) string) (jinja.Value, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	value, err := nextValue(decoder, edit)
	if err == nil && decoder.More() {
		err = errors.New("more than one value")
	}
	if err != nil {
		return jinja.Undefined(), fmt.Errorf("JSON %.60q: %w", text, err)
	}
	return value, nil
}

func nextValue(d *json.Decoder, edit func(string) string) (jinja.Value, error) {
	t, err := d.Token()
	if err != nil {
		return jinja.Undefined(), err
	}
	switch t := t.(type) {
	case string:
		return jinja.NewString(edit(t)), nil
	case json.Delim:
		value := jinja.NewList(nil)
		if t == '{' {
			value = jinja.NewDict()
		}
		for d.More() {
			var key json.Token
			if t == '{' {
				if key, err = d.Token(); err != nil {
					return jinja.Undefined(), err
				}
			}
			part, err := nextValue(d, edit)
			if err != nil {
				return jinja.Undefined(), err
			}
			if name, ok := key.(string); ok {
				value.AsDict().Set(edit(name), part)
			} else {
				value.AsList().Append(part)
			}
		}
		_, err = d.Token()
		return value, err
	default: // nil, bool, json.Number
		return jinja.FromGoValue(t), nil
	}
}
