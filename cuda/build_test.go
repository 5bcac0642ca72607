package cuda

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"blitzen/attention/santapp"
	"blitzen/device"
	"blitzen/host"
	"blitzen/internal/golden"
	"blitzen/kvcache"
	"blitzen/teams"
	"blitzen/teams/kmeans"
)

// TestKMeansGolden has the GPU give scikit-learn's labels where rounding does
// not decide them.
func TestKMeansGolden(t *testing.T) {
	d := requireGPU(t, Options{DType: device.F32})
	var all struct {
		Cases []struct {
			Name    string  `json:"case"`
			N       int     `json:"N"`
			D       int     `json:"d"`
			K       int     `json:"n_clusters"`
			Steps   int     `json:"n_steps"`
			Inertia float64 `json:"inertia"`
			Exact   bool    `json:"exact_expected"`
		}
	}
	golden.JSON(t, "../testdata/kmeans/cases.json", &all)
	for _, c := range all.Cases {
		path := "../testdata/kmeans/" + c.Name + ".safetensors"
		if _, err := os.Stat(path); err != nil {
			continue // described, and too large to keep
		}
		t.Run(c.Name, func(t *testing.T) {
			f := golden.Open(t, path)
			x, labels := upload(t, d, f.Float32s("X"), 1, c.N, c.D), upload(t, d, make([]int32, c.N), 1, c.N)
			r, err := kmeans.Fit(context.Background(), d, device.RowSets{x}, c.K, labels, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if !c.Exact {
				if limit := 1.03 * c.Inertia; float64(r.Inertia[0]) > limit && c.Name[:3] != "dup" {
					t.Errorf("inertia %v, want at most %v", r.Inertia[0], limit)
				}
				return
			}
			got, err := device.Read[int32](d, labels)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, f.Int32s("labels")) || r.Steps[0] != c.Steps || !slices.Equal(r.InitIndices[0], f.Int32s("init_indices")) {
				t.Errorf("labels, first centers or steps (%d, want %d) differ", r.Steps[0], c.Steps)
			}
		})
	}
}

