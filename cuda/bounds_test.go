package cuda

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"blitzen/device"
	"blitzen/device/devicetest"
)

// TestCheckedSuite is the suite with checks of every address.
func TestCheckedSuite(t *testing.T) {
	for name, ty := range map[string]device.DType{"F32": device.F32, "BF16": device.BF16} {
		t.Run(name, func(t *testing.T) {
			devicetest.Suite(t, func(t *testing.T) device.Device { return requireGPU(t, Options{DType: ty, Bounds: true}) })
		})
	}
}

// lineOf is the place of some text in a kernel file.
func lineOf(t *testing.T, file, text string) string {
	t.Helper()
	source, err := sources.ReadFile("kernels/" + file)
	if err != nil {
		t.Fatal(err)
	}
	before, _, ok := strings.Cut(string(source), text)
	if !ok {
		t.Fatalf("%s has no %q", file, text)
	}
	return fmt.Sprintf("%s:%d", file, 1+strings.Count(before, "\n"))
}

// TestOverrunIsNamed has operations touch one element past a tensor, which
// seems to end that much early. Kernels touch it by plain and vector
// loads, stores, copies to shared memory, atomic additions and tensor maps.
func TestOverrunIsNamed(t *testing.T) {
	d := requireGPU(t, Options{DType: device.BF16, Bounds: true})
	tensor := func(name string, ty device.DType, shape ...int) *device.Tensor {
		v, err := d.New(name, ty, shape...)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	x := func(name string, shape ...int) *device.Tensor { return tensor(name, device.BF16, shape...) }
	n, wide, narrow, gamma := tensor("n", device.I32, 5), x("wide", 3, 512), x("narrow", 3, 512), x("gamma", 512)
	w, row, out := x("w", 256, 512), x("row", 1, 512), x("out", 1, 256)
	const heads, keyHeads, dk, rows = 8, 2, 64, 300
	q, k, v := x("q", 1, heads, dk), x("k", keyHeads, rows, dk), x("v", keyHeads, rows, dk)
	attended, pos, from, seen := x("attended", 1, heads, dk), tensor("pos", device.I32, 1), tensor("from", device.I32, 1), tensor("seen", device.I64, 1)
	teams := device.TeamsArgs{
		Out: attended, Q: q, K: k, V: v, Reps: x("reps", keyHeads, 40, dk), Bias: tensor("bias", device.F32, keyHeads, 40), Offsets: tensor("offsets", device.I32, keyHeads, 41),
		From: from, Scale: 1, Drawn: 8, Draw: device.Draw{Seed: tensor("seed", device.U32, 2), Pos: pos}, Rows: seen,
	}
	if err := device.Write(d, pos, []int32{rows - 1}); err != nil {
		t.Fatal(err)
	}
	if err := device.Write(d, from, []int32{rows - 20}); err != nil {
		t.Fatal(err)
	}
	attend := func(o *device.Ops) {
		o.Attend(device.AttendArgs{Out: device.Partial{Out: attended}, Q: q, K: k, V: v, From: from, Pos: pos, Scale: 1, Read: seen})
	}
	for _, c := range []struct {
		shorten, kernel, site, what string // site: a line, or how one begins
		run                         func(*device.Ops)
	}{
		{"n", "increment", lineOf(t, "tokens.cu", "a.ids[i]++"), "reads 4 bytes at", func(o *device.Ops) { o.Increment(n) }},
		{"wide", "rms_norm", "norm.cu", "reads 16 bytes at", func(o *device.Ops) { o.RMSNorm(narrow, wide, gamma, 1) }},
		{"narrow", "rms_norm", "norm.cu", "writes 16 bytes at", func(o *device.Ops) { o.RMSNorm(narrow, wide, gamma, 1) }},
		{"w", "gemv", "early.cuh", "reads 16 bytes at", func(o *device.Ops) { o.Linear(out, row, device.Weight{Parts: []*device.Tensor{w}}) }},
		{"out", "gemv", "gemv.cu", "writes 2 bytes at", func(o *device.Ops) { o.Linear(out, row, device.Weight{Parts: []*device.Tensor{w}}) }},
		{"k", "append", "append.cu", "writes", func(o *device.Ops) { o.Append(k.Slice(0, 1, 2), q.Slice(1, 0, 1), pos, nil) }},
		{"k", "attend_one", "attend_rows.cuh", "reads 16 bytes at", attend},
		{"seen", "attend_one", "attend_one.cu", "changes 8 bytes at", attend},
		{"k", "teams_attend", "shared.cuh", "reads 16 bytes at", func(o *device.Ops) { o.AttendTeams(teams) }},
		{"reps", "", "", "a tensor map of [2 40 64] elements", func(o *device.Ops) { o.AttendTeams(teams) }},
	} {
		d.kernels.bounds.shorten = c.shorten
		err := d.Run(c.run)
		d.kernels.bounds.shorten = ""
		past := " past the end of " + c.shorten + " "
		if c.shorten == "seen" { // nothing is left of its only element
			past = " past the end of "
		}
		for _, part := range []string{c.kernel, c.site, c.what, past} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s one element shorter for %s: want %q in: %v", c.shorten, c.kernel, part, err)
				break
			}
		}
		if err := d.Run(c.run); err != nil { // the device goes on
			t.Errorf("%s as long as it is: %v", c.shorten, err)
		}
	}
}

