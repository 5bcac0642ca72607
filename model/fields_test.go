package model

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blitzen/internal/golden"

	"golang.org/x/sys/unix"
)

func parse(t *testing.T, text string) *Fields {
	t.Helper()
	f, err := ParseFields("dir/config.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error\n %v\nwant\n %s", err, want)
	}
}

func TestFields(t *testing.T) {
	f := parse(t, `{"int": 3, "big": 1e3, "half": 0.5, "zero": 0, "yes": true, "no": false, "text": "a", "list": ["a", "b"],
		"object": {"inner": 7, "deep": {"text": "b"}}, "null": null, "id": 5, "ids": [5, 6], "none": []}`)
	inner := f.Object("object")
	for i, ok := range []bool{
		f.Int("int", 1, 3) == 3, f.Int("big", 0, 1000) == 1000, f.IntOr("int", 9, 0, 3) == 3, f.IntOr("absent", 9, 0, 3) == 9, f.IntOr("null", 9, 0, 3) == 9,
		f.Float("half") == 0.5, f.Float32("half", 0.6) == 0.5, f.FloatOr("half", 2) == 0.5, f.FloatOr("absent", 2) == 2, f.ZeroOr("zero") == 0, f.ZeroOr("half") == 0.5, f.ZeroOr("absent") == 0,
		f.BoolOr("yes", false), !f.BoolOr("no", true), f.BoolOr("absent", true), f.BoolOr("null", true),
		f.String("text") == "a", f.StringOr("text", "b") == "a", f.StringOr("absent", "b") == "b", slices.Equal(f.Strings("list"), []string{"a", "b"}),
		f.Has("zero"), !f.Has("null"), !f.Has("absent"),
		inner.Int("inner", 0, 9) == 7, inner.Object("deep").String("text") == "b", f.Object("absent") == nil, f.Object("null") == nil,
		slices.Equal(f.Tokens("id"), []int32{5}), slices.Equal(f.Tokens("ids"), []int32{5, 6}), len(f.Tokens("none")) == 0, len(f.Tokens("absent")) == 0,
	} {
		if !ok {
			t.Errorf("check %d failed", i)
		}
	}
	f.Want("text", "a")
	f.Want("absent", "a")
	if f.Err() != nil {
		t.Error(f.Err())
	}
}

func TestFieldsRefuse(t *testing.T) {
	const text = `{"zero": 0, "minus": -1, "half": 0.5, "yes": true, "text": "a", "list": ["a", 1], "object": {"inner": -1, "nan": NaN},
		"nan": NaN, "inf": Infinity, "low": -Infinity, "null": null, "ids": [1, 2.5], "hole": [1, null], "below": [-1], "huge": 1e999, "large": 1e308, "small": 1e-320, "lines": [1,

		2], "long": "` + "0123456789012345678901234567890123456789012345678901234567890123456789" + `"}`
	for _, c := range []struct {
		get  func(f *Fields)
		want string
	}{
		{func(f *Fields) { f.Int("absent", 1, 5) }, "absent is missing; it changes the result and has no default"},
		{func(f *Fields) { f.Int("null", 1, 5) }, "null is missing; it changes the result and has no default"},
		{func(f *Fields) { f.Int("zero", 1, 5) }, "zero is 0, want a whole number from 1 to 5"},
		{func(f *Fields) { f.IntOr("half", 1, 0, 5) }, "half is 0.5, want a whole number from 0 to 5"},
		{func(f *Fields) { f.Int("text", 0, 5) }, `text is "a", want a number`},
		{func(f *Fields) { f.Int("huge", 0, 5) }, "huge is 1e999, want a number"},
		{func(f *Fields) { f.Float("zero") }, "zero is 0, want a number above 0"},
		{func(f *Fields) { f.Float32("large", 1000) }, "large is 1e+308, want a number from 1.18e-38 to below 1000"},
		{func(f *Fields) { f.Float32("small", 1000) }, "small is 1e-320, want a number from 1.18e-38 to below 1000"},
		{func(f *Fields) { f.Float32("zero", 1000) }, "zero is 0, want a number above 0"},
		{func(f *Fields) { f.Float32("half", 0.5) }, "half is 0.5, want a number from 1.18e-38 to below 0.5"},
		{func(f *Fields) { f.FloatOr("minus", 1) }, "minus is -1, want a number above 0"},
		{func(f *Fields) { f.Float("yes") }, "yes is true, want a number"},
		{func(f *Fields) { f.ZeroOr("minus") }, "minus is -1, want a number of at least 0"},
		{func(f *Fields) { f.BoolOr("zero", true) }, "zero is 0, want true or false"},
		{func(f *Fields) { f.String("zero") }, "zero is 0, want a text"},
		{func(f *Fields) { f.Strings("list") }, `list is ["a", 1], want a list of texts`},
		{func(f *Fields) { f.Strings("text") }, `text is "a", want a list of texts`},
		{func(f *Fields) { f.Want("text", "b") }, `text is "a"; only "b" is supported`},
		{func(f *Fields) { f.Object("list") }, `list is ["a", 1], want an object`},
		{func(f *Fields) { f.Object("object").Float("inner") }, "object: inner is -1, want a number above 0"},
		{func(f *Fields) { f.Object("object").Float("nan") }, "object: nan is NaN or infinite, want a number"},
		{func(f *Fields) { f.Tokens("half") }, "half is 0.5, want a whole number from 0 to 2147483647"},
		{func(f *Fields) { f.Tokens("text") }, `text is "a", want a number`},
		{func(f *Fields) { f.Tokens("ids") }, "ids is [1, 2.5], want token ids"},
		{func(f *Fields) { f.Tokens("hole") }, "hole is [1, null], want token ids of at least 0"},
		{func(f *Fields) { f.Tokens("below") }, "below is [-1], want token ids of at least 0"},
		{func(f *Fields) { f.Float("nan") }, "nan is NaN or infinite, want a number"},
		{func(f *Fields) { f.FloatOr("inf", 1) }, "inf is NaN or infinite, want a number"},
		{func(f *Fields) { f.ZeroOr("low") }, "low is NaN or infinite, want a number"},
		{func(f *Fields) { f.StringOr("nan", "a") }, "nan is NaN or infinite, want a text"},
		{func(f *Fields) { f.Float("lines") }, "lines is [1, 2], want a number"},
		{func(f *Fields) { f.Float("long") }, `long is "01234567890123456789012345678901234567890123456789012345678, want a number`},
		{func(f *Fields) { f.Fail("x", "is %d", 1); f.Fail("y", "is %d", 2); f.Int("absent", 0, 1) }, "x is 1"},
	} {
		f := parse(t, text)
		if f.Err() != nil {
			t.Fatal(f.Err())
		}
		c.get(f)
		wantError(t, f.Err(), "dir/config.json: "+c.want)
	}
}

