package cuda

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"blitzen/cuda/driver"
)

// cache keeps compiled kernels in a folder, one file each. Without a folder it
// keeps nothing.
type cache struct{ dir string }

// newCache uses dir, or a folder of the user's when it is empty. That a user
// has none is no error: kernels are then compiled at every start.
func newCache(dir string) cache {
	if dir != "" {
		return cache{dir}
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return cache{}
	}
	return cache{filepath.Join(user, "blitzen")}
}

// cacheKey names all that a compilation depends on.
func cacheKey(s driver.Source, compiler string) string {
	h := sha256.New()
	part := func(text string) { fmt.Fprintf(h, "%d:%s", len(text), text) }
	part(compiler)
	part(s.Name)
	part(s.Text)
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		part(name)
		part(s.Headers[name])
	}
	for _, o := range s.Options {
		part(o)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// A file holds magic, the SHA-256 of the rest, the length of the log (4 bytes,
// little-endian), the log and the image.
const magic = "blitzen kernel 1\n"

func (c cache) path(key string) string { return filepath.Join(c.dir, key+".kernel") }

// load returns an entry; a missing or damaged one is not there.
func (c cache) load(key string) (image []byte, log string, ok bool) {
	if c.dir == "" {
		return nil, "", false
	}
	data, err := os.ReadFile(c.path(key))
	if err != nil {
		return nil, "", false
	}
	return decodeEntry(data)
}

func decodeEntry(data []byte) (image []byte, log string, ok bool) {
	data, ok = bytes.CutPrefix(data, []byte(magic))
	if !ok || len(data) < sha256.Size+4 {
		return nil, "", false
	}
	sum, body := data[:sha256.Size], data[sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(sum, got[:]) {
		return nil, "", false
	}
	n, body := uint64(binary.LittleEndian.Uint32(body)), body[4:]
	if n > uint64(len(body)) {
		return nil, "", false
	}
	return body[n:], string(body[:n]), true
}

func encodeEntry(image []byte, log string) []byte {
	body := binary.LittleEndian.AppendUint32(nil, uint32(len(log)))
	body = append(append(body, log...), image...)
	sum := sha256.Sum256(body)
	return append(append([]byte(magic), sum[:]...), body...)
}

// store writes an entry under its final name only when it is complete. A folder
// that cannot be written costs time at the next start, not this one.
func (c cache) store(key string, image []byte, log string) {
	if c.dir == "" || os.MkdirAll(c.dir, 0o777) != nil {
		return
	}
	f, err := os.CreateTemp(c.dir, "new-*")
	if err != nil {
		return
	}
	_, err = f.Write(encodeEntry(image, log))
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), c.path(key))
	}
	if err != nil {
		os.Remove(f.Name())
	}
}
