package main

import (
	"strings"
	"testing"
)

// santa takes what goes beyond the paper as the others do: a short prompt is
// read exactly, some layers in part, and layers are checked before the prompt
// is read.
func TestSantaBeyondPaper(t *testing.T) {
	args := []string{needle, "-p", strings.Repeat("The code is 5. ", 8), "-n", "3", "--ignore-eos", "--attention", "santa", "--budget", "2", "--seed", "1"}
	access := func(more ...string) float64 {
		return asObject(t, "", append(args[:len(args):len(args)], more...)...).Attention.AccessPercent
	}
	none, some, all := access(), access("--dense-layers", "0"), access("--min-context", "5000")
	if all != 100 || !(none < some && some < 100) {
		t.Errorf("access %v %%, with a layer read exactly %v, with all %v", none, some, all)
	}
	label := answer(t, "", append(args, "-v", "--dense-layers", "0", "--min-context", "9")...).errors
	if want := "santa (S 2; beyond the paper: exact below 9 tokens, exact layers 0)"; !strings.Contains(label, want) {
		t.Errorf("no %q in\n%s", want, label)
	}
	refused(t, generate(t, "", tiny+"qwen2_tied_gqa", "--prompt-ids", "1,2", "--attention", "santa", "--dense-layers", "0-2"), 2, "",
		"--dense-layers 0-2 are all layers: use dense attention")
	refused(t, generate(t, "", tiny+"qwen2_tied_gqa", "--prompt-ids", "1,2", "--attention", "santa", "--dense-layers", "7"), 2, "",
		"--dense-layers 7: the model has layers 0 to 2")
}