// Python's NaN and Infinity are no reason to refuse a file, wherever they are.
func TestNonFiniteAccepted(t *testing.T) {
	f := parse(t, `{"a": NaN,"b":-Infinity, "c":[Infinity,NaN,{"d":NaN}],"text":"a NaN, \"Infinity\" \\","NaN":1, "after": 2}`)
	if got := f.String("text"); got != `a NaN, "Infinity" \` {
		t.Errorf("text is %q", got)
	}
	if f.Int("NaN", 0, 9) != 1 || f.Int("after", 0, 9) != 2 || f.Err() != nil {
		t.Errorf("fields around: %v", f.Err())
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "unexpected end of JSON input (line 1, column 1)",
		"{\n \"a\": 1,\n}":          "invalid character '}' looking for beginning of object key string (line 3, column 1)",
		"{\"a\": NaN, \"b\": nope}": "invalid character 'o' in literal null (expecting 'u') (line 1, column 18)",
		"{\"a\": Infinity x}":       "invalid character 'x' after object key:value pair (line 1, column 16)",
		"{\"a\":\n\n  [1,":          "unexpected end of JSON input (line 3, column 5)",
		"{} {}":                     "invalid character '{' after top-level value (line 1, column 4)",
		"version https://x":         "invalid character 'v' looking for beginning of value (line 1, column 1)",
		"{\"a\": \"x\ny\"}":         "invalid character '\\n' in string literal (line 1, column 9)",
	} {
		_, err := ParseFields("dir/config.json", []byte(text))
		wantError(t, err, "dir/config.json: "+want)
	}
	for _, text := range []string{"[1]", "null", "3", `"a"`, "NaN"} {
		_, err := ParseFields("dir/config.json", []byte(text))
		wantError(t, err, "dir/config.json is not a JSON object")
	}
}

func TestReadFields(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	_, err := ReadFields(path)
	wantError(t, err, path+" does not exist: a model folder holds config.json and *.safetensors")
	if err := os.WriteFile(path, []byte(`{"a": 1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if f, err := ReadFields(path); err != nil || f.Int("a", 0, 1) != 1 {
		t.Error(err)
	}
}

// What stands in place of the file is told, and nothing waits for a pipe.
func TestReadFieldsNoFile(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		make func(path string) error
		want string
	}{
		"link":      {func(path string) error { return os.Symlink("../blobs/0123", path) }, " is a link to ../blobs/0123, which is missing: download it again"},
		"pipe":      {func(path string) error { return unix.Mkfifo(path, 0o600) }, " is not a regular file: download it again"},
		"directory": {func(path string) error { return os.Mkdir(path, 0o700) }, " is not a regular file: download it again"},
		"pointer": {func(path string) error {
			return os.WriteFile(path, []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 663\n"), 0o600)
		}, " is a git-lfs pointer, not the file itself: run `git lfs pull`"},
	} {
		path := filepath.Join(dir, name)
		if err := c.make(path); err != nil {
			t.Fatal(err)
		}
		_, err := ReadFields(path)
		wantError(t, err, path+c.want)
	}
}

// Whatever the bytes: no getter panics, and an error is one line of bounded
// length that names the file.
func FuzzParseFields(f *testing.F) {
	for _, data := range golden.Files(f, "../testdata/models/*/config*.json") {
		f.Add(data)
	}
	f.Add([]byte(`{"a": NaN, "b": -Infinity, "c": ["\u0000\\", {"d": [null]}], "e": 1e999}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		fields, err := ParseFields("config.json", data)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "config.json") || len(err.Error()) > 200 {
				t.Errorf("error %q", err)
			}
			return
		}
		for name := range fields.values {
			for _, get := range []func(f *Fields){
				func(f *Fields) { f.Int(name, -5, 5) }, func(f *Fields) { f.Float(name) }, func(f *Fields) { f.ZeroOr(name) },
				func(f *Fields) { f.BoolOr(name, true) }, func(f *Fields) { f.String(name) }, func(f *Fields) { f.Strings(name) },
				func(f *Fields) { f.Tokens(name) }, func(f *Fields) { f.Object(name) },
			} {
				one := &Fields{path: "config.json", values: fields.values, err: new(error)}
				get(one)
				if err := one.Err(); err != nil && len(err.Error()) > len(name)+300 {
					t.Errorf("error of %d bytes: %v", len(err.Error()), err)
				}
			}
		}
	})
}
