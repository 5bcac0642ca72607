// Package template renders chat templates as Jinja2 does when transformers calls it, or has an error. It knows nothing of tokens.
//
// A chat template is a program from a checkpoint. The engine, github.com/ardanlabs/jinja, is made for such templates
// (trim_blocks and lstrip_blocks set, tojson, strftime_now, namespace, loop controls) and reads no files, but it may panic on
// a malformed one, bounds little and differs from Jinja2 in white space, operators and printing. So a template is rewritten
// before the engine sees it: what could differ or grow becomes a call of a function of the guard.
//
//   - Reading and rewriting tags: whitespace.go (text, and where tags begin and end), methods.go (filters and methods inside a
//     tag), operators.go and expression.go (a parser of what a tag computes), instrument.go (calls of the guard in tags, and
//     tags that it could not watch).
//   - Computing as Python does: arithmetic.go, comparison.go, item.go, printing.go.
//   - Limiting: guard.go (loops, calls, values and output, so that a value that contains itself, a deep recursion, a loop without
//     end or a text that doubles cannot stop the program), grow.go (functions that make much of little), watch.go (time and memory:
//     what takes too much all the same is not waited for, but works on until the program ends).
//
// Known differences all the same: a tuple is a list, and filters and tests are less strict about the kinds of values
// (none | length is 0).
package template

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"unicode"

	"blitzen/internal/excerpt"

	"github.com/ardanlabs/jinja"
)

// Render renders the template source with variables, which it sees beside what Jinja2 and transformers define
// (raise_exception, strftime_now and so on).
//
// The caller owns variables and all that they hold: Render changes nothing of it, and the caller must not either, even after
// an error, since a rendering that took too long still reads them.
//
// An error says what is wrong in the template, which bound it breaks or with which words it refuses the messages; where the
// template comes from is the caller's to add. The text of a template that cuts a character in two is not UTF-8, which is no
// error here.
func Render(source string, variables map[string]jinja.Value) (string, error) {
	size, err := sizeOf(variables)
	if err != nil {
		return "", err
	}
	all := map[string]jinja.Value{} // the guard adds its own
	maps.Copy(all, variables)
	return render(source, all, usual(size))
}

// render renders a template within limits. It adds to variables.
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
			text, err = "", fmt.Errorf("the template engine failed: %s", excerpt.Of(fmt.Sprint(p)))
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
			raised = fmt.Errorf("the template refuses these messages: %s", excerpt.Quoted(args[0].AsString()))
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
	text := excerpt.Of(err.Error())
	if strings.ContainsFunc(text, unicode.IsControl) {
		text = strconv.Quote(text)
	}
	return errors.New(text)
}

// FromJSON is a JSON text as a value that templates see, with its keys in their order; edit is applied to each string and key
// in it. The value holds nothing of text and is the caller's. A text that is not JSON, or more than one value, is an error.
func FromJSON(text json.RawMessage, edit func(string) string) (jinja.Value, error) {
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
