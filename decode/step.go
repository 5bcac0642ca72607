package decode

import (
	"context"
	"errors"
	"fmt"
	"math"

	"blitzen/attention"
	"blitzen/device"
	"blitzen/model"
)

// Token is one decoded token. Log-probabilities are natural, of the model's
// own distribution before penalties and temperature; NaN unless asked for.
type Token struct {
	ID      int32
	LogProb float32
	Top     []Candidate // most probable first
}

// Candidate is a token with its log-probability.
type Candidate struct {
	ID      int32
	LogProb float32
}

// pending is a step under way: copies of its results as of that step.
type pending struct {
	id, counts           device.Pending
	topIDs, top, logprob device.Pending
}

// Next decodes one token. On a device that works while the host waits, the
// step after it is started before its result is read.
func (s *Session) Next(ctx context.Context) (Token, error) {
	want := 1
	if s.dev.Queued() && len(s.tokens) < s.opts.Capacity {
		want = 2
	}
	return s.next(ctx, want)
}

// next is Next with at most ahead steps under way.
func (s *Session) next(ctx context.Context, ahead int) (Token, error) {
	if err := ctx.Err(); err != nil {
		return Token{}, err
	}
	if s.backend == nil {
		return Token{}, errors.New("no attention backend has been built")
	}
	if s.failed != nil {
		return Token{}, s.failed
	}
	if len(s.tokens) > s.opts.Capacity {
		return Token{}, ErrFull
	}
	t, err := s.advance(ahead)
	if err != nil {
		// The device may be a step further than the tokens: Build or Truncate
		// make them agree again.
		s.failed = err
		return Token{}, err
	}
	s.tokens = append(s.tokens, t.ID)
	return t, nil
}

// advance starts steps until ahead are under way and waits for the first.
func (s *Session) advance(ahead int) (Token, error) {
	for len(s.ahead) < ahead {
		if err := s.launch(); err != nil {
			return Token{}, err
		}
	}
	p := s.ahead[0]
	s.ahead = s.ahead[1:]
	return s.collect(p)
}

// launch runs one step and queues the copies of its results.
func (s *Session) launch() error {
	s.stale = false
	rows := len(s.tokens) + len(s.ahead)
	step, err := s.step(rows)
	if err == nil {
		err = step.Run()
	}
	if err != nil {
		return fmt.Errorf("decode at position %d: %w", rows-1, err)
	}
	p := pending{id: s.dev.Fetch(s.t.id), counts: s.dev.Fetch(s.backend.Counters())}
	if s.opts.TopLogProbs > 0 {
		p.topIDs, p.top, p.logprob = s.dev.Fetch(s.t.topIDs), s.dev.Fetch(s.t.top), s.dev.Fetch(s.t.chosen)
	}
	s.ahead = append(s.ahead, p)
	return nil
}

// shortContext is the most rows of steps of their own: devices have ways for few rows
// that are slow, or nothing at all, for many.
const shortContext = 2048

// most is what a step that reads so many rows promises never to exceed; 0 for nothing.
// It depends on no capacity, and so neither does what a device makes of it.
func most(rows int) int {
	if rows <= shortContext {
		return shortContext
	}
	return 0
}

// step is the step for a token that reads so many rows, recorded when it is first asked for.
func (s *Session) step(rows int) (device.Step, error) {
	m := most(rows)
	if step, ok := s.steps[m]; ok {
		return step, nil
	}
	step, err := s.dev.Record(func(ops *device.Ops) { s.issue(ops, s.backend, m) })
	if err == nil {
		s.steps[m] = step
	}
	return step, err
}

// issue issues one decode step that reads at most so many rows: everything else that
// varies is in tensors.
func (s *Session) issue(ops *device.Ops, attn attention.Backend, most int) {
	t := s.t
	logits := t.logits.Index(0, 0)
	s.model.Forward(ops, model.Batch{IDs: t.id, Pos: t.pos, Most: most}, s.cache, attn, t.logits)
	ops.Sample(device.SampleArgs{ID: t.id, Logits: logits, Seen: t.seen, Settings: t.settings, Seed: t.seed, Pos: t.pos})
	if s.opts.TopLogProbs > 0 {
		ops.TopLogProbs(device.LogProbArgs{IDs: t.topIDs, LogProbs: t.top, Chosen: t.chosen, Logits: logits, ID: t.id})
	}
	ops.MarkSeen(t.seen, t.id)
	ops.Increment(t.pos)
}

