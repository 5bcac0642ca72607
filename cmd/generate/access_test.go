package main

import (
	"strings"
	"testing"
)

// Where more than all is read, and only there, a line says how that can be: in
// every place that shows the figure.
func TestAccessAboveAll(t *testing.T) {
	dir := t.TempDir()
	above := []string{"--attention-seed", "1", "--parents", "contiguous", "--budget"} // another draw reads more
	ids := "--prompt-ids=" + idList(randomIDs(64, 60, 1))
	m := tiny + "qwen2_tied_gqa"
	evaluate := []string{"evaluate", needle, "--tasks", "access_1", "--length", "90", "--samples", "1", "-n", "2"}
	for _, c := range []struct {
		args []string
		err  bool // where the figures go
	}{
		{[]string{m, ids, "-n", "2", "-v", "--attention", "oracle"}, true},
		{[]string{"compare", m, ids, "-n", "2", "--control=false", "--b", "oracle", "--report", dir + "/compare.html"}, false},
		{[]string{"compare", m, ids, "-n", "2", "--control=false", "--a", "oracle", "--b", "dense"}, false},
		{[]string{"bench", m, "-p", "64", "-n", "2", "-r", "1", "--attention", "oracle"}, false},
		{append(evaluate, "--attention", "dense,oracle", "-o", dir+"/above"), false},
	} {
		for budget, want := range map[string]int{"56": 1, "4": 0} {
			args := append(append(c.args, above...), budget)
			if budget == "4" && c.args[0] == "evaluate" {
				args = append(args, "-o", dir+"/below")
			}
			o := answer(t, "", args...)
			shown := o.out
			if c.err {
				shown = o.errors
			}
			if n := strings.Count(shown, aboveAll); n != want {
				t.Errorf("%v: explained %d times, want %d:\n%s", args, n, want, shown)
			}
			if c.args[0] == "compare" && c.args[len(c.args)-1] == dir+"/compare.html" && strings.Count(read(t, dir+"/compare.html"), aboveAll) != want {
				t.Errorf("page of budget %s", budget)
			}
		}
	}
	for name, want := range map[string]int{"above": 1, "below": 0} {
		answer(t, "", "report", dir+"/"+name, "-o", dir+"/page.html")
		if n := strings.Count(read(t, dir+"/page.html"), aboveAll); n != want {
			t.Errorf("page of %s: explained %d times", name, n)
		}
	}
}
