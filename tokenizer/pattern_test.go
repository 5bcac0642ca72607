package tokenizer

import (
	"encoding/json"
	"strings"
	"testing"
)

// Patterns as published repeat no choice; those that take time without end do.
func TestRepeatsChoice(t *testing.T) {
	for _, pattern := range []string{
		`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`, // Qwen2
		`\s?[!-/:-~！-／：-～‘-‟　-。]+`, `[一-龥ࠀ-一가-퟿]+`, `\s+$`, `[` + "\r\n" + `]`, // DeepSeek-V2
		`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`,                                                            // cl100k
		`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`, // o200k
		` ?[^(\s|[.,!?…。，、।۔،])]+`, // BLOOM
		``, `(`, `)+`, `a)*`, `[(a+)+]`, `[[](a+)]`, `\(a+\)+`, `(a+)`, `(ab)+`, `(a+){`, `(a+)\*`, `(?:[a-z])*`, `[`, `\`, `{`, `(a+)?`, `(a+)?+`, `(a+)??`, `(a+)b*`,
	} {
		if repeatsChoice(pattern) {
			t.Errorf("%q is refused", pattern)
		}
	}
	for _, pattern := range []string{
		`(a+)+`, `(a+)+$|b`, `x(?:a*)*y`, `(a|aa)+`, `(?:aa?)+`, `((a+))+`, `((a+)b)*`, `(a+){2,}`, `(a+){9}`, `(a+)?{9}`, `[)]([(]+)+`, `\\(a+)+`,
		`(?#[)(a+)+`, `(?x)(a+) +`, `(?ix:#[` + "\n" + `(a+) +)`, `(?<n>a+)\g<n>+`, `[[:alpha:]](a+)+`,
	} {
		if !repeatsChoice(pattern) {
			t.Errorf("%q is taken", pattern)
		}
	}
}

// A pattern is looked at wherever it stands.
func TestPatternsRefused(t *testing.T) {
	for _, part := range []string{
		`{"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated"}`,
		`{"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Split", "pattern": {"Regex": "(a+)+$"}}]}`,
		`{"type": "Sequence", "normalizers": [{"type": "Sequence", "normalizers": [{"type": "Replace", "pattern": {"Regex": "(a+)+$"}, "content": ""}]}]}`,
	} {
		err := checkPatterns(json.RawMessage(part), "pre_tokenizer")
		if err == nil || !strings.Contains(err.Error(), `pre_tokenizer: the pattern "(a+)+$" repeats a choice`) {
			t.Errorf("%s: %v", part, err)
		}
	}
	if err := checkPatterns(json.RawMessage(`{"type": "Split", "pattern": {"String": "(a+)+$"}}`), "pre_tokenizer"); err != nil {
		t.Error(err)
	}
}

func FuzzRepeatsChoice(f *testing.F) {
	f.Add(`(?i:'s|'t)|[^\r\n\p{L}]?\p{L}+|\s+(?!\S)`)
	f.Add(`(a+){2,}[`)
	f.Fuzz(func(_ *testing.T, pattern string) { repeatsChoice(pattern) })
}
