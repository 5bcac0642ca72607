package weights

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestNotFinite plants NaN and infinities among all other patterns of two bytes, and
// has element types of which nothing is known left alone.
func TestNotFinite(t *testing.T) {
	two := func(x uint16) string { return string([]byte{byte(x), byte(x >> 8)}) }
	var all []uint16
	for x := range 1 << 16 {
		if x&0x7f80 != 0x7f80 && x&0x7c00 != 0x7c00 {
			all = append(all, uint16(x))
		}
	}
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	finite := ""
	for _, x := range all[:1000] {
		finite += two(x)
	}
	for _, c := range []struct{ dtype, data, want string }{
		{"BF16", finite, ""}, {"F16", finite, ""},
		{"BF16", finite + two(0x7f80), "1000"}, {"BF16", finite + two(0xffc1), "1000"}, {"BF16", two(0x7c00) + finite, ""},
		{"F16", two(0x7c00) + finite, "0"}, {"F16", finite + two(0x7e01) + two(0xfc00), "1000"},
		{"F32", finite, ""}, {"F32", finite + two(0) + two(0x7f80), "500"}, {"F32", two(1) + two(0xff80) + finite, "0"},
		{"F32", two(0x7f80) + two(1) + finite, ""}, {"I64", two(0x7f80) + two(0x7f80) + two(0x7f80) + two(0x7f80), ""}, {"F32", "", ""},
	} {
		size := map[string]int{"BF16": 2, "F16": 2, "F32": 4, "I64": 8}[c.dtype]
		dir := folder(t, singleName, raw(fmt.Sprintf(`{"x":{"dtype":%q,"shape":[%d],"data_offsets":[0,%d]}}`, c.dtype, len(c.data)/size, len(c.data)), 0)+c.data)
		err := mustOpen(t, dir).NotFinite()
		if c.want == "" {
			if err != nil {
				t.Errorf("%s of %d bytes: %v", c.dtype, len(c.data), err)
			}
			continue
		}
		wantError(t, err, dir, fmt.Sprintf("weights: DIR/model.safetensors holds tensor x [%d], whose number %s is not finite: download that file again", len(c.data)/size, c.want))
	}
}
