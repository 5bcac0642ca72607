package teams

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

// labels are the parents of the rows of one head.
func labels(t *testing.T, dev device.Device, p Parents, keys []float32, n, d, size int) []int32 {
	t.Helper()
	out, err := dev.New("labels", device.I32, 1, n)
	check(t, err)
	check(t, p.label(context.Background(), dev, device.RowSets{upload(t, dev, keys, 1, n, d)}, size, out, nil))
	got, err := device.Read[int32](dev, out)
	check(t, err)
	return got
}

func TestContiguousParents(t *testing.T) {
	for _, c := range []struct {
		n, size int
		want    []int32
	}{
		{1, 4, []int32{0}},
		{3, 1, []int32{0, 1, 2}},
		{4, 4, []int32{0, 0, 0, 0}},
		{7, 3, []int32{0, 0, 0, 1, 1, 1, 2}},
	} {
		dev := devicetest.NewReference()
		parent, err := spans(dev, c.n, c.size)
		check(t, err)
		got, err := device.Read[int32](dev, parent)
		check(t, err)
		if !slices.Equal(got, c.want) || Contiguous.Most(c.n, c.size) != int(got[c.n-1])+1 {
			t.Errorf("n = %d, P = %d: %v, want %v", c.n, c.size, got, c.want)
		}
	}
}

func TestClusters(t *testing.T) {
	for _, c := range []struct{ n, size, want int }{
		{1, 16, 1}, {2, 16, 2}, {31, 16, 2}, {47, 16, 2}, {48, 16, 3}, {5, 1, 5}, {32768, 16, 2048},
	} {
		if got := KMeans.Most(c.n, c.size); got != c.want {
			t.Errorf("%d clusters of %d rows for P = %d, want %d", got, c.n, c.size, c.want)
		}
	}
}

// TestKMeansParents has parents of well separated groups be the groups.
func TestKMeansParents(t *testing.T) {
	keys := []float32{0, 100, 0.5, 100.5, 1, 101}
	parent := labels(t, devicetest.NewReference(), KMeans, keys, 6, 1, 3)
	for row := range parent {
		if parent[row] != parent[row%2] || parent[0] == parent[1] {
			t.Errorf("parents %v of %v", parent, keys)
		}
	}
}

// TestSegments has segments cover the rows once, in nearly equal pieces of
// about 64 parents.
func TestSegments(t *testing.T) {
	for _, c := range []struct{ n, size, most int }{{1, 16, 1}, {15, 16, 1}, {40, 16, 2}, {2047, 16, 127}, {2048, 16, 128}, {3000, 16, 186}, {32768, 16, 2048}, {33333, 16, 2080}, {129, 1, 129}} {
		at, low, high, total := 0, c.n, 0, 0
		for _, s := range segments(c.n, c.size) {
			if s.from != at || s.clusters < 1 || s.clusters > s.rows {
				t.Errorf("n = %d: %+v", c.n, s)
			}
			at += s.rows * s.count
			low, high, total = min(low, s.rows), max(high, s.rows), total+s.count*s.clusters
		}
		if at != c.n || high-low > 1 || Segmented.Most(c.n, c.size) != total {
			t.Errorf("n = %d, P = %d: %+v", c.n, c.size, segments(c.n, c.size))
		}
		if total != c.most {
			t.Errorf("n = %d, P = %d: %d parents, want %d", c.n, c.size, total, c.most)
		}
	}
}

