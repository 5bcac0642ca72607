package cuda

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"blitzen/cuda/driver"
	"blitzen/device"
)

func TestEveryKernelFileIsPlanned(t *testing.T) {
	planned := map[string]bool{}
	for _, programs := range []map[string]program{
		plan(t, 90, device.F32, "golden"), plan(t, 90, device.BF16, slices.Collect(maps.Keys(models))...), plan(t, 80, device.BF16, "qwen2.5-7b"),
	} {
		for _, p := range programs {
			planned[p.file] = true
		}
	}
	files, err := filepath.Glob("kernels/*.cu")
	if err != nil || len(files) == 0 {
		t.Fatal("no kernels:", err)
	}
	for _, f := range files {
		if !planned[strings.TrimSuffix(filepath.Base(f), ".cu")] {
			t.Errorf("%s is not compiled by the tests", f)
		}
	}
}

// openCompiler skips where there is no NVRTC, unless REQUIRE_NVRTC=1.
func openCompiler(t *testing.T) {
	t.Helper()
	if os.Getenv(driver.PathVariable) == "" {
		found, err := filepath.Glob("../build/nvrtc/nvidia/*/lib")
		if err != nil {
			t.Fatal(err)
		}
		here, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for i := range found {
			found[i] = filepath.Join(here, found[i])
		}
		t.Setenv(driver.PathVariable, strings.Join(found, ":"))
	}
	if err := driver.Open(driver.Compiler, 0); err != nil {
		if os.Getenv("REQUIRE_NVRTC") == "1" {
			t.Fatal(err, "\n(tools/cuda/setup.sh fetches it)")
		}
		t.Skip(err)
	}
}

// TestCompile compiles every kernel for every generation of cards: all sizes
// for the one that is tuned, the smallest and the largest for the others. Only
// programs that changed since the last run are compiled again.
func TestCompile(t *testing.T) {
	openCompiler(t)
	all := slices.Sorted(maps.Keys(models))
	for _, card := range []struct {
		capability int
		dtype      device.DType
		models     []string
	}{
		{90, device.BF16, all},
		{90, device.F32, []string{"golden", "v2-lite absorbed"}},
		{75, device.F32, []string{"golden"}},
		{75, device.F16, []string{"golden"}},
		{90, device.F16, []string{"golden", "qwen2.5-0.5b", "qwen2.5-7b", "v2-lite absorbed"}},
		{80, device.BF16, []string{"golden", "qwen2.5-7b", "v2-lite absorbed", "v2-lite expanded"}},
		{100, device.BF16, []string{"golden", "qwen2.5-0.5b", "qwen2.5-7b", "v2-lite absorbed", "v2-lite expanded"}},
		{120, device.BF16, []string{"golden", "qwen2.5-0.5b", "qwen2.5-7b", "v2-lite absorbed", "v2-lite expanded"}},
	} {
		t.Run(fmt.Sprintf("sm_%d %v", card.capability, card.dtype), func(t *testing.T) {
			t.Parallel()
			target, err := newTarget(card.capability)
			if err != nil {
				t.Fatal(err)
			}
			ps := newPrograms(target, cache{"../build/kernels"})
			programs := plan(t, card.capability, card.dtype, card.models...)
			for _, key := range slices.Sorted(maps.Keys(programs)) {
				_, log, err := ps.compile(programs[key])
				for try := 0; err == nil && try < 5 && !entry.MatchString(log); try++ {
					log, err = report(target, programs[key])
				}
				if err != nil {
					t.Error(err)
					continue
				}
				checkLog(t, programs[key], log)
			}
		})
	}
}

// report compiles a program for the compiler's log alone: programs compiled side
// by side lose it now and then, and the cache keeps it as it was.
func report(t target, p program) (string, error) {
	src, err := t.source(p)
	if err != nil {
		return "", err
	}
	_, log, err := driver.Compile(src)
	return log, err
}

// fast are the files whose kernels must keep everything in registers.
var fast = []string{"moe", "absorb", "gemv", "gemv_int8", "gemv_int8_one", "experts_few_int8", "attend_decode", "attend_one", "small_attend", "small_up", "small_down", "attend_latent", "attend_merge", "attend_prefill_hopper", "experts_prefill", "nearest_double", "nearest_bf16", "spread_bf16", "divide_few", "teams_score_wide", "teams_attend", "fetch"}

