package devicetest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"blitzen/device"
)

func moeCases() []testCase {
	var cs []testCase
	for _, s := range []routerShape{
		{1, 17, 1, 1, 1, 1, false, 1},
		{1, 64, 16, 6, 1, 1, false, 1},
		{7, 65, 16, 6, 4, 2, false, 16},
		{65, 111, 64, 6, 1, 1, true, 2.5},
		{2, 63, 160, 6, 8, 3, false, 16},
		{17, 128, 8, 1, 1, 1, true, 2.5},
	} {
		cs = append(cs, testCase{fmt.Sprintf("Router/%d tokens, %d of %d, %d groups", s.tokens, s.k, s.experts, s.groups),
			func(b *bench) { router(b, s) }})
	}
	cs = append(cs, testCase{"Router/ties", routerTies})
	for _, s := range []expertsShape{
		{1, 64, 17, 8, 6, device.BF16, false},
		{1, 80, 48, 8, 6, device.BF16, false},
		{1, 64, 32, 24, 20, device.BF16, false},
		{7, 17, 65, 5, 2, device.F32, false},
		{65, 64, 33, 16, 6, device.BF16, false},
		{2, 111, 16, 3, 1, device.BF16, false},
		{190, 72, 40, 5, 3, device.BF16, false},
		{1, 64, 328, 5, 3, device.BF16, false},
		{2, 32, 1416, 4, 2, device.BF16, false},
	} {
		int8 := s
		int8.int8 = true
		cs = append(cs, testCase{fmt.Sprintf("Experts/int8/%d tokens, %d of %d", s.tokens, s.k, s.experts), func(b *bench) { experts(b, int8) }})
		cs = append(cs, testCase{fmt.Sprintf("Experts/%d tokens, %d of %d", s.tokens, s.k, s.experts),
			func(b *bench) { experts(b, s) }})
	}
	return cs
}

type routerShape struct {
	tokens, hidden, experts, k, groups, top int
	normalize                               bool
	scale                                   float32
}

func router(b *bench, s routerShape) {
	x, gate := b.normal(s.tokens*s.hidden, 1), b.normal(s.experts*s.hidden, 2/math.Sqrt(float64(s.hidden)))
	gate = b.kept(device.BF16, gate)
	e := f32Error(1 + maxNorm(x, s.hidden)*maxNorm(gate, s.hidden))
	runRouter(b, s, x, gate, e, b.closeCalls(s, x, gate, e))
}

// runRouter compares ids and weights in the order of ids; e is the error of a
// logit, and so the relative error of a weight.
func runRouter(b *bench, s routerShape, x, gate []float64, e float64, skip []bool) {
	a := device.RouterArgs{
		IDs: b.blank("ids", device.I32, s.tokens, s.k), Weights: b.blank("weights", device.F32, s.tokens, s.k),
		X: b.tensor("x", b.act(), x, s.tokens, s.hidden), Gate: b.weight("gate", device.BF16, gate, s.experts, s.hidden),
		Groups: s.groups, TopGroups: s.top, Normalize: s.normalize, Scale: s.scale,
	}
	sorted := func(which int) func([][]float64) []float64 {
		return func(v [][]float64) []float64 { return sortedByID(v[0], v[which], s.k) }
	}
	b.wantDerived(result{name: "ids", derive: sorted(0), skip: skip}, a.IDs)
	b.wantDerived(result{name: "weights", derive: sorted(1), skip: skip, tol: tolerance{round: 4 * e}}, a.IDs, a.Weights)
	b.run(func(o *device.Ops) { o.Router(a) })
}

// sortedByID brings each row of k values into the order of its ids.
func sortedByID(ids, values []float64, k int) []float64 {
	var out []float64
	for at := 0; at < len(ids); at += k {
		order := upTo(k)
		slices.SortFunc(order, func(i, j int) int { return cmp.Compare(ids[at+i], ids[at+j]) })
		for _, i := range order {
			out = append(out, values[at+i])
		}
	}
	return out
}

// closeCalls marks the tokens whose choice hangs on less than the error e of
// two logits.
func (b *bench) closeCalls(s routerShape, x, gate []float64, e float64) []bool {
	skip := make([]bool, s.tokens*s.k)
	for t := range s.tokens {
		logits := make([]float64, s.experts)
		for i := range logits {
			logits[i] = dot(x[t*s.hidden:][:s.hidden], gate[i*s.hidden:][:s.hidden])
		}
		best := make([]float64, s.groups)
		for g := range best {
			best[g] = slices.Max(logits[g*s.experts/s.groups : (g+1)*s.experts/s.groups])
		}
		var allowed []float64
		for _, i := range allowedExperts(logits, s.groups, s.top) {
			allowed = append(allowed, logits[i])
		}
		if gapAfter(best, s.top) <= 2*e || gapAfter(allowed, s.k) <= 2*e {
			for j := range s.k {
				skip[t*s.k+j] = true
			}
		}
	}
	b.decided(skip, 0.1)
	return skip
}

