package weights

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blitzen/device"
)

// Files that are unusual but sound.
func TestOpenAccepts(t *testing.T) {
	cases := []struct {
		name  string
		files []string
		want  []string // names
	}{
		{"empty tensor among others", []string{singleName, raw(
			`{"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"c":{"dtype":"F32","shape":[3,0],"data_offsets":[8,8]}}`, 8)},
			[]string{"a", "b", "c"}},
		{"scalar", []string{singleName, raw(`{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`, 4)}, []string{"a"}},
		{"no tensors", []string{singleName, raw(`{}`, 0)}, nil},
		{"empty metadata", []string{singleName, raw(`{"__metadata__":{}}`, 0)}, nil},
		{"metadata", []string{singleName, raw(`{"__metadata__":{"format":"pt"}}`, 0)}, nil},
		{"padding of spaces", []string{singleName, raw(`{}      `, 0)}, nil},
		{"header not in the order of the data", []string{singleName, raw(
			`{"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 2)}, []string{"a", "b"}},
		{"element type that is unknown here", []string{singleName, raw(`{"a":{"dtype":"F4","shape":[3,2],"data_offsets":[0,3]}}`, 3)}, []string{"a"}},
		{"odd shard names", []string{
			indexName, index("a", "model.safetensors-00001-of-00002.safetensors", "b", "model-00002-of-000002.safetensors"),
			"model.safetensors-00001-of-00002.safetensors", vectors("a"), "model-00002-of-000002.safetensors", vectors("b"),
		}, []string{"a", "b"}},
		{"links of a cache", []string{
			indexName, index("a", "1.safetensors"), "1.safetensors", "-> blobs/2c74a5", "blobs/2c74a5", vectors("a"),
		}, []string{"a"}},
		{"single file before shards", []string{
			singleName, vectors("single"), indexName, index("a", "1.safetensors"), "1.safetensors", vectors("a"),
		}, []string{"single"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, info := range mustOpen(t, folder(t, c.files...)).Tensors() {
				got = append(got, info.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestBind(t *testing.T) {
	dir := folder(t, indexName, index("b", "1.safetensors", "s", "1.safetensors", "e", "1.safetensors", "f8", "2.safetensors", "i64", "2.safetensors"),
		"1.safetensors", raw(`{"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"s":{"dtype":"F16","shape":[],"data_offsets":[4,6]},"e":{"dtype":"F32","shape":[0],"data_offsets":[6,6]}}`, 6),
		"2.safetensors", raw(`{"f8":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},"i64":{"dtype":"I64","shape":[1],"data_offsets":[2,10]}}`, 10))
	c := mustOpen(t, dir)
	shard := filepath.Join(dir, "1.safetensors")
	for _, want := range []Tensor{
		{"b", device.BF16, []int{2, 1}, []byte{1, 2, 3, 4}, shard},
		{"s", device.F16, []int{}, []byte{5, 6}, shard},
		{"e", device.F32, []int{0}, []byte{}, shard},
	} {
		got, err := c.Bind(want.Name, want.Shape...)
		if err != nil {
			t.Fatal(err)
		}
		if got.Name != want.Name || got.DType != want.DType || !slices.Equal(got.Shape, want.Shape) || !bytes.Equal(got.Data, want.Data) || got.File != want.File {
			t.Errorf("got %v, want %v", got, want)
		}
		if cap(got.Data) != len(got.Data) {
			t.Errorf("%s: an append would write into the next tensor", got.Name)
		}
	}
	refused := []struct {
		name  string
		shape []int
		want  string
	}{
		{"B", []int{2, 1}, "model.safetensors.index.json has no tensor B, wanted with shape [2 1]: take config.json and weights from one download"},
		{"b", []int{2}, "1.safetensors holds tensor b with shape [2 1], wanted [2]: take config.json and weights from one download"},
		{"b", []int{1, 2}, "1.safetensors holds tensor b with shape [2 1], wanted [1 2]: take config.json and weights from one download"},
		{"s", []int{1}, "1.safetensors holds tensor s with shape [], wanted [1]: take config.json and weights from one download"},
		{"f8", []int{2}, "2.safetensors holds tensor f8 [2] as F8_E4M3, wanted F32, F16 or BF16: use a checkpoint that is not quantised"},
		{"i64", []int{1}, "2.safetensors holds tensor i64 [1] as I64, wanted F32, F16 or BF16: use a checkpoint that is not quantised"},
	}
	for _, r := range refused {
		_, err := c.Bind(r.name, r.shape...)
		wantError(t, err, dir, "weights: DIR/"+r.want)
	}
}

func TestUnused(t *testing.T) {
	dir := folder(t, singleName, vectors("a", "b", "c", "d", "e", "f", "g"))
	c := mustOpen(t, dir)
	wantError(t, c.Unused(nil), dir, "weights: DIR/model.safetensors has 7 tensors that the model does not use: "+
		"a, b, c, d, e and 2 more: take config.json and weights from one download")
	for _, name := range []string{"a", "c", "d"} {
		if _, err := c.Bind(name, 2); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Bind("b", 3); err == nil {
		t.Fatal("bound b with a wrong shape")
	}
	ignore := func(name string) bool { return strings.Contains("efg", name) }
	wantError(t, c.Unused(ignore), dir, "weights: DIR/model.safetensors has 1 tensor that the model does not use: "+
		"b: take config.json and weights from one download")
	if _, err := c.Bind("b", 2); err != nil {
		t.Fatal(err)
	}
	if err := c.Unused(ignore); err != nil {
		t.Error(err)
	}
}

// A view shows what the file holds now: nothing was copied.
func TestDataIsTheFile(t *testing.T) {
	dir := folder(t, singleName, vectors("a"))
	a, err := mustOpen(t, dir).Bind("a", 2)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, singleName), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{99}, int64(len(vectors("a"))-len(a.Data))); err != nil {
		t.Fatal(err)
	}
	if want := []byte{99, 2, 3, 4, 5, 6, 7, 8}; !bytes.Equal(a.Data, want) {
		t.Errorf("got %v, want %v", a.Data, want)
	}
}

func TestClose(t *testing.T) {
	dir := folder(t, singleName, vectors("a"))
	c, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.Bind("a", 2)
	wantError(t, err, dir, "weights: DIR/model.safetensors is closed: bind tensor a before Close")
	if c.Has("a") || c.Size() != 0 || len(c.Files()) != 0 || len(c.Tensors()) != 0 || c.Fingerprint() != "" {
		t.Error("a closed checkpoint still holds something")
	}
}

func TestInspect(t *testing.T) {
	one, two := vectors("a", "c"), vectors("b")
	dir := folder(t, indexName, index("a", "1.safetensors", "b", "2.safetensors", "c", "1.safetensors"), "1.safetensors", one, "2.safetensors", two)
	c := mustOpen(t, dir)
	first, second := filepath.Join(dir, "1.safetensors"), filepath.Join(dir, "2.safetensors")
	if want := []FileInfo{{first, int64(len(one)), 2}, {second, int64(len(two)), 1}}; !slices.Equal(c.Files(), want) {
		t.Errorf("got %v, want %v", c.Files(), want)
	}
	if c.Size() != 24 {
		t.Errorf("got %d bytes, want 24", c.Size())
	}
	for i, want := range []TensorInfo{{"a", "F32", nil, 8, first}, {"b", "F32", nil, 8, second}, {"c", "F32", nil, 8, first}} {
		got := c.Tensors()[i]
		if got.Name != want.Name || got.DType != want.DType || got.Bytes != want.Bytes || got.File != want.File || !slices.Equal(got.Shape, []int{2}) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestFingerprint(t *testing.T) {
	print := func(files ...string) string { return mustOpen(t, folder(t, files...)).Fingerprint() }
	flip := func(file string, at int) string { return file[:at] + string(file[at]^1) + file[at+1:] }
	base := raw(`{"a":{"dtype":"U8","shape":[2,3],"data_offsets":[0,6]}}`, 6)
	same := raw(`{"__metadata__":{"format":"pt"},"a":{"data_offsets":[0,6],"dtype":"U8","shape":[2,3]}}  `, 6)
	if print(singleName, base) != print(singleName, same) {
		t.Error("depends on how the header is written")
	}
	if print(singleName, vectors("a")) != print(indexName, index("a", "1.safetensors"), "1.safetensors", vectors("a")) {
		t.Error("depends on sharding")
	}
	for what, other := range map[string]string{
		"name":         strings.Replace(base, `"a"`, `"b"`, 1),
		"element type": strings.Replace(base, `"U8"`, `"I8"`, 1),
		"shape":        strings.Replace(base, `[2,3]`, `[3,2]`, 1),
		"data":         flip(base, len(base)-3),
	} {
		if print(singleName, base) == print(singleName, other) {
			t.Errorf("does not see another %s", what)
		}
	}
	// A large tensor: three pages count, as documented.
	large := raw(`{"a":{"dtype":"U8","shape":[20480],"data_offsets":[0,20480]}}`, 20480)
	for at, seen := range map[int]bool{0: true, 4095: true, 4096: false, 8191: false, 8192: true, 12287: true, 12288: false, 16383: false, 16384: true, 20479: true} {
		if changed := print(singleName, large) != print(singleName, flip(large, len(large)-20480+at)); changed != seen {
			t.Errorf("byte %d of a large tensor: seen %v, want %v", at, changed, seen)
		}
	}
}
