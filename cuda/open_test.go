package cuda

import (
	"strings"
	"testing"

	"blitzen/device"
)

func TestOpenRefusesOtherTypes(t *testing.T) {
	for _, ty := range []device.DType{device.Invalid, device.F16, device.I8} {
		if _, err := Open(Options{DType: ty}); err == nil || !strings.Contains(err.Error(), "want BF16 or F32") {
			t.Errorf("%v: %v", ty, err)
		}
	}
}

func TestOpenRefusesOrdinals(t *testing.T) {
	requireGPU(t, Options{DType: device.F32})
	for _, n := range []int{-1, 99} {
		if _, err := Open(Options{DType: device.F32, Ordinal: n}); err == nil || !strings.Contains(err.Error(), "there is no GPU") {
			t.Errorf("GPU %d: %v", n, err)
		}
	}
}
