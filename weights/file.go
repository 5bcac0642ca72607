package weights

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// file is one mapped safetensors file whose header has been checked.
type file struct {
	path    string
	mapped  []byte // the whole file
	body    []byte // the part of mapped that tensor offsets count in
	tensors map[string]entry
}

func openFile(path string) (*file, error) {
	mapped, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	tensors, body, err := parseHeader(mapped)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("weights: %s %w", path, err), unmap(mapped))
	}
	return &file{path: path, mapped: mapped, body: body, tensors: tensors}, nil
}

// mapFile maps a file read-only. An empty file, which cannot be mapped, is nil.
func mapFile(path string) ([]byte, error) {
	info, err := os.Stat(path) // before opening: to open a pipe waits for its writer
	if err != nil {
		return nil, cannotOpen(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("weights: %s is not a regular file: download it again", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, cannotOpen(path, err)
	}
	defer f.Close() // the mapping outlives the descriptor
	if info, err = f.Stat(); err != nil {
		return nil, cannotOpen(path, err)
	}
	if info.Size() == 0 {
		return nil, nil
	}
	mapped, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("weights: cannot map the %d bytes of %s: %w: check the limit on address space (ulimit -v)", info.Size(), path, err)
	}
	return mapped, nil
}

func unmap(mapped []byte) error {
	if mapped == nil {
		return nil
	}
	return unix.Munmap(mapped)
}

func (f *file) close() error {
	if err := unmap(f.mapped); err != nil {
		return fmt.Errorf("weights: cannot unmap %s: %w", f.path, err)
	}
	return nil
}

// view returns the bytes of a tensor of this file, without room to append into
// the next one.
func (f *file) view(e entry) []byte { return f.body[e.begin:e.end:e.end] }

// cannotOpen explains a failed open. A snapshot of the Hugging Face cache is a
// folder of links into blobs/: a link without its blob is the common case of a
// file that is both there and not.
func cannotOpen(path string, err error) error {
	if target, linkErr := os.Readlink(path); linkErr == nil && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("weights: %s is a link to %s, which is missing%s: download it again",
			path, target, unfinished(filepath.Dir(path)))
	}
	return fmt.Errorf("weights: cannot open %s: %w: check that it may be read", path, reason(err))
}

// reason strips the path, which the message around it says already.
func reason(err error) error {
	if cause := new(fs.PathError); errors.As(err, &cause) {
		return cause.Err
	}
	return err
}

// unfinished mentions the partial downloads that huggingface_hub left for dir:
// in dir, in the cache's blobs/ when dir is a snapshot, or in the bookkeeping
// of a download into a plain folder. It is empty when there are none.
func unfinished(dir string) string {
	places := []string{dir, filepath.Join(dir, ".cache", "huggingface", "download")}
	if abs, err := filepath.Abs(dir); err == nil && filepath.Base(filepath.Dir(abs)) == "snapshots" {
		places = append(places, filepath.Join(abs, "..", "..", "blobs"))
	}
	var found []string
	for _, place := range places {
		entries, _ := os.ReadDir(place) // a place that does not exist holds nothing
		for _, e := range entries {
			if strings.HasSuffix(e.Name(), ".incomplete") {
				found = append(found, e.Name())
			}
		}
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("; a download was not finished (%s)", few(found))
}

// LFSPointer reports whether a file's bytes are the text that git keeps in place of a
// large file until `git lfs pull` fetches it.
func LFSPointer(file []byte) bool {
	return bytes.HasPrefix(file, []byte("version https://git-lfs"))
}

var errPointer = errors.New("is a git-lfs pointer, not the file itself: run `git lfs pull`")
