package weights

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// checkpoints lists the folders of the repository that hold one.
func checkpoints(t *testing.T) []string {
	t.Helper()
	var dirs []string
	for _, pattern := range []string{"../testdata/models/*/", "../models/*/"} {
		for _, name := range []string{singleName, indexName} {
			found, err := filepath.Glob(pattern + name)
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range found {
				dirs = append(dirs, filepath.Dir(path))
			}
		}
	}
	for _, kind := range []string{"qwen2_tied_gqa", "qwen2_fp16_sharded", "needle-dsv2"} {
		if !slices.ContainsFunc(dirs, func(dir string) bool { return filepath.Base(dir) == kind }) {
			t.Fatalf("checkpoint %s is missing, found %q", kind, dirs)
		}
	}
	return dirs
}

// Checkpoints written by the reference implementation bind completely, with the
// bytes, shapes and types that the library reads from the same files.
func TestCheckpoints(t *testing.T) {
	for _, dir := range checkpoints(t) {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			c := mustOpen(t, dir)
			left := len(c.Tensors())
			for _, f := range c.Files() {
				whole, err := os.ReadFile(f.Path)
				if err != nil {
					t.Fatal(err)
				}
				judge, err := safetensors.Deserialize(whole)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range judge.Tensors() {
					got, err := c.Bind(want.Name, ints(want.TensorView.Shape())...)
					if err != nil {
						t.Fatal(err)
					}
					if got.DType.String() != want.TensorView.DType().String() || got.File != f.Path || !bytes.Equal(got.Data, want.TensorView.Data()) {
						t.Errorf("%s differs from the library's reading", got.Name)
					}
					left--
				}
			}
			if left != 0 {
				t.Errorf("%d tensors more than the library has", left)
			}
			if err := c.Unused(nil); err != nil {
				t.Error(err)
			}
		})
	}
}

// Facts from the checkpoints' own descriptions: total_size of the index, and
// which of them tie the output head to the embedding.
func TestCheckpointFacts(t *testing.T) {
	sharded := mustOpen(t, "../testdata/models/qwen2_fp16_sharded")
	if got, want := sharded.Size(), int64(715712); got != want {
		t.Errorf("got %d bytes, the index says %d", got, want)
	}
	if got := len(sharded.Files()); got != 5 {
		t.Errorf("got %d shards, want 5", got)
	}
	if !sharded.Has("lm_head.weight") {
		t.Error("the untied checkpoint lacks its head")
	}
	if mustOpen(t, "../testdata/models/qwen2_tied_gqa").Has("lm_head.weight") {
		t.Error("the tied checkpoint has a head")
	}
}

func ints(shape []uint64) []int {
	out := make([]int, len(shape))
	for i, d := range shape {
		out[i] = int(d)
	}
	return out
}
