package main

import (
	"io"
	"os"
	"syscall"
	"testing"
)

// A file that is written as a whole has the permissions that the user's umask leaves, or
// those it had, and a link to it stays one.
func TestWriteFile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := t.TempDir()
	text := func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	}
	put := func(path string) {
		t.Helper()
		if err := writeFile("--output", path, nil, text); err != nil {
			t.Fatal(err)
		}
	}
	check := func(path string, want os.FileMode) {
		t.Helper()
		if info, err := os.Lstat(path); err != nil || info.Mode() != want || read(t, path) != "new" {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	put(dir + "/fresh")
	check(dir+"/fresh", 0o640)
	write(t, dir+"/kept", "old")
	if err := os.Chmod(dir+"/kept", 0o606); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("kept", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	put(dir + "/link")
	check(dir+"/kept", 0o606)
	check(dir+"/link", os.ModeSymlink|0o777)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("%v, %v: want three files", left, err)
	}
}
