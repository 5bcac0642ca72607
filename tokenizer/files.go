package tokenizer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"blitzen/internal/excerpt"
)

// maxFile is the largest file that is read, in bytes: those of large vocabularies have some 20 MiB.
const maxFile = 1 << 30

// readFile is os.ReadFile that recognises a file whose content was not fetched. Only a file that is not there at all is
// fs.ErrNotExist.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // before it is opened: a pipe would wait for a writer
	if errors.Is(err, fs.ErrNotExist) {
		if target, linkErr := os.Readlink(path); linkErr == nil { // a snapshot of the Hugging Face cache holds links
			return nil, fmt.Errorf("%s is a link to %s, which is missing: download it again", path, target)
		}
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: download it again", path)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s has %d bytes, which no such file has: download it again", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err == nil && bytes.HasPrefix(data, []byte("version https://git-lfs")) {
		return nil, fmt.Errorf("%s is a git-lfs pointer, not the file: run git lfs pull", path)
	}
	return data, err
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
	return parseJSON(path, data, into)
}

// parseJSON is json.Unmarshal whose errors name the text and what it should hold, not types of Go.
func parseJSON(name string, text []byte, into any) error {
	err := json.Unmarshal(text, into)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		return fmt.Errorf("%s is not JSON: byte %d: %w: download it again", name, syntax.Offset, err)
	case errors.As(err, &kind):
		return fmt.Errorf("%s: %s is %s, expected %s: download it again", name, cmp.Or(kind.Field, "the whole"), excerpt.Of(kind.Value), expected(kind.Type.Kind()))
	}
	return err
}

func expected(kind reflect.Kind) string {
	switch kind {
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "an array"
	case reflect.Int32:
		return "a whole number below 2147483648"
	case reflect.Float64:
		return "a number"
	case reflect.Bool:
		return "true or false"
	}
	return "a text"
}

// libraryTypes are the library's names for parts of tokenizer.json, as far as they tell them apart.
var libraryTypes = []struct{ begins, field string }{
	{"Merge", "model.merges"}, {"Model", "model"}, {"Normalizer", "normalizer"}, {"PreTokenizer", "pre_tokenizer"},
	{"PostProcessor", "post_processor"}, {"Decoder", "decoder"},
}

// libraryError is an error of the library on reading tokenizer.json that names a field, not a type of Rust.
func libraryError(err error) error {
	text := strings.TrimPrefix(err.Error(), "Failed to create tokenizer from bytes: ")
	_, name, untagged := strings.Cut(text, "untagged enum ")
	for _, t := range libraryTypes {
		if untagged && strings.HasPrefix(name, t.begins) {
			_, place, _ := strings.Cut(name, " at ") // line 56 column 22, where the part ends
			return fmt.Errorf("%s lacks a field or has one of the wrong form (before %s)", t.field, cmp.Or(place, "its end"))
		}
	}
	return errors.New(text)
}
