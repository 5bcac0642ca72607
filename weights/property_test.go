package weights

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nlpodyssey/safetensors"
	"pgregory.net/rapid"
)

// sample is a tensor to write. It implements the library's View.
type sample struct {
	dtype safetensors.DType
	shape []uint64
	data  []byte
}

func (s sample) DType() safetensors.DType { return s.dtype }
func (s sample) Shape() []uint64          { return s.shape }
func (s sample) Data() []byte             { return s.data }
func (s sample) DataLen() uint64          { return uint64(len(s.data)) }

func drawTensors(t *rapid.T) map[string]sample {
	names := rapid.String().Filter(func(s string) bool { return s != "__metadata__" })
	return rapid.MapOf(names, rapid.Custom(func(t *rapid.T) sample {
		s := sample{
			dtype: rapid.SampledFrom([]safetensors.DType{safetensors.F32, safetensors.F16, safetensors.BF16}).Draw(t, "dtype"),
			shape: rapid.SliceOfN(rapid.Uint64Range(0, 5), 0, 3).Draw(t, "shape"),
		}
		size := int(s.dtype.Size())
		for _, d := range s.shape {
			size *= int(d)
		}
		s.data = rapid.SliceOfN(rapid.Byte(), size, size).Draw(t, "data")
		return s
	})).Draw(t, "tensors")
}

// shuffled writes a file whose tensors lie in a drawn order at drawn alignment,
// which the library's writer never does and other writers do.
func shuffled(t *rapid.T, tensors map[string]sample) []byte {
	header := map[string]any{}
	var body []byte
	for _, name := range rapid.Permutation(slices.Sorted(maps.Keys(tensors))).Draw(t, "order") {
		s := tensors[name]
		header[name] = map[string]any{
			"dtype": s.dtype, "shape": append([]uint64{}, s.shape...), "data_offsets": []int{len(body), len(body) + len(s.data)},
		}
		body = append(body, s.data...)
	}
	text, err := json.Marshal(header)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, bytes.Repeat([]byte{' '}, rapid.IntRange(0, 9).Draw(t, "padding"))...)
	return append([]byte(raw(string(text), 0)), body...)
}

func written(t *rapid.T, tensors map[string]sample) []byte {
	if rapid.Bool().Draw(t, "shuffled") {
		return shuffled(t, tensors)
	}
	file, err := safetensors.Serialize(tensors, map[string]string{"format": "pt"})
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func store(t *rapid.T, path string, content []byte) {
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// storeShards deals the tensors to shards; every shard holds at least one.
func storeShards(t *rapid.T, dir string, tensors map[string]sample) {
	shards := map[string]map[string]sample{}
	shardOf := map[string]string{}
	for name, s := range tensors {
		shard := fmt.Sprintf("part %d", rapid.IntRange(0, 2).Draw(t, "shard"))
		if shards[shard] == nil {
			shards[shard] = map[string]sample{}
		}
		shards[shard][name] = s
		shardOf[name] = shard
	}
	for shard, part := range shards {
		store(t, filepath.Join(dir, shard), written(t, part))
	}
	text, err := json.Marshal(map[string]any{"weight_map": shardOf})
	if err != nil {
		t.Fatal(err)
	}
	store(t, filepath.Join(dir, indexName), text)
}

// Any set of tensors that can be written comes back the same, whole or in
// shards, with the same fingerprint.
func TestRoundTrip(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			t.Fatal(err)
		}
		tensors := drawTensors(t)
		store(t, filepath.Join(dir, singleName), written(t, tensors))
		fingerprint := readBack(t, dir, tensors)
		if len(tensors) == 0 {
			return // an index of nothing is refused
		}
		if err := os.Remove(filepath.Join(dir, singleName)); err != nil {
			t.Fatal(err)
		}
		storeShards(t, dir, tensors)
		if got := readBack(t, dir, tensors); got != fingerprint {
			t.Errorf("fingerprint %s whole, %s in shards", fingerprint, got)
		}
	})
}

func readBack(t *rapid.T, dir string, tensors map[string]sample) (fingerprint string) {
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, want := range tensors {
		got, err := c.Bind(name, ints(want.shape)...)
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != name || got.DType.String() != want.dtype.String() || !bytes.Equal(got.Data, want.data) {
			t.Errorf("got %v, want %q %v", got, name, want)
		}
	}
	if err := c.Unused(nil); err != nil {
		t.Error(err)
	}
	return c.Fingerprint()
}
