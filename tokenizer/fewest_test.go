package tokenizer

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// No text has fewer tokens than its length tells, whatever NFC makes of it.
func TestFewest(t *testing.T) {
	for _, dir := range tokenizersUnderTest {
		tok := open(t, dir)
		parts := []string{" ", "a", "ᄒ", "ᅡ", "ᆫ", "α\u0313\u0300\u0345", "e\u0301", "é", "\n", "0", "<|im_end|>", tok.vocab.texts[len(tok.vocab.texts)/2]}
		rapid.Check(t, func(t *rapid.T) {
			text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 200).Draw(t, "parts"), "")
			ids, err := tok.Encode(text, EncodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if least, why := tok.Fewest(text); least > len(ids) {
				t.Fatalf("%q has %d tokens, not at least %d (%s)", text, len(ids), least, why)
			}
		})
		if least, why := tok.Fewest(strings.Repeat("a", 1<<20)); least < 1<<20/300 || !strings.HasPrefix(why, "1048576 bytes, of which") {
			t.Errorf("%s: at least %d tokens (%s)", dir, least, why)
		}
	}
}

func TestTextTooLong(t *testing.T) {
	tok := open(t, "../models/needle-qwen2")
	if _, err := tok.Encode(strings.Repeat("a", maxText+1), EncodeOptions{}); err == nil || !strings.Contains(err.Error(), "67108865 bytes") {
		t.Error(err)
	}
}
