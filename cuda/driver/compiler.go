package driver

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// compilerError is the error of an nvrtc function.
func compilerError(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	texts := map[C.int]string{1: "out of memory", 3: "invalid input", 5: "invalid option", 6: "compilation failed", 7: "builtins cannot be opened", 11: "internal error"}
	text := texts[code]
	if text == "" {
		text = "failed"
	}
	return &Error{call, int(code), text}
}

// CompilerVersion is that of libnvrtc, as "13.0".
func CompilerVersion() (string, error) {
	var major, minor C.int
	err := compilerError("nvrtcVersion", C.shim_nvrtcVersion(&major, &minor))
	return fmt.Sprintf("%d.%d", major, minor), err
}

// CompilerArchs are the compute capabilities that libnvrtc compiles for,
// rising, as 90 for 9.0.
func CompilerArchs() ([]int, error) {
	var n C.int
	if err := compilerError("nvrtcGetNumSupportedArchs", C.shim_nvrtcGetNumSupportedArchs(&n)); err != nil {
		return nil, err
	}
	archs := make([]C.int, max(n, 1))
	if err := compilerError("nvrtcGetSupportedArchs", C.shim_nvrtcGetSupportedArchs(&archs[0])); err != nil {
		return nil, err
	}
	var out []int
	for _, a := range archs[:n] {
		out = append(out, int(a))
	}
	return out, nil
}

// Source is a program in CUDA C++.
type Source struct {
	Name    string            // as messages call it
	Text    string            // the program
	Headers map[string]string // what #include finds
	Options []string          // --gpu-architecture=sm_90, …
}

// Compile makes machine code (PTX when the options name a compute_ architecture).
// The log holds warnings, errors and what ptxas reports. libnvrtc must be open.
func Compile(s Source) (image []byte, log string, err error) {
	var keep arena
	defer keep.free()
	var names, texts []*C.char
	for name, text := range s.Headers {
		names, texts = append(names, keep.string(name)), append(texts, keep.string(text))
	}
	var prog unsafe.Pointer
	code := C.shim_nvrtcCreateProgram(&prog, keep.string(s.Text), keep.string(s.Name), C.int(len(names)), keep.array(texts), keep.array(names))
	if err := compilerError("nvrtcCreateProgram", code); err != nil {
		return nil, "", err
	}
	defer C.shim_nvrtcDestroyProgram(&prog)
	var options []*C.char
	ptx := false
	for _, o := range s.Options {
		options = append(options, keep.string(o))
		ptx = ptx || strings.Contains(o, "=compute_")
	}
	err = compilerError("nvrtcCompileProgram", C.shim_nvrtcCompileProgram(prog, C.int(len(options)), keep.array(options)))
	log = programLog(prog)
	if err != nil {
		return nil, log, fmt.Errorf("%s: %w\n%s", s.Name, err, log)
	}
	image, err = programImage(prog, ptx)
	return image, log, err
}

func programLog(prog unsafe.Pointer) string {
	var n C.size_t
	if C.shim_nvrtcGetProgramLogSize(prog, &n) != 0 || n == 0 {
		return ""
	}
	buf := make([]byte, n)
	if C.shim_nvrtcGetProgramLog(prog, (*C.char)(unsafe.Pointer(&buf[0]))) != 0 {
		return ""
	}
	return strings.TrimRight(string(buf), "\x00\n")
}

func programImage(prog unsafe.Pointer, ptx bool) ([]byte, error) {
	var n C.size_t
	var code C.int
	if ptx {
		code = C.shim_nvrtcGetPTXSize(prog, &n)
	} else {
		code = C.shim_nvrtcGetCUBINSize(prog, &n)
	}
	if err := compilerError("nvrtc image size", code); err != nil || n == 0 {
		return nil, fmt.Errorf("the compiler made no image: %w", err)
	}
	buf := make([]byte, n)
	if ptx {
		code = C.shim_nvrtcGetPTX(prog, (*C.char)(unsafe.Pointer(&buf[0])))
	} else {
		code = C.shim_nvrtcGetCUBIN(prog, (*C.char)(unsafe.Pointer(&buf[0])))
	}
	return buf, compilerError("nvrtc image", code)
}

// arena holds C memory until a call is over.
type arena []unsafe.Pointer

func (a *arena) string(s string) *C.char {
	p := C.CString(s)
	*a = append(*a, unsafe.Pointer(p))
	return p
}

// array is a C array of strings, nil for none.
func (a *arena) array(strings []*C.char) **C.char {
	if len(strings) == 0 {
		return nil
	}
	p := C.malloc(C.size_t(len(strings)) * C.size_t(unsafe.Sizeof(strings[0])))
	*a = append(*a, p)
	copy(unsafe.Slice((**C.char)(p), len(strings)), strings)
	return (**C.char)(p)
}

func (a *arena) free() {
	for _, p := range *a {
		C.free(p)
	}
}
