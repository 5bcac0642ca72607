package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"blitzen/internal/golden"

	"pgregory.net/rapid"
)

// edited is the folder of a tokenizer.json after edit has changed it.
func edited(t testing.TB, edit func(doc map[string]any)) string {
	t.Helper()
	var doc map[string]any
	unmarshal(t, []byte(read(t, "../models/needle-qwen2/tokenizer.json")), &doc)
	edit(doc)
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return folder(t, map[string]string{"tokenizer.json": string(data)})
}

func TestEncodeRefusesInvalidUTF8(t *testing.T) {
	tok := open(t, "../models/needle-qwen2")
	for text, want := range map[string]string{
		"ab\xffc":          "byte 2 is 0xff",
		"\xe4\xb8":         "byte 0 is 0xe4",
		"ok \ufffd\xc0":    "byte 6 is 0xc0", // a real U+FFFD is text
		"\xed\xa0\x80":     "byte 0 is 0xed", // a surrogate
		"a\x00b\xf8\x00\n": "byte 3 is 0xf8",
	} {
		if ids, err := tok.Encode(text, EncodeOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want an error with %q", text, ids, err, want)
		}
	}
	if _, err := tok.EncodeChat([]Message{{Role: "user", Content: "a"}, {Role: "user", Content: "b\xff"}}, ChatOptions{}); err == nil ||
		!strings.Contains(err.Error(), "message 1: content is not UTF-8: byte 1") {
		t.Errorf("chat: %v", err)
	}
}

// Training scripts leave a length in the file; no text is cut or filled.
func TestLengthInFileIsIgnored(t *testing.T) {
	tok := open(t, edited(t, func(doc map[string]any) {
		doc["truncation"] = map[string]any{"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
		doc["padding"] = map[string]any{"strategy": map[string]any{"Fixed": 64}, "direction": "Right", "pad_to_multiple_of": nil,
			"pad_id": 0, "pad_type_id": 0, "pad_token": "!"}
	}))
	text := strings.Repeat("one two ", 20)
	ids, err := tok.Encode(text, EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := tok.Decode(ids, false); got != text {
		t.Errorf("%q", got)
	}
}

func TestOpenErrors(t *testing.T) {
	qwen := "../models/needle-qwen2/tokenizer.json"
	set := func(key string, value any) string {
		return edited(t, func(doc map[string]any) { doc[key] = value })
	}
	for name, c := range map[string]struct{ dir, want string }{
		"no folder":       {filepath.Join(t.TempDir(), "none"), "tokenizer.json"},
		"not JSON":        {folder(t, map[string]string{"tokenizer.json": "{"}), "unexpected end"},
		"lfs pointer":     {folder(t, map[string]string{"tokenizer.json": "version https://git-lfs.github.com/spec/v1\n"}), "git lfs pull"},
		"pre-tokenizer":   {set("pre_tokenizer", map[string]any{"type": "FancySplit"}), `unknown pre_tokenizer type "FancySplit"`},
		"within sequence": {set("pre_tokenizer", map[string]any{"type": "Sequence", "pretokenizers": []any{map[string]any{"type": "Odd"}}}), `"Odd"`},
		"no byte level":   {set("pre_tokenizer", map[string]any{"type": "Whitespace"}), "ByteLevel"},
		"normalizer":      {set("normalizer", map[string]any{"type": "Fold"}), `unknown normalizer type "Fold"`},
		"decoder":         {set("decoder", map[string]any{"type": "Metaspace"}), `unknown decoder type "Metaspace"`},
		"no decoder":      {set("decoder", nil), "decoder is missing"},
		"model":           {edited(t, func(doc map[string]any) { doc["model"].(map[string]any)["type"] = "Unigram" }), `"Unigram"`},
		"bytes of bytes": {set("pre_tokenizer", map[string]any{"type": "Sequence", "pretokenizers": []any{map[string]any{"type": "ByteLevel"}, map[string]any{"type": "ByteLevel"}}}),
			"3 normalizers and pre_tokenizers, 2 of them ByteLevel"},
		"steps": {set("pre_tokenizer", map[string]any{"type": "Sequence", "pretokenizers": slices.Repeat([]any{map[string]any{"type": "ByteLevel"}, map[string]any{"type": "Digits"}}, 10)}),
			"at most 16 and one are supported"},
		"added tokens": {edited(t, func(doc map[string]any) {
			doc["added_tokens"] = slices.Repeat(doc["added_tokens"].([]any), maxAdded)
		}), "added tokens: at most 16384 are supported"},
		"dropout":      {edited(t, func(doc map[string]any) { doc["model"].(map[string]any)["dropout"] = 0.1 }), "dropout"},
		"missing byte": {edited(t, func(doc map[string]any) { delete(doc["model"].(map[string]any)["vocab"].(map[string]any), "ħ") }), "byte 85"},
		"huge id":      {edited(t, func(doc map[string]any) { doc["model"].(map[string]any)["vocab"].(map[string]any)["zz"] = 1 << 30 }), "1073741824"},
		"added id":     {edited(t, func(doc map[string]any) { doc["added_tokens"].([]any)[0].(map[string]any)["id"] = 4099 }), "<|endoftext|>"},
		"merges":       {edited(t, func(doc map[string]any) { doc["model"].(map[string]any)["merges"] = []any{"nope nope"} }), "tokenizer.json"},
		"unknown eos": {folder(t, map[string]string{"tokenizer.json": read(t, qwen),
			"tokenizer_config.json": `{"eos_token": "<nope>"}`}), `eos_token: "<nope>"`},
		"bos to add": {folder(t, map[string]string{"tokenizer.json": read(t, qwen),
			"tokenizer_config.json": `{"add_bos_token": true, "bos_token": null}`}), "add_bos_token"},
		"token kind": {folder(t, map[string]string{"tokenizer.json": read(t, qwen),
			"tokenizer_config.json": `{"eos_token": [1]}`}), "eos_token"},
	} {
		tok, err := Open(c.dir)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, c.want)
		}
		if tok != nil {
			t.Errorf("%s: a tokenizer beside an error", name)
		}
	}
}

