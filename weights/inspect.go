package weights

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"io"
	"maps"
	"slices"
)

// TensorInfo is a header's account of one tensor, of any element type.
type TensorInfo struct {
	Name  string
	DType string // as the header writes it: "BF16", "F8_E4M3", …
	Shape []int  // [] for a scalar
	Bytes int64
	File  string // path
}

// FileInfo is one file of a checkpoint.
type FileInfo struct {
	Path    string
	Bytes   int64 // the whole file, header included
	Tensors int
}

// Tensors returns all tensors in the order of their names, bound or not.
func (c *Checkpoint) Tensors() []TensorInfo {
	infos := make([]TensorInfo, 0, len(c.home))
	for _, name := range slices.Sorted(maps.Keys(c.home)) {
		f := c.home[name]
		e := f.tensors[name]
		infos = append(infos, TensorInfo{name, e.dtype, slices.Clone(e.shape), int64(e.end - e.begin), f.path})
	}
	return infos
}

// Files returns the checkpoint's files in the order of their paths.
func (c *Checkpoint) Files() []FileInfo {
	infos := make([]FileInfo, 0, len(c.files))
	for _, f := range c.files {
		infos = append(infos, FileInfo{f.path, int64(len(f.mapped)), len(f.tensors)})
	}
	return infos
}

// Size returns the bytes of all tensors as stored, headers not counted.
func (c *Checkpoint) Size() int64 {
	var total int64
	for _, f := range c.files {
		total += int64(len(f.body))
	}
	return total
}

// samplePage is what Fingerprint reads at a time, in bytes: a page of memory,
// the least that the kernel fetches from disk.
const samplePage = 4096

// Fingerprint identifies the weights: the SHA-256, in hexadecimal, of every
// tensor's name, element type and shape, in the order of the names, with its
// first, middle and last 4096 bytes (all of a tensor of up to three times that).
// Headers alone would not do: a model and its fine-tuned copies have the same.
// It is not a checksum: a change elsewhere in a large tensor goes unnoticed.
// Sharding, file names and metadata do not enter. Empty once closed.
func (c *Checkpoint) Fingerprint() string {
	if c.files == nil {
		return ""
	}
	hash := sha256.New()
	number := func(n int) { hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))) }
	text := func(s string) { number(len(s)); io.WriteString(hash, s) } // the length keeps neighbours apart
	for _, name := range slices.Sorted(maps.Keys(c.home)) {
		f := c.home[name]
		e := f.tensors[name]
		text(name)
		text(e.dtype)
		number(len(e.shape))
		for _, d := range e.shape {
			number(d)
		}
		data := f.view(e)
		number(len(data))
		if len(data) <= 3*samplePage {
			hash.Write(data)
			continue
		}
		for _, at := range []int{0, (len(data) - samplePage) / 2, len(data) - samplePage} {
			hash.Write(data[at : at+samplePage])
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}
