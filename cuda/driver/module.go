package driver

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import "unsafe"

// Module is compiled code on a GPU.
type Module struct{ ptr unsafe.Pointer }

// Load brings an image from Compile to the GPU.
func Load(image []byte) (Module, error) {
	// PTX ends in a zero byte; a zero more after a cubin does no harm.
	c := C.CBytes(append(image[:len(image):len(image)], 0))
	defer C.free(c)
	var m Module
	err := check("cuModuleLoadData", C.shim_cuModuleLoadData(&m.ptr, c))
	return m, err
}

// Unload removes the code.
func (m Module) Unload() error { return check("cuModuleUnload", C.shim_cuModuleUnload(m.ptr)) }

// Function is a kernel.
type Function struct{ ptr unsafe.Pointer }

// Function finds a kernel by its extern "C" name.
func (m Module) Function(name string) (Function, error) {
	var f Function
	var err error
	withString(name, func(n *C.char) {
		err = check("cuModuleGetFunction", C.shim_cuModuleGetFunction(&f.ptr, m.ptr, n))
	})
	return f, err
}

// Global finds a variable in GPU memory by its name.
func (m Module) Global(name string) (at Address, size int, err error) {
	var p C.uint64_t
	var n C.size_t
	withString(name, func(s *C.char) {
		err = check("cuModuleGetGlobal", C.shim_cuModuleGetGlobal_v2(&p, &n, m.ptr, s))
	})
	return Address(p), int(n), err
}

// AllowShared lets the kernel be launched with n bytes of dynamic shared
// memory, which needs asking above 48 KiB.
func (f Function) AllowShared(n int) error {
	return check("cuFuncSetAttribute", C.shim_cuFuncSetAttribute(f.ptr, attrSharedMemory, C.int(n)))
}

// Carve asks for a share of a multiprocessor's memory, in percent and rounded up to a size that there is, as shared memory; the
// rest is L1 cache.
func (f Function) Carve(percent int) error {
	return check("cuFuncSetAttribute", C.shim_cuFuncSetAttribute(f.ptr, attrCarveout, C.int(percent)))
}

// Registers is how many a thread of the kernel has.
func (f Function) Registers() (int, error) {
	var n C.int
	err := check("cuFuncGetAttribute", C.shim_cuFuncGetAttribute(&n, attrRegisters, f.ptr))
	return int(n), err
}

// Resident is how many blocks of the kernel a multiprocessor runs at once.
func (f Function) Resident(threads, shared int) (int, error) {
	var n C.int
	err := check("cuOccupancyMaxActiveBlocksPerMultiprocessor",
		C.shim_cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f.ptr, C.int(threads), C.size_t(shared)))
	return int(n), err
}

// Grid is the number of blocks in each direction and the threads of a block.
type Grid struct {
	X, Y, Z, Threads int
	// Early lets the kernel begin before the one ahead of it has ended, which it
	// waits for by itself (griddepcontrol.wait, compute capability 9.0).
	Early bool
	// Cluster is how many neighbouring blocks in direction X share a cluster
	// (compute capability 9.0); 0 for none.
	Cluster int
}

// Launch queues a kernel. args points to its only parameter, a struct without
// Go pointers; shared is its dynamic shared memory in bytes.
func (s Stream) Launch(f Function, g Grid, shared int, args unsafe.Pointer) error {
	early := C.int(0)
	if g.Early {
		early = 1
	}
	return check("cuLaunchKernel", C.shim_launch(f.ptr, C.uint(g.X), C.uint(g.Y), C.uint(g.Z), C.uint(g.Threads), C.uint(shared), early, C.uint(g.Cluster), s.ptr, args))
}
