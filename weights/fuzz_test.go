package weights

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"blitzen/internal/golden"

	"github.com/nlpodyssey/safetensors"
)

// allocated returns the bytes that run takes from the heap.
func allocated(run func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	run()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// allowance bounds what a file of n bytes may allocate. The costliest text is a
// list of one-digit numbers: for every two bytes the decoder makes a boxed
// string and a slice of ints grows by one, 81 bytes a byte as measured. 128
// leaves room for another Go release, 1 MiB for the fuzzing engine's own work.
func allowance(n int) uint64 { return 1<<20 + 128*uint64(n) }

func TestHeaderAllocation(t *testing.T) {
	file := []byte(raw(`{"a":{"shape":[`+strings.Repeat("1,", 100_000)+`1]}}`, 0))
	used := allocated(func() { parseHeader(file) })
	if used > allowance(len(file)) {
		t.Errorf("%d bytes allocated for a file of %d", used, len(file))
	}
}

func FuzzHeader(f *testing.F) {
	for _, seed := range golden.Files(f, "../testdata/*/*.safetensors") {
		if len(seed) < 4096 {
			f.Add(seed)
		}
	}
	for _, seed := range []string{
		"", vectors("a", "b"), vectors("a")[:60], raw(`{"__metadata__":{"format":"pt"}}   `, 0),
		raw(`{"a":{"dtype":"F8_E4M3","shape":[],"data_offsets":[0,1]},"b":{"dtype":"F4","shape":[0],"data_offsets":[1,1]}}`, 1),
		raw(`{"a":{"dtype":"U8","shape":[4611686018427387903],"data_offsets":[0,4611686018427387903]}}`, 1),
		raw(`{"a":{"dtype":"U8","shape":[1,`+strings.Repeat("1,", 200)+`1],"data_offsets":[0,1]}}`, 1),
		"version https://git-lfs.github.com/spec/v1\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		checkHeader(t, content)
		// Most changes break the length and end there: mend it to get further.
		if brace := bytes.LastIndexByte(content, '}'); brace >= 8 {
			mended := bytes.Clone(content)
			binary.LittleEndian.PutUint64(mended, uint64(brace+1-8))
			checkHeader(t, mended)
		}
	})
}

// checkHeader parses a file of any bytes and checks what must hold of all.
func checkHeader(t *testing.T, content []byte) {
	var tensors map[string]entry
	var body []byte
	var err error
	if used := allocated(func() { tensors, body, err = parseHeader(content) }); used > allowance(len(content)) {
		t.Errorf("%d bytes allocated for a file of %d", used, len(content))
	}
	if err != nil {
		if tensors != nil || body != nil {
			t.Error("an error comes with a result")
		}
		return
	}
	total := 0
	whole := &file{body: slices.Clip(body)}
	for _, e := range tensors {
		total += len(whole.view(e)) // panics outside the file
	}
	if total != len(body) {
		t.Errorf("tensors take %d bytes of %d", total, len(body))
	}
	agree(t, content, tensors, body)
}

// agree checks that the library, where it knows all element types, reads what
// we read.
func agree(t *testing.T, file []byte, tensors map[string]entry, body []byte) {
	for _, e := range tensors {
		if _, err := safetensors.ParseDType(e.dtype); err != nil {
			return
		}
	}
	judge, err := safetensors.Deserialize(file)
	if err != nil {
		t.Fatalf("the library refuses what we accept: %v", err)
	}
	if judge.Len() != len(tensors) {
		t.Fatalf("the library finds %d tensors, we %d", judge.Len(), len(tensors))
	}
	for name, e := range tensors {
		v, ok := judge.Tensor(name)
		if !ok || v.DType().String() != e.dtype || !slices.Equal(ints(v.Shape()), e.shape) || !slices.Equal(v.Data(), body[e.begin:e.end]) {
			t.Errorf("%q: the library reads %v %v, we %v", name, v.DType(), v.Shape(), e)
		}
	}
}

func FuzzIndexJSON(f *testing.F) {
	seed, err := os.ReadFile("../testdata/models/qwen2_fp16_sharded/model.safetensors.index.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	for _, seed := range []string{"", index("a", "x"), index("a", "../x"), `{"weight_map":{"a":"x","a":"y"}}`,
		`{"metadata":[[[[{"a":[1e9,null,true]}]]]],"weight_map":{}}`, `{"weight_map":{"\ud800":"\u0000"}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var shardOf map[string]string
		var err error
		if used := allocated(func() { shardOf, err = parseIndex(text) }); used > allowance(len(text)) {
			t.Errorf("%d bytes allocated for an index of %d", used, len(text))
		}
		if err == nil && len(shardOf) == 0 {
			t.Error("an index of nothing is accepted")
		}
		for name, shard := range shardOf {
			if filepath.Base(shard) != shard || !filepath.IsLocal(shard) || shard == "." {
				t.Errorf("shard %q of tensor %q leaves the folder", shard, name)
			}
		}
	})
}
