package kmeans

import (
	"context"
	"math"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
	"blitzen/host"
	"blitzen/internal/golden"

	"pgregory.net/rapid"
)

type goldenCase struct {
	Name    string  `json:"case"`
	N       int     `json:"N"`
	D       int     `json:"d"`
	K       int     `json:"n_clusters"`
	Steps   int     `json:"n_steps"`
	Passes  int     `json:"n_iter"`
	Inertia float64 `json:"inertia"`
	Exact   bool    `json:"exact_expected"`
}

// TestGolden compares with scikit-learn: equal labels where its own arithmetic
// does not decide them, elsewhere a partition about as good.
func TestGolden(t *testing.T) {
	var all struct{ Cases []goldenCase }
	golden.JSON(t, "../../testdata/kmeans/cases.json", &all)
	files, err := filepath.Glob("../../testdata/kmeans/*.safetensors")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".safetensors")
		i := slices.IndexFunc(all.Cases, func(c goldenCase) bool { return c.Name == name })
		if i < 0 {
			t.Fatalf("%s is not described in cases.json", name)
		}
		c, file := all.Cases[i], golden.Open(t, path)
		t.Run(name+"/host", func(t *testing.T) { compare(t, openHost(t), c, file) })
		if c.N <= 100 { // the reference is slow
			t.Run(name+"/reference", func(t *testing.T) { compare(t, devicetest.NewReference(), c, file) })
		}
	}
}

// fitted is the result of one head, on the host.
type fitted struct {
	Labels, InitIndices []int32
	Centers             []float32
	Inertia             float64
	Steps, Iterations   int
}

// fitOne fits the rows of one head, x [n, d].
func fitOne(dev device.Device, x *device.Tensor, k int) (fitted, error) {
	all, err := fitAll(dev, device.RowSets{x.Unflatten(0, 1, x.Shape[0])}, k)
	if err != nil {
		return fitted{}, err
	}
	return all[0], nil
}

func fitAll(dev device.Device, x device.RowSets, k int) ([]fitted, error) {
	heads, n, d := x.Problems(), x[0].Shape[1], x[0].Shape[2]
	labels, err := dev.New("labels", device.I32, heads, n)
	if err != nil {
		return nil, err
	}
	defer dev.Free(labels)
	r, err := Fit(context.Background(), dev, x, k, labels, nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	centers, err := device.Read[float32](dev, r.Centers)
	if err != nil {
		return nil, err
	}
	of, err := device.Read[int32](dev, labels)
	if err != nil {
		return nil, err
	}
	var all []fitted
	for h := range heads {
		all = append(all, fitted{of[h*n:][:n], r.InitIndices[h], centers[h*k*d:][:k*d], float64(r.Inertia[h]), r.Steps[h], r.Iterations[h]})
	}
	return all, nil
}

func openHost(t testing.TB) device.Device {
	t.Helper()
	dev, err := host.New(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

func compare(t *testing.T, dev device.Device, c goldenCase, file *golden.File) {
	x := upload(t, dev, file.Float32s("X"), c.N, c.D)
	given := dev.Memory().Used
	got, err := fitOne(dev, x, c.K)
	if err != nil {
		t.Fatal(err)
	}
	if used := dev.Memory().Used; used != given {
		t.Errorf("%d bytes stay on the device beside x", used-given)
	}
	checkResult(t, got, c.N, c.D, c.K)
	// Duplicates leave an inertia that is a small remainder.
	slack := 1.03
	if strings.HasPrefix(c.Name, "duplicates_") {
		slack = 4
	}
	if got.Inertia > slack*c.Inertia {
		t.Errorf("inertia %v, want at most %v times %v", got.Inertia, slack, c.Inertia)
	}
	if !c.Exact {
		return
	}
	if want := file.Int32s("init_indices"); !slices.Equal(got.InitIndices, want) {
		t.Errorf("first centers %v, want %v", got.InitIndices, want)
	}
	if !slices.Equal(got.Labels, file.Int32s("labels")) {
		t.Error("labels differ")
	}
	if got.Steps != c.Steps || got.Iterations != c.Passes {
		t.Errorf("%d steps in %d passes, want %d in %d", got.Steps, got.Iterations, c.Steps, c.Passes)
	}
}

func TestFitProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, d := rapid.IntRange(1, 40).Draw(t, "n"), rapid.IntRange(1, 9).Draw(t, "d")
		k := rapid.IntRange(1, n).Draw(t, "k")
		distinct := rapid.IntRange(1, n).Draw(t, "distinct")
		scale := rapid.SampledFrom([]float32{1, 1e-30, 1e12}).Draw(t, "scale")
		values := make([]float32, n*d)
		for i := range values {
			if i < distinct*d {
				values[i] = scale * rapid.Float32Range(-1, 1).Draw(t, "x")
			} else {
				values[i] = values[i-distinct*d]
			}
		}
		dev := devicetest.NewReference()
		x := upload(t, dev, values, n, d)
		got, err := fitOne(dev, x, k)
		if err != nil {
			t.Fatal(err)
		}
		checkResult(t, got, n, d, k)
		again, err := fitOne(dev, x, k)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, again) {
			t.Fatalf("a second run differs: %+v, %+v", got, again)
		}
	})
}

