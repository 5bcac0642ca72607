// Package santa is SANTA, the predecessor of SANTA++: every key of the cache is
// scored, generated tokens included, and S rows are drawn with replacement from
// the exact attention weights; the output is the mean of their values.
//
//	p_i = softmax(a·q·k_i)                         Route, a row a team
//	i_1 … i_S independent, P(i_j = i) = p_i        SampleWithReplacement
//	out = Σ_j v_{i_j} / S                          AttendSelected
//
// The output is an unbiased estimate of the dense one. With the systematic draw
// a row is drawn ⌊S·p⌋ or ⌈S·p⌉ times. estimator.go holds the same in float64
// for the tests.
//
// AttendSelected weighs a drawn row with exp(a·q·k − ln c), c = S·p: the same
// for all, so that the ratio of its sums is the mean. For that it looks at the
// keys drawn a second time; what is counted is what the method needs.
//
// Source: Lee et al. (2026), as SANTA++ describes it.
package santa

import (
	"fmt"

	"blitzen/attention"
	"blitzen/attention/sampled"
	"blitzen/device"
	"blitzen/kvcache"
)

// Config are the method's settings.
type Config struct {
	Budget     int  // S: rows drawn by a query head
	Systematic bool // evenly spaced draws that share one random number
	Seed       uint64
	sampled.BeyondPaper
}

// Validate refuses settings that cannot be, naming the flags.
func (c Config) Validate() error {
	if c.Budget < 1 {
		return fmt.Errorf("--budget %d: must be at least 1", c.Budget)
	}
	if c.Budget > maxBudget {
		return fmt.Errorf("--budget %d: santa draws at most %d rows", c.Budget, maxBudget)
	}
	return c.BeyondPaper.Validate()
}

// maxBudget is more rows than any cache has; the numbers of those drawn are kept.
const maxBudget = 1 << 24

// Indices into a layer's counters.
const (
	countKeys = iota
	countValues
	countRows // of layers that are attended exactly
	numCounts
)

// Backend draws rows of the whole cache.
type Backend struct {
	dev     device.Device
	cfg     Config
	spec    kvcache.Spec
	scores  *device.Tensor   // F32 [1, heads, capacity]
	zeros   *device.Tensor   // F32 [capacity]
	offsets *device.Tensor   // I32 [capacity+1]: 0, 1, 2, …
	rows    []*device.Tensor // I32 [1, heads, S]: of each layer where observed, else one
	prompt  int
	logC    *device.Tensor // F32 [1, heads, S]
	seed    *device.Tensor // U32 [2]
	counts  *device.Tensor // I64 [layers, numCounts]
	exact   bool           // a short prompt: all layers are attended exactly
	owned   device.Owner
}

// New makes the backend for a cache and the given number of query heads.
func New(dev device.Device, cache *kvcache.Cache, cfg Config, heads int) (*Backend, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := &Backend{dev: dev, cfg: cfg, spec: cache.Layers[0].Spec, prompt: cache.Frozen(), exact: cache.Frozen() < cfg.MinContext, owned: device.Owner{Dev: dev}}
	if !cfg.DenseLayers.Within(len(cache.Layers)) {
		return nil, fmt.Errorf("santa: --dense-layers %v: the model has layers 0 to %d", cfg.DenseLayers, len(cache.Layers)-1)
	}
	if err := b.open(cache, heads); err != nil {
		b.Close()
		return nil, fmt.Errorf("santa: %w", err)
	}
	return b, nil
}

func (b *Backend) open(cache *kvcache.Cache, heads int) error {
	o := &b.owned
	b.scores = o.New("santa.scores", device.F32, 1, heads, cache.Capacity)
	b.zeros = o.New("santa.zeros", device.F32, cache.Capacity)
	b.offsets = o.New("santa.offsets", device.I32, cache.Capacity+1)
	b.rows = []*device.Tensor{o.New("santa.rows", device.I32, 1, heads, b.cfg.Budget)}
	b.logC = o.New("santa.log_c", device.F32, 1, heads, b.cfg.Budget)
	b.seed = o.New("santa.seed", device.U32, 2)
	b.counts = o.New("santa.counts", device.I64, len(cache.Layers), numCounts)
	if err := o.Err(); err != nil {
		return err
	}
	starts := make([]int32, cache.Capacity+1)
	for i := range starts {
		starts[i] = int32(i)
	}
	if err := device.Write(b.dev, b.offsets, starts); err != nil {
		return err
	}
	return b.Reseed(b.cfg.Seed)
}

// Name is "santa".
func (b *Backend) Name() string { return "santa" }

// Exact reports whether all of a short prompt is read.
func (b *Backend) Exact() bool { return b.exact }

// Attend issues one decode step of one layer. in.Q must be a single token.
func (b *Backend) Attend(ops *device.Ops, in attention.Input) {
	count := func(i int) *device.Tensor { return b.counts.Index(0, in.Layer).Slice(0, i, i+1) }
	if b.exact || b.cfg.DenseLayers.Has(in.Layer) {
		ops.Attend(in.Exactly(count(countRows)))
		return
	}
	if in.Q.Shape[0] != 1 {
		ops.Fail(fmt.Errorf("santa: got %d queries at once, decodes one token at a time", in.Q.Shape[0]))
		return
	}
	kv, rows := in.K.Shape[0], b.rows[min(in.Layer, len(b.rows)-1)]
	ops.Route(device.RouteArgs{Phi: b.scores, Q: in.Q, Reps: in.K, Bias: b.zeros.Repeat(0, kv), Last: in.Pos, Scale: in.Scale, Read: count(countKeys)})
	ops.SampleWithReplacement(device.ReplacementArgs{
		Teams: rows, LogC: b.logC, Phi: b.scores, Systematic: b.cfg.Systematic,
		Draw: device.Draw{Seed: b.seed, Layer: in.Layer, Pos: in.Pos},
	})
	ops.AttendSelected(device.SelectedArgs{
		Out: device.Partial{Out: in.Out}, Q: in.Q, K: in.K, V: in.V, Offsets: b.offsets.Repeat(0, kv),
		Teams: rows, LogC: b.logC, Scale: in.Scale, Read: count(countValues),
	})
	in.Multiply(ops)
}

// Reseed changes the random stream.
func (b *Backend) Reseed(seed uint64) error {
	return device.WriteSeed(b.dev, b.seed, seed)
}

// Counters are keys scored, values of drawn rows, and rows of layers that are
// attended exactly, I64 [layers, 3].
func (b *Backend) Counters() *device.Tensor { return b.counts }

// Access takes the counters: every key is scored, and the values are those of
// the distinct rows that the query heads of a key head drew.
func (b *Backend) Access(counters []int64) attention.Access {
	a := attention.NewAccess(b.spec, b.dev.DType())
	for i := 0; i < len(counters); i += numCounts {
		a.Routed += counters[i+countKeys]
		a.Values += counters[i+countValues]
		a.Rows += counters[i+countRows]
	}
	a.Dense = a.Routed + a.Rows
	return a
}

// Close frees the backend's tensors.
func (b *Backend) Close() { b.owned.Free() }
