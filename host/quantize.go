package host

import (
	"math"

	"blitzen/device"
)

// largestF8 is the largest E4M3.
const largestF8 = 448

// Quantize implements device.Kernels.
func (k *hostKernels) Quantize(dst, src *device.Tensor) error {
	if ok, err := k.start(outputs{dst, dst.Scale}, src); !ok {
		return err
	}
	k.pool.run(src.Shape[0], func(_, h int) {
		factor := magnitude(src, h) / largestF8
		*f32(dst.Scale, h) = factor
		for i := range src.Shape[1] {
			to := row[byte](dst, h, i)
			clear(to)
			if !(factor > 0) {
				continue
			}
			for j, v := range row[float32](src, h, i) {
				to[j] = toF8(v / factor)
			}
		}
	})
	return nil
}

// magnitude is the largest of head h; NaN where a number is not finite.
func magnitude(t *device.Tensor, h int) float32 {
	top := float32(0)
	for i := range t.Shape[1] {
		for _, v := range row[float32](t, h, i) {
			if v-v != 0 {
				return float32(math.NaN())
			}
			top = max(top, v, -v)
		}
	}
	return top
}

// toF8 rounds a number to the nearest E4M3, ties to even; it is no NaN and, rounded,
// at most 448 in magnitude.
func toF8(v float32) byte {
	const (
		places = 20        // of a float32 that E4M3 lacks
		least  = 0x1p-6    // with a leading 1
		bias   = 127 - 7   // of the exponents
		half   = 1<<19 - 1 // less than half of the last place that stays
	)
	bits := math.Float32bits(v)
	sign, x := byte(bits>>24&0x80), bits&0x7FFFFFFF
	if a := math.Float32frombits(x); a < least {
		return sign | byte(math.RoundToEven(float64(a)*0x1p9))
	}
	return sign | byte((x+half+x>>places&1)>>places-bias<<3)
}
