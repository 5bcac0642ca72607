package tokenizer

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The table of bytes says the same as the library, which decodes everything but NUL.
func TestDecodeAsLibrary(t *testing.T) {
	for _, dir := range tokenizersUnderTest {
		tok := open(t, dir)
		lib, err := tok.instance(mode{})
		if err != nil {
			t.Fatal(err)
		}
		nul, _ := tok.IDOf("Ā")
		id := rapid.Int32Range(0, int32(tok.VocabSize()-1)).Filter(func(id int32) bool { return id != nul })
		letter := rapid.Int32Range(94, 255).Filter(func(id int32) bool { return id != nul }) // pieces of one byte, most above 7F
		rapid.Check(t, func(t *rapid.T) {
			ids := rapid.SliceOf(rapid.OneOf(id, letter)).Draw(t, "ids")
			skip := rapid.Bool().Draw(t, "skip")
			raw := make([]uint32, len(ids))
			for i, id := range ids {
				raw[i] = uint32(id)
			}
			got, err := tok.Decode(ids, skip)
			if want := lib.Decode(raw, skip); got != want || err != nil {
				t.Fatalf("Decode(%v) = %+q, %v, want %+q", ids, got, err, want)
			}
		})
	}
}

// Chunks are whole characters and add up to Decode of all the ids, also when the stream is used again.
func FuzzStreamDecode(f *testing.F) {
	f.Add([]byte("\x00\x10\x01\x02"), true)
	f.Add([]byte{0, 160, 0, 116, 0, 244, 15, 255, 0, 172, 0, 253, 0, 247}, false)
	tok := open(f, "../models/needle-qwen2")
	f.Fuzz(func(t *testing.T, data []byte, skip bool) {
		var ids []int32
		for ; len(data) > 1; data = data[2:] {
			ids = append(ids, (int32(data[0])<<8|int32(data[1]))%int32(tok.VocabSize()))
		}
		stream := tok.NewStream(skip)
		for range 2 {
			var text strings.Builder
			for _, id := range ids {
				chunk, err := stream.Next(id)
				if err != nil || !utf8.ValidString(chunk) {
					t.Fatalf("%v: chunk %q, %v", ids, chunk, err)
				}
				text.WriteString(chunk)
			}
			text.WriteString(stream.Flush())
			if all, err := tok.Decode(ids, skip); text.String() != all || err != nil {
				t.Fatalf("%v: %q, want %q, %v", ids, text.String(), all, err)
			}
			if rest := stream.Flush(); rest != "" {
				t.Fatalf("a second Flush gives %q", rest)
			}
		}
	})
}

// One U+FFFD for each maximal invalid part: the table in section 3.9 of the Unicode Standard, and a character cut short.
func TestReplacement(t *testing.T) {
	tok := open(t, "../models/needle-qwen2")
	for bytes, want := range map[string]string{
		"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41":     strings.Repeat("\uFFFD", 8) + "A",
		"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41":     strings.Repeat("\uFFFD", 8) + "A",
		"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42":     strings.Repeat("\uFFFD", 5) + "A\uFFFD\uFFFDB",
		"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41":     "\uFFFD\uFFFD\uFFFD\uFFFDA",
		"\xE4\xB8":                                 "\uFFFD",
		"\xE4\xB8\xE4\xB8\x96\xF0\x9F\x99\x82\xF0": "\uFFFD世🙂\uFFFD",
	} {
		var ids []int32
		for _, b := range []byte(bytes) {
			id := slices.Index(tok.vocab.texts, string([]byte{b}))
			if id < 0 {
				t.Fatalf("no token for byte %02X", b)
			}
			ids = append(ids, int32(id))
		}
		if got, err := tok.Decode(ids, false); got != want || err != nil {
			t.Errorf("% X: %+q, %v, want %+q", bytes, got, err, want)
		}
	}
}

// Logits are often wider than the vocabulary; a model that draws such an id
// must not end the answer.
func TestStreamBeyondVocabulary(t *testing.T) {
	s := open(t, "../models/needle-qwen2").NewStream(true)
	for _, id := range []int32{4096, 1 << 30} {
		if text, err := s.Next(id); text != "" || err != nil {
			t.Errorf("id %d: %q, %v", id, text, err)
		}
	}
	if _, err := s.Next(-1); err == nil {
		t.Error("id -1 has text")
	}
}
