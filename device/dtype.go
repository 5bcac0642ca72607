package device

import "fmt"

// DType is the type of a tensor's elements. All are little-endian in memory,
// as in safetensors.
type DType uint8

// The element types that tensors have here. Checkpoints may hold other types;
// package weights refuses those by name.
const (
	Invalid DType = iota
	F32           // IEEE float32
	F16           // IEEE float16: checkpoints, and attention by itself
	BF16          // upper half of a float32
	I8            // signed byte: quantised weights
	F8            // E4M3 float, up to 448, no infinity: quantised keys
	I32           // token ids, positions, row numbers
	U32           // random seeds
	I64           // counters of rows and bytes read
)

var dtypes = [...]struct {
	name string
	size int
}{
	Invalid: {"invalid", 0},
	F32:     {"F32", 4},
	F16:     {"F16", 2},
	BF16:    {"BF16", 2},
	I8:      {"I8", 1},
	F8:      {"F8_E4M3", 1},
	I32:     {"I32", 4},
	U32:     {"U32", 4},
	I64:     {"I64", 8},
}

// Size returns the bytes of one element, 0 for Invalid.
func (t DType) Size() int {
	if int(t) >= len(dtypes) {
		return 0
	}
	return dtypes[t].size
}

// String returns the name that safetensors headers use: "F32", "BF16", ….
func (t DType) String() string {
	if int(t) >= len(dtypes) {
		return fmt.Sprintf("DType(%d)", uint8(t))
	}
	return dtypes[t].name
}

// Float reports whether elements are real numbers by themselves: I8 and F8 are
// such by a factor of each row or head alone (Tensor.Scale).
func (t DType) Float() bool { return t == F32 || t == F16 || t == BF16 }
