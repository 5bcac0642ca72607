package cuda

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

// decoder is decode attention over a cache of some rows.
type decoder struct {
	t    *testing.T
	d    *gpu
	args device.AttendArgs
}

// newDecoder makes a cache of normal numbers for a model's heads, with rows more
// than are attended.
func newDecoder(t *testing.T, d *gpu, m model, capacity int) *decoder {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	const period = 1<<20 + 7 // no multiple of a row
	values := make([]float64, period)
	for i := range values {
		values[i] = rng.NormFloat64()
	}
	bytes := devicetest.Encode(device.BF16, values)
	c := &decoder{t: t, d: d}
	fill := func(shape ...int) *device.Tensor {
		x := c.tensor(device.BF16, shape...)
		content := slices.Repeat(bytes, ceil(x.Bytes(), len(bytes)))
		if err := d.Upload(x, content[:x.Bytes()]); err != nil {
			t.Fatal(err)
		}
		return x
	}
	c.args = device.AttendArgs{
		Out: device.Partial{Out: c.tensor(device.F32, 1, m.heads, m.dv), LSE: c.tensor(device.F32, 1, m.heads)},
		Q:   fill(1, m.heads, m.dk), K: fill(m.keyHeads, capacity, m.dk),
		From: c.tensor(device.I32, 1), Pos: c.tensor(device.I32, 1), Read: c.tensor(device.I64, 1),
		Scale: float32(1 / math.Sqrt(float64(m.dk))),
	}
	if m.keyHeads == 1 {
		c.args.V = c.args.K.Slice(2, 0, m.dv)
	} else {
		c.args.V = fill(m.keyHeads, capacity, m.dv)
	}
	return c
}

func (c *decoder) tensor(ty device.DType, shape ...int) *device.Tensor {
	c.t.Helper()
	x, err := c.d.New("x", ty, shape...)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { c.d.Free(x) })
	return x
}

func (c *decoder) limit(from, pos int) {
	c.t.Helper()
	if err := device.Write(c.d, c.args.From, []int32{int32(from)}); err != nil {
		c.t.Fatal(err)
	}
	if err := device.Write(c.d, c.args.Pos, []int32{int32(pos)}); err != nil {
		c.t.Fatal(err)
	}
}