func upload[T device.Element](t testing.TB, d device.Device, values []T, shape ...int) *device.Tensor {
	t.Helper()
	kind := map[any]device.DType{float32(0): device.F32, int32(0): device.I32}[*new(T)]
	x, err := d.New("test", kind, shape...)
	if err == nil {
		err = device.Write(d, x, values)
	}
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// keysLike are keys as a model has them: what a token is, where it stands, and
// noise. rng says which; bf16 numbers.
func keysLike(rng *rand.Rand, rows, d int) []float32 {
	const kinds = 600
	kind := make([]float32, kinds*d)
	for i := range kind {
		kind[i] = float32(rng.NormFloat64()) * 2
	}
	keys := make([]float32, rows*d)
	for i := range rows {
		k := int(kinds * math.Pow(rng.Float64(), 3))
		for j := range d {
			angle := float64(i) / math.Pow(10000, float64(j%(d/2))/float64(d/2))
			v := 3*float32(math.Sin(angle+float64(j))) + kind[k*d+j] + float32(rng.NormFloat64())
			keys[i*d+j] = math.Float32frombits(math.Float32bits(v) &^ 0xffff)
		}
	}
	return keys
}

// TestTeamsEqualHost has the GPU make the teams that the CPU makes, of bf16
// keys: all decisions hang on float64 sums that are rounded once.
func TestTeamsEqualHost(t *testing.T) {
	gpu := requireGPU(t, Options{DType: device.BF16})
	cpu, err := host.New(host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cpu.Close()
	for _, s := range []struct{ heads, rows, d int }{{3, 700, 64}, {2, 5000, 128}, {2, 333, 80}} {
		keys := keysLike(rand.New(rand.NewPCG(1, uint64(s.rows))), s.heads*s.rows, s.d)
		for _, kind := range []teams.Parents{teams.Contiguous, teams.Segmented, teams.KMeans} {
			t.Run(fmt.Sprintf("%v %d rows, %d wide", kind, s.rows, s.d), func(t *testing.T) {
				wide := upload(t, gpu, keys, s.heads, s.rows, s.d)
				x, err := gpu.New("keys", device.BF16, s.heads, s.rows, s.d)
				if err != nil {
					t.Fatal(err)
				}
				if err := gpu.Run(func(o *device.Ops) { o.Copy(x, wide) }); err != nil {
					t.Fatal(err)
				}
				got := group(t, gpu, x, kind)
				want := group(t, cpu, upload(t, cpu, keys, s.heads, s.rows, s.d), kind)
				for h := range s.heads {
					if !slices.Equal(got[h].Reps, want[h].Reps) || !slices.Equal(got[h].Team, want[h].Team) {
						t.Errorf("head %d: %d teams, the CPU has %d, or others", h, len(got[h].N), len(want[h].N))
					}
				}
			})
		}
	}
}

func group(t testing.TB, d device.Device, x *device.Tensor, kind teams.Parents) (all []teams.Partition) {
	t.Helper()
	g, err := teams.Group(context.Background(), d, device.RowSets{x}, nil, kind, teams.Config{ParentSize: 16, Representatives: 4}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for h := range g.Count {
		p, err := g.Partition(h)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// BenchmarkBuild makes teams of a prompt of 32,768 tokens, for 28 layers of 4
// key heads of width 128, and moves the rows.
func BenchmarkBuild(b *testing.B) {
	const layers, heads, rows, d, sets = 28, 4, 32768, 128, 2
	gpu := requireGPU(b, Options{DType: device.BF16})
	specs := slices.Repeat([]kvcache.Spec{{KVHeads: heads, KeyDim: d, ValueDim: d}}, layers)
	cache, err := kvcache.New(gpu, specs, rows+64)
	if err != nil {
		b.Fatal(err)
	}
	defer cache.Close()
	keys := upload(b, gpu, keysLike(rand.New(rand.NewPCG(1, 2)), sets*rows, d), sets, rows, d)
	err = gpu.Run(func(o *device.Ops) {
		for i, l := range cache.Layers {
			for h := range heads { // another order of the rows in every layer
				from := (i*977 + h*31) % rows
				o.Copy(l.K.Index(0, h).Slice(0, 0, rows-from), keys.Index(0, (i+h)%sets).Slice(0, from, rows))
				o.Copy(l.K.Index(0, h).Slice(0, rows-from, rows), keys.Index(0, (i+h)%sets).Slice(0, 0, from))
			}
		}
	})
	if err == nil {
		err = cache.Freeze(rows)
	}
	if err != nil {
		b.Fatal(err)
	}
	gpu.Free(keys)
	for _, kind := range []teams.Parents{teams.Contiguous, teams.Segmented, teams.KMeans} {
		b.Run(kind.String(), func(b *testing.B) {
			buildOnce(b, gpu, cache, kind) // compiles
			logMemory(b, gpu)
			var first, grouped, all []float64
			for b.Loop() {
				t := buildOnce(b, gpu, cache, kind)
				first, grouped, all = append(first, t.first), append(grouped, t.grouped), append(all, t.all)
			}
			b.StopTimer()
			b.ReportMetric(median(first), "ms-first")
			b.ReportMetric(median(grouped), "ms-grouped")
			b.ReportMetric(median(all), "ms-all")
			launches, err := gpu.Profile(func() error {
				buildOnce(b, gpu, cache, kind)
				return nil
			}, nil)
			if err != nil {
				b.Fatal(err)
			}
			logLaunches(b, launches)
		})
	}
}

// logMemory prints what it takes to get and free memory.
func logMemory(b *testing.B, gpu *gpu) {
	for _, mib := range []int{1, 16, 256} {
		start := time.Now()
		x, err := gpu.New("bytes", device.I32, mib<<18)
		if err != nil {
			b.Fatal(err)
		}
		got := time.Since(start)
		gpu.Free(x)
		b.Logf("%d MiB: %v to get, %v to free", mib, got, time.Since(start)-got)
	}
}

// logLaunches prints the time of every kernel, over all its launches.
func logLaunches(b *testing.B, launches []device.Launch) {
	type sum struct {
		name  string
		calls int
		time  time.Duration
	}
	sums := map[string]*sum{}
	for _, l := range launches {
		name := l.Call.Name + " " + l.Kernel
		if sums[name] == nil {
			sums[name] = &sum{name: name}
		}
		sums[name].calls++
		sums[name].time += l.Time
	}
	for _, s := range slices.SortedFunc(maps.Values(sums), func(a, b *sum) int { return int(b.time - a.time) }) {
		b.Logf("%10.3f ms in %5d launches: %s", float64(s.time.Microseconds())/1000, s.calls, s.name)
	}
}

// buildTimes are milliseconds from the beginning.
type buildTimes struct{ first, grouped, all float64 }

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// buildOnce makes a backend and restores the cache.
func buildOnce(b *testing.B, gpu *gpu, cache *kvcache.Cache, kind teams.Parents) buildTimes {
	cfg := santapp.Config{Config: teams.Config{ParentSize: 16, Representatives: 4}, Budget: 512, Parents: kind}
	start := time.Now()
	first := time.Duration(0)
	t, err := santapp.Group(context.Background(), gpu, cache, cfg, func(done, of int) {
		if 2*done <= of {
			first = time.Since(start)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	defer t.Close()
	grouped := time.Since(start)
	backend, err := santapp.New(gpu, cache, t, cfg)
	if err == nil {
		_, err = device.Read[int32](gpu, t.Slots.Index(0, 0)) // all has been done
	}
	if err != nil {
		b.Fatal(err)
	}
	all := time.Since(start)
	backend.Close()
	err = cache.Thaw()
	if err == nil { // what follows is not to wait for it
		_, err = device.Read[int32](gpu, cache.Layers[0].Slots)
	}
	if err != nil {
		b.Fatal(err)
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return buildTimes{ms(first), ms(grouped), ms(all)}
}