func (s *Session) collect(p pending) (Token, error) {
	id := make([]int32, 1)
	counts := make([]int64, s.backend.Counters().Len())
	if err := errors.Join(device.Collect(p.id, id), device.Collect(p.counts, counts)); err != nil {
		return Token{}, err
	}
	t := Token{ID: id[0], LogProb: float32(math.NaN())}
	if s.opts.TopLogProbs > 0 {
		var err error
		if t, err = s.collectLogProbs(p, t); err != nil {
			return Token{}, err
		}
	}
	if id[0] < 0 {
		return Token{}, fmt.Errorf("the logits at position %d are not finite: %w", len(s.tokens)-1, device.ErrNotFinite)
	}
	s.last = counts
	return t, nil
}

func (s *Session) collectLogProbs(p pending, t Token) (Token, error) {
	n := s.t.topIDs.Len()
	ids, top, own := make([]int32, n), make([]float32, n), make([]float32, 1)
	if err := errors.Join(device.Collect(p.topIDs, ids), device.Collect(p.top, top), device.Collect(p.logprob, own)); err != nil {
		return Token{}, err
	}
	t.LogProb = own[0]
	for i := range ids {
		t.Top = append(t.Top, Candidate{ids[i], top[i]})
	}
	return t, nil
}

// Logits are those that the last token was drawn from, [vocab]. Where a step
// was queued ahead they are lost: an error.
func (s *Session) Logits() ([]float32, error) {
	switch {
	case s.last == nil:
		return nil, errors.New("no token has been decoded yet")
	case len(s.ahead) > 0 || s.stale:
		return nil, errors.New("a step that was queued ahead has overwritten the logits")
	}
	return device.Read[float32](s.dev, s.t.logits)
}

// Force replaces the last token by id: teacher forcing.
func (s *Session) Force(id int32) error {
	if len(s.tokens) <= s.prompt {
		return errors.New("no token has been decoded yet")
	}
	if vocab := s.model.Config().Vocab; id < 0 || int(id) >= vocab {
		return fmt.Errorf("token id %d: the vocabulary has ids 0 to %d", id, vocab-1)
	}
	s.tokens[len(s.tokens)-1] = id
	return s.rewind()
}

// Truncate forgets all tokens but the first n, at least the prompt's.
func (s *Session) Truncate(n int) error {
	if n < s.prompt || n > len(s.tokens) {
		return fmt.Errorf("cannot keep %d of %d tokens: the prompt has %d", n, len(s.tokens), s.prompt)
	}
	s.tokens = s.tokens[:n]
	return s.rewind()
}

// rewind makes the device's state that of s.tokens.
func (s *Session) rewind() error {
	s.failed = nil
	if err := s.discard(); err != nil {
		return err
	}
	n := len(s.tokens)
	seen := make([]int32, s.t.seen.Len())
	for _, id := range s.tokens {
		seen[id] = 1
	}
	return errors.Join(
		device.Write(s.dev, s.t.seen, seen),
		device.Write(s.dev, s.t.id, s.tokens[n-1:]),
		device.Write(s.dev, s.t.pos, []int32{int32(n - 1)}),
	)
}

// discard forgets a step queued ahead: its row will be written again, and what
// it read does not count.
func (s *Session) discard() error {
	if len(s.ahead) == 0 {
		return nil
	}
	s.waitAhead()
	s.stale = true
	return s.restoreCounts()
}

// restoreCounts makes the device's counters those of the last token returned.
func (s *Session) restoreCounts() error {
	counts := s.last
	if counts == nil {
		counts = make([]int64, s.backend.Counters().Len())
	}
	return device.Write(s.dev, s.backend.Counters(), counts)
}

// waitAhead collects what is under way, so that the device has its memory back.
// An error will be met again by whatever comes next.
func (s *Session) waitAhead() {
	counted := s.last
	for _, p := range s.ahead {
		_, _ = s.collect(p)
	}
	s.ahead, s.last = nil, counted
}
