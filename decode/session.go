// Package decode runs a model over one sequence: exact prefill, then one
// recorded step a token with whatever attention backend was built.
//
//	New → Prefill → Build → Next, Next, …      (Build again: same prompt, another backend)
//
// The last prompt token is fed again as the first decode query, for exact
// attention too, so that all backends take the same steps.
package decode

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"blitzen/attention"
	"blitzen/attention/dense"
	"blitzen/attention/record"
	"blitzen/device"
	"blitzen/kvcache"
	"blitzen/model"
	"blitzen/sample"
)

// ErrFull says that the session has no row left for another token.
var ErrFull = errors.New("the context is full")

// Options size a session.
type Options struct {
	Capacity    int // rows: prompt and generated tokens
	Sampling    sample.Settings
	TopLogProbs int // alternatives reported with every token; the token's own log-probability is always reported if above 0
	Chunk       int // most prompt tokens read at once; 0 for the model's MaxRows
	Probes      int // keep the queries of so many last prompt tokens in the cache (kvcache.Layer.Queries)
}

// Session is one sequence on one device. It owns its cache and backends, not
// the model. Not for concurrent use.
type Session struct {
	dev     device.Device
	model   model.Model
	opts    Options
	cache   *kvcache.Cache
	prefill *dense.Backend
	backend attention.Backend
	step    device.Step
	t       tensors
	owned   device.Owner

	tokens []int32 // what the rows hold, then the token that the next step is fed
	prompt int     // rows that Prefill wrote
	ahead  []pending
	last   []int64 // counters as of the last token returned; nil before
	stale  bool    // the logits are of a discarded step
	failed error   // of a step since which tokens and device may disagree
}

// tensors are everything that changes from step to step.
type tensors struct {
	id       *device.Tensor // I32 [1]: token fed, then token drawn
	pos      *device.Tensor // I32 [1]: its position
	logits   *device.Tensor // F32 [1, vocab]
	seen     *device.Tensor // I32 [vocab]
	settings *device.Tensor // F32 [NumSettings]
	seed     *device.Tensor // U32 [2]
	topIDs   *device.Tensor // I32 [n]
	top      *device.Tensor // F32 [n]
	chosen   *device.Tensor // F32 [1]
	ids, at  *device.Tensor // I32 [rows]: a prefill chunk
}

// New makes the session's cache and buffers.
func New(dev device.Device, m model.Model, opts Options) (*Session, error) {
	if err := opts.Sampling.Validate(); err != nil {
		return nil, err
	}
	s := &Session{dev: dev, model: m, opts: opts, owned: device.Owner{Dev: dev}}
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Session) open() error {
	var err error
	if s.cache, err = kvcache.New(s.dev, s.model.CacheSpec(), s.opts.Capacity); err != nil {
		return err
	}
	if s.prefill, err = dense.New(s.dev, s.model.CacheSpec()); err != nil {
		return err
	}
	if s.opts.Probes > 0 {
		if err := s.cache.KeepQueries(s.opts.Probes, s.model.Config().Heads); err != nil {
			return err
		}
	}
	vocab, top := s.model.Config().Vocab, max(s.opts.TopLogProbs, 1)
	o := &s.owned
	s.t = tensors{
		id:       o.New("token", device.I32, 1),
		pos:      o.New("position", device.I32, 1),
		logits:   o.New("logits", device.F32, 1, vocab),
		seen:     o.New("seen", device.I32, vocab),
		settings: o.New("settings", device.F32, device.NumSettings),
		seed:     o.New("seed", device.U32, 2),
		topIDs:   o.New("top_ids", device.I32, min(top, vocab)),
		top:      o.New("top_logprobs", device.F32, min(top, vocab)),
		chosen:   o.New("logprob", device.F32, 1),
		ids:      o.New("prompt_ids", device.I32, s.model.MaxRows()),
		at:       o.New("prompt_positions", device.I32, s.model.MaxRows()),
	}
	if o.Err() != nil {
		return o.Err()
	}
	if err := device.Write(s.dev, s.t.settings, s.opts.Sampling.Tensor()); err != nil {
		return err
	}
	seed := s.opts.Sampling.Seed
	return device.Write(s.dev, s.t.seed, []uint32{uint32(seed), uint32(seed >> 32)})
}

