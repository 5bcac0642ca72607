package devicetest

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"blitzen/device"
)

func memoryRules() []rule {
	return []rule{
		{"device/has a name and a float type", hasName},
		{"device/new tensors are zero", newIsZero},
		{"device/new refuses what cannot be", newRefuses},
		{"device/import keeps or narrows values", importValues},
		{"device/import refuses a wrong length", importRefuses},
		{"device/int8 matrices are rounded row by row", importInt8},
		{"device/int8 is for matrices", importInt8Refuses},
		{"device/upload and fetch of views", transferViews},
		{"device/transfers refuse wrong lengths and gaps", transferRefuses},
		{"device/fetch is as of when it was queued", fetchIsSnapshot},
		{"device/memory is counted", memoryIsCounted},
	}
}

// desk makes tensors for one rule and frees them. The first error sticks.
type desk struct {
	dev  device.Device
	made []*device.Tensor
	err  error
}

func (k *desk) new(name string, t device.DType, values []float64, shape ...int) *device.Tensor {
	v, err := k.dev.New(name, t, shape...)
	if k.note(err); err != nil {
		return device.NewTensor(name, device.Invalid, nil, shape...)
	}
	k.made = append(k.made, v)
	if values != nil {
		k.note(k.dev.Upload(v, Encode(t, values)))
	}
	return v
}

func (k *desk) read(t *device.Tensor) []float64 {
	data := make([]byte, t.Bytes())
	k.note(k.dev.Fetch(t).Wait(data))
	return Decode(t.DType, data)
}

func (k *desk) note(err error) {
	if k.err == nil {
		k.err = err
	}
}

func (k *desk) expect(what string, t *device.Tensor, want ...float64) {
	if got := k.read(t); k.err == nil && !slices.Equal(got, want) {
		k.note(fmt.Errorf("%s: %v, want %v", what, got, want))
	}
}

func (k *desk) refused(what string, err error) {
	if err == nil {
		k.note(fmt.Errorf("%s was not refused", what))
	}
}

// done frees what was made and returns the first error.
func (k *desk) done() error {
	for _, t := range k.made {
		k.dev.Free(t)
	}
	return k.err
}

func hasName(d device.Device) error {
	if d.Name() == "" || d.DType() != device.F32 && d.DType() != device.BF16 {
		return fmt.Errorf("name %q, activations %v", d.Name(), d.DType())
	}
	return nil
}

func newIsZero(d device.Device) error {
	k := &desk{dev: d}
	for range 3 { // freed memory comes back
		t := k.new("t", device.F32, nil, 3, 7)
		k.expect("a new tensor", t, make([]float64, 21)...)
		k.note(d.Upload(t, Encode(device.F32, slices.Repeat([]float64{7}, 21))))
		if !t.Contiguous() || t.Name != "t" || !slices.Equal(t.Shape, []int{3, 7}) {
			k.note(fmt.Errorf("new made %v with strides %v", t, t.Stride))
		}
		k.note(k.done())
		k.made = nil
	}
	return k.done()
}

func newRefuses(d device.Device) error {
	k := &desk{dev: d}
	_, err := d.New("t", device.Invalid, 2)
	k.refused("a tensor of no type", err)
	_, err = d.New("t", device.F32, 2, -1)
	k.refused("a negative length", err)
	return k.done()
}

// importValues imports numbers that all float types hold, and some that only
// the checkpoint's does.
func importValues(d device.Device) error {
	k := &desk{dev: d}
	for _, t := range []device.DType{device.F32, device.F16, device.BF16} {
		values := rounded(t, []float64{1, -2.5, 0, 1.0 / 3, 1e-3, 100.4})
		w, err := d.Import("w", t, []int{2, 3}, Encode(t, values))
		if err != nil {
			return err
		}
		k.made = append(k.made, w)
		k.expect(fmt.Sprintf("%v imported as %v", t, w.DType), w, rounded(w.DType, values)...)
		k.expect("its second row", w.Index(0, 1), rounded(w.DType, values[3:])...)
	}
	return k.done()
}

func importRefuses(d device.Device) error {
	k := &desk{dev: d}
	_, err := d.Import("w", device.F32, []int{2, 3}, make([]byte, 20))
	k.refused("20 bytes for F32[2 3]", err)
	_, err = d.Import("w", device.BF16, []int{2, 3}, make([]byte, 24))
	k.refused("24 bytes for BF16[2 3]", err)
	return k.done()
}

