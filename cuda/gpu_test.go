package cuda

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"blitzen/cuda/driver"
	"blitzen/device"
	"blitzen/device/devicetest"
)

// requireGPU skips where there is no GPU; with REQUIRE_CUDA=1 it fails.
func requireGPU(t testing.TB, opts Options) *gpu {
	t.Helper()
	d, err := Open(opts)
	if err != nil {
		if os.Getenv("REQUIRE_CUDA") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil && !t.Failed() {
			t.Errorf("close: %v", err)
		}
	})
	return d.(*gpu)
}

func TestSuite(t *testing.T) {
	for name, opts := range map[string]Options{
		"F32":        {DType: device.F32},
		"BF16":       {DType: device.BF16},
		"BF16 eager": {DType: device.BF16, Eager: true},
		"F32 sync":   {DType: device.F32, Sync: true},
		"BF16 sync":  {DType: device.BF16, Sync: true},
	} {
		t.Run(name, func(t *testing.T) {
			devicetest.Suite(t, func(t *testing.T) device.Device { return requireGPU(t, opts) })
		})
	}
}

// chain is a small model of a decode step: every part of it depends on the
// step before.
type chain struct {
	dev                             *gpu
	pos, id, seen, seed, settings   *device.Tensor
	table, gamma, freq              *device.Tensor
	x, normed, qkv, inner, out, lse *device.Tensor
	logits, k, v                    *device.Tensor
	up, down, head                  device.Weight
}

const (
	chainHidden = 128
	chainHeads  = 4
	chainWidth  = 32
	chainVocab  = 500
	chainRows   = 300
)

