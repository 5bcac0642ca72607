// Package decode runs a model over one sequence: exact prefill, then one
// recorded step a token with whatever attention backend was built.
//
//	New → Prefill → Build → Next, Next, …      (Build again: same prompt, another backend)
//
// The last prompt token is fed again as the first decode query, for exact
// attention too, so that all backends take the same steps.
package decode

import (
	"errors"
	"slices"

	"blitzen/attention"
	"blitzen/attention/dense"
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
	steps   map[int]device.Step // recorded, by the rows that they promise (most)
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
	s := &Session{dev: dev, model: m, opts: opts, steps: map[int]device.Step{}, owned: device.Owner{Dev: dev}}
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
	return device.WriteSeed(s.dev, s.t.seed, s.opts.Sampling.Seed)
}

// Build makes the backend that the next tokens are decoded with, which the session
// closes, and goes back to the end of the prompt. The cache is first put as prefill
// left it.
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
	for _, rows := range slices.Compact([]int{most(s.prompt), most(s.opts.Capacity)}) {
		if err := s.dev.Prepare(func(ops *device.Ops) { s.issue(ops, s.backend, rows) }); err != nil {
			return err
		}
	}
	if _, err := s.step(s.prompt); err != nil {
		return err
	}
	return s.settle()
}

// Probe feeds the last prompt token once through a backend that observes, and
// leaves the cache as Prefill left it; what was decoded is forgotten, and a backend must
// be built anew. The caller closes the observer.
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
	err := look(func(ops *device.Ops) { s.issue(ops, s.backend, most(len(s.tokens))) })
	s.stale = true
	return errors.Join(err, s.restoreCounts(), s.rewind())
}

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

// drop forgets the recorded steps and the backend.
func (s *Session) drop() {
	s.waitAhead()
	for _, step := range s.steps {
		step.Close()
	}
	clear(s.steps)
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
