package devicetest

import (
	"math"
	"slices"
	"testing"

	"blitzen/device"
)

// made is a tensor of the reference with the given elements.
func made(t *testing.T, d device.Device, dt device.DType, values []float64, shape ...int) *device.Tensor {
	t.Helper()
	v, err := d.New("t", dt, shape...)
	if err == nil {
		err = d.Upload(v, Encode(dt, values))
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// elementsOf are the elements of a contiguous tensor of the reference.
func elementsOf(t *testing.T, d device.Device, v *device.Tensor) []float64 {
	t.Helper()
	data := make([]byte, v.Bytes())
	if err := d.Fetch(v).Wait(data); err != nil {
		t.Fatal(err)
	}
	return Decode(v.DType, data)
}

// TestReferenceAttend compares with softmax over three rows worked by hand:
// logits 0, ln 2, ln 5 give the weights 1/8, 2/8, 5/8.
func TestReferenceAttend(t *testing.T) {
	d := NewReference()
	nan := math.NaN()
	f := func(values []float64, shape ...int) *device.Tensor { return made(t, d, device.F32, values, shape...) }
	k := f([]float64{0, math.Ln2 / 2, math.Log(5) / 2, nan}, 1, 4, 1)
	v := f([]float64{8, 0, 16, 8, 0, 8, nan, nan}, 1, 4, 2)
	q := f([]float64{2, 2, 2}, 3, 1, 1)
	out, lse := f(make([]float64, 6), 3, 1, 2), f(make([]float64, 3), 3, 1)
	read := made(t, d, device.I64, []float64{40}, 1)
	pos := made(t, d, device.I32, []float64{2, 0, -1}, 3)
	err := d.Run(func(o *device.Ops) {
		o.Attend(device.AttendArgs{Out: device.Partial{Out: out, LSE: lse}, Q: q, K: k, V: v, Pos: pos, Scale: 1, Read: read})
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{5, 7, 8, 0, 0, 0} {
		if got := elementsOf(t, d, out)[i]; math.Abs(got-want) > 1e-5 {
			t.Errorf("out %d is %v, want %v", i, got, want)
		}
	}
	got := elementsOf(t, d, lse)
	if math.Abs(got[0]-math.Log(8)) > 1e-6 || got[1] != 0 || !math.IsInf(got[2], -1) {
		t.Errorf("lse %v, want ln 8, 0, -Inf", got)
	}
	if n := elementsOf(t, d, read)[0]; n != 44 {
		t.Errorf("%v rows read, want 40 + 3 + 1", n)
	}
}

func TestReferenceSampleKeeps(t *testing.T) {
	ln := math.Log
	logits := []float64{ln(1), ln(4), ln(3), ln(2), ln(4), ln(6)} // of 20
	for _, c := range []struct {
		name string
		keep func([]float64)
		want []int
	}{
		{"top-k 2: the second has an equal", func(x []float64) { keepTopK(x, 2) }, []int{1, 4, 5}},
		{"top-p 0.3 = 6/20 is reached by one", func(x []float64) { keepTopP(x, 0.3-1e-9) }, []int{5}},
		{"top-p 0.31: equals cross together", func(x []float64) { keepTopP(x, 0.31) }, []int{1, 4, 5}},
		{"top-p 0.71: after 14/20", func(x []float64) { keepTopP(x, 0.71) }, []int{1, 2, 4, 5}},
		{"top-p 0 keeps the largest", func(x []float64) { keepTopP(x, 0) }, []int{5}},
		{"min-p 0.4: at least 2.4 of 6", func(x []float64) { keepMinP(x, 0.4) }, []int{1, 2, 4, 5}},
	} {
		x := slices.Clone(logits)
		c.keep(x)
		var kept []int
		for id, l := range x {
			if !math.IsInf(l, -1) {
				kept = append(kept, id)
			}
		}
		if !slices.Equal(kept, c.want) {
			t.Errorf("%s: kept %v, want %v", c.name, kept, c.want)
		}
	}
}
