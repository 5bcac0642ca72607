package ruler

import (
	"fmt"
	"slices"
	"strings"
)

// noise is the sentence that most haystacks repeat.
const noise = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."

// needleKind says what is hidden, and in what.
type needleKind struct {
	kind                     string // number or uuid: what a value is called
	key, value               func(*twister) string
	needles, values, queries int // keys, values of each key, keys asked for
	distract                 bool
}

func wordKey(t *twister) string { return compoundWords().at(t.below(compoundWords().len())) }
func number(t *twister) string  { return fmt.Sprint(t.between(1_000_000, 9_999_999)) }
func uuid(t *twister) string    { return t.uuid() }

// needles is a needle in a haystack: one of the niah tasks.
type needles struct {
	needleKind
	opts Options
	rng  *twister
}

func newNeedles(k needleKind) func(Options) (task, error) {
	return func(o Options) (task, error) {
		return &needles{k, o, newTwister(o.Seed)}, nil
	}
}

func (t *needles) answer() int { return 128 }

func (t *needles) step() int {
	if t.opts.Tokens < 4096 {
		return 5
	}
	return 25
}

func (t *needles) fit() (int, error) {
	return fitLines(t.opts, t.step(), t.opts.Tokens, t.answer(), t.draw)
}

// fitLines sizes a haystack of lines: an estimate from one sample bounds the
// search. extra is what the limit holds besides a sample.
func fitLines(o Options, step, limit, extra int, draw func(n int) (draft, error)) (int, error) {
	size := func(n int) (int, error) {
		d, err := draw(n)
		if err != nil {
			return 0, err
		}
		return count(o, d)
	}
	n, err := size(step)
	if err != nil {
		return 0, err
	}
	each := float64(n) / float64(step)
	bound := int(float64(limit) / each * 3)
	return largest(step, max(bound, 2*step), func(n int) (bool, error) {
		tokens, err := size(n)
		return tokens+extra <= limit, err
	})
}

func (t *needles) sentence(key, value string) string {
	return fmt.Sprintf("One of the special magic %ss for %s is: %s.", t.kind, key, value)
}

func (t *needles) draw(n int) (draft, error) {
	keys, values := make([]string, t.needles), make([][]string, t.needles)
	var hidden []string
	for i := range keys {
		keys[i] = t.key(t.rng)
		for range t.values {
			v := t.value(t.rng)
			values[i] = append(values[i], v)
			hidden = append(hidden, t.sentence(keys[i], v))
		}
	}
	shuffle(newTwister(t.opts.Seed), hidden)
	lines := make([]string, n)
	for i := range lines {
		lines[i] = noise
		if t.distract {
			key := t.key(t.rng)
			lines[i] = t.sentence(key, t.value(t.rng))
		}
	}
	places := t.rng.sample(n, len(hidden))
	slices.Sort(places)
	slices.Reverse(places)
	for i, at := range places {
		lines = slices.Insert(lines, at, hidden[i])
	}
	var asked, outputs []string
	for _, i := range t.rng.sample(len(keys), t.queries) {
		asked = append(asked, keys[i])
		outputs = append(outputs, values[i]...)
	}
	text, prefix := t.question(asked, len(outputs) == 1)
	return draft{strings.Replace(text, "{context}", strings.Join(lines, "\n"), 1), prefix, outputs}, nil
}

// question is the text with {context} in place of the haystack. The original
// has one template and replaces words of it where a single value is asked for.
func (t *needles) question(asked []string, single bool) (text, prefix string) {
	query := asked[0]
	if last := len(asked) - 1; last > 0 {
		query = strings.Join(asked[:last], ", ") + ", and " + asked[last]
	}
	text = "A special magic %s is hidden within the following text. Make sure to memorize it. I will quiz you about the %s afterwards.\n{context}\n" +
		"What is the special magic %s for %s mentioned in the provided text?"
	prefix = " The special magic %s for %s mentioned in the provided text is"
	kind := t.kind
	if !single {
		text = "Some special magic %s are hidden within the following text. Make sure to memorize it. I will quiz you about the %s afterwards.\n{context}\n" +
			"What are all the special magic %s for %s mentioned in the provided text?"
		prefix = " The special magic %s for %s mentioned in the provided text are"
		kind += "s"
	}
	return fmt.Sprintf(text, kind, kind, kind, query), fmt.Sprintf(prefix, kind, query)
}
