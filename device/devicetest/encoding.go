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

// bfloat rounds to the nearest bfloat16, ties to even; a NaN stays one.
func bfloat(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7FFF + bits>>16&1) >> 16)
}
