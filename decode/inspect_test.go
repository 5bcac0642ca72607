package decode_test

import (
	"slices"
	"testing"

	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/golden"
	"blitzen/internal/modeltest"
	"blitzen/sample"
	"blitzen/teams"
)

// A prompt that is read in two calls, with tokens decoded between them, is the
// prompt read in one. Chunks end elsewhere, so sums may be made in another
// order.
func TestPrefillGoesOn(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 512)
	whole := open(t, dev, m, 50, 80, decode.Options{})
	ids := whole.Tokens()
	s, err := decode.New(dev, m, decode.Options{Capacity: 80, Sampling: sample.Greedy()})
	modeltest.Check(t, err)
	defer s.Close()
	modeltest.Check(t, s.Prefill(t.Context(), ids[:37], nil))
	modeltest.Check(t, s.Build(sampled(dev, m, teams.Contiguous)))
	next(t, s, 3)
	var seen []int
	modeltest.Check(t, s.Prefill(t.Context(), ids[37:], func(done, of int) { seen = append(seen, done, of) }))
	if !slices.Equal(s.Tokens(), ids) || !slices.Equal(seen, []int{13, 13}) {
		t.Fatalf("tokens %v, progress %v", s.Tokens(), seen)
	}
	if _, err := s.Next(t.Context()); err == nil {
		t.Error("the backend of the shorter prompt still decodes")
	}
	for _, one := range []*decode.Session{whole, s} {
		modeltest.Check(t, one.Build(modeltest.Dense(dev, m)))
	}
	for i := range 5 {
		want, got := next(t, whole, 1), next(t, s, 1)
		a, err := whole.Logits()
		modeltest.Check(t, err)
		b, err := s.Logits()
		modeltest.Check(t, err)
		golden.Near(t, "logits", golden.Float64s(b), golden.Float64s(a), modeltest.Rounding(m, modeltest.Terms, golden.Float64s(a)))
		if !slices.Equal(got, want) {
			t.Errorf("token %d is %v, want %v", i, got, want)
		}
	}
}

// A step that somebody looks at, or executes, leaves no trace.
func TestInspect(t *testing.T) {
	for _, method := range []string{"dense", "sampled"} {
		var ids []int32
		for _, dev := range []device.Device{modeltest.Host(t), modeltest.Host(t), &queued{Device: modeltest.Host(t)}} {
			m := load(t, dev, tiny, 512)
			s := open(t, dev, m, 50, 80, decode.Options{Sampling: warm})
			b := modeltest.Dense(dev, m)
			if method == "sampled" {
				b = sampled(dev, m, teams.Contiguous)
			}
			modeltest.Check(t, s.Build(b))
			before := func() {
				if ids == nil {
					return
				}
				access, tokens := s.Access(), s.Tokens()
				modeltest.Check(t, s.Inspect(func(step func(*device.Ops)) error {
					calls, err := device.Calls(step)
					if len(calls) < 20 || err != nil {
						t.Errorf("%d operations, %v", len(calls), err)
					}
					return dev.Run(step)
				}))
				if s.Access() != access || !slices.Equal(s.Tokens(), tokens) {
					t.Errorf("%s: access %+v, tokens %v", method, s.Access(), s.Tokens())
				}
			}
			before()
			next(t, s, 4)
			before()
			next(t, s, 4)
			if got := s.Tokens(); ids == nil {
				ids = got
			} else if !slices.Equal(got, ids) {
				t.Errorf("%s: tokens %v, want %v", method, got[50:], ids[50:])
			}
		}
	}
}
