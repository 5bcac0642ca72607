package teams

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"

	"pgregory.net/rapid"
)

func TestContiguousParents(t *testing.T) {
	for _, c := range []struct {
		n, size int
		want    []int32
	}{
		{0, 4, nil},
		{1, 4, []int32{0}},
		{3, 1, []int32{0, 1, 2}},
		{4, 4, []int32{0, 0, 0, 0}},
		{7, 3, []int32{0, 0, 0, 1, 1, 1, 2}},
	} {
		x := device.NewTensor("keys", device.F32, nil, c.n, 2)
		got, err := Contiguous.Of(context.Background(), nil, x, c.size)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("n = %d, P = %d: %v, %v, want %v", c.n, c.size, got, err, c.want)
		}
	}
}

// TestSmallPrompts builds teams whatever the prompt's length, with both kinds
// of parents.
func TestSmallPrompts(t *testing.T) {
	dev := devicetest.NewReference()
	for _, n := range []int{1, 2, 3, 5, 31, 32, 33} {
		const d = 3
		keys := make([]float32, n*d)
		for i := range keys {
			keys[i] = float32(math.Sin(float64(i * i)))
		}
		x := upload(t, dev, keys, n, d)
		for _, parents := range []Parents{Contiguous, KMeans} {
			for _, c := range []Config{{1, 1}, {16, 1}, {16, 4}, {16, 16}} {
				parent, err := parents.Of(context.Background(), dev, x, c.ParentSize)
				if err != nil {
					t.Fatal(err)
				}
				checkDense(t, parent, n)
				p, err := Divide(keys, d, parent, c.Representatives)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.Validate(n); err != nil {
					t.Errorf("%v, n = %d, %+v: %v", parents, n, c, err)
				}
			}
		}
	}
}

func TestClusters(t *testing.T) {
	for _, c := range []struct{ n, size, want int }{
		{1, 16, 1}, {2, 16, 2}, {31, 16, 2}, {47, 16, 2}, {48, 16, 3}, {5, 1, 5}, {32768, 16, 2048},
	} {
		if got := clusters(c.n, c.size); got != c.want {
			t.Errorf("%d clusters of %d rows for P = %d, want %d", got, c.n, c.size, c.want)
		}
	}
}

// TestKMeansParents has parents of well separated groups be the groups, and
// equal keys leave fewer parents than clusters, numbered without gaps.
func TestKMeansParents(t *testing.T) {
	dev := devicetest.NewReference()
	keys := []float32{0, 100, 0.5, 100.5, 1, 101}
	parent, err := KMeans.Of(context.Background(), dev, upload(t, dev, keys, 6, 1), 3)
	if err != nil {
		t.Fatal(err)
	}
	checkDense(t, parent, 6)
	for row := range parent {
		if parent[row] != parent[row%2] {
			t.Errorf("parents %v of %v", parent, keys)
		}
	}
	parent, err = KMeans.Of(context.Background(), dev, upload(t, dev, make([]float32, 20), 20, 1), 2)
	if err != nil {
		t.Fatal(err)
	}
	checkDense(t, parent, 20)
	if slices.Max(parent) != 0 {
		t.Errorf("equal keys have parents %v", parent)
	}
}

func TestDropEmpty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.SliceOf(rapid.Int32Range(0, 30)).Draw(t, "label")
		got := dropEmpty(label)
		checkDense(t, got, len(label))
		for i := range label {
			for j := range label {
				if (label[i] < label[j]) != (got[i] < got[j]) {
					t.Fatalf("%v became %v: the order changed", label, got)
				}
			}
		}
	})
}

func TestParentsNames(t *testing.T) {
	for _, p := range []Parents{Contiguous, KMeans, Probe} {
		if got, err := ParseParents(p.String()); got != p || err != nil {
			t.Errorf("%v reads back as %v, %v", p, got, err)
		}
	}
	if _, err := ParseParents("Kmeans"); err == nil || !strings.Contains(err.Error(), `--parents "Kmeans": want one of ["contiguous" "kmeans" "probe"]`) {
		t.Errorf("unknown name: %v", err)
	}
	if s := Parents(9).String(); s != "Parents(9)" {
		t.Errorf("unknown parents are %q", s)
	}
}

func TestParentsRefuse(t *testing.T) {
	dev := devicetest.NewReference()
	x := upload(t, dev, []float32{1, 2, 3, float32(math.NaN())}, 4, 1)
	for _, c := range []struct {
		parents Parents
		x       *device.Tensor
		size    int
		want    string
	}{
		{Contiguous, x, 0, "--parent-size 0"},
		{Contiguous, nil, 4, "nil"},
		{Contiguous, x.Slice(0, 0, 9), 4, "out of bounds"},
		{KMeans, x.Slice(1, 0, 1).Index(1, 0), 4, "want [rows, width]"},
		{KMeans, x, 2, "row 3, column 0 is NaN"},
		{Parents(9), x, 2, "Parents(9)"},
	} {
		if _, err := c.parents.Of(context.Background(), dev, c.x, c.size); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %v, size %d: %v, want %q", c.parents, c.x, c.size, err, c.want)
		}
	}
}

// checkDense demands a parent for each of n rows and no number without a row.
func checkDense(t rapid.TB, parent []int32, n int) {
	t.Helper()
	if len(parent) != n {
		t.Fatalf("%d rows have a parent, want %d", len(parent), n)
	}
	if n == 0 {
		return
	}
	used := make([]bool, slices.Max(parent)+1)
	for row, p := range parent {
		if p < 0 {
			t.Fatalf("row %d has parent %d", row, p)
		}
		used[p] = true
	}
	if p := slices.Index(used, false); p >= 0 {
		t.Fatalf("parent %d has no row: %v", p, parent)
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
