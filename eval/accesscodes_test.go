package eval

import (
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// tokens counts as a tokenizer with a small vocabulary does, roughly: words in
// pieces of five letters, digits and other characters alone, and ten tokens of
// chat template.
func tokens(text string) (int, error) {
	return 10 + len(pieces.FindAllString(text, -1)), nil
}

var (
	pieces   = regexp.MustCompile(` ?\pL{1,5}|\pN|[^\pL\pN ]`)
	codeLine = regexp.MustCompile(`(?m)^The access code of ([a-z]+-[a-z]+) is (\d{6,7})\.$`)
	question = regexp.MustCompile(`\nQuestion: What is the access code of ([a-z]+-[a-z]+)\?$`)
)

// TestAccessCodesText pins the text: a change of grammar, word lists or draws
// makes all earlier figures those of other prompts.
func TestAccessCodesText(t *testing.T) {
	row, err := AccessCodes{Tokens: 250, Codes: 4, Seed: 7}.Row(8, tokens)
	if err != nil {
		t.Fatal(err)
	}
	const want = `The access code of cypress-cabin is 9801929.
The access code of symbol-rapid is 5617069.
Shortly before noon, the only sound opposite the market was that of Irene trying to move the book. Irene had been told that the fountain had been full for half a century, so a young ferryman wrapped the telescope and the coins. The gatekeeper of the next valley unloaded a broken telescope and left the compass and the tools below the quarry.
The access code of sapling-locket is 8118237.
Nearly a year after the bicycle race, the only sound upstairs was that of George the clerk trying to unload the lantern. For once, the judge sold most of the letters next to the fountain.
The access code of crystal-tinsel is 5935264.
Question: What is the access code of cypress-cabin?`
	if row.Input != want {
		t.Errorf("input changed:\n%s", row.Input)
	}
	row.Input = ""
	rest := Row{
		Index: 8, ID: "access4-250-seed7-row8", Scorer: ScorerExact, Length: 237, Codes: 4,
		Outputs: []string{"The access code of cypress-cabin is 9801929."},
	}
	if !reflect.DeepEqual(row, rest) {
		t.Errorf("row changed: %+v", row)
	}
}

func TestAccessCodesRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := AccessCodes{
			Tokens: rapid.IntRange(1000, 2500).Draw(t, "tokens"),
			Codes:  rapid.IntRange(1, 45).Draw(t, "codes"),
			Seed:   rapid.Uint64().Draw(t, "seed"),
		}
		i := rapid.IntRange(0, 1_000_000).Draw(t, "row")
		calls := 0
		row, err := a.Row(i, func(text string) (int, error) { calls++; return tokens(text) })
		if err != nil {
			t.Fatal(err)
		}
		if calls > 9 {
			t.Errorf("%d counts of a prompt of %d tokens", calls, a.Tokens)
		}
		if length, _ := tokens(row.Input); length != row.Length || length > a.Tokens {
			t.Errorf("%d tokens, the row says %d and the limit is %d", length, row.Length, a.Tokens)
		}
		checkCodes(t, row, a.Codes)

		again, err := a.Row(i, tokens)
		if err != nil || again.Input != row.Input {
			t.Errorf("the same row again differs (error %v)", err)
		}
		next, err := a.Row(i+1, tokens)
		if err != nil || next.Input == row.Input || next.Outputs[0] == row.Outputs[0] || next.ID == row.ID {
			t.Errorf("row %d is like row %d (error %v)", i+1, i, err)
		}
		a.Seed++
		other, err := a.Row(i, tokens)
		if err != nil || other.Input == row.Input || other.Outputs[0] == row.Outputs[0] || other.ID == row.ID {
			t.Errorf("another seed gives the same row (error %v)", err)
		}
	})
}

