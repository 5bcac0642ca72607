package weights

import (
	"fmt"
	"maps"
	"slices"

	"blitzen/device"
)

// exponents are the bits that are all set in a number that is NaN or infinite.
var exponents = map[device.DType]uint32{device.F32: 0x7f800000, device.F16: 0x7c00, device.BF16: 0x7f80}

// NotFinite names the first tensor, in the order of names, that holds NaN or an
// infinite number, with the first such; nil where there is none. It reads all
// tensors of floating-point numbers, so it is for explaining a failure.
func (c *Checkpoint) NotFinite() error {
	for _, name := range slices.Sorted(maps.Keys(c.home)) {
		f := c.home[name]
		e := f.tensors[name]
		dtype, ok := floatTypes[e.dtype]
		if !ok {
			continue
		}
		if at := notFinite(f.view(e), dtype.Size(), exponents[dtype]); at >= 0 {
			return fmt.Errorf("weights: %s holds tensor %s %s, whose number %d is not finite: download that file again", f.path, name, shown(e.shape), at)
		}
	}
	return nil
}

// notFinite is the index of the first number with all bits of its exponent set, -1
// for none. size is that of a number, in bytes.
func notFinite(data []byte, size int, exponent uint32) int {
	for at := 0; at+size <= len(data); at += size {
		var bits uint32
		for i := range size {
			bits |= uint32(data[at+i]) << (8 * i)
		}
		if bits&exponent == exponent {
			return at / size
		}
	}
	return -1
}
