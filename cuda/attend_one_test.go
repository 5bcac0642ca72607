package cuda

import (
	"bytes"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

// TestRotationWaits for the attention to its rows: both at once, in a recorded step where
// the position has just moved and in one where rows may be read early, are bit for bit
// what they are one after the other.
func TestRotationWaits(t *testing.T) {
	d := requireGPU(t, Options{DType: device.BF16})
	for _, name := range []string{"qwen2.5-0.5b", "qwen2.5-7b"} {
		m := models[name]
		c := newDecoder(t, d, m, 9000)
		heads := m.heads + 2*m.keyHeads
		all, other := c.tensor(device.BF16, 1, heads, m.dk), c.tensor(device.I32, 1)
		rotation := device.RotateAppendArgs{
			Q: all.Slice(1, 0, m.heads), K: all.Slice(1, m.heads, m.heads+m.keyHeads), V: all.Slice(1, m.heads+m.keyHeads, heads),
			Pos: c.args.Pos, RoPE: device.RoPE{InvFreq: c.tensor(device.F32, m.dk/2), Scale: 1}, Keys: c.args.K, Values: c.args.V,
		}
		freq := make([]float32, m.dk/2)
		for i := range freq {
			freq[i] = 1 / float32(i+1)
		}
		if err := device.Write(d, rotation.RoPE.InvFreq, freq); err != nil {
			t.Fatal(err)
		}
		a := c.args
		a.Q, a.From = rotation.Q, nil
		apart := func(o *device.Ops) {
			o.RotateAppend(rotation)
			o.Increment(other)
			o.Attend(a)
		}
		together := func(o *device.Ops) {
			o.RotateAppend(rotation)
			o.Attend(a)
		}
		record := func(fn func(o *device.Ops)) func() error {
			s, err := d.Record(fn)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s.Run
		}
		early := record(together)
		moved := record(func(o *device.Ops) {
			o.Increment(c.args.Pos)
			together(o)
		})
		values := make([]float64, all.Len())
		for i := range values {
			values[i] = float64(i%97)/50 - 1
		}
		// state is everything that both write, after a run from the same start.
		state := func(pos int, run func() error) (content []byte) {
			c.limit(0, pos)
			if err := d.Upload(all, devicetest.Encode(device.BF16, values)); err != nil {
				t.Fatal(err)
			}
			c.results(run)
			for _, x := range []*device.Tensor{all, a.Out.Out, a.Out.LSE, a.Read, c.args.K, c.args.V} {
				part := make([]byte, x.Bytes())
				if err := d.Fetch(x).Wait(part); err != nil {
					t.Fatal(err)
				}
				content = append(content, part...)
			}
			return content
		}
		for _, pos := range []int{0, 1, 63, 511, 2047, 2048, 4222, 8999} {
			want := state(pos, func() error { return d.Run(apart) })
			for i, got := range [][]byte{state(pos, func() error { return d.Run(together) }), state(pos, early), state(pos-1, moved)} {
				if !bytes.Equal(got, want) {
					t.Errorf("%s, row %d: way %d gives something else", name, pos, i)
				}
			}
		}
	}
}
