package decode_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/attention/santapp"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/kvcache"
	"blitzen/model"
	"blitzen/model/qwen2"
	"blitzen/sample"
	"blitzen/teams"
	"blitzen/weights"
)

const tiny = "../testdata/models/qwen2_tied_gqa" // 512 tokens, 3 layers, 14 query heads on 2

// load puts a checkpoint on a device; prompts go in chunks of rows tokens.
func load(t *testing.T, dev device.Device, dir string, rows int) model.Model {
	t.Helper()
	cfg, err := qwen2.ReadConfig(modeltest.Fields(t, dir, "config.json"))
	modeltest.Check(t, err)
	return modeltest.Load(t, dir, func(ck *weights.Checkpoint) (model.Model, error) {
		return qwen2.Load(dev, ck, cfg, model.Options{Rows: rows})
	})
}

// prompt is a golden prompt of the tiny checkpoint, cut to n tokens.
func prompt(t *testing.T, n int) []int32 {
	t.Helper()
	return golden.Open(t, tiny+"/golden.safetensors").Int32s("p2.input_ids")[:n]
}

// sampled builds SANTA++ with few teams, so that every step draws.
func sampled(dev device.Device, m model.Model, parents teams.Parents) func(*kvcache.Cache) (attention.Backend, error) {
	return build(dev, m, santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 4}, Budget: 8, Parents: parents, Seed: 7})
}

func build(dev device.Device, m model.Model, cfg santapp.Config) func(*kvcache.Cache) (attention.Backend, error) {
	return func(c *kvcache.Cache) (attention.Backend, error) {
		return santapp.Build(context.Background(), dev, c, cfg, nil)
	}
}

// open is a session over the tiny checkpoint with a prompt of n tokens read.
func open(t *testing.T, dev device.Device, m model.Model, n, capacity int, opts decode.Options) *decode.Session {
	t.Helper()
	opts.Capacity = capacity
	if opts.Sampling.TopP == 0 {
		opts.Sampling = sample.Greedy()
	}
	s, err := decode.New(dev, m, opts)
	modeltest.Check(t, err)
	t.Cleanup(s.Close)
	modeltest.Check(t, s.Prefill(context.Background(), prompt(t, n), nil))
	return s
}

// next decodes n tokens.
func next(t *testing.T, s *decode.Session, n int) []int32 {
	t.Helper()
	ids := make([]int32, n)
	for i := range ids {
		token, err := s.Next(context.Background())
		modeltest.Check(t, err)
		ids[i] = token.ID
	}
	return ids
}

// warm draws tokens and weakens those seen: everything that a step keeps on the
// device takes part.
var warm = sample.Settings{Temperature: 1, TopK: 40, TopP: 0.95, Repetition: 1.1, Seed: 5}

// rows are the prompt's cache rows, as bits, and where they lie.
func rows(t *testing.T, dev device.Device, c *kvcache.Cache) (out []uint32) {
	t.Helper()
	for _, l := range c.Layers {
		for h := range l.KVHeads {
			for _, x := range []*device.Tensor{l.K, l.V} {
				bits, err := device.Read[float32](dev, x.Index(0, h).Slice(0, 0, c.Frozen()))
				modeltest.Check(t, err)
				for _, v := range bits {
					out = append(out, floatBits(v))
				}
			}
			slots, err := device.Read[int32](dev, l.Slots.Index(0, h))
			modeltest.Check(t, err)
			for _, s := range slots {
				out = append(out, uint32(s))
			}
		}
	}
	return out
}

// One prefill serves any number of backends: each starts from the same bits.
func TestBuildAgain(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 512)
	s := open(t, dev, m, 120, 140, decode.Options{Sampling: warm})
	before := rows(t, dev, s.Cache())
	first := map[string][]int32{}
	for round := range 2 {
		for name, b := range map[string]func(*kvcache.Cache) (attention.Backend, error){
			"dense": modeltest.Dense(dev, m), "contiguous": sampled(dev, m, teams.Contiguous), "kmeans": sampled(dev, m, teams.KMeans),
		} {
			modeltest.Check(t, s.Build(b))
			if got := s.Tokens(); !slices.Equal(got, prompt(t, 120)) || s.Access() != (attention.Access{}) {
				t.Errorf("%s: after Build %d tokens, access %+v", name, len(got), s.Access())
			}
			ids := next(t, s, 12)
			if round == 0 {
				first[name] = ids
			} else if !slices.Equal(ids, first[name]) {
				t.Errorf("%s: again %v, first %v", name, ids, first[name])
			}
		}
	}
	if slices.Equal(first["dense"], first["contiguous"]) {
		t.Error("sampled tokens are the dense ones: the test shows nothing")
	}
	modeltest.Check(t, s.Build(modeltest.Dense(dev, m)))
	if !slices.Equal(rows(t, dev, s.Cache()), before) {
		t.Error("the prompt's rows are not those of prefill, bit for bit")
	}
}

// A build that fails leaves a session that can build again.
func TestBuildFails(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 512)
	s := open(t, dev, m, 60, 80, decode.Options{})
	modeltest.Check(t, s.Build(modeltest.Dense(dev, m)))
	want := next(t, s, 5)
	cancelled, cancel := context.WithCancel(context.Background())
	err := s.Build(func(c *kvcache.Cache) (attention.Backend, error) {
		b, err := santapp.Build(cancelled, dev, c, santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 4}, Budget: 8, Parents: teams.Segmented}, func(_, _ int) { cancel() })
		if err == nil {
			b.Close()
			err = errors.New("built after all")
		}
		return nil, err
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if _, err := s.Next(context.Background()); err == nil {
		t.Error("decoded without a backend")
	}
	modeltest.Check(t, s.Build(modeltest.Dense(dev, m)))
	if got := next(t, s, 5); !slices.Equal(got, want) {
		t.Errorf("then %v, want %v", got, want)
	}
}