// add_bos_token and add_eos_token decide over the post-processor; without them it decides.
func TestAddSpecial(t *testing.T) {
	dsv2 := read(t, "../models/needle-dsv2/tokenizer.json")
	bos, eos := int32(4094), int32(4095)
	hi := []int32{325, 72}
	for config, want := range map[string][]int32{
		`{}`:                       append([]int32{bos}, hi...),
		`{"add_bos_token": false}`: hi,
		`{"add_bos_token": true, "bos_token": "<｜begin▁of▁sentence｜>"}`: append([]int32{bos}, hi...),
		`{"add_bos_token": true, "add_eos_token": true, "bos_token": {"content": "<｜begin▁of▁sentence｜>"},
		  "eos_token": "<｜end▁of▁sentence｜>"}`: {bos, hi[0], hi[1], eos},
	} {
		tok := open(t, folder(t, map[string]string{"tokenizer.json": dsv2, "tokenizer_config.json": config}))
		if got, err := tok.Encode(" hi", EncodeOptions{AddSpecial: true}); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", config, got, err, want)
		}
		if got, err := tok.Encode(" hi", EncodeOptions{}); err != nil || !slices.Equal(got, hi) {
			t.Errorf("%s: not asked: %v, %v, want %v", config, got, err, hi)
		}
	}
	tok := open(t, folder(t, map[string]string{"tokenizer.json": dsv2,
		"special_tokens_map.json": `{"bos_token": "<｜begin▁of▁sentence｜>", "eos_token": {"content": "<｜end▁of▁sentence｜>"}}`,
		"tokenizer_config.json":   `{"bos_token": null}`}))
	if id, ok := tok.EOS(); id != eos || !ok {
		t.Errorf("EOS of special_tokens_map.json: %d, %v", id, ok)
	}
	if _, ok := tok.BOS(); ok {
		t.Error("a null bos_token is none, whatever special_tokens_map.json says")
	}
}

func TestLookUp(t *testing.T) {
	tok := open(t, "../models/needle-qwen2")
	if n := tok.VocabSize(); n != 4096 {
		t.Errorf("VocabSize %d", n)
	}
	if id, ok := tok.EOS(); id != 4095 || !ok || !tok.IsSpecial(id) {
		t.Errorf("EOS %d, %v", id, ok)
	}
	if _, ok := tok.BOS(); ok {
		t.Error("BOS of a tokenizer without one")
	}
	for id := range int32(tok.VocabSize()) {
		piece, ok := tok.Piece(id)
		back, found := tok.IDOf(piece)
		if !ok || !found || back != id || tok.IsSpecial(id) != (id >= 4093) {
			t.Errorf("id %d: piece %q, %v, back %d, %v, special %v", id, piece, ok, back, found, tok.IsSpecial(id))
		}
	}
	if text, ok := tok.Bytes(220); string(text) != " " || !ok {
		t.Errorf("bytes of Ġ: %q, %v", text, ok)
	}
	for _, id := range []int32{-1, 4096} {
		_, a := tok.Piece(id)
		_, b := tok.Bytes(id)
		if _, err := tok.Decode([]int32{0, id}, false); a || b || tok.IsSpecial(id) || err == nil || !strings.Contains(err.Error(), "position 1") {
			t.Errorf("id %d exists: %v", id, err)
		}
	}
	if _, ok := tok.IDOf("no such piece"); ok {
		t.Error("a piece that is none")
	}
}