func checkCodes(t *rapid.T, row Row, want int) {
	lines := codeLine.FindAllStringSubmatch(row.Input, -1)
	if len(lines) != want || row.Codes != want {
		t.Fatalf("%d codes in the text, %d in the row, want %d", len(lines), row.Codes, want)
	}
	asked := question.FindStringSubmatch(row.Input)
	if asked == nil {
		t.Fatalf("no question at the end: %q", row.Input[len(row.Input)-80:])
	}
	if n := strings.Count(row.Input, row.Outputs[0]); n != 1 {
		t.Errorf("the answer %q occurs %d times", row.Outputs[0], n)
	}
	words, values := map[string]bool{}, map[string]bool{}
	for _, line := range lines {
		sentence, key, value := line[0], line[1], line[2]
		if (key == asked[1]) != (sentence == row.Outputs[0]) {
			t.Errorf("the question asks for %s, the answer is %q", asked[1], row.Outputs[0])
		}
		if values[value] {
			t.Errorf("two codes are %s", value)
		}
		values[value] = true
		for word := range strings.SplitSeq(key, "-") {
			if words[word] {
				t.Errorf("two keys share the word %s", word)
			}
			words[word] = true
		}
		if strings.Contains(asked[0], value) || key != asked[1] && strings.Contains(asked[0], key) {
			t.Errorf("the question %q gives another key or a value away", asked[0])
		}
	}
}

// TestAccessCodesLength checks from outside that a row is the longest that
// fits: where a longer limit first gives a longer prompt, the shorter one was
// within that one sentence of its limit.
func TestAccessCodesLength(t *testing.T) {
	limit := 900
	row, err := AccessCodes{Tokens: limit, Codes: 8, Seed: 3}.Row(0, tokens)
	for err == nil && limit < 1100 {
		var longer Row
		limit++
		longer, err = AccessCodes{Tokens: limit, Codes: 8, Seed: 3}.Row(0, tokens)
		if grown := strings.Count(longer.Input, ".") - strings.Count(row.Input, "."); grown != 0 {
			if grown != 1 || longer.Length != limit {
				t.Errorf("limit %d: %d more sentences and %d tokens, want one more and the limit", limit, grown, longer.Length)
			}
		} else if longer.Input != row.Input {
			t.Errorf("limit %d: another text of the same length", limit)
		}
		row = longer
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestAccessCodesPlaces(t *testing.T) {
	// The asked code must be anywhere: tenths of the depth over 2,000 rows of
	// a binomial (2000, 0.1), standard deviation 13.4; 67 is five of them.
	const rows = 2000
	var tenths [10]int
	for i := range rows {
		rng := AccessCodes{Seed: 5}.stream("codes", i)
		codes := drawCodes(rng, strings.Fields(keyWords), 8)
		tenths[int(10*codes[rng.IntN(len(codes))].place)]++
	}
	for i, n := range tenths {
		if n < rows/10-67 || n > rows/10+67 {
			t.Errorf("%d of %d asked codes in tenth %d of the text", n, rows, i)
		}
	}
}

func TestAccessCodesRefuses(t *testing.T) {
	broken := errors.New("broken tokenizer")
	for name, c := range map[string]struct {
		a     AccessCodes
		i     int
		count func(string) (int, error)
		want  string
	}{
		"no codes":     {AccessCodes{Tokens: 500}, 0, tokens, "0 codes: ask for 1 to"},
		"many codes":   {AccessCodes{Tokens: 50_000, Codes: 1000}, 0, tokens, "1000 codes: ask for 1 to"},
		"negative row": {AccessCodes{Tokens: 500, Codes: 1}, -1, tokens, "row -1"},
		"short":        {AccessCodes{Tokens: 100, Codes: 8}, 4, tokens, "row 4: 8 codes and the question take"},
		"count error": {AccessCodes{Tokens: 500, Codes: 1}, 0,
			func(string) (int, error) { return 0, broken }, "counting tokens: broken tokenizer"},
		"constant count": {AccessCodes{Tokens: 500, Codes: 1}, 0,
			func(string) (int, error) { return 9, nil }, "the count must grow"},
	} {
		_, err := c.a.Row(c.i, c.count)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
	_, err := AccessCodes{Tokens: 500, Codes: 1}.Row(0, func(string) (int, error) { return 0, broken })
	if !errors.Is(err, broken) {
		t.Errorf("error %v does not wrap the counter's", err)
	}
}