// TestSegmentedParents has two segments of one row more and one less, each of
// well separated groups: they are found, and no parent crosses the border.
func TestSegmentedParents(t *testing.T) {
	const size = 2
	const n = 2*segmentParents*size + 1
	dev := devicetest.NewReference()
	half := (n + 1) / 2
	group := func(row int) int { return row/half*segmentParents + min(row%half/2, segmentParents-1) }
	keys := make([]float32, 2*n)
	for i := range keys {
		keys[i] = float32(group(i%n)*10) + float32(i%2)
	}
	x := device.RowSets{upload(t, dev, keys, 2, n, 1)}
	out, err := dev.New("labels", device.I32, 2, n)
	check(t, err)
	before, last := dev.Memory().Used, 0
	check(t, Segmented.label(context.Background(), dev, x, size, out, func(done, of int) {
		if done <= last || done > of {
			t.Errorf("%d of %d done after %d", done, of, last)
		}
		last = done
	}))
	if dev.Memory().Used != before {
		t.Error("memory stays on the device")
	}
	got, err := device.Read[int32](dev, out)
	check(t, err)
	for i, p := range got {
		row := i % n
		if p < 0 || int(p) >= Segmented.Most(n, size) || (row < half) != (p < segmentParents) {
			t.Fatalf("row %d of %d has parent %d", row, n, p)
		}
		if row > 0 && (got[i-1] == p) != (group(row-1) == group(row)) {
			t.Fatalf("rows %d and %d, keys %v and %v, have parents %d and %d", row-1, row, keys[i-1], keys[i], got[i-1], p)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := Segmented.label(ctx, dev, x, size, out, nil); err == nil || dev.Memory().Used != before {
		t.Errorf("cancelled: %v", err)
	}
}

// TestSmallPrompts builds teams whatever the prompt's length.
func TestSmallPrompts(t *testing.T) {
	dev := devicetest.NewReference()
	for _, n := range []int{1, 2, 3, 5, 31, 32, 33} {
		const d = 3
		keys := make([]float32, n*d)
		for i := range keys {
			keys[i] = float32(math.Sin(float64(i * i)))
		}
		x := device.RowSets{upload(t, dev, keys, 1, n, d)}
		for _, kind := range []Parents{Contiguous, KMeans, Segmented} {
			for _, c := range []Config{{1, 1}, {16, 1}, {16, 4}, {16, 16}} {
				g, err := Group(context.Background(), dev, x, nil, kind, c, nil)
				check(t, err)
				checkTeams(t, dev, g, 0, n)
				if g.Count[0] > c.Most(n, kind) || kind == Contiguous && g.Count[0] < c.Most(n, kind) {
					t.Errorf("%v, n = %d, %+v: %d teams, at most %d expected", kind, n, c, g.Count[0], c.Most(n, kind))
				}
				g.Close()
			}
		}
	}
}

func TestParentsNames(t *testing.T) {
	for _, p := range []Parents{Contiguous, KMeans, Probe, Segmented} {
		if got, err := ParseParents(p.String()); got != p || err != nil {
			t.Errorf("%v reads back as %v, %v", p, got, err)
		}
	}
	if _, err := ParseParents("Kmeans"); err == nil || !strings.Contains(err.Error(), `--parents "Kmeans": want one of contiguous, kmeans, probe, segmented`) {
		t.Errorf("unknown name: %v", err)
	}
	if s := Parents(9).String(); s != "Parents(9)" {
		t.Errorf("unknown parents are %q", s)
	}
}

func TestGroupRefuses(t *testing.T) {
	dev := devicetest.NewReference()
	x := upload(t, dev, []float32{1, 2, 3, float32(math.NaN())}, 1, 4, 1)
	used := dev.Memory().Used
	for _, c := range []struct {
		kind Parents
		x    device.RowSets
		Config
		want string
	}{
		{Contiguous, device.RowSets{x}, Config{0, 1}, "--parent-size 0"},
		{Contiguous, device.RowSets{x}, Config{1, 0}, "--representatives 0"},
		{Contiguous, nil, Config{4, 1}, "no rows"},
		{Contiguous, device.RowSets{x.Slice(1, 0, 0)}, Config{4, 1}, "no rows"},
		{Contiguous, device.RowSets{x}, Config{4, 1}, "contiguous teams: keys, head 0: row 3 is not finite"},
		{KMeans, device.RowSets{x}, Config{2, 1}, "kmeans teams: k-means: "},
		{Segmented, device.RowSets{x}, Config{2, 1}, "segmented teams: keys, head 0: row 3 is not finite"},
		{Parents(9), device.RowSets{x}, Config{2, 1}, "Parents(9)"},
	} {
		if _, err := Group(context.Background(), dev, c.x, nil, c.kind, c.Config, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v of %v, %+v: %v, want %q", c.kind, c.x, c.Config, err, c.want)
		}
	}
	if dev.Memory().Used != used {
		t.Error("memory stays on the device")
	}
}

func upload(t testing.TB, dev device.Device, values []float32, shape ...int) *device.Tensor {
	t.Helper()
	x, err := dev.New("keys", device.F32, shape...)
	check(t, err)
	check(t, device.Write(dev, x, values))
	return x
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
