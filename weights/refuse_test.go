package weights

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each file here was met in the wild, by users of other runtimes, as garbage
// output, a crash or a message that told them nothing.
func TestOpenRefusesFile(t *testing.T) {
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\nsize 15231233024\n"
	sound := vectors("a", "b") // 8 + 108 + 16 bytes
	one := func(fields string, size int) string { return raw(`{"a":{`+fields+`}}`, size) }
	cases := []struct{ name, file, want string }{
		{"last bytes cut", sound[:len(sound)-10],
			"is truncated: 10 bytes missing (have 122, header promises 132): download it again"},
		{"header cut", sound[:100],
			"is truncated: 16 bytes missing (have 100, header promises 116): download it again"},
		{"length cut", sound[:7],
			"is truncated: 1 byte missing (have 7, its header length alone takes 8): download it again"},
		{"empty", "",
			"is truncated: 8 bytes missing (have 0, its header length alone takes 8): download it again"},
		{"trailing byte", sound + "x",
			"has 1 extra byte after its last tensor (have 133, header promises 132): download it again"},
		{"trailing zeros", sound + "\x00\x00",
			"has 2 extra bytes after its last tensor (have 134, header promises 132): download it again"},
		{"git-lfs pointer", pointer,
			"is a git-lfs pointer, not the file itself: run `git lfs pull`"},
		{"header length 2^63", "\x00\x00\x00\x00\x00\x00\x00\x80{}",
			"has a header length of 9223372036854775808 bytes, over the limit of 100000000: it is damaged or no safetensors file: download it again"},
		{"header length limit+1", "\x01\xe1\xf5\x05\x00\x00\x00\x00{}",
			"has a header length of 100000001 bytes, over the limit of 100000000: it is damaged or no safetensors file: download it again"},
		{"header length limit", "\x00\xe1\xf5\x05\x00\x00\x00\x00{}",
			"is truncated: 99999998 bytes missing (have 10, header promises 100000008): download it again"},
		{"header length 0", raw("", 0),
			"has a damaged header: unexpected EOF (near byte 0 of the JSON): download it again"},
		{"no brace", raw(` {}`, 0),
			`has a header that starts with " ", not '{': it is damaged or no safetensors file: download it again`},
		{"padding of zeros", raw("{}\x00", 0),
			"has a damaged header: text after the closing brace (near byte 2 of the JSON): download it again"},
		{"header ends early", raw(`{"a":{"dtype":"F32"`, 0),
			`has a damaged header: "a": unexpected EOF (near byte 19 of the JSON): download it again`},
		{"not UTF-8", raw("{\"\xff\":{}}", 0),
			"has a damaged header: it is not UTF-8: download it again"},
		{"not JSON", raw(`{"a":NaN}`, 0),
			`has a damaged header: "a": invalid character 'N' looking for beginning of value (near byte 5 of the JSON): download it again`},
		{"comma too many", raw(`{"__metadata__":{},}`, 0),
			`has a damaged header: invalid character '}' looking for beginning of object key string (near byte 19 of the JSON): download it again`},
		{"comma too many in a shape", one(`"dtype":"U8","shape":[1,],"data_offsets":[0,1]`, 1),
			`has a damaged header: "a": "shape": invalid character ']' looking for beginning of value (near byte 30 of the JSON): download it again`},
		{"shape no list", one(`"dtype":"U8","shape":1,"data_offsets":[0,1]`, 1),
			`has a damaged header: "a": "shape": 1 stands where [ should (near byte 28 of the JSON): download it again`},
		{"name twice", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2),
			`has a damaged header: the key "a" comes twice (near byte 56 of the JSON): download it again`},
		{"name twice by escape", raw(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"\u0061":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 2),
			`has a damaged header: the key "a" comes twice (near byte 61 of the JSON): download it again`},
		{"metadata twice", raw(`{"__metadata__":{},"__metadata__":{}}`, 0),
			`has a damaged header: the key "__metadata__" comes twice (near byte 33 of the JSON): download it again`},
		{"metadata not text", raw(`{"__metadata__":{"format":1}}`, 0),
			`has a damaged header: "__metadata__": "format": 1 is not a string (near byte 27 of the JSON): download it again`},
		{"metadata no object", raw(`{"__metadata__":null}`, 0),
			`has a damaged header: "__metadata__": null stands where { should (near byte 20 of the JSON): download it again`},
		{"field twice", one(`"dtype":"U8","dtype":"F32","shape":[1],"data_offsets":[0,4]`, 4),
			`has a damaged header: "a": the key "dtype" comes twice (near byte 26 of the JSON): download it again`},
		{"field in capitals", one(`"DType":"U8","shape":[1],"data_offsets":[0,1]`, 1),
			`has a damaged header: "a": "DType": unknown field (near byte 13 of the JSON): download it again`},
		{"field missing", one(`"shape":[1],"dtype":"U8"`, 1),
			`has a damaged header: "a": it has only the fields ["dtype" "shape"] of dtype, shape and data_offsets (near byte 31 of the JSON): download it again`},
		{"shape fraction", one(`"dtype":"U8","shape":[1.0],"data_offsets":[0,1]`, 1),
			`has a damaged header: "a": "shape": 1.0 is not a whole number from 0 to 2^62-1 (near byte 31 of the JSON): download it again`},
		{"shape negative", one(`"dtype":"U8","shape":[-1],"data_offsets":[0,1]`, 1),
			`has a damaged header: "a": "shape": -1 is not a whole number from 0 to 2^62-1 (near byte 30 of the JSON): download it again`},
		{"shape text", one(`"dtype":"U8","shape":["1"],"data_offsets":[0,1]`, 1),
			`has a damaged header: "a": "shape": 1 is not a number (near byte 31 of the JSON): download it again`},
		{"three offsets", one(`"dtype":"U8","shape":[1],"data_offsets":[0,1,2]`, 1),
			`has a damaged header: "a": data_offsets [0 1 2] are not a begin and an end (near byte 54 of the JSON): download it again`},
		{"offsets reversed", one(`"dtype":"U8","shape":[1],"data_offsets":[1,0]`, 1),
			`has a damaged header: "a": data_offsets [1 0] are not a begin and an end (near byte 52 of the JSON): download it again`},
		{"offset near 2^64", one(`"dtype":"U8","shape":[1],"data_offsets":[0,18446744073709551615]`, 1),
			`has a damaged header: "a": "data_offsets": 18446744073709551615 is not a whole number from 0 to 2^62-1 (near byte 69 of the JSON): download it again`},
		{"largest offset", one(`"dtype":"U8","shape":[4611686018427387903],"data_offsets":[0,4611686018427387903]`, 1),
			"is truncated: 4611686018427387902 bytes missing (have 98, header promises 4611686018427388000): download it again"},
		{"offsets short of the shape", one(`"dtype":"F32","shape":[2,2],"data_offsets":[0,8]`, 8),
			`has a damaged header: tensor "a": shape [2 2] of F32 takes 16 bytes, data_offsets [0 8] hold 8: download it again`},
		{"offsets past an unread shape", one(`"dtype":"F8_E4M3","shape":[2,2],"data_offsets":[0,8]`, 8),
			`has a damaged header: tensor "a": shape [2 2] of F8_E4M3 takes 4 bytes, data_offsets [0 8] hold 8: download it again`},
		{"shape overflows to 0", one(`"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]`, 0),
			`has a damaged header: tensor "a": shape [4294967296 4294967296] of F32 is more than 64 bits can count: download it again`},
		{"overlap", raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12),
			`has a damaged header: tensors "a" and "b" overlap in bytes 4 to 8: download it again`},
		{"same bytes", raw(`{"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8),
			`has a damaged header: tensors "a" and "b" overlap in bytes 0 to 8: download it again`},
		{"hole", raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}}`, 20),
			`has a damaged header: 4 bytes unused before tensor "b": download it again`},
		{"hole at the start", one(`"dtype":"U8","shape":[1],"data_offsets":[1,2]`, 2),
			`has a damaged header: 1 byte unused before tensor "a": download it again`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, singleName, c.file)
			_, err := Open(dir)
			wantError(t, err, dir, "weights: DIR/model.safetensors "+c.want)
			// The same file as a shard is refused in the same words.
			dir = folder(t, "x.safetensors", c.file, indexName, index("a", "x.safetensors"))
			_, err = Open(dir)
			wantError(t, err, dir, "weights: DIR/x.safetensors "+c.want)
		})
	}
}

