package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"blitzen/internal/golden"
)

// NUL takes part in merges as any other byte.
func TestNUL(t *testing.T) {
	tok := open(t, edited(t, func(doc map[string]any) {
		model := doc["model"].(map[string]any)
		vocab := model["vocab"].(map[string]any)
		for _, token := range doc["added_tokens"].([]any) { // the library numbers those that the model lacks anew
			added := token.(map[string]any)
			vocab[added["content"].(string)] = added["id"]
		}
		vocab["ĀĀ"], vocab["Āa"], vocab["āb"] = 4096, 4097, 4098
		model["merges"] = append(model["merges"].([]any), []any{"Ā", "Ā"}, []any{"Ā", "a"}, []any{"ā", "b"})
	}))
	id := func(piece string) int32 {
		id, ok := tok.IDOf(piece)
		if !ok {
			t.Fatalf("no piece %q", piece)
		}
		return id
	}
	for text, want := range map[string][]int32{
		"\x00":             {id("Ā")},
		"\x00\x00":         {4096},
		"\x00a":            {4097},
		"\x01b":            {4098},
		"\x01\x00\x00\x02": {id("ā"), 4096, id("Ă")},
		"\x01b\x00a":       {4098, 4097},
	} {
		for _, o := range []EncodeOptions{{}, {ControlAsText: true}} {
			got, err := tok.Encode(text, o)
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q: %v, %v, want %v", text, got, err, want)
			}
			if back, err := tok.Decode(got, false); back != text || err != nil {
				t.Errorf("%q comes back as %q, %v", text, back, err)
			}
		}
	}
	if _, err := tok.Encode("\x00"+candidates, EncodeOptions{}); err == nil || !strings.Contains(err.Error(), "NUL at byte 0") {
		t.Errorf("no free character: %v", err)
	}
	if ids, err := tok.Encode("\x00<|im_end|>", EncodeOptions{}); err != nil || !slices.Equal(ids, []int32{id("Ā"), 4095}) {
		t.Errorf("NUL and a special token: %v, %v", ids, err)
	}
}

func TestNULAsReference(t *testing.T) {
	var want []struct {
		Folder, Text string
		IDs          []int32
	}
	golden.JSON(t, "testdata/nul.json", &want)
	toks := map[string]*Tokenizer{}
	for _, w := range want {
		if toks[w.Folder] == nil {
			toks[w.Folder] = open(t, w.Folder)
		}
		if got, err := toks[w.Folder].Encode(w.Text, EncodeOptions{}); err != nil || !slices.Equal(got, w.IDs) {
			t.Errorf("%s: %q: %v, %v, want %v", w.Folder, w.Text, got, err, w.IDs)
		}
	}
}

func TestNULRefused(t *testing.T) {
	split := func(pattern string) func(map[string]any) {
		return func(doc map[string]any) {
			doc["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[0].(map[string]any)["pattern"] = map[string]any{"Regex": pattern}
		}
	}
	for name, c := range map[string]struct {
		edit func(map[string]any)
		want string
	}{
		"escape":     {split(`[\x00-\x05]`), "name control characters"},
		"itself":     {split("\x01+"), "name control characters"},
		"normalizer": {func(doc map[string]any) { doc["normalizer"] = map[string]any{"type": "Nmt"} }, `"Nmt"`},
		"added": {func(doc map[string]any) {
			added := doc["added_tokens"].([]any)
			added[0].(map[string]any)["content"] = "a\x01"
		}, "added token"},
		"after the byte level": {func(doc map[string]any) {
			pre := doc["pre_tokenizer"].(map[string]any)
			pre["pretokenizers"] = append(pre["pretokenizers"].([]any), map[string]any{"type": "WhitespaceSplit"})
		}, "WhitespaceSplit"},
	} {
		tok := open(t, edited(t, c.edit))
		_, err := tok.Encode("ab\x00", EncodeOptions{})
		if err == nil || !strings.Contains(err.Error(), "NUL at byte 2") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
		if _, err := tok.Encode("ab", EncodeOptions{}); err != nil {
			t.Errorf("%s: without NUL: %v", name, err)
		}
	}
}

// A NUL where the library would repeat it in an error, which ends the program, is refused with its place; elsewhere it is
// text like any other.
func TestNULInFile(t *testing.T) {
	for field, edit := range map[string]func(map[string]any){
		"model.merges": func(doc map[string]any) {
			model := doc["model"].(map[string]any)
			model["merges"] = append(model["merges"].([]any), []any{"\x00", "a"})
		},
		"pre_tokenizer.pretokenizers.behavior": func(doc map[string]any) {
			doc["pre_tokenizer"].(map[string]any)["pretokenizers"].([]any)[0].(map[string]any)["behavior"] = "\x00"
		},
		"the name of a field of normalizer": func(doc map[string]any) { doc["normalizer"] = map[string]any{"type": "NFC", "\x00": 1} },
		"version":                           func(doc map[string]any) { doc["version"] = "1.0\x00" },
	} {
		tok, err := Open(edited(t, edit))
		if err == nil {
			_ = tok.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "/tokenizer.json: "+field+" has a NUL in it") {
			t.Errorf("%s: %v", field, err)
		}
	}
	open(t, edited(t, func(doc map[string]any) {
		doc["normalizer"] = map[string]any{"type": "Replace", "pattern": map[string]any{"String": "\x00"}, "content": "\x00"}
	}))
}
