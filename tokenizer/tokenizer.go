// Package tokenizer turns text into token ids and back.
package tokenizer

// #cgo LDFLAGS: -L${SRCDIR}/../build/lib
import "C"

import "github.com/daulet/tokenizers"

// Tokenizer holds one checkpoint's vocabulary.
type Tokenizer struct {
	lib *tokenizers.Tokenizer
}

// Open reads dir/tokenizer.json.
func Open(dir string) (*Tokenizer, error) {
	lib, err := tokenizers.FromFile(dir + "/tokenizer.json")
	if err != nil {
		return nil, err
	}
	return &Tokenizer{lib: lib}, nil
}
