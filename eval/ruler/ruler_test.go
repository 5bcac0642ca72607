package ruler

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"blitzen/tokenizer"
)

// example is a row that the original scripts made (seed 42, the tokenizer of
// models/needle-qwen2).
type example struct {
	Task         string
	Tokens       int `json:"max_seq_length"`
	Index        int
	Input        string
	Outputs      []string
	Length       int
	AnswerPrefix string `json:"answer_prefix"`
}

func examples(t *testing.T) []example {
	t.Helper()
	data, err := os.ReadFile("../../testdata/ruler/examples.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []example
	for line := range strings.Lines(string(data)) {
		var e example
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

func counter(t testing.TB) func(string) (int, error) {
	t.Helper()
	tok, err := tokenizer.Open("../../models/needle-qwen2")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tok.Close() })
	return func(text string) (int, error) {
		ids, err := tok.Encode(text, tokenizer.EncodeOptions{})
		return len(ids), err
	}
}

// The original's rows, byte for byte.
func TestExamples(t *testing.T) {
	count := counter(t)
	made := map[string]*Rows{}
	all := examples(t)
	for _, want := range all {
		if made[want.Task] == nil {
			rows, err := New(want.Task, Options{Tokens: want.Tokens, Seed: 42, Count: count})
			if err != nil {
				t.Fatal(err)
			}
			made[want.Task] = rows
		}
		got, err := made[want.Task].Row(want.Index)
		if err != nil {
			t.Fatal(err)
		}
		if got.Input != want.Input || got.AnswerPrefix != want.AnswerPrefix || !slices.Equal(got.Outputs, want.Outputs) || got.Length != want.Length {
			t.Errorf("%s row %d:\n%q\n%q %q %d\nwant\n%q\n%q %q %d", want.Task, want.Index,
				got.Input, got.AnswerPrefix, got.Outputs, got.Length, want.Input, want.AnswerPrefix, want.Outputs, want.Length)
		}
	}
	if len(all) != 12 || len(made) != 6 {
		t.Errorf("%d examples of %d tasks, want two of each of six", len(all), len(made))
	}
}

// Sizes that the original scripts reach with this tokenizer.
func TestSizes(t *testing.T) {
	count := counter(t)
	lines := func(sub string) func(string) int { return func(text string) int { return strings.Count(text, sub) } }
	for _, c := range []struct {
		task         string
		tokens, size int
		measure      func(text string) int
	}{
		{"niah_single_1", 4096, 120, lines(noise)},
		{"niah_single_1", 8192, 248, lines(noise)},
		{"niah_multikey_2", 4096, 144, func(s string) int { return strings.Count(s, "One of the") - 1 }},
		{"niah_multikey_3", 4096, 44, func(s string) int { return strings.Count(s, "One of the") - 1 }},
		{"vt", 4096, 117, lines(noise)},
		{"vt", 8192, 245, lines(noise)},
		{"fwe", 4096, 1388, func(s string) int {
			return len(strings.Fields(s[strings.Index(s, "coded words. ")+13 : strings.Index(s, "\nQuestion")]))
		}},
	} {
		rows, err := New(c.task, Options{Tokens: c.tokens, Seed: 42, Count: count})
		if err != nil {
			t.Fatal(err)
		}
		row, err := rows.Row(0)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.measure(row.Input); got != c.size {
			t.Errorf("%s at %d: %d lines or words, want %d", c.task, c.tokens, got, c.size)
		}
	}
}

// Rows keep their limit, hold their references, and come again with their seed.
func TestRows(t *testing.T) {
	plain := counter(t)
	const template = 11 // tokens that a caller may add
	count := func(text string) (int, error) { n, err := plain(text); return n + template, err }
	for _, name := range Tasks() {
		for _, tokens := range []int{1100, 4096} {
			if name == "cwe" && tokens == 1100 {
				continue // not even the ten common words fit
			}
			o := Options{Tokens: tokens, Seed: 1 << 40, Count: count}
			rows, err := New(name, o)
			if err != nil {
				t.Fatal(err)
			}
			again, err := New(name, o)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				row, err := rows.Row(i)
				if err != nil {
					t.Fatal(err)
				}
				n, _ := count(row.Input + row.AnswerPrefix)
				if n+row.MaxTokens != row.Length || row.Length > tokens || row.Task != name {
					t.Errorf("%s at %d: row %d has %d tokens and says %d", name, tokens, i, n, row.Length)
				}
				for _, output := range row.Outputs {
					if !strings.Contains(row.Input, output) {
						t.Errorf("%s: reference %q is not in the text", name, output)
					}
				}
				if same, err := again.Row(i); err != nil || same.Input != row.Input {
					t.Errorf("%s: row %d again differs (error %v)", name, i, err)
				}
				if i == 2 {
					if _, err := again.Row(0); err == nil {
						t.Errorf("%s: a row before the last is given", name)
					}
				}
			}
		}
	}
}

func TestRefuses(t *testing.T) {
	count := counter(t)
	for _, c := range []struct {
		task   string
		tokens int
		want   string
	}{
		{"qa_1", 4096, `no task "qa_1": want one of niah_single_1, `},
		{"fwe", 200, "200 tokens are too few: want at least 250"},
		{"niah_single_1", 150, "niah_single_1: row 0: no sample of 5 lines or words keeps 150 tokens with 128 for the answer"},
		{"vt", 300, "vt: row 0: no sample of 5 lines or words keeps 300 tokens"},
	} {
		rows, err := New(c.task, Options{Tokens: c.tokens, Seed: 42, Count: count})
		if err == nil {
			_, err = rows.Row(0)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %d: error %v, want %q in it", c.task, c.tokens, err, c.want)
		}
	}
}

// The whole set, sorted, is what at and len say.
func TestCompounds(t *testing.T) {
	c := compoundWords()
	if c.len() != 6_171_620 {
		t.Errorf("%d compounds", c.len())
	}
	last := ""
	for i := 0; i < c.len(); i += 97 {
		word := c.at(i)
		if word <= last {
			t.Fatalf("word %d, %q, is not after %q", i, word, last)
		}
		last = word
	}
	if first, end := c.at(0), c.at(c.len()-1); first != "Early-ATM" || end != "zonked-zucchini" {
		t.Errorf("from %q to %q", first, end)
	}
}
