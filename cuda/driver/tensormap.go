package driver

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// TensorMap describes a tensor and a box of it to the copy engine of Hopper and
// newer cards. Kernels read it at a multiple of 64 bytes.
type TensorMap [16]uint64

// maxRank is the most dimensions of a TensorMap.
const maxRank = 5

// MapBF16 describes a BF16 tensor, or another of 2-byte elements, at a multiple of
// 16 bytes. Shape, strides and
// box are in elements, outermost dimension first; the last stride is 1, the
// others multiples of 8. The box is 64 wide: its rows come to shared memory in
// 128 bytes, of which the 16-byte piece i of row r lies at place i xor r mod 8;
// outside the tensor it is zero. libcuda must be open.
func MapBF16(at Address, shape, strides, box []int) (TensorMap, error) {
	var m TensorMap
	var dims, steps [maxRank]C.uint64_t
	var boxes [maxRank]C.uint32_t
	rank := len(shape)
	for i := range shape { // the driver wants the innermost first
		dims[rank-1-i] = C.uint64_t(shape[i])
		boxes[rank-1-i] = C.uint32_t(box[i])
		if i < rank-1 {
			steps[rank-2-i] = C.uint64_t(2 * strides[i])
		}
	}
	code := C.shim_tensor_map((*C.uint64_t)(unsafe.Pointer(&m[0])), C.unsigned(rank), C.uint64_t(at), &dims[0], &steps[0], &boxes[0])
	return m, check("cuTensorMapEncodeTiled", code)
}
