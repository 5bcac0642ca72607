package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// mostText is the most bytes that are read of a prompt, a template or ids: no model
// reads as much.
const mostText = 64 << 20

// errEmptyName is what is amiss with a file, or another program, that has no name.
var errEmptyName = errors.New("the name is empty")

// namedValue is a flag's value that is not empty.
type namedValue struct{ pflag.Value }

func (n namedValue) Set(s string) error {
	if s == "" {
		return errEmptyName
	}
	return n.Value.Set(s)
}

// refuseEmpty has a flag that takes a file or a program refuse an empty name, which
// would be as none.
func refuseEmpty(f *pflag.Flag) {
	switch name, _ := pflag.UnquoteUsage(f); name {
	case "FILE", "COMMAND":
		f.Value = namedValue{f.Value}
		f.DefValue = strings.TrimSuffix(f.DefValue, "[]") // which help would show
	}
}

// readUpTo reads all of r, at most so many bytes.
func readUpTo(r io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err == nil && int64(len(data)) > most {
		err = usagef("more than %d bytes: no model reads as much", most)
	}
	return data, err
}

// readFile is os.ReadFile of at most so many bytes.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := readUpTo(f, most)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return data, err
}

// file is one that is written as a whole: what stood there before stays until
// then, and where it cannot be written is known from the start. Its permissions stay,
// and a link to it.
type file struct {
	flag, path string
	target     string // where a link leads
}

// newFile sees that a file that a flag names can be written; without a path it does
// nothing.
func newFile(flag, path string) (*file, error) {
	f := &file{flag: flag, path: path, target: path}
	if path == "" {
		return f, nil
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		f.target = target
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usagef("%s: %s is not a regular file", flag, path)
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, usagef("%s: open %s: no such folder", flag, dir)
	}
	part, err := f.beside()
	if err != nil {
		return nil, usagef("%s: %w", flag, err)
	}
	// A program that is ended before it writes leaves nothing behind.
	part.Close()
	os.Remove(part.Name())
	return f, nil
}

// beside makes a file in the same folder.
func (f *file) beside() (*os.File, error) {
	for {
		name := fmt.Sprintf(".%s-%d", filepath.Base(f.target), rand.Uint32())
		part, err := os.OpenFile(filepath.Join(filepath.Dir(f.target), name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return part, err
		}
	}
}

// write puts content in the file's place.
func (f *file) write(content func(io.Writer) error) error {
	part, err := f.beside()
	if err != nil {
		return fmt.Errorf("%s: %w", f.flag, err)
	}
	defer os.Remove(part.Name()) // which a rename has moved away
	defer part.Close()
	err = content(part)
	if info, is := os.Stat(f.target); err == nil && is == nil {
		err = part.Chmod(info.Mode().Perm())
	}
	if err == nil {
		err = part.Close()
	}
	if err == nil {
		err = os.Rename(part.Name(), f.target)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.flag, err)
	}
	return nil
}

// writeFile makes a file at once, from those that are read.
func writeFile(flag, path string, read []string, content func(io.Writer) error) error {
	f, err := newFile(flag, path)
	if err != nil {
		return err
	}
	if err := f.apart(read); err != nil {
		return err
	}
	return f.write(content)
}

// apart refuses to write over one of the files that are read.
func (f *file) apart(read []string) error {
	is, err := os.Stat(f.path)
	if f.path == "" || err != nil {
		return nil // there is none to lose
	}
	for _, path := range read {
		if info, err := os.Stat(path); err == nil && os.SameFile(is, info) {
			return usagef("%s: %s is read, too, and would be lost: name another file", f.flag, f.path)
		}
	}
	return nil
}
