// Package eval makes test prompts whose right answer is known, scores what a
// model answers, keeps the answers and says how sure the figures are. It knows
// nothing of models or tokenizers: whoever asks for a prompt of a given length
// passes a function that counts tokens.
//
// A prompt is a [Row]; rows are kept as JSONL, one a line, so that prompts
// from elsewhere can be read beside our own. An answer is an [Answer], a line
// of a results file ([Log]); [Summarize] turns answers into figures.
package eval
