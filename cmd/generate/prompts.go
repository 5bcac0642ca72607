package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"blitzen/decode"
	"blitzen/eval"
	"blitzen/sample"
	"blitzen/tokenizer"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// encoder turns a row's text into what a model reads.
type encoder struct {
	flags  *pflag.FlagSet
	prompt promptFlags
	opened *opened
	cuts   bool // rows above the limit are cut
}

// ids are the tokens of a message and the beginning of its answer.
func (e encoder) ids(text, prefix string) ([]int32, error) {
	if !e.cuts {
		if err := atMost(e.opened.Tokenizer, text, e.opened.Config.MaxPositions); err != nil {
			return nil, err
		}
	}
	e.prompt.prefill = prefix
	ids, _, err := e.prompt.encodeText(e.flags, e.opened.Tokenizer, e.opened.Name, text)
	return ids, err
}

func (e encoder) count(text, prefix string) (int, error) {
	ids, err := e.ids(text, prefix)
	return len(ids), err
}

// plain counts the tokens of a text alone.
func (e encoder) plain(text string) (int, error) {
	ids, err := e.opened.Tokenizer.Encode(text, tokenizer.EncodeOptions{})
	return len(ids), err
}

// counter counts a text as RULER does, which has the prefix at its end, and
// adds what the chat template puts around a message.
func (e encoder) counter() (func(text string) (int, error), error) {
	const message, prefix = "What?", " It is"
	whole, err := e.count(message, prefix)
	if err != nil {
		return nil, err
	}
	bare, err := e.plain(message + prefix)
	if err != nil {
		return nil, err
	}
	return func(text string) (int, error) {
		n, err := e.plain(text)
		return n + whole - bare, err
	}, nil
}

// question is one prompt of a run, ready for a model.
type question struct {
	eval.Row
	ids       []int32
	limit     int
	prefix    string
	maxTokens int
}

