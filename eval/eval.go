// Package eval makes test prompts whose right answer is known and scores what
// a model answers. It knows nothing of models or tokenizers: whoever asks for
// a prompt of a given length passes a function that counts tokens.
//
// A prompt is a [Row]; rows are kept as JSONL, one a line, so that prompts
// from elsewhere can be read beside our own.
package eval

import "strings"

// ScorerExact is the [Row.Scorer] of rows that [ExactAnswer] scores.
const ScorerExact = "exact"

// ExactAnswer reports whether prediction, the text generated up to the end
// token, is the row's only reference answer once white space around it is
// removed.
func ExactAnswer(prediction string, row Row) bool {
	return len(row.Outputs) == 1 && strings.TrimSpace(prediction) == row.Outputs[0]
}