func TestOpenRefusesIndex(t *testing.T) {
	cases := []struct{ name, index, want string }{
		{"empty", "", "is damaged: unexpected EOF (near byte 0 of the JSON): download it again"},
		{"no map", `{"metadata":{"total_size":0}}`, "lists no tensors in a weight_map: download it again"},
		{"empty map", `{"weight_map":{}}`, "lists no tensors in a weight_map: download it again"},
		{"cut", `{"weight_map":{"a":"x"`, `is damaged: "weight_map": unexpected EOF (near byte 22 of the JSON): download it again`},
		{"two objects", `{"weight_map":{"a":"x"}}{}`, "is damaged: text after the closing brace (near byte 25 of the JSON): download it again"},
		{"not an object", `["a"]`, "is damaged: [ stands where { should (near byte 1 of the JSON): download it again"},
		{"name twice", `{"weight_map":{"a":"x","a":"y"}}`, `is damaged: "weight_map": the key "a" comes twice (near byte 26 of the JSON): download it again`},
		{"map twice", `{"weight_map":{"a":"x"},"weight_map":{"b":"x"}}`, `is damaged: the key "weight_map" comes twice (near byte 36 of the JSON): download it again`},
		{"shard no text", `{"weight_map":{"a":1}}`, `is damaged: "weight_map": "a": 1 is not a string (near byte 20 of the JSON): download it again`},
		{"not UTF-8", "{\"weight_map\":{\"\xff\":\"x\"}}", "is not UTF-8: download it again"},
		{"git-lfs pointer", "version https://git-lfs.github.com/spec/v1\n", "is a git-lfs pointer, not the file itself: run `git lfs pull`"},
		{"too deep", `{"metadata":` + strings.Repeat("[", 20000), `is damaged: "metadata": invalid character '[' exceeded max depth (near byte 12 of the JSON): download it again`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, indexName, c.index)
			_, err := Open(dir)
			wantError(t, err, dir, "weights: DIR/"+indexName+" "+c.want)
		})
	}
}