// read opens a session and reads the prompt, with room for its answer. The caller
// closes the session.
func (q question) read(ctx context.Context, o *opened) (*decode.Session, error) {
	capacity, err := contextSize(len(q.ids), q.maxTokens, 0, false, o.Config)
	if err != nil {
		return nil, err
	}
	s, err := o.session(decode.Options{Capacity: capacity, Sampling: sample.Greedy()})
	if err != nil {
		return nil, err
	}
	if err := s.Prefill(ctx, q.ids, nil); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// limits are those of one answer: of the row's length, to an end token or before
// a stop string of the row.
func (q question) limits(o *opened) (decode.Limits, error) {
	l := decode.Limits{MaxTokens: q.maxTokens, EOS: o.EOS}
	if o.Tokenizer != nil {
		l.Decoder = o.Tokenizer.NewStream(true)
	}
	if len(q.Stop) == 0 {
		return l, nil
	}
	filter, err := tokenizer.NewStopFilter(q.Stop...)
	if err != nil {
		return l, fmt.Errorf("%s: stop: %w", q.ID, err)
	}
	l.Stop = filter
	return l, nil
}

// promptPlan numbers the prompts of a run: by source, row, and way of the
// answer prefix.
type promptPlan struct {
	flags     *sourceFlags
	encode    encoder
	sources   []rowSource
	maxTokens int // 0: by the row
	positions int // the model's limit
	context   int // the most tokens that a prompt and its answer have, as far as the model reads
	prompts   int
}

func (s *sourceFlags) plan(cmd *cobra.Command, o *opened, prompt *promptFlags, maxTokens int) (*promptPlan, error) {
	p := &promptPlan{flags: s, encode: encoder{cmd.Flags(), *prompt, o, s.truncate != ""}, maxTokens: maxTokens, positions: o.Config.MaxPositions}
	var err error
	if p.sources, err = s.sources(cmd, p.answerTokens(eval.Row{}), p.encode); err != nil {
		return nil, err
	}
	p.noteUnused(cmd.ErrOrStderr(), cmd.Flags())
	prompt.noteRaw(cmd.ErrOrStderr(), cmd.Flags(), o, nil)
	for _, src := range p.sources {
		p.prompts += src.rows * len(p.ways(src))
		if p.prompts > eval.MaxPrompts {
			return nil, usagef("the run has more than %d prompts: give fewer --tasks, --length or --samples", eval.MaxPrompts)
		}
		longest, err := p.longest(src)
		if err != nil {
			return nil, err
		}
		p.context = max(p.context, min(longest, p.positions))
	}
	return p, nil
}

// ways are those of the answer prefix that make sense for a source.
func (p *promptPlan) ways(s rowSource) []string {
	switch {
	case !s.prefixed:
		return []string{""}
	case p.flags.prefix == "both":
		return []string{eval.WithPrefix, eval.WithoutPrefix}
	}
	return []string{p.flags.prefix}
}

// longest is how many tokens the prompts of a source have at most, with their
// answers, be that more than the model reads.
func (p *promptPlan) longest(s rowSource) (int, error) {
	if !s.file {
		return s.limit + min(cmp.Or(p.maxTokens, longestAnswer), p.positions), nil
	}
	answer, prompt := 0, p.flags.limit
	for i := range s.rows {
		row, err := s.row(i)
		if err != nil {
			return 0, err
		}
		answer = max(answer, p.answerTokens(row))
		if p.flags.limit > 0 {
			continue
		}
		n, err := p.encode.count(row.Input, row.AnswerPrefix)
		if err != nil {
			return 0, usagef("%s: %w", s.where(row), err)
		}
		prompt = max(prompt, n)
	}
	return min(prompt, p.positions) + min(answer, p.positions), nil
}

// longestAnswer is that of the tasks that are made: RULER's needles.
const longestAnswer = 128

// answerTokens is the longest answer to a row.
func (p *promptPlan) answerTokens(row eval.Row) int {
	switch {
	case p.maxTokens > 0:
		return p.maxTokens
	case row.MaxTokens > 0:
		return row.MaxTokens
	}
	return defaultAnswer
}

// question makes prompt n of the run. Numbers never fall from call to call.
// An error that is errBadRow is one of a file's row.
func (p *promptPlan) question(n int) (question, error) {
	for _, s := range p.sources {
		ways := p.ways(s)
		if n >= s.rows*len(ways) {
			n -= s.rows * len(ways)
			continue
		}
		row, err := s.row(n / len(ways))
		if err != nil {
			return question{}, atLength(s.limit, err)
		}
		q := question{Row: row, limit: s.limit, prefix: ways[n%len(ways)], maxTokens: p.answerTokens(row)}
		if q.prefix == eval.WithoutPrefix {
			q.AnswerPrefix = ""
		}
		if s.file {
			q.limit = p.flags.limit
		}
		if q.ids, err = p.fit(q, s); err != nil && s.file {
			err = usagef("%s: %w: %w", s.where(row), errBadRow, err)
		}
		return q, err
	}
	return question{}, fmt.Errorf("prompt %d: the run has %d", n, p.prompts)
}

// firsts makes the first prompt of every task that is made, which shows whether there
// is one of its length: a task may come after hours of others.
func (p *promptPlan) firsts() error {
	n := 0
	for _, s := range p.sources {
		if !s.file {
			if _, err := p.question(n); err != nil {
				return err
			}
		}
		n += s.rows * len(p.ways(s))
	}
	return nil
}

// leavesOut reports whether a prompt that failed with err is to be left out, and
// says so.
func (p *promptPlan) leavesOut(w io.Writer, err error) bool {
	if !p.flags.skipBad || !errors.Is(err, errBadRow) {
		return false
	}
	fmt.Fprintf(w, "%v: skipped\n", err)
	return true
}

// fit encodes a row and sees that it keeps its limit.
func (p *promptPlan) fit(q question, s rowSource) ([]int32, error) {
	limit, whose := p.positions, "the model's"
	if q.limit > 0 {
		limit, whose = q.limit, "that of --length"
		if s.file {
			whose = "that of --limit"
		}
	}
	cut := s.file && p.flags.truncate == "middle"
	if cut {
		limit = p.withRoom(limit, q.maxTokens)
	}
	ids, err := p.encode.ids(q.Input, q.AnswerPrefix)
	switch {
	case err != nil || len(ids) <= limit:
		return ids, err
	case cut:
		return p.cutMiddle(q.Row, limit, len(ids))
	}
	hint := ": --truncate middle cuts it"
	if p.flags.single {
		hint = "" // compare has no such flag
	}
	return nil, fmt.Errorf("the prompt has %d tokens, and the limit, %s, is %d%s", len(ids), whose, limit, hint)
}

// withRoom is the most tokens, of limit, that a prompt has when the model is to
// read its answer, too; limit, where the answer alone may be longer than that.
func (p *promptPlan) withRoom(limit, answer int) int {
	if room := p.positions - answer; room > 0 {
		return min(limit, room)
	}
	return limit
}

// cutMiddle takes tokens out of the middle of a row's message, as LongBench v2
// does, until the prompt keeps the limit: the first half and the last half of
// what is left are joined as text.
func (p *promptPlan) cutMiddle(row eval.Row, limit, length int) ([]int32, error) {
	tok := p.encode.opened.Tokenizer
	message, err := tok.Encode(row.Input, tokenizer.EncodeOptions{})
	if err != nil {
		return nil, err
	}
	keep := len(message) - (length - limit)
	for keep > 0 {
		head, err := tok.Decode(message[:keep/2], false)
		if err != nil {
			return nil, err
		}
		tail, err := tok.Decode(message[len(message)-(keep-keep/2):], false)
		if err != nil {
			return nil, err
		}
		ids, err := p.encode.ids(head+tail, row.AnswerPrefix)
		if err != nil || len(ids) <= limit {
			return ids, err
		}
		// A character that was cut apart, or the seam, took more tokens.
		keep -= len(ids) - limit
	}
	return nil, fmt.Errorf("the chat template and the answer prefix alone have more tokens than the limit of %d: give a greater --limit, or fewer --max-tokens", limit)
}
