package devicetest

import (
	"testing"

	"blitzen/device"
)

// The reference passes its own suite in every memory layout, as an F32 device
// and as one that rounds activations to BF16.
func TestSuite(t *testing.T) {
	for _, activations := range []device.DType{device.F32, device.BF16} {
		t.Run(activations.String(), func(t *testing.T) {
			Suite(t, func(*testing.T) device.Device { return newReference(kernels{}, activations) })
		})
	}
}
