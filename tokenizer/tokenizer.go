// Package tokenizer turns text into token ids and back, and messages into prompts, from the files of a checkpoint
// folder: tokenizer.json, tokenizer_config.json, special_tokens_map.json and chat_template.jinja.
//
// The Hugging Face library (through github.com/daulet/tokenizers) encodes; its binding cuts text at NUL, replaces
// invalid UTF-8, skips unknown ids and has no look-up, so those are taken care of here, and decoding is a table of each
// token's bytes. tokenizer.json alone decides how text is split: tokenizer_class is not looked at.
//
// Package template renders chat templates, within bounds, since each is a program from the checkpoint; here messages become
// what a template sees (chat.go), and the special tokens that it writes are told from those in messages (control.go).
//
// Of the patterns of tokenizer.json those are refused that can take time without end on a few letters (pattern.go); a hostile
// one can be slow all the same, and the library ends the program when one needs more than 10,000,000 steps for a
// match. Use a checkpoint of unknown origin in a process with limits.
//
// Terms: a special (control) token is an added token marked special, such as <|im_end|>; a piece is a token as
// tokenizer.json spells it, where a byte-level vocabulary writes a space as Ġ.
package tokenizer

// #cgo LDFLAGS: -L${SRCDIR}/../build/lib
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"blitzen/internal/excerpt"

	"github.com/daulet/tokenizers"
)

// Tokenizer is the tokenizer of one checkpoint. Its methods may be called concurrently; Close may not.
type Tokenizer struct {
	dir        string
	vocab      vocabulary
	config     config
	template   chatTemplate
	noTemplate error // why there is none
	longest    int   // bytes of a token at most; 0 where that tells nothing

	data    []byte // tokenizer.json, for library instances made later
	nulSafe error  // why text with NUL cannot be encoded, or nil

	mu        sync.Mutex
	instances map[mode]*tokenizers.Tokenizer
}

// Open reads the tokenizer of the checkpoint in folder dir. It refuses what it would read wrongly, such as a
// pre-tokenizer of an unknown type. The caller closes it.
func Open(dir string) (*Tokenizer, error) {
	t := &Tokenizer{dir: dir, instances: map[mode]*tokenizers.Tokenizer{}}
	spec, err := readSpec(dir)
	if err != nil {
		return nil, err
	}
	t.data, t.nulSafe = spec.data, spec.nulSafe()
	if t.vocab, err = spec.vocabulary(); err != nil {
		return nil, fmt.Errorf("%s: %w", spec.path, err)
	}
	if err = spec.checkMerges(&t.vocab); err != nil {
		return nil, fmt.Errorf("%s: %w", spec.path, err)
	}
	if t.longest, err = spec.longest(&t.vocab); err != nil {
		return nil, fmt.Errorf("%s: %w", spec.path, err)
	}
	if t.config, err = readConfig(dir, t.vocab.ids); err != nil {
		return nil, err
	}
	t.template, t.noTemplate = readTemplate(dir, t.config.chatTemplate)
	if err := cmp.Or(t.checkAdded(spec.AddedTokens), t.checkPost()); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// checkAdded makes sure that the library gives added tokens the ids they have in the file: it numbers those that its
// model lacks anew, one after the other.
func (t *Tokenizer) checkAdded(tokens []addedToken) error {
	if _, err := t.instance(mode{}); err != nil {
		return err
	}
	for _, token := range tokens {
		ids, err := t.encode(token.Content, false, false)
		if err != nil {
			return err
		}
		if len(ids) == 1 && ids[0] != token.ID {
			return fmt.Errorf("%s/tokenizer.json: the added token %q has the id %d, but the vocabulary without gaps gives it %d",
				t.dir, excerpt.Of(token.Content), token.ID, ids[0])
		}
	}
	return nil
}

// checkPost makes sure that what post_processor adds to a text are tokens. It tells so by adding them to none.
func (t *Tokenizer) checkPost() error {
	if t.config.decides() {
		return nil
	}
	ids, err := t.encode("", false, true)
	for _, id := range ids {
		if !t.vocab.has(id) {
			return fmt.Errorf("%s/tokenizer.json: post_processor adds a token with the id %d, which the vocabulary lacks: download the file again", t.dir, uint32(id))
		}
	}
	return err
}

// Close frees the library's memory. The Tokenizer must not be used afterwards.
func (t *Tokenizer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var errs []error
	for lib := range maps.Values(t.instances) {
		errs = append(errs, lib.Close())
	}
	clear(t.instances)
	return errors.Join(errs...)
}

// VocabSize is the highest id plus one. A checkpoint may have more logits than that; those ids have no token.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.pieces) }

// BOS is the id of bos_token; ok is false when the checkpoint has none.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.config.bos.id, t.config.bos.text != "" }

// EOS is the id of eos_token in the tokenizer's configuration, one of the ids that may end an answer: config.json and
// generation_config.json can name others.
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.config.eos.id, t.config.eos.text != "" }

// Piece is the token with an id; ok is false when there is none.
func (t *Tokenizer) Piece(id int32) (piece string, ok bool) {
	if !t.vocab.has(id) {
		return "", false
	}
	return t.vocab.pieces[id], true
}

// Bytes is the text that a token stands for, perhaps a part of a character; ok is false when there is no such id.
func (t *Tokenizer) Bytes(id int32) (text []byte, ok bool) {
	if !t.vocab.has(id) {
		return nil, false
	}
	return []byte(t.vocab.texts[id]), true
}

// IDOf is the id of a piece; ok is false when there is none.
func (t *Tokenizer) IDOf(piece string) (id int32, ok bool) {
	id, ok = t.vocab.ids[piece]
	return id, ok
}

// IsSpecial tells whether an id is a special token.
func (t *Tokenizer) IsSpecial(id int32) bool {
	_, ok := slices.BinarySearch(t.vocab.special, id)
	return ok
}

// Template is the checkpoint's chat template, "" when it has none.
func (t *Tokenizer) Template() string { return t.template.text }
