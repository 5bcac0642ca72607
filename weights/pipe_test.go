package weights

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A pipe in place of a file is refused: opening it would wait for a writer.
func TestOpenRefusesPipe(t *testing.T) {
	single, shards := t.TempDir(), folder(t, indexName, index("a", "one.safetensors"))
	listed := t.TempDir()
	for dir, name := range map[string]string{single: singleName, shards: "one.safetensors", listed: indexName} {
		if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir)
		wantError(t, err, dir, "weights: DIR/"+name+" is not a regular file: download it again")
	}
}