// TestRunsOf compares the pieces of memory of random views with their elements.
func TestRunsOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.IntRange(1, 5), 1, 4).Draw(t, "shape")
		v := device.NewTensor("v", device.BF16, nil, shape...)
		for i, n := range shape {
			to := rapid.IntRange(0, n).Draw(t, "to")
			v = v.Slice(i, rapid.IntRange(0, to).Draw(t, "from"), to)
		}
		want := map[uint64]bool{}
		var walk func(dim int, at uint64)
		walk = func(dim int, at uint64) {
			if dim == v.Rank() {
				want[at], want[at+1] = true, true
				return
			}
			for i := range v.Shape[dim] {
				walk(dim+1, at+uint64(2*i*v.Stride[dim]))
			}
		}
		walk(0, 1000)
		got := map[uint64]bool{}
		var end uint64
		for _, r := range runsOf(v, 1000) {
			if r.from < end {
				t.Fatalf("pieces are not apart: %v", runsOf(v, 1000))
			}
			end = r.to
			for at := r.from; at < r.to; at++ {
				got[at] = true
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%v, strides %v: %d bytes, want %d", v, v.Stride, len(got), len(want))
		}
		for at := range want {
			if !got[at] {
				t.Fatalf("%v, strides %v: byte %d is missing", v, v.Stride, at)
			}
		}
	})
}

// TestVerdict reads what a kernel leaves.
func TestVerdict(t *testing.T) {
	b := &bounds{trace: &device.Trace{}, operation: -1, found: make([]byte, boundsHead)}
	b.tensor(device.NewTensor("a", device.F32, nil, 4), 0x1000)
	b.tensor(device.NewTensor("b", device.F32, nil, 2, 2), 0x1100)
	b.scratch([]vec{0x2000, 0x2100}, []int{0x80, 0})
	if got := b.regions([]region{{0x3000, 0x3010, "array"}, {0x1008, 0x1020, "over a"}}); len(got) != 4 || got[0].to != 0x1020 || !slices.IsSortedFunc(got, byStart) {
		t.Errorf("regions: %v", got)
	}
	if err := b.verdict(nil); err != nil {
		t.Errorf("nothing found: %v", err)
	}
	binary.LittleEndian.PutUint32(b.found[4:], 7)
	for i, at := range []uint64{0x1010, 0x100c, 0xff0, 0x2080} {
		v := b.found[16+violationSize*i:]
		binary.LittleEndian.PutUint64(v, at)
		for j, word := range []uint32{8, uint32(i), 1, 2, 3, 40} {
			binary.LittleEndian.PutUint32(v[8+4*j:], word)
		}
	}
	err := b.verdict([]string{"x.cu:1 reads 8 bytes", "x.cu:2 reads 8 bytes", "x.cu:3 writes 8 bytes"})
	for _, want := range []string{
		"x.cu:1 reads 8 bytes at 0x1010, 0 past the end of a F32[4], block (1, 2, 3), thread 40",
		"x.cu:2 reads 8 bytes at 0x100c, the last 4 past the end of a F32[4]",
		"x.cu:3 writes 8 bytes at 0xff0, 16 before the start of a F32[4]",
		"an unknown line at 0x2080, 0 past the end of scratch memory 0",
		"and 3 more",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}
