package weights

import (
	"bytes"
	"math"
	"testing"

	"blitzen/device"
)

// numbers are a tensor's BF16 numbers.
func numbers(t Tensor) []float64 {
	out := make([]float64, len(t.Data)/2)
	for i := range out {
		out[i] = float64(math.Float32frombits(uint32(t.Data[2*i])<<16 | uint32(t.Data[2*i+1])<<24))
	}
	return out
}

func TestDummy(t *testing.T) {
	shapes := map[string][]int{"a": {300, 700}, "b": {3000, 700}, "long": {1000, 3000}, "final.norm.weight": {40}}
	bind := func(seed uint64, order ...string) map[string]Tensor {
		d, got := NewDummy(seed), map[string]Tensor{}
		for _, name := range order {
			tensor, err := d.Bind(name, shapes[name]...)
			n := 2
			for _, s := range shapes[name] {
				n *= s
			}
			if err != nil || tensor.DType != device.BF16 || len(tensor.Data) != n {
				t.Fatalf("%s: %v, %d bytes, want %d", name, err, len(tensor.Data), n)
			}
			got[name] = tensor
		}
		return got
	}
	one, again, other := bind(1, "a", "b", "long", "final.norm.weight"), bind(1, "long", "b", "a"), bind(2, "a")
	if !bytes.Equal(one["long"].Data, again["long"].Data) || !bytes.Equal(one["b"].Data, again["b"].Data) {
		t.Error("numbers depend on the order in which tensors are bound")
	}
	if n := 600; bytes.Equal(one["a"].Data[:n], other["a"].Data[:n]) || bytes.Equal(one["a"].Data[:n], one["b"].Data[:n]) {
		t.Error("numbers do not depend on seed and name")
	}
	for _, x := range numbers(one["final.norm.weight"]) {
		if x != 1 {
			t.Fatalf("a norm's gain is %v", x)
		}
	}
	checkNormal(t, numbers(one["long"]))
	if d := NewDummy(1); !d.Has("anything") || d.Unused(nil) != nil || d.Close() != nil {
		t.Error("a dummy lacks a tensor, or has one too many")
	}
	if _, err := NewDummy(1).Bind("x", 1<<40, 1<<40); err == nil {
		t.Error("a tensor of 2^81 bytes")
	}
}

// Shapes has every tensor at no cost, up to what a model can be.
func TestDummyShapes(t *testing.T) {
	d := NewDummy(1).Shapes()
	got, err := d.Bind("large", 1<<20, 1<<25)
	if err != nil || got.Data != nil || len(got.Shape) != 2 || got.DType != device.BF16 || d.Fingerprint() != NewDummy(1).Fingerprint() {
		t.Errorf("%v, %d bytes of data, shape %v", err, len(got.Data), got.Shape)
	}
	for err == nil && d.tensors < 100 {
		_, err = d.Bind("large", 1<<20, 1<<25)
	}
	const want = "weights: with tensor large the model has 17 tensors of 1088 TiB in all, too many: check the sizes in config.json"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	d, err = d.Shapes(), nil
	for err == nil && d.tensors < 2*dummyTensors {
		_, err = d.Bind("small", 1)
	}
	if err == nil || d.tensors != dummyTensors+1 {
		t.Errorf("%d tensors: %v", d.tensors, err)
	}
}

// checkNormal checks moments of n numbers to five standard errors, and that
// neighbours do not go together.
func checkNormal(t *testing.T, x []float64) {
	t.Helper()
	var sum, squares, fourth, next float64
	for i, v := range x {
		v /= dummyDeviation
		sum, squares, fourth = sum+v, squares+v*v, fourth+v*v*v*v
		next += v * x[(i+1)%len(x)] / dummyDeviation
	}
	n := float64(len(x))
	for _, m := range []struct {
		name                 string
		got, want, deviation float64
	}{
		{"mean", sum / n, 0, 1}, {"variance", squares / n, 1, math.Sqrt2}, {"fourth moment", fourth / n, 3, math.Sqrt(96)}, {"covariance of neighbours", next / n, 0, 1},
	} {
		if bound := 5*m.deviation/math.Sqrt(n) + 1e-3; math.Abs(m.got-m.want) > bound { // BF16 rounds by up to 2⁻⁹, either way
			t.Errorf("%s is %v, want %v ± %v", m.name, m.got, m.want, bound)
		}
	}
}
