package decode_test

import (
	"context"
	"slices"
	"testing"

	"blitzen/decode"
	"blitzen/device"
	"blitzen/internal/modeltest"
)

// counted counts what is recorded.
type counted struct {
	device.Device
	records int
}

func (c *counted) Record(fn func(*device.Ops)) (device.Step, error) {
	c.records++
	return c.Device.Record(fn)
}

// Steps that read few rows are recorded with a promise of that, those after them without,
// each once however often a session goes back and forth; tokens do not know.
func TestStepsOfFewRowsAndOfMany(t *testing.T) {
	dev := &counted{Device: modeltest.Host(t)}
	m := load(t, dev, tiny, 512)
	s, err := decode.New(dev, m, decode.Options{Capacity: 2060, Sampling: warm})
	modeltest.Check(t, err)
	t.Cleanup(s.Close)
	modeltest.Check(t, s.Prefill(context.Background(), slices.Repeat(prompt(t, 73), 28), nil)) // 2,044 tokens
	modeltest.Check(t, s.Build(modeltest.Dense(dev, m)))
	want := next(t, s, 4)
	if dev.records != 1 {
		t.Errorf("%d steps recorded for up to 2,048 rows", dev.records)
	}
	want = append(want, next(t, s, 6)...)
	modeltest.Check(t, s.Truncate(2044))
	got := next(t, s, 10)
	if dev.records != 2 {
		t.Errorf("%d steps recorded for fewer and for more than 2,048 rows", dev.records)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("token %d is %d, and %d the first time", i, got[i], want[i])
		}
	}
}