// results are output, log-sum-exp and rows read by run.
func (c *decoder) results(run func() error) (out, lse []float32, read int64) {
	c.t.Helper()
	err := device.Write(c.d, c.args.Read, []int64{0})
	if err == nil {
		err = run()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	if out, err = device.Read[float32](c.d, c.args.Out.Out); err != nil {
		c.t.Fatal(err)
	}
	if lse, err = device.Read[float32](c.d, c.args.Out.LSE); err != nil {
		c.t.Fatal(err)
	}
	reads, err := device.Read[int64](c.d, c.args.Read)
	if err != nil {
		c.t.Fatal(err)
	}
	return out, lse, reads[0]
}

func (c *decoder) attend() error {
	return c.d.Run(func(o *device.Ops) { o.Attend(c.args) })
}

func (c *decoder) attendPlain() (err error) {
	failed := c.d.Run(func(*device.Ops) { err = c.d.kernels.attendFewPlain(c.args) })
	if failed != nil {
		return failed
	}
	return err
}

// besidePlain compares with the plain kernels: the relative error of the results, the
// largest of the log-sum-exps, and the rows that both say they have read.
func (c *decoder) besidePlain() (e, far float64, read, want int64) {
	out, lse, read := c.results(c.attend)
	wantOut, wantLSE, want := c.results(c.attendPlain)
	var diff, norm float64
	for i := range out {
		e := float64(out[i] - wantOut[i])
		diff += e * e
		norm += float64(wantOut[i]) * float64(wantOut[i])
	}
	for i := range lse {
		far = max(far, math.Abs(float64(lse[i]-wantLSE[i])))
	}
	return math.Sqrt(diff / norm), far, read, want
}

// lseError bounds how far two log-sum-exps of normal numbers are apart, as
// devicetest/tolerance.go does: a score of dk terms, about 1 in size, rounds by
// u·√(dk/6), u = 2⁻²⁴, and a running sum of weights, of no more than some 300 in a
// thread, by u·√(300/6) of its size; eight times that of two kernels, and the storing
// of two results below 12.
func lseError(dk int) float64 {
	return 0x1p-24 * (8*math.Sqrt(2*float64(dk+300)/6) + 2*12)
}

// decodeModels are those that attend_decode and attend_latent take.
var decodeModels = []string{"qwen2.5-0.5b", "qwen2.5-7b", "v2-lite absorbed", "needle-dsv2"}

// TestDecodeAttentionOfManyRows compares with the plain kernels where blocks take
// several tiles, which the suite's shapes are too small for. Weights that are
// rounded to BF16 change a row's share by up to 2⁻⁹, independently: the sum's
// relative error is below that; 2⁻⁸ allows for chance. Their sum is not of rounded
// ones: lseError.
func TestDecodeAttentionOfManyRows(t *testing.T) {
	d := requireGPU(t, Options{DType: device.BF16})
	for _, name := range decodeModels {
		c := newDecoder(t, d, models[name], 40100)
		for _, at := range []struct{ from, rows int }{{0, 1}, {3, 64}, {0, 4223}, {17, 8449}, {5, 16897}, {0, 33000}, {13, 40001}} {
			c.limit(at.from, at.from+at.rows-1)
			if e, lse, read, want := c.besidePlain(); !(e < 0x1p-8) || !(lse < lseError(models[name].dk)) || read != want {
				t.Errorf("%s, %d rows from %d: error %g, of the log-sum-exp %g, %d rows read, want %d", name, at.rows, at.from, e, lse, read, want)
			}
		}
	}
}

// TestDecodeAttentionOfFarLogits has logits some 30 apart, so that those of later tiles
// are far above the largest before. A few rows have nearly all of the weight, whose
// roundings chance does not even out: 2⁻⁹ each, in the weights and against their sum,
// which is of unrounded ones, so 2⁻⁸; 2⁻⁷ is twice that. Logits round by as much more as
// they are larger.
func TestDecodeAttentionOfFarLogits(t *testing.T) {
	const far = 30
	d := requireGPU(t, Options{DType: device.BF16})
	for _, name := range decodeModels {
		c := newDecoder(t, d, models[name], 40100)
		c.args.Scale *= far
		for _, rows := range []int{96, 4223, 16897, 40001} {
			c.limit(3, 3+rows-1)
			if e, lse, _, _ := c.besidePlain(); !(e < 0x1p-7) || !(lse < far*lseError(models[name].dk)) {
				t.Errorf("%s, %d rows: error %g, of the log-sum-exp %g", name, rows, e, lse)
			}
		}
	}
}

// TestDecodeAttentionIsTheSame in a recorded step whose position grows, where
// every kernel may begin before the one ahead of it is over, and with another
// capacity: bit for bit.
func TestDecodeAttentionIsTheSame(t *testing.T) {
	d := requireGPU(t, Options{DType: device.BF16})
	for _, name := range decodeModels {
		c, more := newDecoder(t, d, models[name], 9000), newDecoder(t, d, models[name], 9100)
		if models[name].keyHeads > 1 { // heads lie elsewhere: the same numbers for one only
			more = nil
		}
		step, err := d.Record(func(o *device.Ops) {
			o.Attend(c.args)
			o.Increment(c.args.Pos)
			o.Attend(c.args)
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, pos := range []int{-2, -1, 0, 63, 4222, 8446, 8700} {
			var out, lse []float32
			c.limit(0, pos+1)
			want, wantLSE, _ := c.results(c.attend)
			for range 30 { // when a block reads the position differs from run to run
				c.limit(0, pos)
				out, lse, _ = c.results(step.Run)
				if !slices.Equal(out, want) || !slices.Equal(lse, wantLSE) {
					t.Errorf("%s, position %d: the recorded step gives something else", name, pos+1)
					break
				}
			}
			if more == nil {
				continue
			}
			more.limit(0, pos+1)
			if other, otherLSE, _ := more.results(more.attend); !slices.Equal(out, other) || !slices.Equal(lse, otherLSE) {
				t.Errorf("%s, position %d: another capacity gives something else", name, pos+1)
			}
		}
		if err := step.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A recorded step that appends a row and attends to it sees that row, whatever was
// asked for before it was written.
func TestDecodeAttentionSeesItsRow(t *testing.T) {
	d := requireGPU(t, Options{DType: device.BF16})
	for _, name := range []string{"v2-lite absorbed", "needle-dsv2"} {
		c := newDecoder(t, d, models[name], 9000)
		row := c.tensor(device.BF16, 1, 1, models[name].dk)
		issue := func(o *device.Ops) {
			o.Append(c.args.K, row, c.args.Pos, nil)
			o.Attend(c.args)
		}
		step, err := d.Record(issue)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(3, 4))
		for _, pos := range []int{0, 1, 31, 32, 33, 63, 64, 65, 4223, 8447, 8448, 8700} {
			values := make([]float64, models[name].dk)
			for i := range values {
				values[i] = rng.NormFloat64()
			}
			if err := d.Upload(row, devicetest.Encode(device.BF16, values)); err != nil {
				t.Fatal(err)
			}
			c.limit(0, pos)
			out, lse, _ := c.results(step.Run)
			want, wantLSE, _ := c.results(func() error { return d.Run(issue) })
			if !slices.Equal(out, want) || !slices.Equal(lse, wantLSE) {
				t.Errorf("%s, position %d: the recorded step gives something else", name, pos)
			}
		}
		if err := step.Close(); err != nil {
			t.Error(err)
		}
	}
}
