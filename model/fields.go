package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"

	"blitzen/weights"
)

// Fields reads a JSON object such as config.json with one rule: a field that
// changes the result has no silent default. Getters remember the first
// mistake; Err returns it, naming file and field.
type Fields struct {
	path   string // file, and the field for a nested object
	values map[string]json.RawMessage
	err    *error // shared with nested objects
}

// mostFields is the most bytes of a JSON file that is read.
const mostFields = 64 << 20

// ReadFields reads a JSON file. Python writes Infinity and NaN, which JSON does
// not know: only a getter of such a field complains.
func ReadFields(path string) (*Fields, error) {
	info, err := os.Stat(path) // before opening: to open a pipe waits for its writer
	if errors.Is(err, fs.ErrNotExist) {
		if target, linkErr := os.Readlink(path); linkErr == nil {
			return nil, fmt.Errorf("%s is a link to %s, which is missing: download it again", path, target)
		}
		return nil, fmt.Errorf("%s does not exist: a model folder holds config.json and *.safetensors", path)
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: download it again", path)
	}
	if info.Size() > mostFields {
		return nil, fmt.Errorf("%s has %d bytes, which no such file has: download it again", path, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if weights.LFSPointer(data) {
		return nil, fmt.Errorf("%s is a git-lfs pointer, not the file itself: run `git lfs pull`", path)
	}
	return ParseFields(path, data)
}

// ParseFields reads JSON text; path names it in errors.
func ParseFields(path string, data []byte) (*Fields, error) {
	f := &Fields{path: path, err: new(error)}
	err := json.Unmarshal(markNonFinite(data), &f.values)
	if syntax := new(json.SyntaxError); errors.As(err, &syntax) {
		return nil, fmt.Errorf("%s: %w (%s)", path, err, place(data, int(syntax.Offset)-1))
	}
	if err != nil || f.values == nil {
		return nil, fmt.Errorf("%s is not a JSON object", path)
	}
	return f, nil
}

// Err returns the first mistake.
func (f *Fields) Err() error { return *f.err }

// Fail records a mistake about a field: "PATH: FIELD …".
func (f *Fields) Fail(field, format string, args ...any) {
	if *f.err == nil {
		*f.err = fmt.Errorf("%s: %s %s", f.path, field, fmt.Sprintf(format, args...))
	}
}

// Has reports whether a field is present and not null.
func (f *Fields) Has(field string) bool {
	raw, ok := f.values[field]
	return ok && string(raw) != "null"
}

// Int is a required whole number in [low, high].
func (f *Fields) Int(field string, low, high int) int {
	var v float64
	if !f.read(field, &v) {
		return low
	}
	if v != math.Trunc(v) || v < float64(low) || v > float64(high) {
		f.Fail(field, "is %.40s, want a whole number from %d to %d", f.values[field], low, high)
		return low
	}
	return int(v)
}

// IntOr is Int, or absent if the field is missing or null.
func (f *Fields) IntOr(field string, absent, low, high int) int {
	if !f.Has(field) {
		return absent
	}
	return f.Int(field, low, high)
}

// Float is a required number above 0.
func (f *Fields) Float(field string) float64 {
	var v float64
	if f.read(field, &v) && !(v > 0) {
		f.Fail(field, "is %v, want a number above 0", v)
	}
	return v
}

// Float32 is a required number above 0 and below a bound that float32 holds
// without underflow.
func (f *Fields) Float32(field string, below float64) float32 {
	v := f.Float(field)
	if v > 0 && !FitsFloat32(v, below) {
		f.Fail(field, "is %v, want a number from %.3g to below %v", v, smallestNormal, below)
	}
	return float32(v)
}

// smallestNormal is the least float32 of full precision; devices may take less
// for 0.
const smallestNormal = 0x1p-126

// FitsFloat32 reports whether v is below a bound and in float32's range of
// positive numbers of full precision.
func FitsFloat32(v, below float64) bool { return v >= smallestNormal && v < below }

// FloatOr is Float, or absent if the field is missing or null.
func (f *Fields) FloatOr(field string, absent float64) float64 {
	if !f.Has(field) {
		return absent
	}
	return f.Float(field)
}

// ZeroOr is a number of at least 0; 0 if the field is missing or null.
func (f *Fields) ZeroOr(field string) float64 {
	var v float64
	if f.Has(field) && f.read(field, &v) && !(v >= 0) {
		f.Fail(field, "is %v, want a number of at least 0", v)
	}
	return v
}

// BoolOr is a truth value, or absent if the field is missing or null.
func (f *Fields) BoolOr(field string, absent bool) bool {
	v := absent
	if f.Has(field) {
		f.read(field, &v)
	}
	return v
}

// String is a required text.
func (f *Fields) String(field string) string {
	var v string
	f.read(field, &v)
	return v
}

// StringOr is a text, or absent if the field is missing or null.
func (f *Fields) StringOr(field, absent string) string {
	if !f.Has(field) {
		return absent
	}
	return f.String(field)
}

// Strings is a required list of texts.
func (f *Fields) Strings(field string) []string {
	var v []string
	f.read(field, &v)
	return v
}

// Want refuses any value of a field but one; a missing field counts as wanted.
func (f *Fields) Want(field, value string) {
	if got := f.StringOr(field, value); got != value && *f.err == nil {
		f.Fail(field, "is %.60q; only %q is supported", got, value)
	}
}

// Object is a nested object, nil if missing or null.
func (f *Fields) Object(field string) *Fields {
	if !f.Has(field) {
		return nil
	}
	o := &Fields{path: f.path + ": " + field, err: f.err}
	f.read(field, &o.values)
	return o
}

// Len is the number of fields.
func (f *Fields) Len() int { return len(f.values) }

// Objects are the names of the fields that are objects, in order.
func (f *Fields) Objects() []string {
	var names []string
	for name, raw := range f.values {
		if raw[0] == '{' {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Tokens is a token id or a list of them; empty if missing or null.
func (f *Fields) Tokens(field string) []int32 {
	if !f.Has(field) {
		return nil
	}
	if f.values[field][0] != '[' {
		return []int32{int32(f.Int(field, 0, math.MaxInt32))}
	}
	var list []*int32
	f.read(field, &list)
	ids := make([]int32, 0, len(list))
	for _, id := range list {
		if id == nil || *id < 0 {
			f.Fail(field, "is %s, want token ids of at least 0", f.Text(field))
			return nil
		}
		ids = append(ids, *id)
	}
	return ids
}

func (f *Fields) read(field string, v any) bool {
	if !f.Has(field) {
		f.Fail(field, "is missing; it changes the result and has no default")
		return false
	}
	if err := json.Unmarshal(f.values[field], v); err != nil || string(f.values[field]) == nonFinite {
		f.Fail(field, "is %s, want %s", f.Text(field), kind(v))
		return false
	}
	return true
}

// Text is a field's value as people are shown it: JSON in one line, not too
// long.
func (f *Fields) Text(field string) string {
	raw := f.values[field]
	if string(raw) == nonFinite {
		return "NaN or infinite"
	}
	line := strings.Join(strings.Fields(string(raw)), " ")
	return fmt.Sprintf("%.60s", line)
}

// kind says what a getter's destination takes.
func kind(v any) string {
	switch v.(type) {
	case *float64:
		return "a number"
	case *bool:
		return "true or false"
	case *string:
		return "a text"
	case *[]string:
		return "a list of texts"
	case *[]*int32:
		return "token ids"
	}
	return "an object"
}

// nonFinite stands for NaN and the infinities: a JSON text of one control
// character, as short as the shortest of them.
const nonFinite = "\"\x7f\""

// markNonFinite replaces the bare words NaN, Infinity and -Infinity outside
// strings by nonFinite, padded so that byte offsets stay.
func markNonFinite(data []byte) []byte {
	out := bytes.Clone(data)
	inString := false
	for i := 0; i < len(out); i++ {
		switch {
		case inString && out[i] == '\\':
			i++
		case out[i] == '"':
			inString = !inString
		case !inString:
			for _, word := range []string{"-Infinity", "Infinity", "NaN"} {
				if bytes.HasPrefix(out[i:], []byte(word)) {
					copy(out[i:], nonFinite+strings.Repeat(" ", len(word)-len(nonFinite)))
					i += len(word) - 1
					break
				}
			}
		}
	}
	return out
}

// place is where byte at of a text is, for people.
func place(data []byte, at int) string {
	before := data[:max(min(at, len(data)-1), 0)]
	return fmt.Sprintf("line %d, column %d", bytes.Count(before, []byte("\n"))+1, len(before)-bytes.LastIndexByte(before, '\n'))
}
