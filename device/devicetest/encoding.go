package devicetest

import (
	"encoding/binary"
	"math"

	"github.com/x448/float16"

	"blitzen/device"
)

// Encode writes values as little-endian elements of type t. Floats are rounded
// to the nearest, ties to even; integers must be whole numbers that t holds.
func Encode(t device.DType, values []float64) []byte {
	out := make([]byte, 0, len(values)*t.Size())
	le := binary.LittleEndian
	for _, v := range values {
		switch t {
		case device.F32:
			out = le.AppendUint32(out, math.Float32bits(float32(v)))
		case device.F16:
			out = le.AppendUint16(out, float16.Fromfloat32(float32(v)).Bits())
		case device.BF16:
			out = le.AppendUint16(out, bfloat(float32(v)))
		case device.I8:
			out = append(out, byte(int8(v)))
		case device.F8:
			out = append(out, float8(float32(v)))
		case device.I32:
			out = le.AppendUint32(out, uint32(int32(v)))
		case device.U32:
			out = le.AppendUint32(out, uint32(v))
		case device.I64:
			out = le.AppendUint64(out, uint64(int64(v)))
		}
	}
	return out
}

// Decode reads little-endian elements of type t. I64 is exact up to 2⁵³.
func Decode(t device.DType, data []byte) []float64 {
	out := make([]float64, len(data)/max(t.Size(), 1))
	le := binary.LittleEndian
	for i := range out {
		e := data[i*t.Size():]
		switch t {
		case device.F32:
			out[i] = float64(math.Float32frombits(le.Uint32(e)))
		case device.F16:
			out[i] = float64(float16.Frombits(le.Uint16(e)).Float32())
		case device.BF16:
			out[i] = float64(math.Float32frombits(uint32(le.Uint16(e)) << 16))
		case device.I8:
			out[i] = float64(int8(e[0]))
		case device.F8:
			out[i] = fromFloat8(e[0])
		case device.I32:
			out[i] = float64(int32(le.Uint32(e)))
		case device.U32:
			out[i] = float64(le.Uint32(e))
		case device.I64:
			out[i] = float64(int64(le.Uint64(e)))
		}
	}
	return out
}

// float8 rounds to the nearest E4M3, ties to even, at most 448 in magnitude.
func float8(v float32) byte {
	if v != v {
		return 0x7F
	}
	sign := byte(math.Float32bits(v) >> 24 & 0x80)
	x := math.Abs(float64(v))
	if x == 0 {
		return sign
	}
	// The last of 3 binary places after the first: 2⁻⁹ for the smallest.
	_, exponent := math.Frexp(x)
	place := max(exponent-4, -9)
	x = math.RoundToEven(math.Ldexp(x, -place))
	for x >= 16 { // rounded up to the next power of two
		x, place = x/2, place+1
	}
	if math.Ldexp(x, place) > 448 {
		return sign | 0x7E
	}
	if x < 8 {
		return sign | byte(x)
	}
	return sign | byte(place+10)<<3 | byte(x-8)
}

// fromFloat8 is the number that an E4M3 stands for.
func fromFloat8(b byte) float64 {
	exponent, x := int(b>>3&15), float64(b&7)
	switch {
	case b&0x7F == 0x7F:
		return math.NaN()
	case exponent > 0:
		x = math.Ldexp(8+x, exponent-10)
	default:
		x = math.Ldexp(x, -9)
	}
	if b >= 0x80 {
		return -x
	}
	return x
}

// bfloat rounds to the nearest bfloat16, ties to even; a NaN stays one.
func bfloat(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7FFF + bits>>16&1) >> 16)
}
