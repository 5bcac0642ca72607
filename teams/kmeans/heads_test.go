package kmeans

import (
	"context"
	"errors"
	"math"
	"reflect"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

// TestFitHeads has heads side by side fit as each does alone: they stop at
// different steps and part where some have centers to reassign.
func TestFitHeads(t *testing.T) {
	const n, d, k, heads = 300, 3, 60, 4
	dev := openHost(t)
	rng := newMT19937(9)
	values := make([]float32, heads*n*d)
	for i := range values {
		values[i] = float32(rng.double())
		if h := i / (n * d); h > 1 { // crowded: some centers get few rows
			values[i] = float32(math.Pow(rng.double(), float64(8*h)))
		}
	}
	wide, err := dev.New("heads", device.F32, heads, n, d)
	if err != nil {
		t.Fatal(err)
	}
	if err := device.Write(dev, wide, values); err != nil {
		t.Fatal(err)
	}
	got, err := fitAll(dev, device.RowSets{wide.Slice(0, 0, 1), wide.Slice(0, 1, heads)}, k)
	if err != nil {
		t.Fatal(err)
	}
	steps := map[int]bool{}
	for h := range heads {
		want, err := fitOne(dev, wide.Index(0, h), k)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got[h], want) {
			t.Errorf("head %d: %d steps, alone %d, or other centers or labels", h, got[h].Steps, want.Steps)
		}
		steps[got[h].Steps] = true
	}
	if len(steps) < 2 {
		t.Errorf("all heads stop after %v steps: nothing is tested", steps)
	}
}

// TestFitStops has a cancelled context end the fit.
func TestFitStops(t *testing.T) {
	dev := devicetest.NewReference()
	x := upload(t, dev, []float32{1, 2, 3, 4, 5, 6}, 6, 1).Unflatten(0, 1, 6)
	labels, err := dev.New("labels", device.I32, 1, 6)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	before := dev.Memory().Used
	_, err = Fit(ctx, dev, device.RowSets{x}, 3, labels, func(done, of int) {
		if done > of {
			t.Errorf("%d of %d done", done, of)
		}
		cancel()
	})
	if !errors.Is(err, context.Canceled) || dev.Memory().Used != before {
		t.Errorf("%v, %d bytes stay", err, dev.Memory().Used-before)
	}
}
