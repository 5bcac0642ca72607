package devicetest

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"blitzen/device"
)

// Suite compares a device with the reference: every operation on odd sizes, in
// three memory layouts, run at once and replayed; the laws of Device itself;
// and the distributions of what it draws. open makes the device and registers
// its Close with t.Cleanup.
func Suite(t *testing.T, open func(t *testing.T) device.Device) {
	part, parts := 1, 1
	if s := os.Getenv(PartVariable); s != "" {
		if _, err := fmt.Sscanf(s, "%d/%d", &part, &parts); err != nil || part < 1 || part > parts {
			t.Fatalf("%s=%s: want 2/8 for the second of eight parts", PartVariable, s)
		}
	}
	d := open(t)
	var tests []testing.InternalTest
	for _, r := range rules() {
		tests = append(tests, named(r.name, func() error { return r.check(d) }))
	}
	for _, c := range cases() {
		tests = append(tests, named(c.name, func() error { return c.check(d) }))
	}
	for i, test := range tests {
		if i%parts == part-1 {
			t.Run(test.Name, test.F)
		}
	}
}

// PartVariable is an environment variable that has Suite run every so many-th
// test alone, so that tools which slow a device down can take it in several
// processes side by side: 2/8 is the second of eight parts.
const PartVariable = "BLITZEN_TEST_PART"

func named(name string, check func() error) testing.InternalTest {
	return testing.InternalTest{Name: name, F: func(t *testing.T) {
		if err := check(); err != nil {
			t.Error(err)
		}
	}}
}

// rule is a property of a device.
type rule struct {
	name  string
	check func(d device.Device) error
}

func rules() []rule {
	return slices.Concat(memoryRules(), stepRules(), drawRules(), halfRules(), nanRules())
}

// testCase is a comparison with the reference; see bench.
type testCase struct {
	name string
	run  func(b *bench)
}

func cases() []testCase {
	return slices.Concat(mathCases(), linearCases(), fusedCases(), moeCases(), layerCases(), wholeCases(), cacheCases(), attendCases(),
		selectCases(), quantizeCases(), replacementCases(), teamsCases(), clusterCases(), sampleCases(), halfCases())
}

// check runs the case on the reference and, in every layout, on d.
func (c testCase) check(d device.Device) error {
	ty, err := typesOf(d)
	if err != nil {
		return err
	}
	judge := newBench(c.name, NewReference(), ty, packed)
	judge.judge = true
	if c.run(judge); judge.err != nil {
		return fmt.Errorf("reference: %w", judge.err)
	}
	var eager []result
	for _, way := range []struct {
		layout layout
		replay bool
	}{{packed, false}, {packed, true}, {aligned, false}, {odd, false}} {
		b := newBench(c.name, d, ty, way.layout)
		b.replay = way.replay
		c.run(b)
		b.close()
		switch {
		case b.err != nil:
			err = b.err
		case way.replay:
			err = sameResults(b.results, eager)
		default:
			err = b.compare(judge.results)
		}
		if err != nil {
			return fmt.Errorf("%s tensors, replayed %v: %w", way.layout, way.replay, err)
		}
		if eager == nil {
			eager = b.results
		}
	}
	return nil
}

// compare holds a bench's results against the judge's, which also says what to
// skip.
func (b *bench) compare(judge []result) error {
	for i, r := range b.results {
		if err := compare(r.values, judge[i].values, r.tol, judge[i].skip); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return nil
}

// sameResults asks for equal bits: a replay is the same arithmetic.
func sameResults(got, want []result) error {
	for i, r := range got {
		if err := compare(r.values, want[i].values, tolerance{}, nil); err != nil {
			return fmt.Errorf("%s differs from the unrecorded run: %w", r.name, err)
		}
	}
	return nil
}

// typesOf asks the device what it makes of a checkpoint's types.
func typesOf(d device.Device) (types, error) {
	ty := types{act: d.DType(), imported: map[device.DType]device.DType{}}
	for _, t := range []device.DType{device.F32, device.F16, device.BF16} {
		w, err := d.Import("probe", t, []int{1, 2}, Encode(t, []float64{1, 2}))
		if err != nil {
			return ty, err
		}
		ty.imported[t] = w.DType
		d.Free(w)
	}
	return ty, nil
}