// Prefill reads the prompt with exact attention, in chunks of
// Options.Chunk, and freezes its rows. progress, if not nil, is told the rows
// done after each chunk. Called again it reads more of the prompt: what has been
// decoded is forgotten, and a backend must be built anew.
func (s *Session) Prefill(ctx context.Context, ids []int32, progress func(done, of int)) error {
	if err := s.checkPrompt(ids); err != nil {
		return err
	}
	s.drop()
	if err := s.cache.Thaw(); err != nil {
		return err
	}
	if err := s.prepare(len(ids)); err != nil {
		return err
	}
	probes := min(s.opts.Probes, len(ids))
	if probes > 0 {
		s.cache.HoldQueries(probes)
	}
	for done := 0; done < len(ids); {
		n, at := min(s.chunkRows(), len(ids)-done), s.prompt+done
		if first := len(ids) - probes; done < first {
			n = min(n, first-done) // the others may be read in a faster way
		}
		attn := s.reader(done, n, len(ids)-probes)
		if err := s.chunk(ids[done:done+n], at, stoppable{attn, ctx}); err != nil {
			return fmt.Errorf("prefill at token %d: %w", at, err)
		}
		done += n
		if err := s.settle(); err != nil {
			return fmt.Errorf("prefill at token %d: %w", at+n, err)
		}
		if progress != nil {
			progress(done, len(ids))
		}
	}
	if err := s.cache.Freeze(s.prompt + len(ids)); err != nil {
		return err
	}
	s.tokens = append(s.tokens[:s.prompt], ids...)
	s.prompt = len(s.tokens)
	return nil
}

// reader is exact attention for n prompt tokens from start on, none or all of
// them from first on, which keeps the queries of the latter.
func (s *Session) reader(start, n, first int) attention.Backend {
	if start+n <= first {
		return s.prefill
	}
	return record.NewQueries(s.prefill, s.cache, start-first)
}

// stoppable is exact attention that ends a prefill between layers when ctx
// ends.
type stoppable struct {
	attention.Backend
	ctx context.Context
}

func (s stoppable) Attend(ops *device.Ops, in attention.Input) {
	if err := s.ctx.Err(); err != nil {
		ops.Fail(err)
		return
	}
	s.Backend.Attend(ops, in)
}

// settle waits until the device has done all that was queued, so that progress
// and times are true.
func (s *Session) settle() error {
	_, err := device.Read[int32](s.dev, s.t.pos)
	return err
}

func (s *Session) checkPrompt(ids []int32) error {
	switch {
	case len(ids) == 0:
		return errors.New("the prompt is empty: give at least one token")
	case s.prompt+len(ids) > s.opts.Capacity:
		return fmt.Errorf("the prompt has %d tokens, the context %d: %w", s.prompt+len(ids), s.opts.Capacity, ErrFull)
	}
	vocab := s.model.Config().Vocab
	for i, id := range ids {
		if id < 0 || int(id) >= vocab {
			return fmt.Errorf("prompt token %d has id %d, the vocabulary ids 0 to %d", i, id, vocab-1)
		}
	}
	return nil
}

// prepare has the device make ready what a prompt of n tokens and the steps
// after it need. Steps of another backend may need more.
func (s *Session) prepare(n int) error {
	rows := s.chunkRows()
	return s.dev.Prepare(func(ops *device.Ops) {
		for _, size := range []int{min(rows, n), n % rows} {
			if size > 0 {
				s.model.Forward(ops, s.batch(size, s.prompt+n), s.cache, s.prefill, nil)
			}
		}
		s.issue(ops, s.prefill)
	})
}

// chunkRows is the most prompt tokens read at once.
func (s *Session) chunkRows() int {
	if s.opts.Chunk > 0 {
		return min(s.opts.Chunk, s.model.MaxRows())
	}
	return s.model.MaxRows()
}

