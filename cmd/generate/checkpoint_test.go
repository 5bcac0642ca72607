package main

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkpoint is a copy of a tiny checkpoint to be changed.
func checkpoint(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(tiny + name)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "golden") {
			write(t, filepath.Join(dir, e.Name()), read(t, filepath.Join(tiny+name, e.Name())))
		}
	}
	return dir
}

// setField changes one field of a checkpoint's config.json.
func setField(t *testing.T, dir, field string, value any) {
	t.Helper()
	path := filepath.Join(dir, "config.json")
	fields := map[string]any{}
	if err := json.Unmarshal([]byte(read(t, path)), &fields); err != nil {
		t.Fatal(err)
	}
	fields[field] = value
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(data))
}

// header is that of a safetensors file.
type header map[string]struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets [2]int `json:"data_offsets"`
}

// editHeader changes the header of model.safetensors.
func editHeader(t *testing.T, dir string, edit func(header)) {
	t.Helper()
	path := filepath.Join(dir, "model.safetensors")
	data := read(t, path)
	n := 8 + int(binary.LittleEndian.Uint64([]byte(data)))
	var all map[string]json.RawMessage
	h := header{}
	if err := json.Unmarshal([]byte(data[8:n]), &all); err != nil {
		t.Fatal(err)
	}
	delete(all, "__metadata__")
	plain, err := json.Marshal(all)
	if err == nil {
		err = json.Unmarshal(plain, &h)
	}
	if err != nil {
		t.Fatal(err)
	}
	edit(h)
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, string(binary.LittleEndian.AppendUint64(nil, uint64(len(text))))+string(text)+data[n:])
}

// An end token that the vocabulary lacks would never end an answer.
func TestEndTokenOutsideVocabulary(t *testing.T) {
	dir := checkpoint(t, "qwen2_tied_gqa")
	write(t, filepath.Join(dir, "config.json"), strings.Replace(read(t, tiny+"qwen2_tied_gqa/config.json"), "{", `{"eos_token_id": 99999,`, 1))
	o := generate(t, "", dir, "--prompt-ids", "1", "-n", "2")
	if o.code != 1 || !strings.Contains(o.errors, "config.json: eos_token_id is 99999; the vocabulary has ids 0 to 511") {
		t.Errorf("exit code %d, %q", o.code, o.errors)
	}
}
