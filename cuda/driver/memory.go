package driver

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// Address is a place in GPU memory.
type Address uint64

// MemoryInfo returns the bytes free and in all.
func MemoryInfo() (free, total int64, err error) {
	var f, t C.size_t
	err = check("cuMemGetInfo", C.shim_cuMemGetInfo_v2(&f, &t))
	return int64(f), int64(t), err
}

// Alloc takes n > 0 bytes of GPU memory.
func Alloc(n int) (Address, error) {
	var p C.uint64_t
	err := check("cuMemAlloc", C.shim_cuMemAlloc_v2(&p, C.size_t(n)))
	return Address(p), err
}

// Free gives GPU memory back, after all work that may use it.
func Free(a Address) error { return check("cuMemFree", C.shim_cuMemFree_v2(C.uint64_t(a))) }

// AllocHost takes page-locked host memory, which copies need to be
// asynchronous.
func AllocHost(n int) ([]byte, error) {
	var p unsafe.Pointer
	if err := check("cuMemHostAlloc", C.shim_cuMemHostAlloc(&p, C.size_t(n), 0)); err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// FreeHost gives page-locked memory back.
func FreeHost(b []byte) error {
	return check("cuMemFreeHost", C.shim_cuMemFreeHost(unsafe.Pointer(unsafe.SliceData(b))))
}

// Upload queues a copy of page-locked host memory to the GPU.
func (s Stream) Upload(dst Address, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	return check("cuMemcpyHtoDAsync", C.shim_cuMemcpyHtoDAsync_v2(C.uint64_t(dst), unsafe.Pointer(&src[0]), C.size_t(len(src)), s.ptr))
}

// Download queues a copy of GPU memory to page-locked host memory.
func (s Stream) Download(dst []byte, src Address) error {
	if len(dst) == 0 {
		return nil
	}
	return check("cuMemcpyDtoHAsync", C.shim_cuMemcpyDtoHAsync_v2(unsafe.Pointer(&dst[0]), C.uint64_t(src), C.size_t(len(dst)), s.ptr))
}

// Copy queues a copy inside GPU memory.
func (s Stream) Copy(dst, src Address, n int) error {
	return check("cuMemcpyDtoDAsync", C.shim_cuMemcpyDtoDAsync_v2(C.uint64_t(dst), C.uint64_t(src), C.size_t(n), s.ptr))
}

// Fill queues setting n bytes.
func (s Stream) Fill(dst Address, value byte, n int) error {
	if n == 0 {
		return nil
	}
	return check("cuMemsetD8Async", C.shim_cuMemsetD8Async(C.uint64_t(dst), C.uchar(value), C.size_t(n), s.ptr))
}