// batch is the tensors of a prefill chunk of n tokens, which makes the cache
// rows long.
func (s *Session) batch(n, rows int) model.Batch {
	return model.Batch{IDs: s.t.ids.Slice(0, 0, n), Pos: s.t.at.Slice(0, 0, n), Rows: rows}
}

// chunk feeds tokens at consecutive positions through exact attention.
func (s *Session) chunk(ids []int32, start int, attn attention.Backend) error {
	at := make([]int32, len(ids))
	for i := range at {
		at[i] = int32(start + i)
	}
	in := s.batch(len(ids), start+len(ids))
	if err := device.Write(s.dev, in.IDs, ids); err != nil {
		return err
	}
	if err := device.Write(s.dev, in.Pos, at); err != nil {
		return err
	}
	return s.dev.Run(func(ops *device.Ops) { s.model.Forward(ops, in, s.cache, attn, nil) })
}

// Build makes the backend that the next tokens are decoded with and goes back
// to the end of the prompt. The cache is first put as prefill left it.
func (s *Session) Build(build func(cache *kvcache.Cache) (attention.Backend, error)) error {
	if s.prompt == 0 {
		return errors.New("there is no prompt yet")
	}
	s.drop()
	if err := s.cache.Thaw(); err != nil {
		return err
	}
	b, err := build(s.cache)
	if err != nil {
		return err
	}
	s.backend = b
	if err := s.Truncate(s.prompt); err != nil {
		return err
	}
	step := func(ops *device.Ops) { s.issue(ops, s.backend) }
	if err := s.dev.Prepare(step); err != nil {
		return err
	}
	if s.step, err = s.dev.Record(step); err != nil {
		return err
	}
	return s.settle()
}

// Probe feeds the last prompt token once through a backend that observes, and
// leaves the cache as Prefill left it. The caller closes the backend.
func (s *Session) Probe(observer func(cache *kvcache.Cache) (attention.Backend, error)) error {
	if s.prompt == 0 {
		return errors.New("there is no prompt yet")
	}
	s.drop()
	if err := s.cache.Thaw(); err != nil {
		return err
	}
	b, err := observer(s.cache)
	if err != nil {
		return err
	}
	if err := s.Truncate(s.prompt); err != nil {
		return err
	}
	in := model.Batch{IDs: s.t.id, Pos: s.t.pos}
	if err := s.dev.Run(func(ops *device.Ops) { s.model.Forward(ops, in, s.cache, b, nil) }); err != nil {
		return err
	}
	return s.cache.Thaw()
}

// Inspect gives look what a decode step issues, to be listed or executed once
// more. Afterwards the session is where it was.
func (s *Session) Inspect(look func(step func(*device.Ops)) error) error {
	if s.backend == nil {
		return errors.New("no attention backend has been built")
	}
	if err := s.discard(); err != nil {
		return err
	}
	err := look(func(ops *device.Ops) { s.issue(ops, s.backend) })
	s.stale = true
	return errors.Join(err, s.restoreCounts(), s.rewind())
}

// Backend is what Build made, nil before.
func (s *Session) Backend() attention.Backend { return s.backend }

// Cache is the session's cache.
func (s *Session) Cache() *kvcache.Cache { return s.cache }

// Tokens are a copy of the prompt and what followed it so far.
func (s *Session) Tokens() []int32 { return slices.Clone(s.tokens) }

// Access is what decode read for the tokens returned since Build.
func (s *Session) Access() attention.Access {
	if s.last == nil {
		return attention.Access{}
	}
	return s.backend.Access(s.last)
}

// drop forgets the recorded step and the backend.
func (s *Session) drop() {
	s.waitAhead()
	if s.step != nil {
		s.step.Close()
		s.step = nil
	}
	if s.backend != nil {
		s.backend.Close()
		s.backend = nil
	}
	s.last = nil
}

// Close frees everything but the model.
func (s *Session) Close() {
	s.drop()
	if s.prefill != nil {
		s.prefill.Close()
	}
	if s.cache != nil {
		s.cache.Close()
	}
	s.owned.Free()
}