// gapAfter is the distance between the n-th and the next largest value.
func gapAfter(values []float64, n int) float64 {
	if n >= len(values) {
		return math.Inf(1)
	}
	order := falling(values)
	return order[n-1] - order[n]
}

// decided fails a case that leaves more than a share of its results out.
func (b *bench) decided(skip []bool, share float64) {
	n := 0
	for _, s := range skip {
		if s {
			n++
		}
	}
	if float64(n) > share*float64(len(skip)) {
		b.fail(fmt.Errorf("the case leaves %d of %d results undecided: choose other numbers", n, len(skip)))
	}
}

// routerTies uses small integers, whose sums are exact in any order: pairs of
// equal experts, and two groups with the same best expert.
func routerTies(b *bench) {
	s := routerShape{tokens: 3, hidden: 8, experts: 12, k: 5, groups: 3, top: 2, scale: 1}
	x := []float64{1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 0, 0}
	gate := make([]float64, s.experts*s.hidden)
	for i, logit := range []float64{2, 1, 1, 0, 3, 2, 1, 3, 0, 3, 2, 2} {
		gate[i*s.hidden] = logit
	}
	runRouter(b, s, x, gate, f32Error(4), nil)
}

type expertsShape struct {
	tokens, hidden, width, experts, k int
	checkpoint                        device.DType
	int8                              bool
}

// experts sends no token to the last expert, whose weights are NaN.
func experts(b *bench, s expertsShape) {
	a := device.ExpertsArgs{}
	in, out := 1/math.Sqrt(float64(s.hidden)), 1/math.Sqrt(float64(s.width))
	var upNorm, downNorm float64
	for e := range s.experts {
		gate, up, down := b.normal(s.width*s.hidden, in), b.normal(s.width*s.hidden, in), b.normal(s.hidden*s.width, out)
		if e == s.experts-1 {
			down[0], gate[0], up[0] = math.NaN(), math.NaN(), math.NaN()
		}
		upNorm = max(upNorm, maxNorm(gate, s.hidden), maxNorm(up, s.hidden))
		downNorm = max(downNorm, maxNorm(down, s.width))
		a.Experts = append(a.Experts, device.Expert{
			GateUp: device.Weight{Parts: []*device.Tensor{
				b.matrix(s.int8, "gate", s.checkpoint, gate, s.width, s.hidden),
				b.matrix(s.int8, "up", s.checkpoint, up, s.width, s.hidden),
			}},
			Down: device.Weight{Parts: []*device.Tensor{b.matrix(s.int8, "down", s.checkpoint, down, s.hidden, s.width)}},
		})
	}
	x, ids, weights := b.normal(s.tokens*s.hidden, 1), b.choose(s), make([]float64, s.tokens*s.k)
	for i := range weights {
		weights[i] = 0.1 + b.rng.Float64()
	}
	a.X = b.tensor("x", b.act(), x, s.tokens, s.hidden)
	a.IDs = b.ints("ids", ids, s.tokens, s.k)
	a.Weights = b.tensor("weights", device.F32, weights, s.tokens, s.k)
	narrow := a
	a.Dst = b.tensor("dst", device.F32, b.normal(s.tokens*s.hidden, 1), s.tokens, s.hidden)
	narrow.Dst = b.tensor("narrow", b.act(), b.normal(s.tokens*s.hidden, 1), s.tokens, s.hidden)

	// Gate and up values are about 1. Rounding them in float32 sums and, with
	// silu(gate)·up, as activations moves each inner value on its own, so the
	// errors add up over a row of down as a random walk, as do those of k experts.
	inner := f32Error(2*maxNorm(x, s.hidden)*upNorm+2*math.Sqrt(float64(s.width))) + safety*unit(b.act())
	if s.int8 { // scaled weights of gate, up and down rounded as activations
		inner += 3 * safety * unit(b.act())
	}
	e := tolerance{round: unit(device.F32), abs: maxAbs(weights) * math.Sqrt(float64(s.k)) * downNorm * inner}
	b.want("dst", a.Dst, e)
	// dst may be rounded after every expert.
	b.want("narrow", narrow.Dst, tolerance{abs: e.abs, round: unit(b.act()), ofMax: float64(s.k) * unit(b.act())})
	b.run(func(o *device.Ops) {
		o.Experts(a)
		o.Experts(narrow)
	})
}

// choose draws k different experts a token, never the last one; the first
// token's first choice is everybody's.
func (b *bench) choose(s expertsShape) []int {
	var ids []int
	for range s.tokens {
		for _, e := range b.rng.Perm(s.experts - 2)[:s.k-1] {
			ids = append(ids, e+1)
		}
		ids = append(ids, 0)
	}
	return ids
}
