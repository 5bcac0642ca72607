// Package kernels holds the loops of the CPU device in C: attention, products
// of few rows, clustering, activations. One binary carries each kernel for
// AVX-512, AVX2 and any other processor, and picks when it starts.
//
// All pointers are to memory outside the Go heap, or to Go memory without
// pointers; kernels keep none. Distances between rows (ld…) count elements.
package kernels

/*
#cgo CFLAGS: -O3 -Wall -Wno-psabi
#cgo LDFLAGS: -lm
#include <stdlib.h>
#include "kernels.h"
*/
import "C"

import "unsafe"

func f(p *float32) *C.float  { return (*C.float)(unsafe.Pointer(p)) }
func i(p *int32) *C.int32_t  { return (*C.int32_t)(unsafe.Pointer(p)) }
func d(p *float64) *C.double { return (*C.double)(unsafe.Pointer(p)) }
func n(x int) C.long         { return C.long(x) }
func r(x float32) C.float    { return C.float(x) }

func b(x bool) C.int {
	if x {
		return 1
	}
	return 0
}

// ISA names the instruction set in use: "avx512", "avx2" or "portable".
func ISA() string { return C.GoString(C.bk_isa()) }

// Alloc returns n zeroed bytes outside the Go heap, aligned to 64 or more, and
// the address to free; nil when there is no memory.
func Alloc(n int) (memory, base unsafe.Pointer) {
	memory = C.bk_alloc(C.long(n), &base)
	return memory, base
}

// Release frees memory from Alloc, given its base.
func Release(base unsafe.Pointer) { C.free(base) }

// A Matrix is the address of element [0, 0] and the distance between rows.
type Matrix struct {
	P  *float32
	LD int
}

// Linear computes dst[t, o] (+)= Σᵢ x[t, i]·w[o, i] + bias[o] for rows × outs
// outputs; bias may be nil.
func Linear(dst, x, w Matrix, bias *float32, rows, outs, in int, add bool) {
	C.bk_matmul(f(dst.P), n(dst.LD), f(x.P), n(x.LD), f(w.P), n(w.LD), f(bias), n(rows), n(outs), n(in), b(add))
}

// LinearTransposed computes dst[t, o] = Σᵢ x[t, i]·w[i, o].
func LinearTransposed(dst, x, w Matrix, rows, outs, in int) {
	C.bk_matmul_nn(f(dst.P), n(dst.LD), f(x.P), n(x.LD), f(w.P), n(w.LD), n(rows), n(outs), n(in))
}

// Store computes dst[t, i] (+)= src[t, i] + bias[i]; bias may be nil.
func Store(dst, src Matrix, bias *float32, rows, width int, add bool) {
	C.bk_store(f(dst.P), n(dst.LD), f(src.P), n(src.LD), f(bias), n(rows), n(width), b(add))
}

// AddScaled computes dst[i] += scale·src[i].
func AddScaled(dst, src *float32, scale float32, width int) {
	C.bk_axpy(f(dst), f(src), r(scale), n(width))
}

// RMSNorm normalises rows.
func RMSNorm(dst, x Matrix, gamma *float32, eps float32, rows, width int) {
	C.bk_rms_norm(f(dst.P), n(dst.LD), f(x.P), n(x.LD), f(gamma), r(eps), n(rows), n(width))
}

// Heads is the address of element [0, 0, 0] of [tokens, heads, d] and the
// distances between tokens and heads.
type Heads struct {
	P           *float32
	Token, Head int
}

// Rotate applies a rotary encoding in place.
func Rotate(x Heads, pos *int32, freq *float32, scale float32, interleaved bool, tokens, heads, width int) {
	C.bk_rotate(f(x.P), n(x.Token), n(x.Head), i(pos), f(freq), r(scale), b(interleaved), n(tokens), n(heads), n(width))
}

// SwiGLU computes silu(g)·u for rows g‖u.
func SwiGLU(dst, gateUp Matrix, rows, width int) {
	C.bk_swiglu(f(dst.P), n(dst.LD), f(gateUp.P), n(gateUp.LD), n(rows), n(width))
}

// Softmax normalises x [width] in place.
func Softmax(x *float32, width int) { C.bk_softmax(f(x), n(width)) }

// WidenBF16 converts bfloat16 to float32.
func WidenBF16(dst *float32, src unsafe.Pointer, count int) {
	C.bk_widen_bf16(f(dst), (*C.uint16_t)(src), n(count))
}

// WidenF16 converts float16 to float32.
func WidenF16(dst *float32, src unsafe.Pointer, count int) {
	C.bk_widen_f16(f(dst), (*C.uint16_t)(src), n(count))
}

// WidenF8 converts E4M3 to float32.
func WidenF8(dst *float32, src *byte, count int) {
	C.bk_widen_f8(f(dst), (*C.uint8_t)(unsafe.Pointer(src)), n(count))
}

// WidenInt8 computes dst[t, i] = scale[t]·src[t, i]; ld is the distance between
// rows of src.
func WidenInt8(dst Matrix, src *int8, ld int, scale *float32, rows, width int) {
	C.bk_widen_i8(f(dst.P), n(dst.LD), (*C.int8_t)(unsafe.Pointer(src)), n(ld), f(scale), n(rows), n(width))
}

// RoundInt8 rounds a row to multiples of a factor, as Device.ImportInt8 says.
func RoundInt8(dst *int8, scale, src *float32, width int) {
	C.bk_round_i8((*C.int8_t)(unsafe.Pointer(dst)), f(scale), f(src), n(width))
}

// Distances computes squared distances dst [points, rows]. scratch holds
// NearScratch doubles.
func Distances(dst, x Matrix, rows int, points Matrix, count, width int, scratch *float64) {
	C.bk_distances(f(dst.P), n(dst.LD), f(x.P), n(x.LD), n(rows), f(points.P), n(points.LD), n(count), n(width),
		d(scratch))
}

// PackCenters prepares count centers for Nearest: packed holds PackedCenters
// elements, norms count.
func PackCenters(packed *float64, norms *float32, centers Matrix, count, width int) {
	C.bk_nearest_pack(d(packed), f(norms), f(centers.P), n(centers.LD), n(count), n(width))
}

// PackedCenters is the number of elements that PackCenters writes, in whole
// blocks of centers.
func PackedCenters(count, width int) int {
	return (count + C.NEAR_BLOCK - 1) / C.NEAR_BLOCK * C.NEAR_BLOCK * width
}

// NearScratch is the number of doubles that Distances and Nearest work in.
func NearScratch(width int) int { return C.NEAR_SCRATCH * width }

// Nearest labels rows with their nearest center. scratch holds NearScratch
// doubles.
func Nearest(labels *int32, x Matrix, rows int, packed *float64, norms *float32, count, width int, scratch *float64) {
	C.bk_nearest(i(labels), f(x.P), n(x.LD), n(rows), d(packed), f(norms), n(count), n(width), d(scratch))
}
