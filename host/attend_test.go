package host

import (
	"math"
	"slices"
	"testing"

	"blitzen/device"
)

// A query that is no number, and keys that are none, make the output none: a
// damaged checkpoint must not answer as if its attention were empty. That holds for
// all rows, for those of one block and for the three of the last block alone, which
// fill no vector.
func TestAttentionKeepsNaN(t *testing.T) {
	const heads, width, rows = 2, 32, 131
	nan := float32(math.NaN())
	for _, tokens := range []int{1, 9} { // decoding, a prompt
		for name, spoil := range map[string]func(q, k []float32){
			"query":       func(q, _ []float32) { q[width] = nan }, // of head 1
			"all keys":    func(_, k []float32) { spoilRows(k[rows*width:], width, 0, rows) },
			"first block": func(_, k []float32) { spoilRows(k[rows*width:], width, 0, 64) },
			"last block":  func(_, k []float32) { spoilRows(k[rows*width:], width, 128, rows) },
		} {
			d := open(t, Options{Threads: 2})
			normal := normals(t, d)
			a := device.AttendArgs{
				Out: device.Partial{Out: normal(1, tokens, heads, width), LSE: normal(1, tokens, heads)},
				Q:   normal(1, tokens, heads, width), K: normal(1, heads, rows, width), V: normal(1, heads, rows, width),
				Pos: ints(t, d, slices.Repeat([]int32{rows - 1}, tokens)...), Scale: 0.1,
			}
			whole, dst := device.Partial{Out: normal(1, tokens, heads, width), LSE: normal(1, tokens, heads)}, normal(1, tokens, heads, width)
			q, err := device.Read[float32](d, a.Q)
			check(t, err)
			k, err := device.Read[float32](d, a.K)
			check(t, err)
			spoil(q, k)
			check(t, device.Write(d, a.Q, q))
			check(t, device.Write(d, a.K, k))
			check(t, d.Run(func(o *device.Ops) {
				o.Attend(a)
				o.Merge(dst, a.Out, whole)
			}))
			for what, x := range map[string]*device.Tensor{"output": a.Out.Out, "mass": a.Out.LSE, "merged": dst} {
				got, err := device.Read[float32](d, x)
				check(t, err)
				of := len(got) / tokens / heads // the first token has both heads
				isNaN := func(v float32) bool { return v != v }
				if slices.ContainsFunc(got[:of], isNaN) || slices.ContainsFunc(got[of:2*of], func(v float32) bool { return !isNaN(v) }) {
					t.Errorf("%d tokens, %s: %s of head 0 %v, of head 1 %v", tokens, name, what, got[0], got[of])
				}
			}
		}
	}
}

func spoilRows(k []float32, width, from, to int) {
	for row := from; row < to; row++ {
		k[row*width] = float32(math.NaN())
	}
}
