package bench_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"blitzen/bench"

	"pgregory.net/rapid"
)

// fake is a clock that only the work moves.
type fake struct {
	now, start time.Duration
	laps       []time.Duration
	log        []string
}

func (f *fake) Start() error { f.start = f.now; return nil }
func (f *fake) Stop() error  { f.laps = append(f.laps, f.now-f.start); return nil }
func (f *fake) Close() error { return nil }
func (f *fake) Laps() ([]time.Duration, error) {
	laps := f.laps
	f.laps = nil
	return laps, nil
}

// work is a method that takes so long.
func (f *fake) work(name string, took func() time.Duration) bench.Method {
	return bench.Method{Name: name, Run: func() error {
		f.log = append(f.log, name)
		f.now += took()
		return nil
	}}
}

func TestPaired(t *testing.T) {
	f := &fake{}
	n := time.Duration(0)
	methods := []bench.Method{
		f.work("a", func() time.Duration { n++; return n * time.Microsecond }),
		f.work("b", func() time.Duration { return 50 * time.Microsecond }),
		{Name: "c", Elsewhere: func(warm, observations int) ([]time.Duration, error) {
			f.log = append(f.log, fmt.Sprint("c", warm, observations))
			return slices.Repeat([]time.Duration{7 * time.Microsecond}, observations), nil
		}},
	}
	p := bench.Paired{Rounds: 2, Warm: 1, Observations: 3, Evict: func() error {
		f.log = append(f.log, "-")
		f.now += time.Hour
		return nil
	}}
	rounds, err := p.Measure(f, methods)
	if err != nil {
		t.Fatal(err)
	}
	const want = "- a - b - a - b - a - b - a - b c1 3 c1 3 - b - a - b - a - b - a - b - a"
	if got := strings.Join(f.log, " "); got != want {
		t.Errorf("order %s\nwant  %s", got, want)
	}
	if fmt.Sprint(rounds) != "[[3 7] [50 50] [7 7]]" || rounds.Estimate(0) != 5 {
		t.Errorf("medians %v", rounds)
	}
	broken := errors.New("broken")
	methods[1].Run = func() error { return broken }
	if _, err := p.Measure(f, methods); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func TestOrders(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 9).Draw(t, "n")
		counts := map[[2]int]int{} // stage, place
		for i := range n {
			order := bench.Rotated(n, i)
			for place, stage := range order {
				counts[[2]int{stage, place}]++
			}
			up, down := bench.Reversed(n, 2*i), bench.Reversed(n, 2*i+1)
			slices.Reverse(down)
			if !slices.IsSorted(up) || !slices.Equal(up, down) {
				t.Fatalf("round %d: %v, then %v reversed", 2*i, up, down)
			}
		}
		if len(counts) != n*n {
			t.Fatalf("%d of %d places: %v", len(counts), n*n, counts)
		}
	})
}

// The interval is about as wide as theory has it: medians of 400 rounds of unit
// normal noise have a standard deviation of √(π/2/400) = 0.063, in a ratio near 2
// of 200/100 it is a hundredth of that times √(1 + 4).
func TestRatio(t *testing.T) {
	noise := func(i int) float64 { return math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/400-1) }
	rounds := make(bench.Rounds, 2)
	for i := range 400 {
		rounds[0] = append(rounds[0], 200+noise(i*7%400))
		rounds[1] = append(rounds[1], 100+noise(i*13%400))
	}
	ratio, low, high := rounds.Ratio(0, 1, 1)
	want := 2 * 1.96 * 0.063 / 100 * math.Sqrt(5)
	if math.Abs(ratio-2) > 1e-3 || low >= ratio || high <= ratio || high-low < want/1.5 || high-low > want*1.5 {
		t.Errorf("ratio %v in [%v, %v], want a width of about %v", ratio, low, high, want)
	}
	if _, l, h := rounds.Ratio(0, 1, 1); l != low || h != high {
		t.Error("the same seed gives another interval")
	}
	// What both methods have in a round cancels.
	for i := range rounds[0] {
		rounds[0][i] = 2 * rounds[1][i]
	}
	if ratio, low, high := rounds.Ratio(0, 1, 1); ratio != 2 || low != 2 || high != 2 {
		t.Errorf("ratio %v in [%v, %v], want 2 exactly", ratio, low, high)
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{4, 1}, 2.5}, {[]float64{9, 1, 5}, 5}} {
		if got := bench.Median(c.values); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.values, got, c.want)
		}
	}
}