// importInt8 has rows with ties, of zeros, of tiny numbers, and with what is no
// number.
func importInt8(d device.Device) error {
	k := &desk{dev: d}
	inf := math.Inf(1)
	for _, t := range []device.DType{device.F32, device.F16, device.BF16} {
		values := rounded(t, []float64{
			127, 0.5, -1.5, 2.5, -126.5, // the factor 1
			3, -0.7, 1e-3, 0, -2.99,
			0, 0, 0, 0, 0,
			1e-40, -1e-40, 0, 1e-45, 1e-44,
			1, inf, 2, 3, 4,
			1, -inf, math.NaN(), 3, 4,
		})
		rows := len(values) / 5
		before := d.Memory().Used
		w, err := d.ImportInt8("w", t, []int{rows, 5}, Encode(t, values))
		if err != nil {
			return err
		}
		k.made = append(k.made, w)
		if used := d.Memory().Used - before; used != int64(w.Scale.Offset*4+4*rows) {
			k.note(fmt.Errorf("%v and its factors hold %d bytes", w, used))
		}
		var bytes, factors []float64
		for i := range rows {
			q, factor := int8Row(values[5*i:][:5])
			bytes, factors = append(bytes, q...), append(factors, factor)
		}
		k.expect(fmt.Sprintf("bytes from %v", t), w, bytes...)
		if got := k.read(w.Scale); k.err == nil {
			k.note(compare(got, factors, tolerance{}, nil))
		}
		k.expect("a part of a row", w.Slice(0, 1, 2).Slice(1, 1, 3), bytes[6:8]...)
	}
	return k.done()
}

func importInt8Refuses(d device.Device) error {
	k := &desk{dev: d}
	_, err := d.ImportInt8("w", device.F32, []int{2, 3}, make([]byte, 20))
	k.refused("20 bytes for F32[2 3]", err)
	_, err = d.ImportInt8("w", device.F32, []int{6}, make([]byte, 24))
	k.refused("a vector", err)
	_, err = d.ImportInt8("w", device.I32, []int{2, 3}, make([]byte, 24))
	k.refused("a matrix of integers", err)
	return k.done()
}

func transferViews(d device.Device) error {
	k := &desk{dev: d}
	t := k.new("t", device.I32, []float64{1, 2, 3, 4, 5, 6}, 3, 2)
	k.note(d.Upload(t.Slice(0, 1, 2), Encode(device.I32, []float64{30, 40})))
	k.expect("after a row was uploaded", t, 1, 2, 30, 40, 5, 6)
	k.expect("one row", t.Index(0, 2), 5, 6)
	k.expect("one element", t.Index(0, 1).Slice(0, 1, 2), 40)
	i := k.new("i", device.I64, []float64{1 << 40, -1}, 2)
	k.expect("I64", i, 1<<40, -1)
	u := k.new("u", device.U32, []float64{0xFFFFFFFF, 1}, 2)
	k.expect("U32", u, 0xFFFFFFFF, 1)
	return k.done()
}

func transferRefuses(d device.Device) error {
	k := &desk{dev: d}
	t := k.new("t", device.F32, nil, 3, 2)
	k.refused("a short upload", d.Upload(t, make([]byte, 20)))
	k.refused("a long upload", d.Upload(t, make([]byte, 28)))
	k.refused("an upload to a column", d.Upload(t.Slice(1, 0, 1), make([]byte, 12)))
	k.refused("an upload to a bad view", d.Upload(t.Slice(1, 0, 9), make([]byte, 24)))
	k.refused("a short fetch", d.Fetch(t).Wait(make([]byte, 20)))
	k.refused("a fetch of a column", d.Fetch(t.Slice(1, 0, 1)).Wait(make([]byte, 12)))
	k.expect("after all this", t, make([]float64, 6)...)
	return k.done()
}

func fetchIsSnapshot(d device.Device) error {
	k := &desk{dev: d}
	t := k.new("t", device.I32, []float64{5, 6}, 2)
	before := d.Fetch(t)
	k.note(d.Run(func(o *device.Ops) { o.Increment(t) }))
	between := d.Fetch(t)
	k.note(d.Upload(t, Encode(device.I32, []float64{50, 60})))
	after := d.Fetch(t)
	for _, c := range []struct {
		pending device.Pending
		want    []float64
	}{{after, []float64{50, 60}}, {before, []float64{5, 6}}, {between, []float64{6, 7}}} {
		data := make([]byte, 8)
		k.note(c.pending.Wait(data))
		if got := Decode(device.I32, data); !slices.Equal(got, c.want) {
			k.note(fmt.Errorf("fetched %v, want %v", got, c.want))
		}
	}
	return k.done()
}

func memoryIsCounted(d device.Device) error {
	k := &desk{dev: d}
	before := d.Memory()
	t := k.new("t", device.F32, nil, 1000, 1000)
	during := d.Memory()
	k.note(k.done())
	after := d.Memory()
	if during.Used < before.Used+int64(t.Bytes()) || during.Peak < during.Used || after.Used != before.Used || after.Peak < during.Peak {
		return errors.Join(k.err, fmt.Errorf("before, with 4 MB more, after: %+v %+v %+v", before, during, after))
	}
	return k.err
}
