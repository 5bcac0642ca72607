// Package device is the border between models and hardware: a Device owns
// memory and runs steps, Ops are the operations a step is made of.
//
//	model, attention  →  Ops (shapes checked here, once)  →  Kernels (host, cuda)
//
// Operations write into tensors that the caller made before. Whatever changes
// from one decode step to the next (token id, position, seed, settings) lives
// in tensors, never in Go integers, so that a step can be recorded once and
// replayed.
package device

import "errors"

// ErrNotFinite is what can be said of numbers that are NaN or infinite where they are met. Whoever has the checkpoint at hand can
// say more.
var ErrNotFinite = errors.New("the checkpoint is damaged or its numbers overflow")

// Device owns memory and executes operations in the order they are given. Its
// methods are for one goroutine at a time.
type Device interface {
	// Name says what runs, as printed with results: "cpu", "cuda:0 NVIDIA H200".
	Name() string
	// DType is the type of activations and cache rows: F32 on the host.
	DType() DType
	// Queued reports whether Step.Run returns while the device still works, so
	// that it pays to start a step before the last one's results are read.
	Queued() bool
	// New makes a zeroed tensor. The caller frees it.
	New(name string, t DType, shape ...int) (*Tensor, error)
	// Import makes a read-only tensor from a checkpoint's bytes (little-endian,
	// row-major, as mapped from the file), in the type the device computes with:
	// the result's DType tells. A device may keep mapped itself, which must then
	// stay valid until the tensor is freed.
	Import(name string, t DType, shape []int, mapped []byte) (*Tensor, error)
	// ImportInt8 is Import for a matrix [rows, n] of floats that is kept as signed
	// bytes with a factor for each row: an I8 tensor with Scale. The factor is the
	// row's largest magnitude divided by 127; the bytes are the elements divided by
	// it and rounded to the nearest, ties to even, all in float32. A row of zeros
	// has the factor 0, one with a NaN or an infinity the factor NaN and bytes 0.
	ImportInt8(name string, t DType, shape []int, mapped []byte) (*Tensor, error)
	// Free releases the memory of a tensor made by New or Import, for all views.
	Free(t *Tensor)
	// Upload copies src (little-endian) into the contiguous tensor t; an error
	// when the lengths differ.
	Upload(t *Tensor, src []byte) error
	// Fetch queues a copy of the contiguous tensor t as it is after all work
	// queued so far.
	Fetch(t *Tensor) Pending
	// Prepare checks fn's operations and makes ready what they need, kernels to
	// be compiled say, without executing them. Nobody has to call it.
	Prepare(fn func(*Ops)) error
	// Run executes fn's operations once: prefill, builds. It returns the first
	// error of an operation.
	Run(fn func(*Ops)) error
	// Record calls fn once and keeps its operations for replay; they take
	// effect only when the step runs. fn must issue the same operations on the
	// same tensors with the same scalars whenever it is called.
	Record(fn func(*Ops)) (Step, error)
	// Memory reports bytes in use.
	Memory() MemoryStats
	// Space reports the bytes that New and Import may still take, and those that
	// the device has in all; zeros where the system does not say.
	Space() (free, total int64)
	// Close frees everything.
	Close() error
}

// Step is a recorded sequence of operations.
type Step interface {
	// Run replays the operations on the tensors as they now are.
	Run() error
	Close() error
}

// Pending is a copy under way from a device.
type Pending interface {
	// Wait blocks until the copy is done and stores it in dst, whose length
	// must be the tensor's bytes.
	Wait(dst []byte) error
}

// MemoryStats are bytes on the device.
type MemoryStats struct {
	Used int64 // held by live tensors
	Peak int64 // largest Used so far
}
