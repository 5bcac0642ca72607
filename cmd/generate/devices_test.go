package main

import (
	"strings"
	"testing"

	"blitzen/cuda"
	"blitzen/device"
)

// noGPU says whether this machine has no GPU that can be used.
func noGPU() bool {
	d, err := cuda.Open(cuda.Options{DType: device.F32})
	if err == nil {
		d.Close()
	}
	return err != nil
}

// A GPU that is asked for and not there is one line and exit code 1; auto goes
// on with the CPU and says why with -v.
func TestWithoutGPU(t *testing.T) {
	if !noGPU() {
		return
	}
	args := []string{tiny + "qwen2_tied_gqa", "--prompt-ids", "1,2,3", "-n", "2"}
	for _, name := range []string{"cuda", "cuda:0", "cuda:7"} {
		o := generate(t, "", append(args, "--device", name)...)
		if o.code != 1 || o.out != "" || strings.Count(o.errors, "\n") != 1 || !strings.HasPrefix(o.errors, "generate: cuda: ") {
			t.Errorf("--device %s: exit code %d, %q, %q", name, o.code, o.out, o.errors)
		}
	}
	for _, command := range []string{"compare", "evaluate", "bench"} {
		if o := generate(t, "", command, needle, "--device", "cuda"); o.code != 1 || !strings.HasPrefix(o.errors, "generate: cuda: ") {
			t.Errorf("%s: exit code %d, %q", command, o.code, o.errors)
		}
	}
	want := answer(t, "", append(args, "--device", "cpu")...)
	got := answer(t, "", append(args, "-v")...)
	if got.out != want.out || !strings.HasPrefix(got.errors, "device cpu (") || !strings.Contains(got.errors, ": no GPU can be used: cuda: ") {
		t.Errorf("auto: %q, want %q; %s", got.out, want.out, got.errors)
	}
	if line, _, _ := strings.Cut(got.errors, "\n"); len(line) > 150 {
		t.Errorf("auto tells a long story: %s", line)
	}
	if strings.Contains(want.errors, "GPU") {
		t.Errorf("--device cpu speaks of a GPU: %s", want.errors)
	}
	for _, flags := range [][]string{{"--dtype", "bf16"}, {"--eager"}} {
		if o := generate(t, "", append(args, flags...)...); o.code != 2 || !strings.Contains(o.errors, "; no GPU can be used: cuda: ") {
			t.Errorf("auto with %q: exit code %d, %q", flags, o.code, o.errors)
		}
	}
	answer(t, "", append(args, "--device", "cpu", "--dtype", "f32")...)
}

func TestRefusedDevices(t *testing.T) {
	for _, c := range []struct {
		flags string
		want  string
	}{
		{"--device gpu", `--device "gpu": want cpu, cuda, cuda:N or auto`},
		{"--device cuda:", `--device "cuda:": want cpu, cuda, cuda:N or auto`},
		{"--device cuda:-1", `--device "cuda:-1": want cpu, cuda, cuda:N or auto`},
		{"--device cpu:0", `--device "cpu:0": want cpu, cuda, cuda:N or auto`},
		{"--dtype f16", `--dtype "f16": want auto, bf16 or f32`},
		{"--device cpu --dtype bf16", "--dtype bf16: the CPU computes with f32 alone: leave --dtype out"},
		{"--device cpu --eager", "--eager, --sync and --bounds are for GPUs: leave them out with --device cpu"},
		{"--device cpu --bounds", "--eager, --sync and --bounds are for GPUs: leave them out with --device cpu"},
		{"--device cpu --sync", "--eager, --sync and --bounds are for GPUs: leave them out with --device cpu"},
		{"--load-format gguf", `--load-format "gguf": want auto or dummy`},
		{"--quantize int4", `--quantize "int4": want none or int8`},
		{"--prefill-chunk -1", "--prefill-chunk -1: want at least 1, or 0 to choose by the device's memory"},
	} {
		refused(t, generate(t, "", append([]string{tiny + "qwen2_tied_gqa", "--prompt-ids", "1"}, strings.Fields(c.flags)...)...), 2, "", c.want)
	}
	refused(t, generate(t, "", "inspect", needle, "--load-format", "x"), 2, "", `--load-format "x": want auto or dummy`)
}
