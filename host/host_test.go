package host

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
	"blitzen/host/kernels"
)

func open(t testing.TB, opts Options) device.Device {
	t.Helper()
	d, err := New(opts)
	check(t, err)
	t.Cleanup(func() { check(t, d.Close()) })
	return d
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// normals makes tensors of normal variates, the same ones on every device.
func normals(t testing.TB, d device.Device) maker {
	r := rand.New(rand.NewPCG(1, 2))
	return func(scale float32, shape ...int) *device.Tensor {
		t.Helper()
		x, err := d.New("x", device.F32, shape...)
		check(t, err)
		values := make([]float32, x.Len())
		for i := range values {
			values[i] = scale * float32(r.NormFloat64())
		}
		check(t, device.Write(d, x, values))
		return x
	}
}

func ints(t testing.TB, d device.Device, values ...int32) *device.Tensor {
	t.Helper()
	x, err := d.New("i", device.I32, len(values))
	check(t, err)
	check(t, device.Write(d, x, values))
	return x
}

func count(from, n int) []int32 {
	values := make([]int32, n)
	for i := range values {
		values[i] = int32(from + i)
	}
	return values
}

func TestSuite(t *testing.T) {
	devicetest.Suite(t, func(t *testing.T) device.Device {
		return open(t, Options{CheckReplay: true, Threads: 3, Products: ProductsC})
	})
}

func TestNamesInstructionSet(t *testing.T) { t.Logf("instruction set %s", kernels.ISA()) }

// prefill runs a prompt through two layers and returns the logits of the last
// token and the last layer's keys.
func prefill(t *testing.T, opts Options, prompt, chunk int) []float32 {
	d := open(t, opts)
	rows := prompt
	n := newNeedle(normals(t, d), ints(t, d, make([]int32, chunk)...), ints(t, d, make([]int32, chunk)...), 2, rows)
	for from := 0; from < prompt; from += chunk {
		check(t, device.Write(d, n.ids, count(from*7%1000, chunk)))
		check(t, device.Write(d, n.pos, count(from, chunk)))
		check(t, d.Run(n.forward))
	}
	logits, err := device.Read[float32](d, n.logits)
	check(t, err)
	keys, err := device.Read[float32](d, n.layers[1].keys)
	check(t, err)
	return slices.Concat(logits, keys)
}

func TestThreadsChangeNoBit(t *testing.T) {
	for _, products := range engines {
		for _, tokens := range []int{1, 150} {
			want := prefill(t, Options{Threads: 1, Products: products}, 150, tokens)
			for _, threads := range []int{2, 7} {
				if got := prefill(t, Options{Threads: threads, Products: products}, 150, tokens); !slices.Equal(got, want) {
					t.Errorf("engine %d, %d tokens: %d threads give another result than one", products, tokens, threads)
				}
			}
		}
	}
}

// A recorded decode step takes no memory when it is replayed: neither tensors
// nor scratch.
func TestReplayTakesNoMemory(t *testing.T) {
	d := open(t, Options{Threads: 2})
	n := newNeedle(normals(t, d), ints(t, d, 5), ints(t, d, 299), 2, 300)
	step, err := d.Record(n.forward)
	check(t, err)
	check(t, step.Run())
	state := func() string {
		pool := d.(*cpu).kernels.pool
		return fmt.Sprint(d.Memory(), pool.shared, pool.scratch)
	}
	before := state()
	for range 20 {
		check(t, step.Run())
	}
	if after := state(); after != before {
		t.Errorf("memory before %s, after %s", before, after)
	}
	check(t, step.Close())
}

func TestName(t *testing.T) {
	for threads, want := range map[int]string{1: ", 1 thread, products C)", 2: ", 2 threads, products C)"} {
		if name := open(t, Options{Threads: threads}).Name(); !strings.HasSuffix(name, want) {
			t.Errorf("of %d threads: %q", threads, name)
		}
	}
}

func TestFreeOfTensorInUse(t *testing.T) {
	d, err := New(Options{Threads: 1})
	check(t, err)
	x := ints(t, d, 1)
	step, err := d.Record(func(o *device.Ops) { o.Increment(x) })
	check(t, err)
	d.Free(x)
	if err := step.Run(); err == nil || !strings.Contains(err.Error(), "close the step first") {
		t.Errorf("a step whose tensor was freed ran: %v", err)
	}
	if err := d.Close(); err == nil {
		t.Error("the mistake is not reported by Close")
	}
}

func TestUseAfterFree(t *testing.T) {
	d := open(t, Options{Threads: 1})
	x := ints(t, d, 1)
	d.Free(x)
	if err := d.Run(func(o *device.Ops) { o.Increment(x) }); err == nil || !strings.Contains(err.Error(), "was freed") {
		t.Errorf("a freed tensor was used: %v", err)
	}
}

func TestImportKeepsTheMapping(t *testing.T) {
	d := open(t, Options{Threads: 1})
	mapped := devicetest.Encode(device.F32, []float64{0, 1, 2, 3})
	x, err := d.Import("w", device.F32, []int{3}, mapped[4:])
	check(t, err)
	copy(mapped[4:], devicetest.Encode(device.F32, []float64{7}))
	values, err := device.Read[float32](d, x)
	check(t, err)
	if values[0] != 7 {
		t.Error("an aligned F32 tensor was copied")
	}
	if err := d.Run(func(o *device.Ops) { o.Copy(x, x) }); err == nil {
		t.Error("a checkpoint's bytes were written")
	}
	if err := device.Write(d, x, values); err == nil {
		t.Error("a checkpoint's bytes were uploaded to")
	}
	odd, err := d.Import("w", device.F32, []int{2}, mapped[3:11])
	check(t, err)
	if values, err = device.Read[float32](d, odd); err != nil || math.Float32bits(values[0])>>8 != math.Float32bits(7)&0xFFFFFF {
		t.Errorf("an unaligned tensor reads %v, %v", values, err)
	}
}
