package devicetest

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"blitzen/device"
)

// Every 16-bit pattern survives decoding and encoding, NaN as some NaN.
func TestHalfFloatsRoundTrip(t *testing.T) {
	for _, dt := range []device.DType{device.BF16, device.F16} {
		for p := range 1 << 16 {
			data := binary.LittleEndian.AppendUint16(nil, uint16(p))
			v := Decode(dt, data)
			got := Encode(dt, v)
			if math.IsNaN(v[0]) {
				if !math.IsNaN(Decode(dt, got)[0]) {
					t.Fatalf("%v %04x: NaN became %v", dt, p, Decode(dt, got))
				}
			} else if !slices.Equal(got, data) {
				t.Fatalf("%v %04x became %x", dt, p, got)
			}
		}
	}
}

// Between two neighbours the nearer wins, and halfway the even one.
func TestBF16RoundsToNearestEven(t *testing.T) {
	for p := range uint32(0x7F7F) { // all positive finite numbers but the last
		low, high := float64(math.Float32frombits(p<<16)), float64(math.Float32frombits((p+1)<<16))
		middle := math.Float32frombits(p<<16 | 0x8000)
		even := low
		if p%2 == 1 {
			even = high
		}
		in := []float64{float64(math.Nextafter32(middle, 0)), float64(middle), float64(math.Nextafter32(middle, math.MaxFloat32))}
		if got, want := rounded(device.BF16, in), []float64{low, even, high}; !slices.Equal(got, want) {
			t.Fatalf("%v rounded to %v, want %v", in, got, want)
		}
	}
	if got := rounded(device.BF16, []float64{math.MaxFloat32})[0]; !math.IsInf(got, 1) {
		t.Errorf("the largest float32 rounded to %v, want +Inf", got)
	}
}

func TestIntegersRoundTrip(t *testing.T) {
	for _, c := range []struct {
		t      device.DType
		values []float64
	}{
		{device.I8, []float64{-128, -1, 0, 127}},
		{device.I32, []float64{math.MinInt32, -1, 0, math.MaxInt32}},
		{device.U32, []float64{0, 1 << 31, math.MaxUint32}},
		{device.I64, []float64{-1 << 53, -1, 1 << 40, 1 << 53}},
	} {
		data := Encode(c.t, c.values)
		if got := Decode(c.t, data); len(data) != len(c.values)*c.t.Size() || !slices.Equal(got, c.values) {
			t.Errorf("%v: %v became %v", c.t, c.values, got)
		}
	}
}
