package driver

/*
#include "shim.h"
*/
import "C"

import "fmt"

// Error is a failed call of a CUDA library.
type Error struct {
	Call string // the C function
	Code int
	Text string // what the library says about the code
}

// Error gives the library's own words.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s (code %d)", e.Call, e.Text, e.Code) }

// codes of the driver that callers tell apart.
const (
	codeOutOfMemory = 2
	codeNoDevice    = 100
)

// OutOfMemory reports that the GPU had too little memory left.
func (e *Error) OutOfMemory() bool { return e.Code == codeOutOfMemory }

// NoDevice reports that there is a driver and no GPU.
func (e *Error) NoDevice() bool { return e.Code == codeNoDevice }

// check makes an error of a driver function's result.
func check(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	text := "unknown error"
	var s *C.char
	if C.shim_cuGetErrorString(code, &s) == 0 && s != nil {
		text = C.GoString(s)
	}
	if C.shim_cuGetErrorName(code, &s) == 0 && s != nil {
		text += ", " + C.GoString(s)
	}
	return &Error{call, int(code), text}
}

// Lost reports an error after which the context can do nothing more: a kernel
// that faulted, a GPU that is gone.
func (e *Error) Lost() bool {
	switch e.Code {
	case 46, 214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721:
		return true
	}
	return false
}
