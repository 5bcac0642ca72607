package tokenizer

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/daulet/tokenizers"
)

// EncodeOptions choose how text is read.
type EncodeOptions struct {
	// AddSpecial adds the special tokens of a fresh sequence: those that add_bos_token and add_eos_token of
	// tokenizer_config.json name or, where it says nothing, those of tokenizer.json's post-processor.
	AddSpecial bool
	// ControlAsText reads special tokens in the text, such as <|im_end|>, as the characters they are written with.
	// Added tokens that are not special are recognised in any case: they have no effect outside the text.
	ControlAsText bool
}

// Encode turns text into ids. Text that is not UTF-8 is refused with the offset of its first wrong byte, never
// repaired or cut; so are more than 64 MiB of text, or a run of more than 1 MiB of white space. NUL bytes are kept; should a tokenizer.json make that impossible they are refused alike.
func (t *Tokenizer) Encode(text string, o EncodeOptions) ([]int32, error) {
	if at := invalidUTF8(text); at >= 0 {
		return nil, fmt.Errorf("text is not UTF-8: byte %d is %#02x: convert it", at, text[at])
	}
	byConfig := t.config.decides()
	ids, err := t.encode(text, o.ControlAsText, o.AddSpecial && !byConfig)
	if err != nil || !o.AddSpecial || !byConfig {
		return ids, err
	}
	if add := t.config.addBOS; add != nil && *add {
		ids = append([]int32{t.config.bos.id}, ids...)
	}
	if add := t.config.addEOS; add != nil && *add {
		ids = append(ids, t.config.eos.id)
	}
	return ids, nil
}

// maxSpace is the longest run of white space, in bytes. The library splits text by patterns such as \s*[\r\n]+, which go
// back over such a run byte by byte; the regular-expression library gives up after 10,000,000 steps of one match, which ends
// the program. (Runs of 11,000,000 equal letters, digits, signs or newlines were seen to pass.)
const maxSpace = 1 << 20

// longSpace is the offset of the first run of white space that is too long, or -1.
func longSpace(text string) int {
	begin := 0
	for at, r := range text {
		if !unicode.IsSpace(r) {
			begin = at + utf8.RuneLen(r)
		} else if at+utf8.RuneLen(r)-begin > maxSpace {
			return begin
		}
	}
	return -1
}

// encode passes valid UTF-8 to the library.
func (t *Tokenizer) encode(text string, controlAsText, addSpecial bool) ([]int32, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the text has %d bytes: splitting it into tokens would take some 80 times that memory; the limit is %d", len(text), maxText)
	}
	if at := longSpace(text); at >= 0 {
		return nil, fmt.Errorf("more than %d bytes of white space follow each other from byte %d of the text, which the library cannot split: remove some", maxSpace, at)
	}
	m := mode{controlAsText: controlAsText}
	if at := strings.IndexByte(text, 0); at >= 0 {
		var err error
		if text, m.nul, err = t.replaceNUL(text); err != nil {
			return nil, fmt.Errorf("text holds a NUL at byte %d, which cannot be encoded: %w", at, err)
		}
	}
	lib, err := t.instance(m)
	if err != nil {
		return nil, err
	}
	found := lib.EncodeWithOptions(text, addSpecial).IDs
	if len(found) == 0 && text != "" { // how the binding reports a failure
		return nil, fmt.Errorf("the tokenizer of %s failed on a text of %d bytes", t.dir, len(text))
	}
	ids := make([]int32, len(found))
	for i, id := range found {
		ids[i] = int32(id)
	}
	return ids, nil
}

// mode tells apart the library's instances: what can be chosen only when one is made.
type mode struct {
	controlAsText bool
	nul           byte // the control character that stands for NUL, or 0
}

// instance returns the library's tokenizer for a mode, made at its first use.
func (t *Tokenizer) instance(m mode) (*tokenizers.Tokenizer, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lib, ok := t.instances[m]; ok {
		return lib, nil
	}
	data := t.data
	if m.nul != 0 {
		var err error
		if data, err = exchangeBytes(data, 0, m.nul); err != nil {
			return nil, err
		}
	}
	var options []tokenizers.TokenizerOption
	if m.controlAsText {
		options = append(options, tokenizers.WithEncodeSpecialTokens())
	}
	lib, err := tokenizers.FromBytes(data, options...)
	if err != nil {
		return nil, fmt.Errorf("%s/tokenizer.json: %w: download it again", t.dir, libraryError(err))
	}
	t.instances[m] = lib
	return lib, nil
}

// invalidUTF8 is the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(text string) int {
	if utf8.ValidString(text) {
		return -1
	}
	for at, r := range text {
		if r == utf8.RuneError {
			if _, size := utf8.DecodeRuneInString(text[at:]); size == 1 {
				return at
			}
		}
	}
	return -1
}