var (
	entry  = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	spills = regexp.MustCompile(`Function properties for (\w+)\s[^\n]*?(\d+) bytes spill stores, (\d+) bytes spill loads`)
	usage  = regexp.MustCompile(`Used (\d+) registers`)
)

// checkLog reads what ptxas says: a fast kernel must not spill. go test -v
// prints the registers of all.
func checkLog(t *testing.T, p program, log string) {
	names, used := entry.FindAllStringSubmatch(log, -1), usage.FindAllStringSubmatch(log, -1)
	spilled := map[string][]string{} // by function: a kernel may call some
	for _, m := range spills.FindAllStringSubmatch(log, -1) {
		spilled[m[1]] = m[2:]
	}
	if len(names) == 0 {
		t.Errorf("%s: the compiler's log names no kernel:\n%s", p.key(), log)
	}
	for i := range names {
		if spilled[names[i][1]] == nil || len(names) != len(used) {
			t.Errorf("%s: cannot read registers and spills from the compiler's log:\n%s", p.key(), log)
			return
		}
		stores, loads := spilled[names[i][1]][0], spilled[names[i][1]][1]
		if testing.Verbose() {
			t.Logf("%s %s: %s registers, spills %s + %s bytes", names[i][1], p.key(), used[i][1], stores, loads)
		}
		if slices.Contains(fast, p.file) && (stores != "0" || loads != "0") {
			t.Errorf("%s %s spills %s + %s bytes", names[i][1], p.key(), stores, loads)
		}
	}
}

// TestCompiledRegisters has the products of one row of Qwen2.5-7B take no more registers
// than leave a multiprocessor with as many blocks of 256 threads as they were tuned with.
func TestCompiledRegisters(t *testing.T) {
	openCompiler(t)
	target, err := newTarget(90)
	if err != nil {
		t.Fatal(err)
	}
	const hidden, inner, vocab = 3584, 18944, 152064
	for _, c := range []struct {
		name  string
		most  int // registers
		issue func(p *planner, ops *device.Ops, x, h *device.Tensor, n device.Norm)
	}{
		{"q, k and v", 48, func(p *planner, ops *device.Ops, x, h *device.Tensor, n device.Norm) {
			ops.NormLinear(p.tensor(device.BF16, 1, hidden+1024), h, x, n, p.weight(hidden, hidden, 512, 512))
		}},
		{"o", 40, func(p *planner, ops *device.Ops, x, h *device.Tensor, n device.Norm) {
			ops.LinearAdd(x, h, p.weight(hidden, hidden))
		}},
		{"gate and up", 40, func(p *planner, ops *device.Ops, x, h *device.Tensor, n device.Norm) {
			ops.NormSwiGLU(p.tensor(device.BF16, 1, inner), p.tensor(device.BF16, 1, 2*inner), h, x, n, p.weight(hidden, inner, inner))
		}},
		{"down", 64, func(p *planner, ops *device.Ops, x, h *device.Tensor, n device.Norm) {
			ops.LinearAdd(x, p.tensor(device.BF16, 1, inner), p.weight(inner, hidden))
		}},
		{"head", 64, func(p *planner, ops *device.Ops, x, h *device.Tensor, n device.Norm) {
			ops.NormLinear(p.tensor(device.F32, 1, vocab), h, x, n, p.weight(hidden, vocab))
		}},
	} {
		p := newPlanner(90)
		ops := device.NewOps(p.kernels, nil)
		norm := device.Norm{Gamma: p.tensor(device.BF16, hidden), Eps: 1e-6}
		c.issue(p, ops, p.tensor(device.F32, 1, hidden), p.tensor(device.BF16, 1, hidden), norm)
		if ops.Err() != nil || len(p.programs) != 1 {
			t.Fatalf("%s: %v, %d programs", c.name, ops.Err(), len(p.programs))
		}
		for _, program := range p.programs {
			log, err := report(target, program)
			if err != nil {
				t.Fatal(err)
			}
			checkLog(t, program, log)
			used := usage.FindStringSubmatch(log)
			if n, err := strconv.Atoi(used[1]); err != nil || n > c.most {
				t.Errorf("%s takes %s registers, want at most %d (%v)", c.name, used[1], c.most, err)
			}
		}
	}
}
