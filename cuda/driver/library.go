// Package driver calls NVIDIA's libraries: libcuda, libnvrtc and libcublasLt,
// opened at run time, so that programs are built and run without them.
//
// It adds Go types and errors to the C functions and nothing else; package
// cuda makes a device of them.
package driver

/*
#cgo LDFLAGS: -ldl -lpthread
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unsafe"
)

// Library is one of NVIDIA's shared libraries.
type Library int

// The libraries that are opened.
const (
	Driver   Library = C.LIB_DRIVER   // libcuda, part of the display driver
	Compiler Library = C.LIB_COMPILER // libnvrtc
	BLAS     Library = C.LIB_BLAS     // libcublasLt
)

// PathVariable names folders that are searched first, separated by colons.
const PathVariable = "BLITZEN_CUDA_PATH"

// library says how a file is called and where it comes from.
type library struct {
	name   string
	majors []int // newest first
	advice string
}

var libraries = map[Library]library{
	Driver:   {"libcuda.so", []int{1}, "install NVIDIA's display driver"},
	Compiler: {"libnvrtc.so", []int{13, 12}, "pip install nvidia-cuda-nvrtc, or install the CUDA toolkit"},
	BLAS:     {"libcublasLt.so", []int{13, 12}, "pip install nvidia-cublas, or install the CUDA toolkit"},
}

// Open opens a library in its newest version that is there, but none of a
// newer CUDA version than newest (0: any). It looks in the folders of
// PathVariable, where the dynamic linker looks, in a CUDA toolkit and in Python
// packages, in this order. A library that is open already stays. The error names
// all that was tried.
func Open(lib Library, newest int) error {
	l := libraries[lib]
	var tried []string
	for _, major := range l.majors {
		if newest > 0 && major > newest {
			continue
		}
		for _, path := range places(fmt.Sprintf("%s.%d", l.name, major)) {
			err := open(lib, path)
			if err == nil {
				return nil
			}
			tried = append(tried, err.Error())
		}
	}
	return fmt.Errorf("%s cannot be opened: %s, or name its folder in %s; tried\n\t%s",
		l.name, l.advice, PathVariable, strings.Join(tried, "\n\t"))
}

// open opens the library at path: a bare name is left to the dynamic linker.
func open(lib Library, path string) error {
	if lib == Compiler && filepath.IsAbs(path) {
		// It looks for its second half by name, which works when that is open.
		for _, builtins := range glob(filepath.Join(filepath.Dir(path), "libnvrtc-builtins.so*")) {
			withString(builtins, func(p *C.char) { C.shim_preload(p) })
		}
	}
	var failed C.int
	message := make([]byte, 512)
	withString(path, func(p *C.char) {
		failed = C.shim_open(C.int(lib), p, (*C.char)(unsafe.Pointer(&message[0])), C.size_t(len(message)))
	})
	if failed != 0 {
		text, _, _ := strings.Cut(string(message), "\x00")
		return errors.New(text)
	}
	return nil
}

// places lists where file may be.
func places(file string) []string {
	var found []string
	for _, dir := range filepath.SplitList(os.Getenv(PathVariable)) {
		found = append(found, filepath.Join(dir, file))
	}
	found = append(found, file)
	for _, dir := range toolkits() {
		found = append(found, glob(filepath.Join(dir, file))...)
	}
	return found
}

// toolkits are patterns of folders that CUDA is installed in: the toolkit's
// own, and those of Python packages beside the python3 that is called.
func toolkits() []string {
	dirs := []string{"/usr/local/cuda/lib64", "/usr/local/cuda-*/lib64", "/opt/cuda/lib64"}
	home, _ := os.UserHomeDir()
	roots := []string{os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")}
	if python, err := exec.LookPath("python3"); err == nil {
		if python, err = filepath.EvalSymlinks(filepath.Dir(python)); err == nil {
			roots = append(roots, filepath.Dir(python))
		}
	}
	if home != "" {
		roots = append(roots, filepath.Join(home, ".local"))
	}
	for _, root := range append(roots, "/usr/local", "/usr") {
		if root != "" {
			for _, packages := range []string{"site-packages", "dist-packages"} {
				dirs = append(dirs, filepath.Join(root, "lib/python3*", packages, "nvidia/*/lib"))
			}
		}
	}
	return dirs
}

// glob is filepath.Glob for patterns that are known to be well formed.
func glob(pattern string) []string {
	found, _ := filepath.Glob(pattern)
	return found
}

func withString(s string, use func(*C.char)) {
	c := C.CString(s)
	defer C.free(unsafe.Pointer(c))
	use(c)
}
