package main

import (
	"strings"
	"testing"
)

// --cluster changes nothing without a latent cache: no method is named by it or
// run twice for it.
func TestClusterWithoutLatent(t *testing.T) {
	qwen := tiny + "qwen2_tied_gqa"
	run := []string{"evaluate", needle, "--tasks", "access_1", "--length", "120", "--samples", "1", "-n", "1", "--budget", "32", "--attention", "santapp,centroid"}
	plain, listed := answer(t, "", run...), answer(t, "", append(run, "--cluster", "latent,row")...)
	if listed.out != plain.out {
		t.Errorf("evaluate --cluster latent,row prints\n%swithout the flag\n%s", listed.out, plain.out)
	}
	for _, args := range [][]string{
		append(run, "--cluster", "row"),
		{"bench", qwen, "-p", "40", "-n", "1", "-r", "1", "--budget", "4", "--attention", "santapp,centroid", "--block", "4", "--cluster", "row"},
		{"compare", qwen, "--prompt-ids", "1,2,3", "-n", "1", "--budget", "4", "--control=false", "--cluster", "row"},
		{"compare", qwen, "--prompt-ids", "1,2,3", "-n", "1", "--budget", "4", "--control=false", "--a", "santapp", "--cluster", "row"},
		{qwen, "--prompt-ids", "1,2,3", "-n", "1", "--budget", "4", "--verbose", "--cluster", "row"},
	} {
		o := answer(t, "", args...)
		if said := o.out + o.errors; strings.Contains(said, "whole rows") || !strings.Contains(said, "santapp (kmeans, S ") {
			t.Errorf("%v:\n%s", args, said)
		}
	}
}

// With a latent cache it names the method, and each way is one.
func TestClusterOfLatent(t *testing.T) {
	for _, args := range [][]string{
		{"bench", tiny + "dsv2_lite", "-p", "40", "-n", "1", "-r", "1", "--budget", "4", "--cluster", "row"},
		{"compare", tiny + "dsv2_lite", "--prompt-ids", "1,2,3", "-n", "1", "--budget", "4", "--control=false", "--cluster", "row"},
	} {
		if o := answer(t, "", args...); !strings.Contains(o.out, "santapp (kmeans whole rows, S 4)") {
			t.Errorf("%v:\n%s", args, o.out)
		}
	}
	o := answer(t, "", "evaluate", models+"needle-dsv2", "--tasks", "access_1", "--length", "120", "--samples", "1", "-n", "1", "--budget", "32", "--attention", "santapp", "--cluster", "latent,row")
	for _, label := range []string{"santapp (kmeans, S 32)", "santapp (kmeans whole rows, S 32)"} {
		if !strings.Contains(o.out, label) {
			t.Errorf("no %q in\n%s", label, o.out)
		}
	}
}
