package cuda

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"blitzen/device"
)

// assembler is ptxas, which takes the driver's place where there is no GPU.
func assembler(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob("../build/nvrtc/nvidia/*/bin/ptxas")
	if err != nil {
		t.Fatal(err)
	}
	if len(found) > 0 {
		return found[0]
	}
	if os.Getenv("REQUIRE_NVRTC") == "1" {
		t.Fatal("no ptxas in build/nvrtc (tools/cuda/setup.sh fetches it)")
	}
	t.Skip("no ptxas in build/nvrtc")
	return ""
}

// assemble compiles a checked program down to machine code, and keeps that.
func assemble(t *testing.T, ps *programs, p program, ptxas string) {
	t.Helper()
	image, log, err := ps.compile(p)
	if err != nil {
		t.Error(err)
		return
	}
	if bytes.HasPrefix(image, []byte("\x7fELF")) {
		return // by an earlier run
	}
	_, target, _ := strings.Cut(string(image), "\n.target ")
	target, _, _ = strings.Cut(target, "\n")
	cubin := filepath.Join(t.TempDir(), "cubin")
	cmd := exec.Command(ptxas, "-arch="+strings.TrimSpace(target), "-o", cubin, "-")
	cmd.Stdin = bytes.NewReader(image)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", p.key(), err, out)
		return
	}
	code, err := os.ReadFile(cubin)
	if err != nil {
		t.Fatal(err)
	}
	src, err := ps.target.source(p)
	if err != nil {
		t.Fatal(err)
	}
	ps.cache.store(cacheKey(ps.target.checkedSource(src), ps.target.compiler), code, log)
}

// TestCompileChecked compiles kernels with checks of addresses, for few sizes
// of each.
func TestCompileChecked(t *testing.T) {
	openCompiler(t)
	ptxas := assembler(t)
	for name, c := range map[string]struct {
		capability int
		dtype      device.DType
		models     []string
	}{
		"sm_90 BF16": {90, device.BF16, []string{"qwen2.5-0.5b", "qwen2.5-7b", "v2-lite absorbed"}},
		"sm_90 F32":  {90, device.F32, []string{"golden"}},
	} {
		t.Run(name, func(t *testing.T) {
			target, err := newTarget(c.capability)
			if err != nil {
				t.Fatal(err)
			}
			ps := newPrograms(target, cache{"../build/kernels"})
			ps.bounds = &bounds{}
			programs := plan(t, c.capability, c.dtype, c.models...)
			for _, key := range slices.Sorted(maps.Keys(programs)) {
				assemble(t, ps, programs[key], ptxas)
			}
		})
	}
}

const ptxHead = "//\n.version 9.0\n.target sm_90\n.address_size 64\n\n.global .align 8 .u64 bounds;\n\n" +
	".func  (.param .b64 func_retval0) bounds_check(\n\t.param .b64 bounds_check_param_0,\n)\n{\n\tmov.u64 \t%rd1, bounds;\n\tret;\n\n}\n"

// TestInstrument has accesses found, named and led elsewhere.
func TestInstrument(t *testing.T) {
	const files = "\n\t.file\t1 \"/here/tokens.cu\"\n\t.file\t2 \"/here/early.cuh\"\n"
	for statement, want := range map[string]string{
		"ld.global.v4.u16 \t{%rs1, %rs2, %rs3, %rs4}, [%rd3+-16];":                                     "reads 8 bytes; [bounds_at]",
		"@!%p2 st.global.f32 \t[%rd3], %f1;":                                                           "writes 4 bytes; selp.b32 bounds_n, 0, bounds_n, %p2;",
		"atom.global.add.u64 \t%rd4, [%rd3], %rd5;":                                                    "changes 8 bytes; add.s64 bounds_at, bounds_base, 0;",
		"ld.u8 \t%r1, [%rd3];":                                                                         "reads 1 bytes; ld.u8 \t%r1, [bounds_at];",
		"cp.async.cg.shared.global [%r1], [%rd3], 16, %r2;":                                            "reads %r2 bytes; cp.async.cg.shared.global [%r1], [bounds_at], 16, %r2;",
		"cp.async.ca.shared.global [%r1+4], [%rd3], 4;":                                                "reads 4 bytes; cp.async.ca.shared.global [%r1+4], [bounds_at], 4;",
		"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd3], %r2, [%r3];": "reads %r2 bytes; [%r1], [bounds_at], %r2, [%r3];",
		"ld.relaxed.gpu.global.v2.u64 {%rd1, %rd2}, [%rd3];":                                           "reads 16 bytes; ld.relaxed.gpu.global.v2.u64 {%rd1, %rd2}, [bounds_at];",
		".reg .b32 x; ld.global.u32 x, [%rd3];":                                                        "reads 4 bytes; ld.global.u32 x, [bounds_at];",
		"ld.volatile.shared.u32 \t%r1, [%r2];":                                                         "",
		"mbarrier.arrive.shared::cta.b64 _, [%r1];":                                                    "",
		"cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];":                                        "",
	} {
		code := ptxHead + ".visible .entry k(\n)\n{\n\t.loc\t1 12 3\n\t.loc\t2 7 1, function_name $L__info_string0, inlined_at 1 12 3\n\t" + statement + "\n}\n"
		in, err := instrument(code + files)
		if err != nil {
			t.Errorf("%s: %v", statement, err)
			continue
		}
		site, text, _ := strings.Cut(want, "; ")
		switch {
		case want == "" && (len(in.sites) > 0 || !strings.Contains(in.text, statement)):
			t.Errorf("%s was changed: %v\n%s", statement, in.sites, in.text)
		case want != "" && (len(in.sites) != 1 || in.sites[0] != "early.cuh:7 from tokens.cu:12 "+site || !strings.Contains(in.text, text)):
			t.Errorf("%s: %q and no %s in\n%s", statement, in.sites, text, in.text)
		}
		if !slices.Equal(in.globals, []string{"bounds"}) {
			t.Errorf("the program's own arrays are %v", in.globals)
		}
	}
}

// TestInstrumentRefuses what it cannot judge.
func TestInstrumentRefuses(t *testing.T) {
	const files = "\n\t.file\t1 \"/here/tokens.cu\"\n"
	for code, want := range map[string]string{
		ptxHead + "\t.loc\t1 5 1\n\tcp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r1], 16;\n" + files: "tokens.cu:5: cp.reduce.async.bulk",
		ptxHead + "\t.loc\t1 5 1\n\tld.global.u32 %r1, [%rd1+%rd2];\n" + files:                                               "tokens.cu:5: cannot read the address of ld.global.u32",
		"\t.loc\t1 5 1\n\tld.global.u32 %r1, [%rd1];\n" + files:                                                              "before the function that checks",
		ptxHead: "no line information",
	} {
		if _, err := instrument(code); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", code, err, want)
		}
	}
}
