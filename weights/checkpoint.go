// Package weights reads Hugging Face checkpoints: one model.safetensors, or
// shards named by model.safetensors.index.json. When a folder holds both, the
// single file is read, as transformers does.
//
// A safetensors file is
//
//	8 bytes    N, little-endian
//	N bytes    JSON: name → {dtype, shape, data_offsets}, padded with spaces
//	the rest   tensors, back to back in the order of their offsets
//
// Files are mapped read-only and tensors are views into the mapping, so that
// opening costs the headers alone and no weight is ever copied to the heap.
// Everything that can be wrong with headers, sizes and shards is found by Open,
// before a tensor is read; names, shapes and element types by Bind and Unused.
//
// The header reader is our own. github.com/nlpodyssey/safetensors, which the
// tests use as an independent writer and judge, refuses a whole file for an
// element type that it does not know even when nobody asks for that tensor,
// keeps the last of two entries with one name, and names neither the tensor nor
// the missing bytes in its errors: the three things that users of a checkpoint
// need to be told.
package weights

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"blitzen/device"
)

const (
	singleName = "model.safetensors"
	indexName  = "model.safetensors.index.json"

	oneDownload = "take config.json and weights from one download"
)

// Tensor is one bound tensor, row-major.
type Tensor struct {
	Name  string
	DType device.DType // F32, F16 or BF16
	Shape []int
	Data  []byte // little-endian view into a read-only mapping (a write is a fault), valid until Checkpoint.Close; the format promises no alignment
	File  string // path of the file that holds it
}

// Checkpoint is an open checkpoint. It owns the mappings that its tensors view.
// It is not safe for concurrent use; the views are.
type Checkpoint struct {
	source string           // path that decides which tensors exist: the single file or the index
	files  []*file          // in path order; nil once closed
	home   map[string]*file // tensor name → the file that holds it
	bound  map[string]bool  // names that Bind has handed out
}

// Open maps the checkpoint in dir and checks every header, every file's size
// and that index and shards agree. The error names the file and what to do.
// A file that another process shortens while it is open is beyond any check:
// reading its tensors then is a fault.
func Open(dir string) (*Checkpoint, error) {
	single, index := filepath.Join(dir, singleName), filepath.Join(dir, indexName)
	// Lstat: a dangling link is a fault of the file that it names, reported as such.
	if _, err := os.Lstat(single); err == nil {
		return openSingle(single)
	}
	if _, err := os.Lstat(index); err == nil {
		return openShards(index)
	}
	return nil, noCheckpoint(dir)
}

func openSingle(path string) (*Checkpoint, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	return newCheckpoint(path, []*file{f}), nil
}

func newCheckpoint(source string, files []*file) *Checkpoint {
	c := &Checkpoint{source: source, files: files, home: map[string]*file{}, bound: map[string]bool{}}
	for _, f := range files {
		for name := range f.tensors {
			c.home[name] = f
		}
	}
	return c
}

// Has reports whether the checkpoint holds a tensor of that name, of any shape
// and element type. It does not count as a use.
func (c *Checkpoint) Has(name string) bool { return c.home[name] != nil }

// Bind returns the tensor of exactly that name and shape and records the name
// as used. A tensor that is missing, of another shape or of an element type
// other than F32, F16 and BF16 is an error.
func (c *Checkpoint) Bind(name string, shape ...int) (Tensor, error) {
	if c.files == nil {
		return Tensor{}, fmt.Errorf("weights: %s is closed: bind tensor %s before Close", c.source, name)
	}
	f := c.home[name]
	if f == nil {
		return Tensor{}, fmt.Errorf("weights: %s has no tensor %s, wanted with shape %v: %s", c.source, name, shape, oneDownload)
	}
	e := f.tensors[name]
	if !slices.Equal(e.shape, shape) {
		return Tensor{}, fmt.Errorf("weights: %s holds tensor %s with shape %s, wanted %v: %s",
			f.path, name, shown(e.shape), shape, oneDownload)
	}
	dtype, ok := floatTypes[e.dtype]
	if !ok {
		return Tensor{}, fmt.Errorf("weights: %s holds tensor %s %v as %s, wanted F32, F16 or BF16: use a checkpoint that is not quantised",
			f.path, name, shape, shown(e.dtype))
	}
	c.bound[name] = true
	return Tensor{Name: name, DType: dtype, Shape: slices.Clone(e.shape), Data: f.view(e), File: f.path}, nil
}

// Unused returns an error that names the tensors (the first few and the count)
// that nobody has bound and ignore, which may be nil, does not excuse. Call it
// when the model is bound: a leftover means that the model and the checkpoint
// are not of one architecture, and its output would be wrong without a sign.
func (c *Checkpoint) Unused(ignore func(name string) bool) error {
	var left []string
	for _, name := range slices.Sorted(maps.Keys(c.home)) {
		if !c.bound[name] && (ignore == nil || !ignore(name)) {
			left = append(left, name)
		}
	}
	if len(left) == 0 {
		return nil
	}
	return fmt.Errorf("weights: %s has %s that the model does not use: %s: %s",
		c.source, count(len(left), "tensor"), few(left), oneDownload)
}

// Close unmaps the files. Views handed out by Bind are invalid from then on.
// Closing again does nothing.
func (c *Checkpoint) Close() error {
	err := closeAll(c.files)
	c.files, c.home = nil, nil
	return err
}

func closeAll(files []*file) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.close())
	}
	return errors.Join(errs...)
}

// noCheckpoint says why dir holds nothing to open, as far as its files tell.
func noCheckpoint(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("weights: %s does not exist: give the folder that holds %s", dir, singleName)
	case err != nil:
		return fmt.Errorf("weights: cannot list %s: %w: give the folder that holds %s", dir, reason(err), singleName)
	}
	var shards, others []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".safetensors":
			shards = append(shards, e.Name())
		case ".bin", ".pt", ".pth", ".gguf":
			others = append(others, e.Name())
		}
	}
	found := ""
	switch {
	case len(shards) > 0:
		found = fmt.Sprintf(" (it has %s): download the index too", few(shards))
	case len(others) > 0:
		found = fmt.Sprintf(" (it has %s): download the safetensors form of the model", few(others))
	default:
		found = unfinished(dir) + ": download the model's weights"
	}
	return fmt.Errorf("weights: %s has neither %s nor %s%s", dir, singleName, indexName, found)
}

// few joins the first names of a list that may be long.
func few(names []string) string {
	const most = 5
	var first []string
	for _, name := range names[:min(most, len(names))] {
		first = append(first, shown(name))
	}
	if len(names) <= most {
		return strings.Join(first, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(first, ", "), len(names)-most)
}

// count writes "1 byte", "2 bytes".
func count[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
