package main

import (
	"slices"
	"testing"

	"blitzen/cuda"
	"blitzen/device"
)

// What compare measures on the CPU it measures on a GPU: steps that follow given
// tokens, outputs that are replayed, mass and rows for the page. In float32 the
// bounds are those of the CPU; bfloat16 rounds a logit of 16 by up to 2⁻⁵, and
// half the square of that is what two such rows are apart at most.
func TestGPUCompare(t *testing.T) {
	openTestGPU(t, cuda.Options{DType: device.F32})
	ids := "3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3,2,3,8,4,6,2,6,4,3,3,8,3,2,7,9,5"
	for _, c := range []struct {
		model, dtype string
		floor        float64
		prompt       []string
	}{
		{tiny + "qwen2_tied_gqa", "f32", 1e-6, []string{"--prompt-ids", ids}},
		{tiny + "dsv2_lite", "f32", 1e-6, []string{"--prompt-ids", ids}},
		{needle, "bf16", 1e-3, []string{"--length", "512", "--codes", "2"}},
	} {
		args := append([]string{c.model, "--device", "cuda", "--dtype", c.dtype, "-n", "12", "--ignore-eos"}, c.prompt...)
		all := compare(t, append(args, "--budget", "8192")...)
		one := all.Seeds[0]
		if one.Divergence.KLD.Maximum != 0 || one.MatchRate != 1 || one.Access != 100 || slices.Max(one.OutputErrors) != 0 {
			t.Errorf("%s, %s: all teams: %+v", c.model, c.dtype, one)
		}
		if all.Control == nil || all.Control.Divergence.MeanKLD.Value > c.floor {
			t.Errorf("%s, %s: control %+v", c.model, c.dtype, all.Control)
		}
		page := t.TempDir() + "/page.html"
		few := compare(t, append(args, "--budget", "4", "--control=false", "--report", page)...)
		if few.Seeds[0].Divergence.KLD.Maximum < 1e-5 || slices.Min(few.Seeds[0].OutputErrors) < 1e-3 || len(read(t, page)) < 10_000 {
			t.Errorf("%s, %s: one team: %+v", c.model, c.dtype, few.Seeds[0])
		}
		t.Logf("%s, %s: control %+v", c.model, c.dtype, all.Control.Divergence)
	}
}
