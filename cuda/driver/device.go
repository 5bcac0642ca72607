package driver

/*
#include "shim.h"
*/
import "C"

import "unsafe"

// Device is a GPU.
type Device struct{ id C.int }

// Version starts the driver and returns the newest CUDA version that it
// supports, as 13000 for 13.0. libcuda must be open.
func Version() (int, error) {
	if err := check("cuInit", C.shim_cuInit(0)); err != nil {
		return 0, err
	}
	var v C.int
	err := check("cuDriverGetVersion", C.shim_cuDriverGetVersion(&v))
	return int(v), err
}

// Count is the number of GPUs.
func Count() (int, error) {
	var n C.int
	err := check("cuDeviceGetCount", C.shim_cuDeviceGetCount(&n))
	return int(n), err
}

// Get is the GPU of a number from 0 on.
func Get(ordinal int) (Device, error) {
	var d Device
	err := check("cuDeviceGet", C.shim_cuDeviceGet(&d.id, C.int(ordinal)))
	return d, err
}

// Name is the GPU's product name.
func (d Device) Name() (string, error) {
	buf := make([]byte, 256)
	err := check("cuDeviceGetName", C.shim_cuDeviceGetName((*C.char)(unsafe.Pointer(&buf[0])), C.int(len(buf)), d.id))
	return C.GoString((*C.char)(unsafe.Pointer(&buf[0]))), err
}

// The driver's numbers of attributes.
const (
	capabilityMajor  = 75
	capabilityMinor  = 76
	multiprocessors  = 16
	threadsEach      = 39 // most of a multiprocessor
	attrRegisters    = 4  // of a function, as those below
	attrSharedMemory = 8
	attrCarveout     = 9
)

func (d Device) attribute(attr int) (int, error) {
	var v C.int
	err := check("cuDeviceGetAttribute", C.shim_cuDeviceGetAttribute(&v, C.int(attr), d.id))
	return int(v), err
}

// Capability is the compute capability, as 90 for 9.0.
func (d Device) Capability() (int, error) {
	major, err := d.attribute(capabilityMajor)
	if err != nil {
		return 0, err
	}
	minor, err := d.attribute(capabilityMinor)
	return 10*major + minor, err
}

// Multiprocessors is how many the GPU has.
func (d Device) Multiprocessors() (int, error) { return d.attribute(multiprocessors) }

// ThreadsEach is how many threads a multiprocessor holds at most.
func (d Device) ThreadsEach() (int, error) { return d.attribute(threadsEach) }

// Context is what the process holds on a GPU: the primary one, which libraries
// share.
type Context struct {
	ptr unsafe.Pointer
	dev Device
}

// Retain makes the context or takes another reference to it.
func (d Device) Retain() (Context, error) {
	c := Context{dev: d}
	err := check("cuDevicePrimaryCtxRetain", C.shim_cuDevicePrimaryCtxRetain(&c.ptr, d.id))
	return c, err
}

// Release gives the reference back.
func (c Context) Release() error {
	return check("cuDevicePrimaryCtxRelease", C.shim_cuDevicePrimaryCtxRelease_v2(c.dev.id))
}

// MakeCurrent makes the context that of the calling thread.
func (c Context) MakeCurrent() error { return check("cuCtxSetCurrent", C.shim_cuCtxSetCurrent(c.ptr)) }
