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

// Every E4M3 survives decoding and encoding; between two neighbours the nearer
// wins, and halfway the even one; beyond the largest it is that.
func TestFloat8(t *testing.T) {
	for p := range 256 {
		v := Decode(device.F8, []byte{byte(p)})
		if got := Encode(device.F8, v)[0]; got != byte(p) && !(math.IsNaN(v[0]) && got&0x7F == 0x7F) {
			t.Errorf("%02x is %v, which became %02x", p, v[0], got)
		}
	}
	for p := range byte(0x7E) {
		at := Decode(device.F8, []byte{p, p + 1, p + p%2})
		middle := float32(at[0]+at[1]) / 2
		in := []float64{float64(math.Nextafter32(middle, 0)), float64(middle), float64(math.Nextafter32(middle, 500))}
		if got, want := rounded(device.F8, in), []float64{at[0], at[2], at[1]}; !slices.Equal(got, want) {
			t.Errorf("%v rounded to %v, want %v", in, got, want)
		}
	}
	if got := rounded(device.F8, []float64{1e9, -460, 448, 0x1p-10}); !slices.Equal(got, []float64{448, -448, 448, 0}) {
		t.Errorf("beyond what E4M3 holds: %v", got)
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
