package tokenizer

import (
	"strings"
	"testing"
)

// A long run of white space would end the program inside the library.
func TestEncodeLongSpace(t *testing.T) {
	for _, dir := range tokenizersUnderTest {
		tok := open(t, dir)
		if _, err := tok.Encode("ab"+strings.Repeat(" ", 11_000_000)+"c", EncodeOptions{}); err == nil || !strings.Contains(err.Error(), "from byte 2 ") {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for text, want := range map[string]int{
		"é" + strings.Repeat("\u2003", maxSpace/3+1):                   2,
		strings.Repeat(" ", maxSpace):                                  -1,
		strings.Repeat(" ", maxSpace) + "x\n":                          -1,
		strings.Repeat("\u00a0", maxSpace/2) + "\t":                    0,
		strings.Repeat(" ", maxSpace) + "é" + strings.Repeat("\n", 99): -1,
	} {
		if got := longSpace(text); got != want {
			t.Errorf("%d bytes: %d, want %d", len(text), got, want)
		}
	}
}
