package weights

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"blitzen/internal/excerpt"

	"pgregory.net/rapid"
)

func TestShown(t *testing.T) {
	for value, want := range map[string]string{
		"model.layers.0.β":       "model.layers.0.β",
		"a\nb":                   `"a\nb"`,
		"\x1b[31mred":            `"\x1b[31mred"`,
		"left\u202eright":        `"left\u202eright"`,
		strings.Repeat("x", 300): strings.Repeat("x", 200) + "…",
		strings.Repeat("é", 300): strings.Repeat("é", 100) + "…",
	} {
		if got := shown(value); got != want {
			t.Errorf("%q is shown as %s, want %s", value, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		got := shown(rapid.String().Draw(t, "value"))
		if len(got) > excerpt.Most+len("…") || !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x1b\x00") {
			t.Errorf("shown as %q", got)
		}
	})
}

// Names in a file cannot add lines to an error, nor drown it.
func TestErrorsOneLine(t *testing.T) {
	entry := func(fields string) string { return `{"\u001b":{` + fields + "}}" }
	dims := strings.Repeat("1,", 50_000) + "1"
	long := strings.Repeat("n", 100_000)
	for name, files := range map[string][]string{
		"damaged entry":   {singleName, raw(`{"`+long+`":{"dtype":"F32","shape":[9],"data_offsets":[0,8]}}`, 8)},
		"hole":            {singleName, raw(`{"`+long+`":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}}`, 16)},
		"long shape":      {singleName, raw(entry(`"dtype":"F32","shape":[`+dims+`],"data_offsets":[0,8]`), 8)},
		"long offsets":    {singleName, raw(entry(`"dtype":"F32","shape":[2],"data_offsets":[`+dims+`]`), 8)},
		"long number":     {singleName, raw(entry(`"dtype":"F32","shape":[`+strings.Repeat("9", 100_000)+`],"data_offsets":[0,8]`), 8)},
		"name for number": {singleName, raw(entry(`"dtype":"F32","shape":["\u001b`+long+`"],"data_offsets":[0,8]`), 8)},
		"twice":           {singleName, raw(`{"\u001b`+long+`":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"\u001b`+long+`":{}}`, 8)},
		"shard":           {indexName, `{"weight_map":{"a":"\u001b` + long + `"}}`},
		"long shard":      {indexName, `{"weight_map":{"a":"` + long + `"}}`},
		"not listed":      {indexName, index("b", "1"), "1", raw(`{"\u001b\n`+long+`":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8)},
		"not held":        {indexName, `{"weight_map":{"a":"1","\u001b\n` + long + `":"1"}}`, "1", vectors("a")},
	} {
		_, err := Open(folder(t, files...))
		if err == nil || len(err.Error()) > 1500 || strings.ContainsAny(err.Error(), "\n\x1b") {
			t.Errorf("%s: error %.2000q", name, fmt.Sprint(err))
		}
	}
	c := mustOpen(t, folder(t, singleName, raw(`{"\u001b\n`+long+`":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"plain":{"dtype":"\u001b`+long+`","shape":[2],"data_offsets":[8,16]}}`, 16)))
	_, bound := c.Bind("plain", 2)
	for _, err := range []error{c.Unused(nil), bound} {
		if err == nil || len(err.Error()) > 1500 || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("error %.2000q", fmt.Sprint(err))
		}
	}
}
