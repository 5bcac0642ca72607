package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"blitzen/device"
)

// nanRules: a query that is no number, or keys that are none, make the output none.
// A damaged checkpoint must not answer as if its attention were empty.
func nanRules() (rules []rule) {
	for _, s := range []struct{ tokens, heads, keyHeads, dk, dv int }{
		{1, 3, 3, 24, 16}, {1, 4, 2, 64, 64}, {1, 4, 2, 128, 128}, {1, 2, 1, 576, 512}, // decoding
		{9, 4, 2, 32, 32}, {70, 4, 2, 128, 128}, {70, 4, 2, 64, 64}, {70, 2, 2, 192, 128}, // a prompt
	} {
		name := fmt.Sprintf("not a number/Attend and Merge, %d tokens, %d of %d heads, %d and %d wide", s.tokens, s.heads, s.keyHeads, s.dk, s.dv)
		rules = append(rules, rule{name, func(d device.Device) error { return keepsNaN(d, s.tokens, s.heads, s.keyHeads, s.dk, s.dv) }})
	}
	return rules
}

// keepsNaN spoils the last head's query or its keys: all, those of a first block, or
// the three of a last one. Values are the first columns of keys where those are wide.
func keepsNaN(d device.Device, tokens, heads, keyHeads, dk, dv int) error {
	const rows = 131
	rng := rand.New(rand.NewPCG(7, 9))
	normal := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	query, keys := normal(tokens*heads*dk), normal(keyHeads*rows*dk)
	spoiled := func(x []float64, width, from, to int) []float64 {
		x = slices.Clone(x)
		for i := from; i < to; i++ {
			x[i*width] = math.NaN()
		}
		return x
	}
	k, last := &desk{dev: d}, (keyHeads-1)*rows
	a := device.AttendArgs{
		Out: device.Partial{Out: k.new("out", d.DType(), nil, tokens, heads, dv), LSE: k.new("lse", device.F32, nil, tokens, heads)},
		Q:   k.new("q", d.DType(), query, tokens, heads, dk), K: k.new("k", d.DType(), keys, keyHeads, rows, dk),
		Pos: k.new("pos", device.I32, slices.Repeat([]float64{rows - 1}, tokens), tokens), Scale: 0.1,
	}
	a.V = a.K.Slice(2, 0, dv)
	if dk == dv {
		a.V = k.new("v", d.DType(), normal(keyHeads*rows*dv), keyHeads, rows, dv)
	}
	empty := device.Partial{Out: k.new("none", d.DType(), nil, tokens, heads, dv), LSE: k.new("nothing", device.F32, slices.Repeat([]float64{math.Inf(-1)}, tokens*heads), tokens, heads)}
	merged := k.new("merged", d.DType(), nil, tokens, heads, dv)
	for _, c := range []struct {
		name string
		q, k []float64
	}{
		{"query", spoiled(query, dk, heads-1, heads), keys},
		{"all keys", query, spoiled(keys, dk, last, last+rows)},
		{"first keys", query, spoiled(keys, dk, last, last+64)},
		{"last keys", query, spoiled(keys, dk, last+128, last+rows)},
	} {
		k.note(d.Upload(a.Q, Encode(d.DType(), c.q)))
		k.note(d.Upload(a.K, Encode(d.DType(), c.k)))
		k.note(d.Run(func(o *device.Ops) {
			o.Attend(a)
			o.Merge(merged, a.Out, empty)
		}))
		for _, x := range []*device.Tensor{a.Out.Out, a.Out.LSE, merged} {
			got := k.read(x)
			if k.err != nil {
				return k.done()
			}
			head := got[(heads-1)*x.Len()/(tokens*heads):][:x.Len()/(tokens*heads)] // the first token's last
			if i := slices.IndexFunc(head, func(v float64) bool { return v == v }); i >= 0 {
				k.note(fmt.Errorf("%s spoiled: %s[0, %d, %d] = %v", c.name, x.Name, heads-1, i, head[i]))
			}
			if c.name == "query" && !slices.ContainsFunc(got[:1], func(v float64) bool { return v == v }) {
				k.note(fmt.Errorf("%s spoiled: %s of another head is %v", c.name, x.Name, got[0]))
			}
		}
	}
	return k.done()
}
