package main

import (
	"strings"
	"testing"
)

// -v says when nothing was sampled, and only then.
func TestVerboseCovered(t *testing.T) {
	const want = "santapp read every row, as dense does; it samples where the prompt is longer or --budget smaller\n"
	for budget, covered := range map[string]bool{"512": true, "8": false} {
		o := answer(t, "", needle, "-p", strings.Repeat("The code is 5. ", 8), "-n", "3", "--ignore-eos", "-v", "--budget", budget)
		if strings.Contains(o.errors, want) != covered {
			t.Errorf("--budget %s: covered %v, stderr says\n%s", budget, covered, o.errors)
		}
	}
	if o := answer(t, "", needle, "-p", "Hello", "-n", "3", "-v", "--attention", "dense"); strings.Contains(o.errors, "read every row") {
		t.Errorf("dense: stderr says\n%s", o.errors)
	}
}
