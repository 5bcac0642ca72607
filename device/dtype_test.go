package device_test

import (
	"testing"

	"blitzen/device"
)

func TestDType(t *testing.T) {
	for _, c := range []struct {
		t     device.DType
		name  string
		size  int
		float bool
	}{
		{device.Invalid, "invalid", 0, false},
		{device.F32, "F32", 4, true},
		{device.F16, "F16", 2, true},
		{device.BF16, "BF16", 2, true},
		{device.I8, "I8", 1, false},
		{device.F8, "F8_E4M3", 1, false},
		{device.I32, "I32", 4, false},
		{device.U32, "U32", 4, false},
		{device.I64, "I64", 8, false},
		{device.I64 + 1, "DType(9)", 0, false},
		{255, "DType(255)", 0, false},
	} {
		if c.t.String() != c.name || c.t.Size() != c.size || c.t.Float() != c.float {
			t.Errorf("%d: %s of %d bytes, float %v; want %+v", uint8(c.t), c.t, c.t.Size(), c.t.Float(), c)
		}
	}
}