// Truncate goes back: the same tokens follow again.
func TestTruncate(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 512)
	for name, b := range map[string]func(*kvcache.Cache) (attention.Backend, error){"dense": modeltest.Dense(dev, m), "sampled": sampled(dev, m, teams.Contiguous)} {
		s := open(t, dev, m, 50, 70, decode.Options{Sampling: warm})
		modeltest.Check(t, s.Build(b))
		want := next(t, s, 10)
		for _, keep := range []int{10, 9, 4, 0} {
			modeltest.Check(t, s.Truncate(50+keep))
			if got := s.Tokens(); len(got) != 50+keep || !slices.Equal(got[50:], want[:keep]) {
				t.Errorf("%s: kept %v of %v", name, got[50:], want)
			}
			if got := next(t, s, 10-keep); !slices.Equal(got, want[keep:]) {
				t.Errorf("%s: after keeping %d: %v, want %v", name, keep, got, want[keep:])
			}
		}
		for _, n := range []int{49, 61, -1} {
			wantError(t, s.Truncate(n), fmt.Sprintf("cannot keep %d of 60 tokens: the prompt has 50", n))
		}
	}
}

// Force puts a token in the place of the last one: what follows is what follows
// a prompt with that token.
func TestForce(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 512)
	s := open(t, dev, m, 50, 80, decode.Options{})
	modeltest.Check(t, s.Build(modeltest.Dense(dev, m)))
	wantError(t, s.Force(3), "no token has been decoded yet")
	own := next(t, s, 1)[0]
	forced := (own + 1) % 512
	modeltest.Check(t, s.Force(forced))
	got := next(t, s, 8)
	if tokens := s.Tokens(); tokens[50] != forced || !slices.Equal(tokens[51:], got) {
		t.Errorf("tokens %v", tokens[50:])
	}
	other, err := decode.New(dev, m, decode.Options{Capacity: 80, Sampling: sample.Greedy()})
	modeltest.Check(t, err)
	defer other.Close()
	modeltest.Check(t, other.Prefill(context.Background(), append(prompt(t, 50), forced), nil))
	modeltest.Check(t, other.Build(modeltest.Dense(dev, m)))
	if want := next(t, other, 8); !slices.Equal(got, want) {
		t.Errorf("after a forced token %v, after a prompt with it %v", got, want)
	}
}

func TestRefuse(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 16)
	ctx := context.Background()
	if _, err := decode.New(dev, m, decode.Options{Capacity: 8}); err == nil {
		t.Error("accepted settings of zero")
	}
	s, err := decode.New(dev, m, decode.Options{Capacity: 8, Sampling: sample.Greedy()})
	modeltest.Check(t, err)
	defer s.Close()
	dense := modeltest.Dense(dev, m)
	wantError(t, s.Build(dense), "there is no prompt yet")
	wantError(t, s.Prefill(ctx, nil, nil), "the prompt is empty: give at least one token")
	wantError(t, s.Prefill(ctx, []int32{1, 512}, nil), "prompt token 1 has id 512, the vocabulary ids 0 to 511")
	wantError(t, s.Prefill(ctx, []int32{-1}, nil), "prompt token 0 has id -1, the vocabulary ids 0 to 511")
	err = s.Prefill(ctx, make([]int32, 9), nil)
	wantError(t, err, "the prompt has 9 tokens, the context 8: the context is full")
	if !errors.Is(err, decode.ErrFull) {
		t.Error("not ErrFull")
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Prefill(cancelled, []int32{1}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled prefill: %v", err)
	}
	modeltest.Check(t, s.Prefill(ctx, []int32{1, 2, 3}, nil))
	wantError(t, s.Prefill(ctx, make([]int32, 6), nil), "the prompt has 9 tokens, the context 8: the context is full")
	wantError(t, s.Inspect(nil), "no attention backend has been built")
	_, err = s.Next(ctx)
	wantError(t, err, "no attention backend has been built")
	modeltest.Check(t, s.Build(dense))
	_, err = s.Logits()
	wantError(t, err, "no token has been decoded yet")
	if _, err := s.Next(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled step: %v", err)
	}
	// Rows 3 to 7 are left, and one more token needs no row.
	next(t, s, 6)
	if _, err := s.Next(ctx); !errors.Is(err, decode.ErrFull) {
		t.Errorf("a token too many: %v", err)
	}
	modeltest.Check(t, s.Truncate(7))
	next(t, s, 2)
}

// Chunks report their progress and end with the prompt.
func TestPrefillProgress(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 16)
	s, err := decode.New(dev, m, decode.Options{Capacity: 64, Sampling: sample.Greedy()})
	modeltest.Check(t, err)
	defer s.Close()
	var done []int
	modeltest.Check(t, s.Prefill(context.Background(), prompt(t, 40), func(n, of int) {
		if of != 40 {
			t.Errorf("of %d", of)
		}
		done = append(done, n)
	}))
	if !slices.Equal(done, []int{16, 32, 40}) {
		t.Errorf("progress %v", done)
	}
}

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
