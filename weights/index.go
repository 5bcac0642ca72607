package weights

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// openShards opens the shards that an index names. File names come from the
// index alone: publishers number and spell them in many ways.
func openShards(index string) (*Checkpoint, error) {
	shardOf, err := readIndex(index)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(index)
	shards := slices.Compact(slices.Sorted(maps.Values(shardOf)))
	if err := allPresent(dir, shards); err != nil {
		return nil, err
	}
	var files []*file
	for _, shard := range shards {
		f, err := openFile(filepath.Join(dir, shard))
		if err != nil {
			return nil, errors.Join(err, closeAll(files))
		}
		files = append(files, f)
	}
	if err := checkIndex(index, shardOf, files); err != nil {
		return nil, errors.Join(err, closeAll(files))
	}
	return newCheckpoint(index, files), nil
}

func readIndex(path string) (map[string]string, error) {
	mapped, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	shardOf, err := parseIndex(mapped)
	if err != nil {
		err = fmt.Errorf("weights: %s %w", path, err)
	}
	return shardOf, errors.Join(err, unmap(mapped))
}

// parseIndex returns the shard of each tensor. Errors continue the sentence
// that the file's name begins.
func parseIndex(text []byte) (map[string]string, error) {
	switch {
	case LFSPointer(text):
		return nil, errPointer
	case len(text) > maxHeader:
		return nil, fmt.Errorf("is %d bytes long, over the limit of %d: download it again", len(text), maxHeader)
	case !utf8.Valid(text):
		return nil, errors.New("is not UTF-8: download it again")
	}
	shardOf, err := decodeIndex(text)
	if err != nil {
		return nil, fmt.Errorf("is damaged: %w: download it again", err)
	}
	if len(shardOf) == 0 {
		return nil, errors.New("lists no tensors in a weight_map: download it again")
	}
	return shardOf, nil
}

func decodeIndex(text []byte) (map[string]string, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	shardOf := map[string]string{}
	err := document(dec, func(key string) error {
		if key != "weight_map" { // metadata: sizes, for people
			var rest json.RawMessage
			return dec.Decode(&rest)
		}
		return object(dec, func(name string) error {
			shard, err := word(dec)
			if err != nil {
				return err
			}
			// A checkpoint must not reach files outside its folder.
			if shard == "" || shard == "." || shard == ".." || strings.ContainsAny(shard, `/\`) || shown(shard) != shard {
				return fmt.Errorf("shard %s is not a plain file name", quoted(shard))
			}
			shardOf[name] = shard
			return nil
		})
	})
	return shardOf, err
}

func allPresent(dir string, shards []string) error {
	var missing []string
	for _, shard := range shards {
		if _, err := os.Lstat(filepath.Join(dir, shard)); err != nil {
			missing = append(missing, shard)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("weights: %s has %d of %s, missing: %s%s: finish the download",
		dir, len(shards)-len(missing), count(len(shards), "shard"), few(missing), unfinished(dir))
}

// checkIndex checks that each tensor lies in the shard that the index names,
// and in no other. When they disagree, files of two versions are mixed.
func checkIndex(index string, shardOf map[string]string, files []*file) error {
	const remedy = "index and shards are not of one version: download all again"
	held := map[string]*file{}
	for _, f := range files {
		held[filepath.Base(f.path)] = f
		for _, name := range slices.Sorted(maps.Keys(f.tensors)) {
			switch shard, listed := shardOf[name]; {
			case !listed:
				return fmt.Errorf("weights: %s holds tensor %s, which %s does not list: %s", f.path, shown(name), indexName, remedy)
			case shard != filepath.Base(f.path):
				return fmt.Errorf("weights: %s holds tensor %s, which %s places in %s: %s", f.path, shown(name), indexName, shard, remedy)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shardOf)) {
		if _, ok := held[shardOf[name]].tensors[name]; !ok {
			return fmt.Errorf("weights: %s places tensor %s in %s, which does not hold it: %s", index, shown(name), shardOf[name], remedy)
		}
	}
	return nil
}
