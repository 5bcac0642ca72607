package ruler

import (
	"fmt"
	"slices"
	"strings"
)

const (
	capitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	chain    = 5 // variables

	exampleTokens = 500
	exampleStep   = 5
	exampleValue  = "12345"
)

// variables is variable tracking (vt): a chain of assignments in noise, after
// one solved example.
type variables struct {
	opts         Options
	rng, values  *twister // names and places; values of variables
	example      string   // with names and a value that every row replaces
	exampleNames []string
}

func newVariables(o Options) (task, error) {
	return &variables{opts: o, rng: newTwister(o.Seed), values: newPlainTwister(uint32(o.Seed))}, nil
}

func (t *variables) answer() int { return 30 }

func (t *variables) step() int {
	if t.opts.Tokens < 4096 {
		return 5
	}
	return 10
}

// value is numpy's randint(10000, 99999): masked and drawn again when too large.
func (t *variables) value() string {
	for {
		if v := t.values.Uint32() & 0x1ffff; v <= 89998 {
			return fmt.Sprint(10000 + v)
		}
	}
}

// fit makes the example, then sizes the rows beside it.
func (t *variables) fit() (int, error) {
	three := func(n int) (draft, error) { return t.text(n, 3, func() string { return exampleValue }) }
	n, err := fitLines(t.opts, exampleStep, exampleTokens, 0, three)
	if err != nil {
		return 0, err
	}
	for range attempts {
		d, err := three(n)
		if err != nil {
			return 0, err
		}
		size, err := count(t.opts, d)
		if err != nil {
			return 0, err
		}
		if size <= exampleTokens {
			t.example, t.exampleNames = d.whole()+" "+strings.Join(d.outputs, " ")+"\n", d.outputs
			break
		}
		if n > exampleStep {
			n -= exampleStep
		}
	}
	if t.example == "" {
		return 0, fmt.Errorf("no solved example has at most %d tokens", exampleTokens)
	}
	size, err := t.opts.Count(t.example)
	if err != nil {
		return 0, fmt.Errorf("counting tokens: %w", err)
	}
	return fitLines(t.opts, t.step(), t.opts.Tokens, size+t.answer(), func(n int) (draft, error) { return t.text(n, 5, t.value) })
}

func (t *variables) draw(n int) (draft, error) {
	d, err := t.text(n, 5, t.value)
	d.text = t.freshExample() + "\n" + d.text
	return d, err
}

// text is a row without the example; names have that many letters.
func (t *variables) text(n, letters int, value func() string) (draft, error) {
	names := make([]string, chain)
	for again := true; again; { // the original fails where two names are equal
		for i := range names {
			names[i] = t.rng.letters(capitals, letters)
		}
		again = len(sortedSet(slices.Clone(names))) < chain
	}
	first := value()
	lines := make([]string, n)
	for i := range lines {
		lines[i] = noise
	}
	places := t.rng.sample(n, chain)
	slices.Sort(places)
	for i, at := range places {
		statement := "VAR " + names[0] + " = " + first
		if i > 0 {
			statement = "VAR " + names[i] + " = VAR " + names[i-1] + " "
		}
		lines = slices.Insert(lines, at+i, statement)
	}
	const question = "Memorize and track the chain(s) of variable assignment hidden in the following text.\n\n%s\n" +
		"Question: Find all variables that are assigned the value %s in the text above."
	const prefix = " Answer: According to the chain(s) of variable assignment in the text above, %d variables are assigned the value %s, they are: "
	return draft{fmt.Sprintf(question, strings.Join(lines, "\n"), first), fmt.Sprintf(prefix, chain, first), names}, nil
}

// freshExample is the example with other names and another value: plain
// replacement, one after another, as the original does.
func (t *variables) freshExample() string {
	text := t.example
	for _, name := range t.exampleNames {
		text = strings.ReplaceAll(text, name, t.rng.letters(capitals, len(name)))
	}
	return strings.ReplaceAll(text, exampleValue, t.value())
}
