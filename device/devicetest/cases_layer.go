package devicetest

import (
	"fmt"
	"math"
	"slices"

	"blitzen/device"
)

// layerShape is the half of a layer that has experts.
type layerShape struct {
	tokens, hidden, width, shared, experts, k int
	normalize                                 bool
	int8                                      bool
}

func layerCases() []testCase {
	var cs []testCase
	for _, s := range []layerShape{
		{1, 64, 48, 96, 8, 3, false, false},
		{1, 72, 16, 0, 40, 6, true, false},
		{1, 64, 1544, 3096, 4, 2, false, false},
		{1, 2056, 24, 8, 5, 1, true, false},
		{1, 64, 17, 33, 8, 2, false, false},
		{1, 65, 16, 32, 8, 2, false, false},
		{1, 64, 48, 96, 8, 3, false, true},
		{3, 64, 48, 96, 8, 3, false, false},
		{70, 64, 32, 64, 8, 2, true, false},
	} {
		kind := ""
		if s.int8 {
			kind = "int8/"
		}
		cs = append(cs, testCase{fmt.Sprintf("MoE/%s%d tokens of %d, %d of %d experts of %d, shared %d", kind, s.tokens, s.hidden, s.k, s.experts, s.width, s.shared),
			func(b *bench) { expertLayer(b, s) }})
	}
	return cs
}

// expertLayer makes rows whose choice of experts does not hang on rounding.
func expertLayer(b *bench, s layerShape) {
	const eps, scale = 1e-3, 2.5
	gate, gamma := b.kept(device.BF16, b.normal(s.experts*s.hidden, 2/math.Sqrt(float64(s.hidden)))), b.kept(device.BF16, b.normal(s.hidden, 1))
	r := routerShape{tokens: 1, hidden: s.hidden, experts: s.experts, k: s.k, groups: 1, top: 1, normalize: s.normalize, scale: scale}
	var x, h []float64
	e := 0.0 // error of a logit
	for range s.tokens {
		for range 100 {
			row := b.normal(s.hidden, 1)
			root, normed := math.Sqrt(dot(row, row)/float64(s.hidden)+eps), make([]float64, s.hidden)
			for i := range normed {
				normed[i] = row[i] / root * gamma[i]
			}
			product := maxNorm(normed, s.hidden) * maxNorm(gate, s.hidden)
			e = max(e, f32Error(1+product)+safety*unit(b.act())*product/math.Sqrt(float64(s.hidden)))
			alone := &bench{rng: b.rng} // a row that is not decided does not fail the case
			if !slices.Contains(alone.closeCalls(r, normed, gate, e), true) {
				x, h = append(x, row...), append(h, normed...)
				break
			}
		}
	}
	if len(x) < s.tokens*s.hidden {
		b.fail(fmt.Errorf("no row of 100 decides for experts: choose other numbers"))
		return
	}
	a := device.MoEArgs{
		X: b.tensor("x", device.F32, x, s.tokens, s.hidden), Norm: device.Norm{Gamma: b.weight("gamma", device.BF16, gamma, s.hidden), Eps: eps},
		Router: device.RouterArgs{
			IDs: b.blank("ids", device.I32, s.tokens, s.k), Weights: b.blank("weights", device.F32, s.tokens, s.k), X: b.blank("h", b.act(), s.tokens, s.hidden),
			Gate: b.weight("gate", device.BF16, gate, s.experts, s.hidden), Groups: 1, TopGroups: 1, Normalize: s.normalize, Scale: scale,
		},
	}
	var errors float64
	mlp := func(width int) device.Expert {
		m, abs := b.mlp(s, width, h, e)
		errors += abs * abs
		return m
	}
	for range s.experts {
		a.Experts = append(a.Experts, mlp(s.width))
	}
	scratch := []*device.Tensor{a.Router.X}
	if s.shared > 0 {
		a.Shared, a.GateUp, a.Inner = mlp(s.shared), b.blank("gateUp", b.act(), s.tokens, 2*s.shared), b.blank("inner", b.act(), s.tokens, s.shared)
		scratch = append(scratch, a.GateUp, a.Inner)
	}
	b.wantDerived(result{name: "scratch", derive: func([][]float64) []float64 { return nil }}, scratch...)
	sorted := func(which int) func([][]float64) []float64 {
		return func(v [][]float64) []float64 { return sortedByID(v[0], v[which], s.k) }
	}
	b.wantDerived(result{name: "ids", derive: sorted(0)}, a.Router.IDs)
	b.wantDerived(result{name: "weights", derive: sorted(1), tol: tolerance{round: 4 * e}}, a.Router.IDs, a.Router.Weights)
	b.want("x", a.X, tolerance{round: unit(device.F32), abs: scale * math.Sqrt(errors)})
	b.run(func(o *device.Ops) { o.MoE(a) })
}

// mlp makes a network of a width and the error of its results for the rows h, with a
// weight of at most 1 whose relative error is 4e. Rounded rows, gates and inner values
// move each result on their own, as a random walk.
func (b *bench) mlp(s layerShape, width int, h []float64, e float64) (device.Expert, float64) {
	in, out := 1/math.Sqrt(float64(s.hidden)), 1/math.Sqrt(float64(width))
	gate, up, down := b.normal(width*s.hidden, in), b.normal(width*s.hidden, in), b.normal(s.hidden*width, out)
	most := 0.0 // largest norm of a row's inner values
	for t := 0; t < len(h); t += s.hidden {
		sum := 0.0
		for o := range width {
			g, u := dot(gate[o*s.hidden:][:s.hidden], h[t:][:s.hidden]), dot(up[o*s.hidden:][:s.hidden], h[t:][:s.hidden])
			y := g / (1 + math.Exp(-g)) * u
			sum += y * y
		}
		most = max(most, math.Sqrt(sum))
	}
	product := maxNorm(h, s.hidden) * max(maxNorm(gate, s.hidden), maxNorm(up, s.hidden))
	rounded := 2.0 // rows and inner values
	if s.int8 {
		rounded = 5
	}
	inner := f32Error(2*product+2*math.Sqrt(float64(width))) + rounded*safety*unit(b.act())*(1+product/math.Sqrt(float64(s.hidden)))
	downNorm := maxNorm(down, width)
	return device.Expert{
		GateUp: device.Weight{Parts: []*device.Tensor{b.matrix(s.int8, "gate", device.BF16, gate, width, s.hidden), b.matrix(s.int8, "up", device.BF16, up, width, s.hidden)}},
		Down:   device.Weight{Parts: []*device.Tensor{b.matrix(s.int8, "down", device.BF16, down, s.hidden, width)}},
	}, downNorm*inner + 4*e*downNorm*most
}
