package driver

/*
#include "shim.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

func blasError(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	texts := map[C.int]string{1: "not initialised", 3: "allocation failed", 7: "invalid value", 8: "architecture mismatch", 13: "execution failed", 14: "internal error", 15: "not supported"}
	text := texts[code]
	if text == "" {
		text = "failed"
	}
	return &Error{call, int(code), text}
}

// BLASHandle is cuBLASLt in a context.
type BLASHandle struct{ ptr unsafe.Pointer }

// NewBLAS starts cuBLASLt. libcublasLt must be open and a context current.
func NewBLAS() (BLASHandle, error) {
	var h BLASHandle
	err := blasError("cublasLtCreate", C.shim_cublasLtCreate(&h.ptr))
	return h, err
}

// Destroy ends it.
func (h BLASHandle) Destroy() error {
	return blasError("cublasLtDestroy", C.shim_cublasLtDestroy(h.ptr))
}

// Element types of matrices, by cudaDataType's numbers.
const (
	BlasF32  = 0
	BlasBF16 = 14
)

// Numbers of cublasLt.h.
const (
	compute32F           = 68 // float32 products and sums, no TF32
	opT                  = 1
	descTransA           = 3
	descEpilogue         = 7
	descBias             = 8
	epilogueBias         = 4
	layoutBatch          = 5
	layoutBatchStride    = 6
	prefWorkspace        = 1
	prefReduction        = 3
	prefAlign            = 5 // of A; B, C, D follow
	reductionNone        = 0 // no split products
	reductionComputeType = 2 // partial sums of a split product in float32, added in order
)

// Product says what a matrix product looks like: D[b, t, o] = Σᵢ B[b, t, i]·A[b, o, i]
// (+ D[b, t, o]) (+ bias[o]), all row-major. It is comparable: plans are kept by it.
type Product struct {
	Rows, Outs, Inner int // t, o, i
	LDA, LDB, LDD     int // elements from one row to the next
	TypeAB, TypeD     int // BlasF32 or BlasBF16
	Batch             int // 1 or more
	StrideA, StrideB  int // elements from one batch entry to the next
	StrideD           int
	TransA            bool // A is stored [b, i, o]
	Bias              bool // of D's type
	Add               bool // D's contents are added; a BF16 sum is rounded twice
	AlignA, AlignB    int  // bytes that the addresses are multiples of
	AlignD            int
	Workspace         int // bytes that the product may use
}

// Plan is how cuBLASLt computes a Product.
type Plan struct {
	desc, a, b, d unsafe.Pointer
	algo          C.struct_shim_heuristic
	workspace     int
	add           bool
}

// ErrNoPlan says that cuBLASLt cannot compute a product.
var ErrNoPlan = errors.New("cuBLASLt has no algorithm for this product")

// Plan asks cuBLASLt for its best algorithm, whose results do not depend on
// the order in which blocks run.
func (h BLASHandle) Plan(p Product) (*Plan, error) {
	plan := &Plan{workspace: p.Workspace, add: p.Add}
	if err := plan.describe(p); err != nil {
		plan.Destroy()
		return nil, err
	}
	if err := plan.choose(h, p); err != nil {
		plan.Destroy()
		return nil, err
	}
	return plan, nil
}

// describe makes the descriptors. cuBLASLt is column-major: it computes Dᵀ.
func (plan *Plan) describe(p Product) error {
	var b builder
	b.do("cublasLtMatmulDescCreate", C.shim_cublasLtMatmulDescCreate(&plan.desc, compute32F, BlasF32))
	aRows, aCols := p.Inner, p.Outs
	if p.TransA {
		aRows, aCols = p.Outs, p.Inner
	} else {
		b.set(plan.desc, descTransA, opT)
	}
	if p.Bias {
		b.set(plan.desc, descEpilogue, epilogueBias)
	}
	plan.a = b.layout(p.TypeAB, aRows, aCols, p.LDA, p.Batch, p.StrideA)
	plan.b = b.layout(p.TypeAB, p.Inner, p.Rows, p.LDB, p.Batch, p.StrideB)
	plan.d = b.layout(p.TypeD, p.Outs, p.Rows, p.LDD, p.Batch, p.StrideD)
	return b.err
}

func (plan *Plan) choose(h BLASHandle, p Product) error {
	var b builder
	var pref unsafe.Pointer
	b.do("cublasLtMatmulPreferenceCreate", C.shim_cublasLtMatmulPreferenceCreate(&pref))
	if b.err != nil {
		return b.err
	}
	defer C.shim_cublasLtMatmulPreferenceDestroy(pref)
	workspace := C.uint64_t(p.Workspace)
	b.do("cublasLtMatmulPreferenceSetAttribute", C.shim_cublasLtMatmulPreferenceSetAttribute(pref, prefWorkspace, unsafe.Pointer(&workspace), 8))
	reduction := reductionComputeType
	if p.TypeD == BlasBF16 && p.Bias {
		reduction = reductionNone // a split product is rounded to BF16 before the bias is added, and again after
	}
	for attr, v := range map[C.int]int{prefReduction: reduction, prefAlign: p.AlignA, prefAlign + 1: p.AlignB, prefAlign + 2: p.AlignD, prefAlign + 3: p.AlignD} {
		value := C.uint32_t(v)
		b.do("cublasLtMatmulPreferenceSetAttribute", C.shim_cublasLtMatmulPreferenceSetAttribute(pref, attr, unsafe.Pointer(&value), 4))
	}
	if b.err != nil {
		return b.err
	}
	var found C.int
	code := C.shim_cublasLtMatmulAlgoGetHeuristic(h.ptr, plan.desc, plan.a, plan.b, plan.d, plan.d, pref, 1, &plan.algo, &found)
	if code != 0 || found == 0 || plan.algo.state != 0 {
		return ErrNoPlan
	}
	return nil
}

// Destroy frees the plan.
func (plan *Plan) Destroy() {
	for _, layout := range []unsafe.Pointer{plan.a, plan.b, plan.d} {
		if layout != nil {
			C.shim_cublasLtMatrixLayoutDestroy(layout)
		}
	}
	if plan.desc != nil {
		C.shim_cublasLtMatmulDescDestroy(plan.desc)
	}
	*plan = Plan{}
}

// Multiply queues the product; bias is used when the plan has one. workspace
// has the plan's bytes.
func (s Stream) Multiply(h BLASHandle, plan *Plan, d, b, a, bias, workspace Address) error {
	if bias != 0 {
		p := C.uint64_t(bias)
		if err := blasError("cublasLtMatmulDescSetAttribute", C.shim_cublasLtMatmulDescSetAttribute(plan.desc, descBias, unsafe.Pointer(&p), 8)); err != nil {
			return err
		}
	}
	alpha, beta := C.float(1), C.float(0)
	if plan.add {
		beta = 1
	}
	return blasError("cublasLtMatmul", C.shim_cublasLtMatmul(h.ptr, plan.desc, unsafe.Pointer(&alpha),
		C.uint64_t(a), plan.a, C.uint64_t(b), plan.b, unsafe.Pointer(&beta), C.uint64_t(d), plan.d, C.uint64_t(d), plan.d,
		unsafe.Pointer(&plan.algo.algo), C.uint64_t(workspace), C.size_t(plan.workspace), s.ptr))
}

// builder calls functions until the first error.
type builder struct{ err error }

func (b *builder) do(call string, code C.int) {
	if b.err == nil {
		b.err = blasError(call, code)
	}
}

func (b *builder) set(desc unsafe.Pointer, attr, value C.int) {
	if b.err == nil {
		b.do("cublasLtMatmulDescSetAttribute", C.shim_cublasLtMatmulDescSetAttribute(desc, attr, unsafe.Pointer(&value), 4))
	}
}

func (b *builder) layout(element, rows, cols, ld, batch, stride int) unsafe.Pointer {
	if b.err != nil {
		return nil
	}
	var l unsafe.Pointer
	b.do("cublasLtMatrixLayoutCreate", C.shim_cublasLtMatrixLayoutCreate(&l, C.int(element), C.uint64_t(rows), C.uint64_t(cols), C.int64_t(ld)))
	if batch > 1 && b.err == nil {
		n, s := C.int32_t(batch), C.int64_t(stride)
		b.do("cublasLtMatrixLayoutSetAttribute", C.shim_cublasLtMatrixLayoutSetAttribute(l, layoutBatch, unsafe.Pointer(&n), 4))
		b.do("cublasLtMatrixLayoutSetAttribute", C.shim_cublasLtMatrixLayoutSetAttribute(l, layoutBatchStride, unsafe.Pointer(&s), 8))
	}
	return l
}
