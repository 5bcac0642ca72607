package weights

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"unicode/utf8"

	"blitzen/device"
)

// maxHeader is the limit of the reference reader, in bytes. It bounds what a
// damaged length can make us read.
const maxHeader = 100_000_000

// floatTypes are the element types that Bind hands out.
var floatTypes = map[string]device.DType{
	"F32": device.F32, "F16": device.F16, "BF16": device.BF16,
}

// widths holds the bytes of the element types of whole bytes. Of the others
// (F4, F6_E2M3 and what may come) only the place in the file is checked; Bind
// refuses them.
var widths = map[string]uint64{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
	"U16": 2, "I16": 2, "F16": 2, "BF16": 2,
	"U32": 4, "I32": 4, "F32": 4,
	"U64": 8, "I64": 8, "F64": 8, "C64": 8,
}

// entry is a header's account of one tensor.
type entry struct {
	dtype      string // as written
	shape      []int
	begin, end int // bytes from the end of the header, end exclusive
}

// parseHeader reads the header of a safetensors file, given whole, and checks
// it against the file's size. It returns the tensors and the bytes that their
// offsets count in. Errors continue the sentence that the file's name begins.
func parseHeader(file []byte) (map[string]entry, []byte, error) {
	text, body, err := splitHeader(file)
	if err != nil {
		return nil, nil, err
	}
	tensors, err := decodeHeader(text)
	if err != nil {
		return nil, nil, fmt.Errorf("has a damaged header: %w: download it again", err)
	}
	promised, err := checkLayout(tensors)
	if err != nil {
		return nil, nil, fmt.Errorf("has a damaged header: %w: download it again", err)
	}
	switch need := len(file) - len(body) + promised; {
	case need > len(file):
		return nil, nil, truncated(len(file), need)
	case need < len(file):
		return nil, nil, fmt.Errorf("has %s after its last tensor (have %d, header promises %d): download it again",
			count(len(file)-need, "extra byte"), len(file), need)
	}
	return tensors, body, nil
}

// splitHeader returns the JSON text and what follows it.
func splitHeader(file []byte) (text, body []byte, err error) {
	if LFSPointer(file) {
		return nil, nil, errPointer
	}
	if len(file) < 8 {
		return nil, nil, fmt.Errorf("is truncated: %s missing (have %d, its header length alone takes 8): download it again",
			count(8-len(file), "byte"), len(file))
	}
	n := binary.LittleEndian.Uint64(file)
	if n > maxHeader {
		return nil, nil, fmt.Errorf("has a header length of %d bytes, over the limit of %d: it is damaged or no safetensors file: download it again",
			n, maxHeader)
	}
	if n > 0 && len(file) > 8 && file[8] != '{' {
		return nil, nil, fmt.Errorf("has a header that starts with %q, not '{': it is damaged or no safetensors file: download it again", file[8:9])
	}
	if uint64(len(file)-8) < n {
		return nil, nil, truncated(len(file), 8+int(n))
	}
	return file[8 : 8+n], file[8+n:], nil
}

func truncated(have, promised int) error {
	return fmt.Errorf("is truncated: %s missing (have %d, header promises %d): download it again",
		count(promised-have, "byte"), have, promised)
}

// decodeHeader decodes the JSON object of a header. It allocates in proportion
// to the text's length, whatever numbers the text holds.
func decodeHeader(text []byte) (map[string]entry, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("it is not UTF-8") // the decoder would replace bytes and so merge names
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	tensors := map[string]entry{}
	err := document(dec, func(name string) error {
		if name == "__metadata__" {
			return object(dec, func(string) error { _, err := word(dec); return err })
		}
		e, err := decodeEntry(dec)
		tensors[name] = e
		return err
	})
	return tensors, err
}

func decodeEntry(dec *json.Decoder) (entry, error) {
	var e entry
	var offsets []int
	fields := map[string]bool{}
	err := object(dec, func(field string) (err error) {
		fields[field] = true
		switch field {
		case "dtype":
			e.dtype, err = word(dec)
		case "shape":
			e.shape, err = naturals(dec)
		case "data_offsets":
			offsets, err = naturals(dec)
		default:
			err = errors.New("unknown field")
		}
		return err
	})
	switch {
	case err != nil:
		return e, err
	case len(fields) != 3:
		return e, fmt.Errorf("it has only the fields %q of dtype, shape and data_offsets", slices.Sorted(maps.Keys(fields)))
	case len(offsets) != 2 || offsets[0] > offsets[1]:
		return e, fmt.Errorf("data_offsets %s are not a begin and an end", shown(offsets))
	}
	e.begin, e.end = offsets[0], offsets[1]
	return e, nil
}

// checkLayout checks that tensors fill the file from byte 0 without a hole or
// an overlap, each in just the bytes that its shape takes, and returns where
// the last one ends.
func checkLayout(tensors map[string]entry) (end int, err error) {
	names := slices.SortedFunc(maps.Keys(tensors), func(a, b string) int {
		ta, tb := tensors[a], tensors[b] // an empty tensor stands before the one that begins with it
		return cmp.Or(cmp.Compare(ta.begin, tb.begin), cmp.Compare(ta.end, tb.end), cmp.Compare(a, b))
	})
	previous := ""
	for _, name := range names {
		e := tensors[name]
		switch {
		case e.begin < end:
			return 0, fmt.Errorf("tensors %s and %s overlap in bytes %d to %d", quoted(previous), quoted(name), e.begin, min(end, e.end))
		case e.begin > end:
			return 0, fmt.Errorf("%s unused before tensor %s", count(e.begin-end, "byte"), quoted(name))
		}
		if err := checkSize(e); err != nil {
			return 0, fmt.Errorf("tensor %s: %w", quoted(name), err)
		}
		previous, end = name, e.end
	}
	return end, nil
}

func checkSize(e entry) error {
	size, known := widths[e.dtype]
	if !known {
		return nil
	}
	for _, d := range e.shape {
		high, low := bits.Mul64(size, uint64(d))
		if high != 0 {
			return fmt.Errorf("shape %s of %s is more than 64 bits can count", shown(e.shape), e.dtype)
		}
		size = low
	}
	if have := uint64(e.end - e.begin); have != size {
		return fmt.Errorf("shape %s of %s takes %d bytes, data_offsets [%d %d] hold %d", shown(e.shape), e.dtype, size, e.begin, e.end, have)
	}
	return nil
}
