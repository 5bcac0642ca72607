package decode_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"blitzen/attention"
	"blitzen/decode"
	"blitzen/internal/modeltest"
	"blitzen/kvcache"
	"blitzen/teams"
)

// followed is the logits along ids, copied.
func followed(t *testing.T, s *decode.Session, ids []int32) (all [][]float32) {
	t.Helper()
	modeltest.Check(t, s.Follow(context.Background(), ids, func(i int, l []float32) error {
		all = append(all, slices.Clone(l))
		return nil
	}))
	return all
}

// Along a backend's own tokens the logits are those it drew from, bit for bit,
// on a device that works ahead too, and the reads are the same.
func TestFollow(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 512)
	for name, b := range map[string]func(*kvcache.Cache) (attention.Backend, error){"dense": modeltest.Dense(dev, m), "sampled": sampled(dev, m, teams.Contiguous)} {
		s := open(t, dev, m, 60, 80, decode.Options{})
		modeltest.Check(t, s.Build(b))
		var want [][]float32
		var ids []int32
		for range 10 {
			ids = append(ids, next(t, s, 1)...)
			l, err := s.Logits()
			modeltest.Check(t, err)
			want = append(want, l)
		}
		access := s.Access()
		modeltest.Check(t, s.Build(b))
		got := followed(t, s, ids)
		if s.Access() != access {
			t.Errorf("%s: access %+v, want %+v", name, s.Access(), access)
		}
		later := open(t, &queued{Device: dev}, m, 60, 80, decode.Options{})
		modeltest.Check(t, later.Build(b))
		ahead := followed(t, later, ids)
		for i := range want {
			if !slices.EqualFunc(got[i], want[i], sameBits) || !slices.EqualFunc(ahead[i], want[i], sameBits) {
				t.Errorf("%s: the logits of step %d differ", name, i)
			}
		}
		if tokens := s.Tokens()[60:]; !slices.Equal(tokens, ids) {
			t.Errorf("%s: tokens %v, want %v", name, tokens, ids)
		}
	}
}

func sameBits(a, b float32) bool { return floatBits(a) == floatBits(b) }

func TestFollowEnds(t *testing.T) {
	dev := modeltest.Host(t)
	m := load(t, dev, tiny, 512)
	s := open(t, dev, m, 60, 62, decode.Options{})
	nothing := func(int, []float32) error { return nil }
	wantError(t, s.Follow(context.Background(), []int32{1}, nothing), "no attention backend has been built")
	modeltest.Check(t, s.Build(modeltest.Dense(dev, m)))
	stop := errors.New("enough")
	if err := s.Follow(context.Background(), []int32{1, 2}, func(int, []float32) error { return stop }); err != stop {
		t.Errorf("%v", err)
	}
	if err := s.Follow(context.Background(), []int32{1, 2, 3, 4, 5}, nothing); !errors.Is(err, decode.ErrFull) {
		t.Errorf("%v", err)
	}
	wantError(t, s.Follow(context.Background(), []int32{-4}, nothing), "token id -4: the vocabulary has ids 0 to 511")
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Follow(ended, []int32{1}, nothing); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
