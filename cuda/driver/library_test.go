package driver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOpenNamesWhatWasTried needs a library that no machine has.
func TestOpenNamesWhatWasTried(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(PathVariable, dir)
	file := filepath.Join(dir, "libnothing.so.7")
	if err := os.WriteFile(file, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, "libnothing.so.7"} {
		err := open(BLAS, path)
		if err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if got := places("libnothing.so.7"); len(got) < 2 || got[0] != file || got[1] != "libnothing.so.7" {
		t.Errorf("places %v, want the folder of %s, then the linker's", got, PathVariable)
	}
}

// TestOpenWithoutLibrary runs where there is no driver: the error says what to
// do and lists every place.
func TestOpenWithoutLibrary(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(PathVariable, dir)
	err := Open(Driver, 0)
	if err == nil {
		return // there is a driver
	}
	for _, part := range []string{"libcuda.so cannot be opened", "install NVIDIA's display driver", PathVariable, filepath.Join(dir, "libcuda.so.1")} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestOpenSkipsNewerVersions(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(PathVariable, dir)
	if err := Open(BLAS, 12); err != nil && strings.Contains(err.Error(), "libcublasLt.so.13") {
		t.Errorf("a driver for CUDA 12 was offered version 13: %v", err)
	}
}

// TestToolkitsIncludePython finds the packages beside the python3 that is
// called.
func TestToolkitsIncludePython(t *testing.T) {
	env := t.TempDir()
	bin, lib := filepath.Join(env, "bin"), filepath.Join(env, "lib/python3.99/site-packages/nvidia/cu13/lib")
	for _, dir := range []string{bin, lib} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{filepath.Join(bin, "python3"): 0o700, filepath.Join(lib, "libsome.so.13"): 0o600} {
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv("VIRTUAL_ENV", "")
	found := false
	for _, place := range places("libsome.so.13") {
		found = found || strings.HasSuffix(place, "python3.99/site-packages/nvidia/cu13/lib/libsome.so.13")
	}
	if !found {
		t.Errorf("places %v lack the Python package", places("libsome.so.13"))
	}
}

func TestErrors(t *testing.T) {
	e := &Error{"cuMemAlloc", 2, "out of memory"}
	if got := e.Error(); got != "cuMemAlloc: out of memory (code 2)" {
		t.Error(got)
	}
	if !e.OutOfMemory() || e.Lost() || e.NoDevice() || !(&Error{Code: 700}).Lost() || !(&Error{Code: 100}).NoDevice() {
		t.Error("codes are told apart wrongly")
	}
}
