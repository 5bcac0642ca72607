package tokenizer

import (
	"strings"
	"testing"
)

// Over each of these the library ends the program, on reading the file or on the first text.
func TestWhatEndsTheLibrary(t *testing.T) {
	whole := read(t, "../models/needle-qwen2/tokenizer.json")
	const nfc = `"normalizer": {`
	put := func(before, text string) string { return strings.Replace(whole, before, text, 1) }
	decoder := func(field string) string { return put(`"decoder": {`, `"decoder": {`+field+`, `) }
	normalizer := func(value string) string { return put(nfc, `"normalizer": `+value+`, "once": {`) }
	post := func(value string) string { return put(`"post_processor": {`, `"post_processor": `+value+`, "once": {`) }
	single := func(pieces string) string {
		return `{"type": "TemplateProcessing", "single": [` + pieces + `], "pair": [], "special_tokens": {}}`
	}
	const a, b = `{"Sequence": {"id": "A", "type_id": 0}}`, `{"Sequence": {"id": "B", "type_id": 0}}`
	const c = `{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}`
	for _, file := range []struct{ text, want string }{
		{decoder(`"x": 1e400`), `decoder has "1e400" where a text, true or false is expected`},
		{decoder(`"trim_offsets": -1e400`), `decoder has "-1e400" where`},
		{decoder(`"x": ` + strings.Repeat("9", 400)), `decoder has "999`},
		{decoder(`"x": ` + strings.Repeat("[", 200) + strings.Repeat("]", 200)), `decoder has "[" where`},
		{decoder(`"x": ` + strings.Repeat(`{"x": `, 200) + `true` + strings.Repeat("}", 200)), `decoder has "{" where`},
		{decoder(`"x": null`), `decoder has "null" where`},
		{decoder("\"x\": \"\xff\""), "decoder is not UTF-8"},
		{decoder("\"\xff\": true"), "decoder is not UTF-8"},
		{decoder(`"x": "\ud83d"`), "decoder has half a character"},
		{put(`"decoder": {`, `"decoder": {"x": 1e400}, "decoder": {`), `the field "decoder" comes twice`},
		{put(`"decoder": {`, `"decoder": {"x": 1e400}, "Decoder": {`), `the field "decoder" comes twice`},
		{put(`"model": {`, `"model": {"vocab": {}}, "model": {`), `the field "model" comes twice`},
		{normalizer(`{"type": "Precompiled", "precompiled_charsmap": "AAAA"}`), `unknown normalizer type "Precompiled"`},
		{normalizer(`{"type": "Prepend", "prepend": ""}`), "normalizer Prepend has nothing to prepend"},
		{normalizer(`{"type": "Replace", "pattern": {"String": ""}, "content": "x"}`), "normalizer Replace has nothing to replace"},
		{normalizer(`{"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"Regex": "a*"}, "content": "x"}]}`), `normalizer Replace: the pattern "a*" matches an empty text`},
		{post(single(b)), `post_processor TemplateProcessing places the texts "B" in single, expected A, once`},
		{post(single("")), `post_processor TemplateProcessing places the texts "" in single`},
		{post(single(a + ", " + a)), `post_processor TemplateProcessing places the texts "AA" in single`},
		{post(`{"type": "Sequence", "processors": [` + single(a+", "+b) + `]}`), `post_processor TemplateProcessing places the texts "AB" in single`},
		{post(single(c + ", " + a)), `post_processor TemplateProcessing places the token "<|im_start|>" in single, and special_tokens has no such token`},
		{post(`{"type": "Sequence", "processors": [` + single(a+", "+c) + `]}`), `post_processor TemplateProcessing places the token "<|im_start|>"`},
		{post(strings.Replace(single(c+", "+a), `"TemplateProcessing"`, `"x"`, 1)), `post_processor TemplateProcessing places the token`},
		{post(strings.Replace(single(c+", "+a), `"single"`, `"Single": [], "single"`, 1)), `post_processor TemplateProcessing places the token`},
		{post(`{"single": [` + c + `, ` + a + `], "Single": [` + a + `], "pair": [], "special_tokens": {}}`), `post_processor TemplateProcessing places the token`},
		{post(`[[` + c + `, ` + a + `], [], {}]`), `post_processor is not an object`},
		{post(`{"type": "Sequence", "processors": [[[` + c + `, ` + a + `], [], {}]]}`), `post_processor is not an object`},
		{post(single(`{"Sequence": ["A", 0]}, {"SpecialToken": ["<|im_start|>", 0]}`)), `post_processor TemplateProcessing has a part of the wrong form`},
		{post(strings.Replace(single(a), "{}", "[]", 1)), `post_processor TemplateProcessing has a part of the wrong form`},
	} {
		tok, err := Open(folder(t, map[string]string{"tokenizer.json": file.text}))
		if err == nil {
			_, err = tok.Encode("text", EncodeOptions{})
			_ = tok.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "/tokenizer.json: "+file.want) {
			t.Errorf("want an error with %q, have %v", file.want, err)
		}
	}
}

func TestEmptyMatches(t *testing.T) {
	for pattern, want := range map[string]bool{
		"a": false, " +": false, `\s{2,}`: false, "(a|b)c?": false, "[a-c]": false, "x*y": false, ".": false, "a{1}": false,
		"": true, "a*": true, "a?": true, "^": true, `\b`: true, "$": true, "(a|b*)": true, "a|": true, "a{0,2}": true, "(a?){3}": true,
		"a{,2}": true, "(?=a)": true, `\K`: true, "(": true,
	} {
		if got := mayBeEmpty(pattern); got != want {
			t.Errorf("%q: %v, want %v", pattern, got, want)
		}
	}
}