// TestFitViews has a strided view, and one of bfloat16, give what the same
// values give in one piece.
func TestFitViews(t *testing.T) {
	const n, d, k = 90, 6, 7
	rng := newMT19937(3)
	values := make([]float32, n*d)
	for i := range values {
		values[i] = math.Float32frombits(math.Float32bits(float32(rng.double()-0.5)) &^ 0xffff)
	}
	dev := devicetest.NewReference()
	plain := upload(t, dev, values, n, d)
	want, err := fitOne(dev, plain, k)
	if err != nil {
		t.Fatal(err)
	}
	for _, dtype := range []device.DType{device.F32, device.BF16} {
		wide, err := dev.New("wide", dtype, n, d+5)
		if err != nil {
			t.Fatal(err)
		}
		view := wide.Slice(1, 2, d+2)
		if err := dev.Run(func(o *device.Ops) { o.Copy(view, plain) }); err != nil {
			t.Fatal(err)
		}
		got, err := fitOne(dev, view, k)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Labels, want.Labels) || !slices.Equal(got.Centers, want.Centers) || got.Inertia != want.Inertia {
			t.Errorf("%v view: another result than in one piece", dtype)
		}
	}
}

// TestFitMoreThanABatch has an initialisation sample and partial batches: the
// path of long prompts.
func TestFitMoreThanABatch(t *testing.T) {
	const n, d, k = 12289, 1, 3
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i%k)*10 + float32(i%7)/7
	}
	dev := devicetest.NewReference()
	x := upload(t, dev, values, n, d)
	got, err := fitOne(dev, x, k)
	if err != nil {
		t.Fatal(err)
	}
	checkResult(t, got, n, d, k)
	for i, label := range got.Labels {
		if label != got.Labels[i%k] {
			t.Fatalf("row %d (%v) has label %d, row %d (%v) has %d", i, values[i], label, i%k, values[i%k], got.Labels[i%k])
		}
	}
	for c, row := range got.InitIndices {
		if row < 0 || row >= n {
			t.Errorf("first center %d is row %d of %d", c, row, n)
		}
	}
}

func TestFitRefuses(t *testing.T) {
	dev := devicetest.NewReference()
	with := func(v float32) *device.Tensor { return upload(t, dev, []float32{1, 2, 3, v, 5, 6}, 3, 2) }
	for _, c := range []struct {
		x    *device.Tensor
		k    int
		want string
	}{
		{with(float32(math.NaN())), 2, "keys, head 0: squared distances sum to NaN: the checkpoint is damaged or its numbers overflow"},
		{with(float32(math.Inf(-1))), 2, "the checkpoint is damaged"},
		{with(1e30), 2, "head 0: squared distances sum to +Inf"},
		{with(4), 0, "0 clusters of 3 rows"},
		{with(4), 4, "4 clusters of 3 rows"},
		{with(4).Slice(0, 0, 0), 1, "1 clusters of 0 rows"},
	} {
		if _, err := fitOne(dev, c.x, c.k); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, k = %d: %v, want %q", c.x, c.k, err, c.want)
		}
	}
	if _, err := Fit(context.Background(), dev, nil, 1, nil, nil); err == nil {
		t.Error("no rows: no error")
	}
}

// checkResult demands what every result promises.
func checkResult(t rapid.TB, r fitted, n, d, k int) {
	t.Helper()
	if len(r.Labels) != n || len(r.Centers) != k*d || len(r.InitIndices) != k {
		t.Fatalf("%d labels, %d numbers in centers, %d first centers of n = %d, d = %d, k = %d", len(r.Labels), len(r.Centers), len(r.InitIndices), n, d, k)
	}
	for i, label := range r.Labels {
		if label < 0 || int(label) >= k {
			t.Fatalf("row %d has label %d of %d", i, label, k)
		}
	}
	for i, v := range r.Centers {
		if v-v != 0 {
			t.Fatalf("center %d, column %d is %v", i/d, i%d, v)
		}
	}
	if r.Steps < 1 || r.Iterations < 1 || r.Inertia < 0 || r.Inertia-r.Inertia != 0 {
		t.Fatalf("%d steps, %d passes, inertia %v", r.Steps, r.Iterations, r.Inertia)
	}
}

func upload(t rapid.TB, dev device.Device, values []float32, n, d int) *device.Tensor {
	t.Helper()
	x, err := dev.New("keys", device.F32, n, d)
	if err == nil {
		err = device.Write(dev, x, values)
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}
