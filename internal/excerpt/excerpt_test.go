package excerpt

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		strings.Repeat("x", 200):       strings.Repeat("x", 200),
		strings.Repeat("x", 201):       strings.Repeat("x", 200) + "…",
		"a" + strings.Repeat("é", 150): "a" + strings.Repeat("é", 99) + "…",
	} {
		if got := Of(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Quoted("a\n\x1b\""); got != `"a\n\x1b\""` {
		t.Errorf("quoted as %s", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		if got := Of(text); len(got) > Most+len("…") || !utf8.ValidString(got) || !strings.HasPrefix(text, strings.TrimSuffix(got, "…")) {
			t.Errorf("excerpt %q", got)
		}
	})
}
