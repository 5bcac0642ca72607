// Package ruler makes the tasks of RULER (Hsieh et al., 2024; NVIDIA/RULER at
// commit c3f5e3b) that need no text from elsewhere: needles in noise or among
// other needles, variable tracking, common and frequent words. With the same
// tokenizer and seed the rows are those of the original scripts, byte for byte;
// to that end it draws as Python does.
//
// niah_multivalue_noise and niah_multiquery_noise are variants: the originals
// hide their needles in essays.
package ruler

import (
	"fmt"
	"slices"
	"strings"

	"blitzen/eval"
)

// Options size the rows of a task.
type Options struct {
	Tokens int    // the most tokens of a row, its answer's room included
	Seed   uint64 // of all draws; the original's is 42
	// Count returns the tokens of a text that ends with the answer prefix, with
	// what the caller puts around it. The original counts the text alone.
	Count func(text string) (int, error)
}

// task is one of RULER's, at one length.
type task interface {
	// fit makes what all rows share and returns how many lines or words a row
	// takes. It is called once, before draw.
	fit() (n int, err error)
	// draw makes a sample of n lines or words.
	draw(n int) (draft, error)
	// step is what a row that came out too long is shortened by.
	step() int
	answer() int // tokens
}

// draft is a row before its length is known.
type draft struct {
	text, prefix string
	outputs      []string
}

// whole is what is counted.
func (d draft) whole() string { return d.text + d.prefix }

var tasks = map[string]func(Options) (task, error){
	"niah_single_1":         newNeedles(needleKind{kind: "number", key: wordKey, value: number, needles: 1, values: 1, queries: 1}),
	"niah_multikey_2":       newNeedles(needleKind{kind: "number", key: wordKey, value: number, needles: 1, values: 1, queries: 1, distract: true}),
	"niah_multikey_3":       newNeedles(needleKind{kind: "uuid", key: uuid, value: uuid, needles: 1, values: 1, queries: 1, distract: true}),
	"niah_multivalue_noise": newNeedles(needleKind{kind: "number", key: wordKey, value: number, needles: 1, values: 4, queries: 1}),
	"niah_multiquery_noise": newNeedles(needleKind{kind: "number", key: wordKey, value: number, needles: 4, values: 1, queries: 4}),
	"vt":                    newVariables,
	"cwe":                   newCommonWords,
	"fwe":                   newFrequentWords,
}

// Tasks are the names that [New] knows: the six tasks of RULER, then the
// variants.
func Tasks() []string {
	return []string{"niah_single_1", "niah_multikey_2", "niah_multikey_3", "vt", "cwe", "fwe", "niah_multivalue_noise", "niah_multiquery_noise"}
}

// IsTask reports whether New knows a name.
func IsTask(name string) bool { return slices.Contains(Tasks(), name) }

// Rows makes the rows of one task, in order: each depends on those before it.
type Rows struct {
	name string
	opts Options
	task task
	n    int      // lines or words that fit; 0 before the first row
	next int      // the row that comes next
	last eval.Row // the one before
}

// New returns the rows of the task of that name. An error says why the options
// do not fit; most shows in the first row.
func New(name string, o Options) (*Rows, error) {
	newTask, ok := tasks[name]
	if !ok {
		return nil, fmt.Errorf("ruler: no task %q: want one of %s", name, strings.Join(Tasks(), ", "))
	}
	t, err := newTask(o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &Rows{name: name, opts: o, task: t}, nil
}

// Row returns row i: the one that the last call returned, or a later one.
func (r *Rows) Row(i int) (eval.Row, error) {
	if i < r.next-1 || i < 0 {
		return eval.Row{}, fmt.Errorf("%s: row %d after row %d: rows are made in order", r.name, i, r.next-1)
	}
	for r.next <= i {
		row, err := r.make()
		if err != nil {
			return eval.Row{}, fmt.Errorf("%s: row %d: %w", r.name, r.next, err)
		}
		r.last = row
		r.next++
	}
	return r.last, nil
}

// attempts bounds the samples of one row that come out too long at the shortest
// size.
const attempts = 100

// longer is what to do about a prompt without room.
const longer = "ask for a longer prompt"

func (r *Rows) make() (eval.Row, error) {
	if r.n == 0 {
		n, err := r.task.fit()
		if err != nil {
			return eval.Row{}, err
		}
		r.n = n
	}
	n := r.n
	for range attempts + n/r.task.step() {
		d, err := r.task.draw(n)
		if err != nil {
			return eval.Row{}, err
		}
		length, err := count(r.opts, d)
		if err != nil {
			return eval.Row{}, err
		}
		if length += r.task.answer(); length <= r.opts.Tokens {
			return eval.Row{
				Index: r.next, ID: fmt.Sprintf("%s-%d-seed%d-row%d", r.name, r.opts.Tokens, r.opts.Seed, r.next), Task: r.name,
				Input: d.text, AnswerPrefix: d.prefix, Outputs: d.outputs, Scorer: eval.ScorerAll,
				Length: length, MaxTokens: r.task.answer(),
			}, nil
		}
		if n > r.task.step() {
			n -= r.task.step()
		}
	}
	why := fmt.Sprintf("no sample of %d lines or words keeps %d tokens with %d for the answer", n, r.opts.Tokens, r.task.answer())
	return eval.Row{}, &eval.LengthError{Why: why, Advice: longer}
}

func count(o Options, d draft) (int, error) {
	n, err := o.Count(d.whole())
	if err != nil {
		return 0, fmt.Errorf("counting tokens: %w", err)
	}
	return n, nil
}

// largest is RULER's binary search for the size that fits: between low and
// high, every probe a new sample; low if none fits.
func largest(low, high int, fits func(n int) (bool, error)) (int, error) {
	best := low
	for low <= high {
		mid := (low + high) / 2
		ok, err := fits(mid)
		switch {
		case err != nil:
			return 0, err
		case ok:
			best, low = mid, mid+1
		default:
			high = mid - 1
		}
	}
	return best, nil
}