func TestOpenRefusesHugeIndex(t *testing.T) {
	dir := folder(t, indexName, "{")
	if err := os.Truncate(filepath.Join(dir, indexName), maxHeader+1); err != nil { // sparse: takes no disk
		t.Fatal(err)
	}
	_, err := Open(dir)
	wantError(t, err, dir, "weights: DIR/"+indexName+" is 100000001 bytes long, over the limit of 100000000: download it again")
}

// A checkpoint must not name files outside its own folder.
func TestOpenRefusesShardName(t *testing.T) {
	for _, shard := range []string{"", ".", "..", "../x", "/etc/passwd", `..\x`, "sub/x", "x\x00"} {
		text, err := json.Marshal(map[string]any{"weight_map": map[string]string{"a": shard}})
		if err != nil {
			t.Fatal(err)
		}
		dir := folder(t, indexName, string(text))
		_, err = Open(dir)
		wantError(t, err, dir, fmt.Sprintf(
			`weights: DIR/%s is damaged: "weight_map": "a": shard %q is not a plain file name (near byte %d of the JSON): download it again`,
			indexName, shard, len(text)-len("}}")))
	}
}

func TestOpenRefusesFolder(t *testing.T) {
	const hash = "2c74a5"
	cases := []struct {
		name  string
		files []string
		sub   string // the folder to open
		want  string
	}{
		{"nothing", nil, "",
			"DIR has neither model.safetensors nor model.safetensors.index.json: download the model's weights"},
		{"no folder", nil, "absent",
			"DIR/absent does not exist: give the folder that holds model.safetensors"},
		{"a file", []string{singleName, vectors("a")}, singleName,
			"cannot list DIR/model.safetensors: not a directory: give the folder that holds model.safetensors"},
		{"a folder by that name", []string{singleName + "/x", ""}, "",
			"DIR/model.safetensors is not a regular file: download it again"},
		{"shards without index", []string{"model-00001-of-00002.safetensors", vectors("a")}, "",
			"DIR has neither model.safetensors nor model.safetensors.index.json (it has model-00001-of-00002.safetensors): download the index too"},
		{"other formats", []string{"pytorch_model.bin", "", "q4.gguf", ""}, "",
			"DIR has neither model.safetensors nor model.safetensors.index.json (it has pytorch_model.bin, q4.gguf): download the safetensors form of the model"},
		{"unfinished single file", []string{".cache/huggingface/download/model.safetensors." + hash + ".incomplete", ""}, "",
			"DIR has neither model.safetensors nor model.safetensors.index.json; a download was not finished (model.safetensors.2c74a5.incomplete): download the model's weights"},
		{"shard missing", []string{indexName, index("a", "1.safetensors", "b", "2.safetensors"), "1.safetensors", vectors("a")}, "",
			"DIR has 1 of 2 shards, missing: 2.safetensors: finish the download"},
		{"shard unfinished beside", []string{indexName, index("a", "1.safetensors"), "1.safetensors.incomplete", ""}, "",
			"DIR has 0 of 1 shard, missing: 1.safetensors; a download was not finished (1.safetensors.incomplete): finish the download"},
		{"shard unfinished in the cache", []string{
			"snapshots/abc/" + indexName, index("a", "1.safetensors", "b", "2.safetensors"),
			"snapshots/abc/1.safetensors", vectors("a"), "blobs/" + hash + ".incomplete", "",
		}, "snapshots/abc",
			"DIR/snapshots/abc has 1 of 2 shards, missing: 2.safetensors; a download was not finished (2c74a5.incomplete): finish the download"},
		{"link without its blob", []string{
			"snapshots/abc/" + singleName, "-> ../../blobs/" + hash, "blobs/" + hash + ".incomplete", "",
		}, "snapshots/abc",
			"DIR/snapshots/abc/model.safetensors is a link to ../../blobs/2c74a5, which is missing; a download was not finished (2c74a5.incomplete): download it again"},
		{"link to itself", []string{singleName, "-> " + singleName}, "",
			"cannot open DIR/model.safetensors: too many levels of symbolic links: check that it may be read"},
		{"listed in a shard that lacks it", []string{indexName, index("a", "1.safetensors", "b", "1.safetensors"), "1.safetensors", vectors("a")}, "",
			"DIR/model.safetensors.index.json places tensor b in 1.safetensors, which does not hold it: index and shards are not of one version: download all again"},
		{"held by a shard that is not its own", []string{
			indexName, index("a", "1.safetensors", "b", "2.safetensors"), "1.safetensors", vectors("a", "b"), "2.safetensors", vectors("b"),
		}, "",
			"DIR/1.safetensors holds tensor b, which model.safetensors.index.json places in 2.safetensors: index and shards are not of one version: download all again"},
		{"held but not listed", []string{indexName, index("a", "1.safetensors"), "1.safetensors", vectors("a", "b")}, "",
			"DIR/1.safetensors holds tensor b, which model.safetensors.index.json does not list: index and shards are not of one version: download all again"},
		{"many shards missing", []string{indexName, index("a", "1", "b", "2", "c", "3", "d", "4", "e", "5", "f", "6", "g", "7")}, "",
			"DIR has 0 of 7 shards, missing: 1, 2, 3, 4, 5 and 2 more: finish the download"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := folder(t, c.files...)
			_, err := Open(filepath.Join(dir, c.sub))
			wantError(t, err, dir, "weights: "+c.want)
		})
	}
}
