package weights

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// raw is a safetensors file with the header as given, right or wrong, and size
// bytes of data 1, 2, 3, ….
func raw(header string, size int) string {
	var b strings.Builder
	b.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
	b.WriteString(header)
	for i := range size {
		b.WriteByte(byte(i + 1))
	}
	return b.String()
}

// vectors is a sound file that holds F32 vectors of 2 under the given names.
func vectors(names ...string) string {
	entries := make([]string, len(names))
	for i, name := range names {
		entries[i] = fmt.Sprintf(`%q:{"dtype":"F32","shape":[2],"data_offsets":[%d,%d]}`, name, 8*i, 8*i+8)
	}
	return raw("{"+strings.Join(entries, ",")+"}", 8*len(names))
}

// index is an index that maps names to shards, given in turn.
func index(pairs ...string) string {
	var entries []string
	for i := 0; i < len(pairs); i += 2 {
		entries = append(entries, fmt.Sprintf("%q:%q", pairs[i], pairs[i+1]))
	}
	return `{"metadata":{"total_size":16},"weight_map":{` + strings.Join(entries, ",") + "}}"
}

// folder writes files, path and content in turn, into a new folder. A content
// of "-> target" makes a link.
func folder(t testing.TB, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if target, link := strings.CutPrefix(files[i+1], "-> "); link {
			err = os.Symlink(target, path)
		} else {
			err = os.WriteFile(path, []byte(files[i+1]), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// mustOpen opens dir until the test ends.
func mustOpen(t testing.TB, dir string) *Checkpoint {
	t.Helper()
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// wantError compares a message, in which DIR stands for dir.
func wantError(t *testing.T, err error, dir, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want\n%s", want)
	}
	if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
