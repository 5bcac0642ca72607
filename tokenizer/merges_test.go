package tokenizer

import (
	"fmt"
	"slices"
	"testing"
)

// A file that lost merges would split text into other tokens without a word.
func TestLostMerges(t *testing.T) {
	model := func(edit func(model map[string]any, merges []any)) string {
		return edited(t, func(doc map[string]any) {
			m := doc["model"].(map[string]any)
			edit(m, m["merges"].([]any))
		})
	}
	texts := func(merges []any) (list []string) {
		for _, merge := range merges {
			pair := merge.([]any)
			list = append(list, fmt.Sprint(pair[0], " ", pair[1]))
		}
		return list
	}
	for name, c := range map[string]struct {
		dir  string
		want string // "" when it opens
	}{
		"none":          {model(func(m map[string]any, all []any) { m["merges"] = []any{} }), "3837 of 3837 pieces"},
		"first half":    {model(func(m map[string]any, all []any) { m["merges"] = all[:1918] }), "1919 of 3837 pieces"},
		"second half":   {model(func(m map[string]any, all []any) { m["merges"] = all[1919:] }), "1919 of 3837 pieces"},
		"half as texts": {model(func(m map[string]any, all []any) { m["merges"] = texts(all[:1918]) }), "1919 of 3837 pieces"},
		"above a tenth": {model(func(m map[string]any, all []any) { m["merges"] = all[:3837-384] }), "384 of 3837 pieces"},
		"a tenth":       {model(func(m map[string]any, all []any) { m["merges"] = all[:3837-383] }), ""},
		"as texts":      {model(func(m map[string]any, all []any) { m["merges"] = texts(all) }), ""},
		"ignored":       {model(func(m map[string]any, all []any) { m["merges"], m["ignore_merges"] = []any{}, true }), ""},
		"not ignored":   {model(func(m map[string]any, all []any) { m["merges"], m["ignore_merges"] = []any{}, nil }), "3837 of 3837 pieces"},
	} {
		tok, err := Open(c.dir)
		if err == nil {
			err = tok.Close()
		}
		want := c.dir + "/tokenizer.json: " + c.want + " of several characters cannot be made by merges: the file is damaged, download it again"
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Added tokens, which take no merges, do not count.
func TestAddedTokensNeedNoMerges(t *testing.T) {
	open(t, edited(t, func(doc map[string]any) {
		first := doc["added_tokens"].([]any)[0].(map[string]any)
		for i := range 1000 {
			token := map[string]any{}
			for name, value := range first {
				token[name] = value
			}
			token["id"], token["content"] = 4096+i, fmt.Sprintf("<|%d|>", i)
			doc["added_tokens"] = append(doc["added_tokens"].([]any), token)
		}
	}))
}

// Published tokenizers make all pieces.
func TestMergesMakeAllPieces(t *testing.T) {
	for _, path := range []string{
		"../models/needle-qwen2/tokenizer.json", "../models/needle-dsv2/tokenizer.json",
		"../testdata/tokenizers/deepseek-mini/tokenizer.json", "../testdata/tokenizers/deepseek-mini/tokenizer.string_merges.json",
	} {
		s, err := readSpec(folder(t, map[string]string{"tokenizer.json": read(t, path)}))
		if err != nil {
			t.Fatal(err)
		}
		v, err := s.vocabulary()
		if err != nil {
			t.Fatal(err)
		}
		pieces, ok := mergedPieces(s.Model.Merges)
		if lost, all := s.lostPieces(&v, pieces); !ok || lost != 0 || all < 1000 {
			t.Errorf("%s: %d of %d pieces cannot be made", path, lost, all)
		}
	}
}

func TestMergedPieces(t *testing.T) {
	for merges, want := range map[string][]string{
		`[["Ġ", "a"], ["b","\""], ["\\", "]"]]`:   {"Ġa", `b"`, `\]`},
		`["Ġ a", "b \"", "\\ ]", "[ \u0120"]`:     {"Ġa", `b"`, `\]`, "[Ġ"},
		` [ [ "\u0120\ud83d\ude00" , "\\\\" ] ] `: {`Ġ😀\\`},
		`[]`: {},
	} {
		if got, ok := mergedPieces([]byte(merges)); !ok || !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", merges, got, want)
		}
	}
	for _, merges := range []string{`{}`, `7`, `"a b"`, `[["a", 7]]`, `[[[["a"], "b"]]]`, `[7, "a b"]`} {
		if got, ok := mergedPieces([]byte(merges)); ok {
			t.Errorf("%s: %q", merges, got)
		}
	}
}
