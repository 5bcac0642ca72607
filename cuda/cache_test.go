package cuda

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"blitzen/cuda/driver"

	"pgregory.net/rapid"
)

func TestCacheKeepsEntries(t *testing.T) {
	c := cache{filepath.Join(t.TempDir(), "deep", "er")}
	if _, _, ok := c.load("k"); ok {
		t.Fatal("an empty cache has an entry")
	}
	c.store("k", []byte("image"), "log")
	image, log, ok := c.load("k")
	if !ok || string(image) != "image" || log != "log" {
		t.Fatalf("got %q, %q, %v", image, log, ok)
	}
	c.store("k", []byte("other"), "")
	if image, log, ok := c.load("k"); !ok || string(image) != "other" || log != "" {
		t.Fatalf("after another store: %q, %q, %v", image, log, ok)
	}
	if files, err := os.ReadDir(c.dir); err != nil || len(files) != 1 {
		t.Fatalf("%d files, %v; want one and no remains", len(files), err)
	}
}

func TestCacheRefusesDamage(t *testing.T) {
	c := cache{t.TempDir()}
	c.store("k", bytes.Repeat([]byte("image"), 100), "log")
	good, err := os.ReadFile(c.path("k"))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		bad := bytes.Clone(good)
		if rapid.Bool().Draw(t, "cut") {
			bad = bad[:rapid.IntRange(0, len(bad)-1).Draw(t, "length")]
		} else {
			bad[rapid.IntRange(0, len(bad)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		}
		if _, _, ok := decodeEntry(bad); ok {
			t.Fatal("a damaged entry was read")
		}
	})
}

// TestCacheWithoutFolder covers users without a home and folders that cannot
// be made.
func TestCacheWithoutFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []cache{{}, {filepath.Join(file, "sub")}} {
		c.store("k", []byte("image"), "log")
		if _, _, ok := c.load("k"); ok {
			t.Errorf("%q keeps entries", c.dir)
		}
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if c := newCache(""); c.dir != "" {
		t.Errorf("without a home the cache is in %q", c.dir)
	}
}

func TestCacheKeyCoversEverything(t *testing.T) {
	base := driver.Source{Name: "a.cu", Text: "x", Headers: map[string]string{"h": "y", "i": "z"}, Options: []string{"-DA", "-DB"}}
	keys := map[string]string{cacheKey(base, "13.0"): "the base"}
	for what, s := range map[string]driver.Source{
		"name":    {Name: "b.cu", Text: base.Text, Headers: base.Headers, Options: base.Options},
		"text":    {Name: base.Name, Text: "xx", Headers: base.Headers, Options: base.Options},
		"header":  {Name: base.Name, Text: base.Text, Headers: map[string]string{"h": "yz", "i": ""}, Options: base.Options},
		"options": {Name: base.Name, Text: base.Text, Headers: base.Headers, Options: []string{"-DA-DB"}},
	} {
		key := cacheKey(s, "13.0")
		if other, ok := keys[key]; ok {
			t.Errorf("another %s has the key of %s", what, other)
		}
		keys[key] = what
	}
	if key := cacheKey(base, "12.9"); keys[key] != "" {
		t.Errorf("another compiler has the key of %s", keys[key])
	}
	again := base // a map of its own, whose order may differ
	again.Headers = maps.Clone(base.Headers)
	if key := cacheKey(again, "13.0"); keys[key] != "the base" {
		t.Error("the key depends on the order of a map")
	}
}

// FuzzDecodeEntry: no bytes make it fail.
func FuzzDecodeEntry(f *testing.F) {
	f.Add(encodeEntry([]byte("image"), "log"))
	f.Add([]byte(magic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		image, log, ok := decodeEntry(data)
		if ok && !bytes.Equal(encodeEntry(image, log), data) {
			t.Error("read and written differ")
		}
	})
}