func newChain(t *testing.T, d *gpu) *chain {
	t.Helper()
	must := func(x *device.Tensor, err error) *device.Tensor {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	act := func(shape ...int) *device.Tensor { return must(d.New("x", d.DType(), shape...)) }
	n := 0.0
	weight := func(shape ...int) *device.Tensor {
		values := make([]float64, device.NewTensor("", device.F32, nil, shape...).Len())
		for i := range values {
			n++
			values[i] = math.Sin(n*n) / 8
		}
		return must(d.Import("w", device.F32, shape, devicetest.Encode(device.F32, values)))
	}
	c := &chain{
		dev: d, pos: must(d.New("pos", device.I32, 1)), id: must(d.New("id", device.I32, 1)), seen: must(d.New("seen", device.I32, chainVocab)),
		seed: must(d.New("seed", device.U32, 2)), settings: must(d.New("settings", device.F32, device.NumSettings)),
		table: weight(chainVocab, chainHidden), gamma: weight(chainHidden), freq: must(d.New("freq", device.F32, chainWidth/2)),
		x: must(d.New("stream", device.F32, 1, chainHidden)), normed: act(1, chainHidden), qkv: act(1, chainHidden+2*chainWidth), inner: act(1, chainHidden),
		out: act(1, chainHeads, chainWidth), lse: must(d.New("lse", device.F32, 1, chainHeads)), logits: must(d.New("logits", device.F32, 1, chainVocab)),
		k: act(1, chainRows, chainWidth), v: act(1, chainRows, chainWidth),
		up:   device.Weight{Parts: []*device.Tensor{weight(chainHidden, chainHidden), weight(2*chainWidth, chainHidden)}},
		down: device.Weight{Parts: []*device.Tensor{weight(chainHidden, chainHidden)}},
		head: device.Weight{Parts: []*device.Tensor{weight(chainVocab, chainHidden)}},
	}
	for _, err := range []error{
		device.Write(d, c.settings, []float32{0.8, 50, 0.95, 0.01, 1.1}),
		device.Write(d, c.seed, []uint32{1, 2}),
		device.Write(d, c.freq, slices.Repeat([]float32{0.1}, chainWidth/2)),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *chain) step(o *device.Ops) {
	o.Embed(c.x, c.table, c.id)
	o.RMSNorm(c.normed, c.x, c.gamma, 1e-6)
	o.Linear(c.qkv, c.normed, c.up)
	q := c.qkv.Slice(1, 0, chainHidden).Unflatten(1, chainHeads, chainWidth)
	kv := c.qkv.Slice(1, chainHidden, chainHidden+2*chainWidth).Unflatten(1, 2, chainWidth)
	o.Rotate(q, c.pos, device.RoPE{InvFreq: c.freq, Scale: 1})
	o.Append(c.k, kv.Slice(1, 0, 1), c.pos, nil)
	o.Append(c.v, kv.Slice(1, 1, 2), c.pos, nil)
	o.Attend(device.AttendArgs{Out: device.Partial{Out: c.out, LSE: c.lse}, Q: q, K: c.k, V: c.v, Pos: c.pos, Scale: 0.2})
	o.Copy(c.inner.Unflatten(1, chainHeads, chainWidth), c.out)
	o.LinearAdd(c.x, c.inner, c.down)
	o.RMSNorm(c.normed, c.x, c.gamma, 1e-6)
	o.Linear(c.logits, c.normed, c.head)
	o.MarkSeen(c.seen, c.id)
	o.Sample(device.SampleArgs{ID: c.id, Logits: c.logits.Index(0, 0), Seen: c.seen, Settings: c.settings, Seed: c.seed, Pos: c.pos})
	o.Increment(c.pos)
}

// results reads the logits and the tokens of n steps.
func (c *chain) results(t *testing.T, n int, run func() error) (ids []int32, logits []float32) {
	t.Helper()
	for range n {
		if err := run(); err != nil {
			t.Fatal(err)
		}
		id, err := device.Read[int32](c.dev, c.id)
		if err != nil {
			t.Fatal(err)
		}
		l, err := device.Read[float32](c.dev, c.logits)
		if err != nil {
			t.Fatal(err)
		}
		ids, logits = append(ids, id...), append(logits, l...)
	}
	return ids, logits
}

// TestRecordedEqualsEager takes 48 steps in three ways on new devices, the
// recorded one without having run anything before. All bits are equal.
func TestRecordedEqualsEager(t *testing.T) {
	for _, ty := range []device.DType{device.F32, device.BF16} {
		var ids [][]int32
		var logits [][]float32
		for _, opts := range []Options{{DType: ty}, {DType: ty, Eager: true}, {DType: ty, Sync: true}} {
			d := requireGPU(t, opts)
			c := newChain(t, d)
			step, err := d.Record(c.step)
			if err != nil {
				t.Fatal(err)
			}
			i, l := c.results(t, 48, step.Run)
			ids, logits = append(ids, i), append(logits, l)
			if err := step.Close(); err != nil {
				t.Error(err)
			}
		}
		for i := 1; i < 3; i++ {
			if !slices.Equal(ids[0], ids[i]) || !slices.Equal(logits[0], logits[i]) {
				t.Errorf("%v: way %d differs from the recorded steps: tokens %v, %v", ty, i, ids[0], ids[i])
			}
		}
		if distinct := len(slices.Compact(slices.Sorted(slices.Values(ids[0])))); distinct < 8 {
			t.Errorf("%v: only %d different tokens: %v", ty, distinct, ids[0])
		}
	}
}

// TestFreeInUse frees a tensor that a step refers to: the device says so from
// then on.
func TestFreeInUse(t *testing.T) {
	d, err := Open(Options{DType: device.F32})
	if err != nil {
		requireGPU(t, Options{DType: device.F32}) // skips where there is none
		t.Fatal(err)
	}
	defer d.Close()
	n, err := d.New("counter", device.I32, 1)
	if err != nil {
		t.Fatal(err)
	}
	step, err := d.Record(func(o *device.Ops) { o.Increment(n) })
	if err != nil {
		t.Fatal(err)
	}
	d.Free(n)
	for what, err := range map[string]error{"run": step.Run(), "upload": device.Write(d, n, []int32{1})} {
		if err == nil || !strings.Contains(err.Error(), "counter I32[1], which a recorded step uses") {
			t.Errorf("%s after the free: %v", what, err)
		}
	}
}

func TestFreedAndForeignTensors(t *testing.T) {
	d := requireGPU(t, Options{DType: device.F32})
	other := requireGPU(t, Options{DType: device.F32})
	n, err := d.New("counter", device.I32, 1)
	if err != nil {
		t.Fatal(err)
	}
	step, err := d.Record(func(o *device.Ops) { o.Increment(n) })
	if err != nil {
		t.Fatal(err)
	}
	if err := step.Close(); err != nil {
		t.Fatal(err)
	}
	if err := step.Run(); err == nil {
		t.Error("a closed step was run")
	}
	d.Free(n)
	if err := d.Run(func(o *device.Ops) { o.Increment(n) }); err == nil || !strings.Contains(err.Error(), "was freed") {
		t.Errorf("use after free: %v", err)
	}
	host := devicetest.NewReference()
	foreign, err := host.New("foreign", device.I32, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Run(func(o *device.Ops) { o.Increment(foreign) }); err == nil || !strings.Contains(err.Error(), "another device") {
		t.Errorf("another device's tensor: %v", err)
	}
}

func TestOutOfMemory(t *testing.T) {
	d := requireGPU(t, Options{DType: device.F32})
	before := d.Memory()
	_, err := d.New("everything", device.F32, 1<<30, 1<<10)
	var failed *driver.Error
	if !errors.As(err, &failed) || !failed.OutOfMemory() {
		t.Fatalf("4 TiB: %v", err)
	}
	for _, part := range []string{"everything F32[1073741824 1024]", "4194304 MiB wanted", "MiB free", "tensors hold"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if d.Memory() != before {
		t.Errorf("memory %+v, was %+v", d.Memory(), before)
	}
	if _, err := d.New("little", device.F32, 4); err != nil {
		t.Errorf("after running out of memory: %v", err)
	}
}

// TestRecordRefuses what would happen once or never in a replay.
func TestRecordRefuses(t *testing.T) {
	d := requireGPU(t, Options{DType: device.F32})
	n, err := d.New("n", device.I32, 1)
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"new":    func() error { _, err := d.New("m", device.I32, 1); return err },
		"import": func() error { _, err := d.Import("m", device.I32, []int{1}, make([]byte, 4)); return err },
		"upload": func() error { return device.Write(d, n, []int32{1}) },
		"fetch":  func() error { return d.Fetch(n).Wait(make([]byte, 4)) },
		"run":    func() error { return d.Run(func(*device.Ops) {}) },
		"record": func() error { _, err := d.Record(func(*device.Ops) {}); return err },
	} {
		var inside error
		step, err := d.Record(func(o *device.Ops) { inside = do(); o.Increment(n) })
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if inside == nil {
			t.Errorf("%s inside Record was not refused", what)
		}
		if err := step.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFault lets a kernel write where there is no memory, in processes of their
// own, since a GPU's context is lost with it.
func TestFault(t *testing.T) {
	way := os.Getenv("BLITZEN_TEST_FAULT")
	if way == "" {
		requireGPU(t, Options{DType: device.F32})
		for _, way := range []string{"sync", "queued"} {
			cmd := exec.Command(os.Args[0], "-test.run=^TestFault$", "-test.v")
			cmd.Env = append(os.Environ(), "BLITZEN_TEST_FAULT="+way)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", way, err, out)
			}
		}
		return
	}
	d, err := Open(Options{DType: device.F32, Sync: way == "sync"})
	if err != nil {
		t.Fatal(err)
	}
	wild := device.NewTensor("wild", device.I32, &buffer{at: 1 << 60, size: 4}, 1)
	err = d.Run(func(o *device.Ops) { o.Increment(wild) })
	if way == "sync" && (err == nil || !strings.Contains(err.Error(), "Increment(wild I32[1]): kernel increment")) {
		t.Errorf("the error does not name the operation: %v", err)
	}
	n, err := d.New("n", device.I32, 1)
	if err == nil {
		err = d.Fetch(n).Wait(make([]byte, 4))
	}
	if err == nil {
		t.Error("the device goes on after a fault")
	}
	if again := d.Run(func(*device.Ops) {}); again == nil || !strings.Contains(again.Error(), "the GPU stopped") {
		t.Errorf("the error does not stick: %v", again)
	}
	if err := d.Close(); err == nil {
		t.Error("close hides the fault")
	}
}
