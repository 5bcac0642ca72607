package decode_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/modeltest"
	"blitzen/teams"
)

// queued makes the CPU device one that works while the host waits, at its
// laziest: a step runs, and a copy is taken, only when somebody waits for
// something queued after it.
type queued struct {
	device.Device
	jobs  []func() error
	steps int // started
}

func (q *queued) Queued() bool { return true }

// drain does the queued work but for the last `keep` jobs.
func (q *queued) drain(keep int) error {
	for len(q.jobs) > keep {
		job := q.jobs[0]
		q.jobs = q.jobs[1:]
		if err := job(); err != nil {
			return err
		}
	}
	return nil
}

func (q *queued) Free(t *device.Tensor) {
	q.drain(0) // work may still need it; an error shows in whoever waits
	q.Device.Free(t)
}

func (q *queued) Upload(t *device.Tensor, src []byte) error {
	src = slices.Clone(src)
	q.jobs = append(q.jobs, func() error { return q.Device.Upload(t, src) })
	return nil
}

func (q *queued) Run(fn func(*device.Ops)) error {
	if err := q.drain(0); err != nil {
		return err
	}
	return q.Device.Run(fn)
}

func (q *queued) Fetch(t *device.Tensor) device.Pending {
	c := &copied{q: q}
	q.jobs = append(q.jobs, func() error {
		c.data, c.done = make([]byte, t.Bytes()), true
		return q.Device.Fetch(t).Wait(c.data)
	})
	return c
}

// copied is a queued copy.
type copied struct {
	q    *queued
	data []byte
	done bool
}

func (c *copied) Wait(dst []byte) error {
	for !c.done {
		if err := c.q.drain(len(c.q.jobs) - 1); err != nil {
			return err
		}
	}
	if len(dst) != len(c.data) {
		return fmt.Errorf("%d bytes for %d", len(dst), len(c.data))
	}
	copy(dst, c.data)
	return nil
}

func (q *queued) Record(fn func(*device.Ops)) (device.Step, error) {
	if err := q.drain(0); err != nil {
		return nil, err
	}
	s, err := q.Device.Record(fn)
	return &queuedStep{q, s}, err
}

type queuedStep struct {
	q    *queued
	step device.Step
}

func (s *queuedStep) Run() error {
	s.q.steps++
	s.q.jobs = append(s.q.jobs, s.step.Run)
	return nil
}

func (s *queuedStep) Close() error {
	if err := s.q.drain(0); err != nil {
		return err
	}
	return s.step.Close()
}

// A device that works ahead gives the same tokens, log-probabilities, reads and
// finish; the step beyond the last token is run and forgotten.
func TestQueued(t *testing.T) {
	now := modeltest.Host(t)
	later := &queued{Device: modeltest.Host(t)}
	ctx := context.Background()
	for _, c := range []struct {
		name     string
		capacity int
		eos      bool
		want     string
		tokens   int
		ahead    int // steps beyond the last token
	}{
		{"length", 80, false, decode.FinishLength, 12, 1},
		{"end token", 80, true, decode.FinishStop, 0, 1},
		{"context", 56, false, decode.FinishContext, 7, 0},
		{"length at the end of the context", 61, false, decode.FinishLength, 12, 0},
	} {
		for _, method := range []string{"dense", "sampled"} {
			var end []int32 // the fifth token, to end at
			var results []decode.Result
			var sessions []*decode.Session
			for _, dev := range []device.Device{now, later} {
				m := load(t, dev, tiny, 512)
				b := modeltest.Dense(dev, m)
				if method == "sampled" {
					b = sampled(dev, m, teams.Contiguous)
				}
				s := open(t, dev, m, 50, c.capacity, decode.Options{Sampling: warm, TopLogProbs: 3})
				modeltest.Check(t, s.Build(b))
				if end == nil {
					end = next(t, s, 5)[4:]
					modeltest.Check(t, s.Build(b))
				}
				limits := decode.Limits{MaxTokens: 12}
				if c.eos {
					limits.EOS = end
				}
				later.steps = 0
				r, err := s.Generate(ctx, limits, nil)
				modeltest.Check(t, err)
				results, sessions = append(results, r), append(sessions, s)
			}
			a, b := results[0], results[1]
			if !slices.EqualFunc(a.Tokens, b.Tokens, sameToken) || a.Finish != c.want || b.Finish != c.want || c.tokens > 0 && len(b.Tokens) != c.tokens {
				t.Errorf("%s, %s: %d tokens %v (%s) and %v (%s)", c.name, method, len(a.Tokens), a.IDs(), a.Finish, b.IDs(), b.Finish)
			}
			if sessions[0].Access() != sessions[1].Access() || sessions[0].Access().Dense == 0 {
				t.Errorf("%s, %s: access %+v and %+v", c.name, method, sessions[0].Access(), sessions[1].Access())
			}
			if later.steps != len(b.Tokens)+c.ahead {
				t.Errorf("%s, %s: %d steps for %d tokens", c.name, method, later.steps, len(b.Tokens))
			}
		}
	}
}

func sameToken(a, b decode.Token) bool {
	return a.ID == b.ID && floatBits(a.LogProb) == floatBits(b.LogProb) && slices.Equal(a.Top, b.Top) && len(a.Top) == 3
}

// Going back forgets the step that was queued: tokens and reads are those of a
// device that never ran it.
func TestQueuedRewind(t *testing.T) {
	run := func(dev device.Device) (ids []int32, access string) {
		m := load(t, dev, tiny, 512)
		s := open(t, dev, m, 50, 80, decode.Options{Sampling: warm})
		modeltest.Check(t, s.Build(sampled(dev, m, teams.Contiguous)))
		next(t, s, 4)
		for id := range int32(4) {
			modeltest.Check(t, s.Force(100+id))
			next(t, s, 1)
		}
		modeltest.Check(t, s.Truncate(53))
		next(t, s, 6)
		return s.Tokens(), fmt.Sprint(s.Access())
	}
	ids, access := run(modeltest.Host(t))
	gotIDs, gotAccess := run(&queued{Device: modeltest.Host(t)})
	if !slices.Equal(ids, gotIDs) || access != gotAccess {
		t.Errorf("tokens %v, access %s; want %v, %s", gotIDs[50:], gotAccess, ids[50:], access)
	}
}

// Logits that a later step has overwritten are not given out.
func TestQueuedLogits(t *testing.T) {
	dev := &queued{Device: modeltest.Host(t)}
	m := load(t, dev, tiny, 512)
	s := open(t, dev, m, 50, 53, decode.Options{})
	modeltest.Check(t, s.Build(modeltest.Dense(dev, m)))
	const lost = "a step that was queued ahead has overwritten the logits"
	next(t, s, 1)
	_, err := s.Logits()
	wantError(t, err, lost)
	modeltest.Check(t, s.Force(5))
	_, err = s.Logits()
	wantError(t, err, lost)
	last := next(t, s, 3)[2] // no row is left for a step ahead
	logits, err := s.Logits()
	modeltest.Check(t, err)
	if best := slices.Max(logits); logits[last] != best {
		t.Errorf("the last token has logit %v, the largest is %v", logits[last], best)
	}
}
