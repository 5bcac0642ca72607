package eval

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestGrammar checks that expansion always ends well: each rule that is named
// exists, has alternatives, is used, and never leads back to itself.
func TestGrammar(t *testing.T) {
	used := map[string]bool{}
	var visit func(rule string, path []string)
	visit = func(rule string, path []string) {
		for _, above := range path {
			if above == rule {
				t.Fatalf("rule %s leads back to itself: %v", rule, path)
			}
		}
		if len(grammar[rule]) == 0 {
			t.Fatalf("%v names %q, which has no alternatives", path, rule)
		}
		if used[rule] {
			return
		}
		for _, choice := range grammar[rule] {
			os.Expand(choice, func(name string) string { visit(name, append(path, rule)); return "" })
		}
		used[rule] = true
	}
	visit("opening", nil)
	visit("following", nil)
	for rule, choices := range grammar {
		if !used[rule] {
			t.Errorf("rule %s is never used", rule)
		}
		seen := map[string]bool{}
		for _, choice := range choices {
			// "who" and "where" weigh their alternatives by repeating them.
			if seen[choice] && !strings.HasPrefix(choice, "$") && !strings.HasPrefix(choice, "the $") && !strings.HasPrefix(choice, "a $") {
				t.Errorf("rule %s has %q twice", rule, choice)
			}
			seen[choice] = true
		}
	}
}

func TestProse(t *testing.T) {
	wrong := regexp.MustCompile(`\b[Aa] [aeiou]|  |\$|[0-9]|-|(?i:access|code|question)|^[^A-Z]|[^.]$`)
	p := newProse(AccessCodes{Seed: 11}.stream("prose", 0))
	p.grow(5000)
	repeats := 0
	seen := map[string]bool{}
	for _, s := range p.sentences {
		if found := wrong.FindString(s.text); found != "" {
			t.Errorf("%q in %q", found, s.text)
		}
		if seen[s.text] {
			repeats++
		}
		seen[s.text] = true
	}
	if repeats > 5 {
		t.Errorf("%d of %d sentences are repeats", repeats, len(p.sentences))
	}
	for _, n := range []int{0, 1, 2, 17, 100} {
		text := strings.Join(p.paragraphs(n), "\n")
		if got := len(text); n > 0 && got+1 != p.bytes(n) {
			t.Errorf("%d sentences have %d bytes, bytes says %d", n, got+1, p.bytes(n))
		}
		if got := strings.Count(text, "."); got != n {
			t.Errorf("%d sentences in the paragraphs, want %d", got, n)
		}
	}
}

func TestKeyWords(t *testing.T) {
	word := regexp.MustCompile(`^[a-z]{3,10}$`)
	seen := map[string]bool{}
	for _, w := range strings.Fields(keyWords) {
		if !word.MatchString(w) || seen[w] {
			t.Errorf("key word %q is no plain word or there twice", w)
		}
		seen[w] = true
	}
}