// DeepSeek-V2 has ø, the letter of byte F8, as an added token: its text is ø, not that byte.
func TestAddedLetter(t *testing.T) {
	tok := open(t, edited(t, func(doc map[string]any) {
		vocab := doc["model"].(map[string]any)["vocab"].(map[string]any)
		vocab["another"] = vocab["ø"]
		delete(vocab, "ø")
		doc["added_tokens"] = append(doc["added_tokens"].([]any), map[string]any{"id": 4096, "content": "ø",
			"single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false})
	}))
	ids, err := tok.Encode("smørrebrød", EncodeOptions{})
	if err != nil || !slices.Contains(ids, 4096) {
		t.Fatalf("%v, %v", ids, err)
	}
	if got, err := tok.Decode(ids, true); got != "smørrebrød" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := open(t, "../models/needle-qwen2")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, text := range []string{"plain", "a\x00b", "<|im_end|>"} {
				for _, o := range []EncodeOptions{{}, {ControlAsText: true}} {
					ids, err := tok.Encode(text, o)
					if back, _ := tok.Decode(ids, false); err != nil || back != text {
						t.Errorf("%q: %q, %v", text, back, err)
					}
				}
			}
		})
	}
	group.Wait()
}

// Encoding and decoding give back any text that the normalizer leaves alone.
func FuzzEncode(f *testing.F) {
	for _, data := range golden.Files(f, "../testdata/tokenizers/templates/*.jinja") {
		f.Add(string(data))
	}
	for _, seed := range []string{"", "a\x00\x01b", "<|im_end|><|im_start|>", "naïve 12345 \r\n\t  x", "日本語 🙂\u200d", "\xff", "'S'LL"} {
		f.Add(seed)
	}
	tok := open(f, "../testdata/tokenizers/deepseek-mini") // no normalizer
	f.Fuzz(func(t *testing.T, text string) {
		for _, o := range []EncodeOptions{{}, {ControlAsText: true}} {
			ids, err := tok.Encode(text, o)
			if at := invalidUTF8(text); (at >= 0) != (err != nil) && !strings.Contains(text, "\x00") {
				t.Fatalf("invalid at %d, error %v", at, err)
			}
			if err != nil {
				continue
			}
			if back, err := tok.Decode(ids, false); back != text || err != nil {
				t.Fatalf("%v: %q came back as %q, %v", ids, text, back, err)
			}
		}
	})
}

// Encoding with marks and without gives the same ids for any text of the template's own, so that control.go finds
// special tokens as the library does.
func TestMarkedEncodingAsLibrary(t *testing.T) {
	for _, dir := range tokenizersUnderTest {
		tok := open(t, dir)
		parts := []string{"a", " b", "\n", "<", "|", "<|", "｜>", "end", "\u0338", "1", " ", "User: ", "é"}
		for _, c := range tok.vocab.control {
			parts = append(parts, c.Content, c.Content[:len(c.Content)-1], c.Content[1:])
		}
		rapid.Check(t, func(t *rapid.T) {
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 12).Draw(t, "parts"), "")
			text = strings.ToValidUTF8(text, "")
			want, err := tok.Encode(text, EncodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := tok.encodeMarked(text)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("%q: %v, %v, want %v", text, got, err, want)
			}
		})
	}
}

// Ids that post_processor adds are of the vocabulary, where it adds any: tokenizer_config.json can decide in its place.
func TestAddedIDs(t *testing.T) {
	template := func(id int64) string {
		return edited(t, func(doc map[string]any) {
			doc["post_processor"] = map[string]any{
				"type":   "TemplateProcessing",
				"single": []any{map[string]any{"SpecialToken": map[string]any{"id": "<x>", "type_id": 0}}, map[string]any{"Sequence": map[string]any{"id": "A", "type_id": 0}}},
				"pair":   []any{}, "special_tokens": map[string]any{"<x>": map[string]any{"id": "<x>", "ids": []any{4093, id}, "tokens": []any{"<x>", "<x>"}}},
			}
		})
	}
	roberta := edited(t, func(doc map[string]any) {
		doc["post_processor"] = map[string]any{"type": "RobertaProcessing", "cls": []any{"<s>", 4094}, "sep": []any{"</s>", 4096}, "trim_offsets": true, "add_prefix_space": false}
	})
	decided := template(4096)
	if err := os.WriteFile(decided+"/tokenizer_config.json", []byte(`{"add_bos_token": false}`), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ dir, want string }{
		{template(4095), ""},
		{template(4096), "post_processor adds a token with the id 4096"},
		{template(99999999), "post_processor adds a token with the id 99999999"},
		{template(1<<32 - 1), "post_processor adds a token with the id 4294967295"},
		{roberta, "post_processor adds a token with the id 4096"},
		{decided, ""},
	} {
		tok, err := Open(c.dir)
		if err == nil {
			err = tok.Close()
		}
		want := c.dir + "/tokenizer.json: " + c.want + ", which the vocabulary lacks: download the file again"
		if c.want == "" && err != nil || c.want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
