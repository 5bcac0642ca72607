package devicetest

import (
	"slices"
	"strings"
	"testing"

	"blitzen/device"
)

// A suite is worth what it refuses. Each mutant is the reference with one
// mistake that a device could make; some case of its operation must fail.
func TestMutantsAreRefused(t *testing.T) {
	for _, m := range slices.Concat(mathMutants(), productMutants(), fusedMathMutants(), clusterMutants(), cacheMutants(),
		attendMutants(), selectMutants(), fusedMutants(), teamMutants(), replacementMutants(), tokenMutants()) {
		t.Run(m.name, func(t *testing.T) {
			operation, _, _ := strings.Cut(m.name, ":")
			if !refused(newReference(with(m.set), device.F32), operation) {
				t.Errorf("every case of %s passes", operation)
			}
		})
	}
}

// Every case must fail on a device whose operations do nothing, but those that
// want nothing changed.
func TestDoingNothingIsRefused(t *testing.T) {
	idle := []string{"PermuteRows/and back", "PermuteRows/1 of 1 within 0, inverse false", "PermuteRows/1 of 1 within 0, inverse true"}
	for _, c := range cases() {
		if err := c.check(newReference(nil, device.F32)); err == nil && !slices.Contains(idle, c.name) {
			t.Errorf("%s passes on a device that does nothing", c.name)
		}
	}
}

func refused(d device.Device, operation string) bool {
	for _, c := range cases() {
		if strings.HasPrefix(c.name, operation+"/") && c.check(d) != nil {
			return true
		}
	}
	return false
}

// mutant is named after its operation, then its mistake.
type mutant struct {
	name string
	set  func(c *changed)
}

// edited is a contiguous copy of a reference tensor with other elements.
func edited(t *tensor, edit func(i int, v float64) float64) *tensor {
	var values []float64
	for _, index := range indices(t.Shape[:t.Rank()-1]) {
		values = append(values, row(t, index...)...)
	}
	for i := range values {
		values[i] = edit(i, values[i])
	}
	return device.NewTensor(t.Name, t.DType, &memory{Encode(t.DType, values)}, t.Shape...)
}

func plus(n float64) func(int, float64) float64 {
	return func(_ int, v float64) float64 { return v + n }
}

func times(f float64) func(int, float64) float64 {
	return func(_ int, v float64) float64 { return v * f }
}

func toBF16(_ int, v float64) float64 { return rounded(device.BF16, []float64{v})[0] }

// gapless forgets the gaps between the rows of a view.
func gapless(t *tensor) *tensor {
	v := device.NewTensor(t.Name, t.DType, t.Buffer, t.Shape...)
	v.Offset = t.Offset
	return v
}

// setEdited replaces the elements of a tensor.
func setEdited(t *tensor, edit func(i int, v float64) float64) error {
	return kernels{}.Copy(t, edited(t, edit))
}
