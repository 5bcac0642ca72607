package main

import (
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestDiagnose(t *testing.T) {
	args := []string{"diagnose", needle, "--tasks", "access_2", "--length", "200", "--samples", "2", "-n", "3", "--parents", "contiguous,probe", "--block", "4,16", "--variants"}
	var r diagnosisReport
	out := answer(t, "", append(args, "-o", "json")...).out
	if err := json.Unmarshal([]byte(out), &r); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	var names []string
	for _, own := range r.Routings {
		names = append(names, own.Name)
		mean := 0.0
		for l := range own.Scores {
			for h := range own.Scores[l] {
				mean += (own.Scores[l][h] + own.Grouping[l][h]) / 36
			}
		}
		if len(own.Scores) != 6 || len(own.Scores[0]) != 6 || math.Abs(mean-own.KL) > 1e-9 || *own.Low > own.KL || *own.High < own.KL {
			t.Errorf("%+v: the mean of its parts is %v", own, mean)
		}
	}
	want := "teams, contiguous; teams, probe; centroid, B 4; centroid, B 16; " +
		"teams, contiguous, mean keys; teams, probe, mean keys; teams, contiguous, central keys; teams, probe, central keys; centroid, B 4, central keys; centroid, B 16, central keys"
	if got := strings.Join(names, "; "); got != want {
		t.Errorf("routings %s", got)
	}
	if r.Prompts != 2 || r.Steps != 3 || len(r.Windows) != 3 || len(r.Compact) != 3 || len(r.Jensen) != 5 || r.Length != 200 {
		t.Errorf("%+v", r)
	}
	table := answer(t, "", args...).out
	for _, text := range []string{"access_2, 2 prompts of at most 200 tokens", "| teams, probe ", "| centroid, B 16 ", "| ≥ 0.90 ", "| random ", "| by mass "} {
		if !strings.Contains(table, text) {
			t.Errorf("no %q in\n%s", text, table)
		}
	}
	// One prompt has no interval.
	args[slices.Index(args, "--samples")+1] = "1"
	table = answer(t, "", args...).out
	if regexp.MustCompile(`[0-9] to `).MatchString(table) || !regexp.MustCompile(`\| ≥ 0.50 +\| [0-9.]+ +\| - `).MatchString(table) {
		t.Errorf("one prompt:\n%s", table)
	}
	if out := answer(t, "", append(args, "-o", "json")...).out; strings.Count(out, `"low":null,"high":null`) != len(r.Routings)+len(r.Windows) {
		t.Errorf("one prompt: %s", out)
	}
}

// Scores that are far apart make masses whose ratio overflows, which JSON has no
// number for; all other figures are there.
func TestDiagnoseSharpened(t *testing.T) {
	out := answer(t, "", "diagnose", needle, "--tasks", "access_1", "--length", "90", "--samples", "1", "-n", "1", "--parents", "contiguous", "--block", "16", "--sharpen", "1e6", "-o", "json").out
	var r diagnosisReport
	if err := json.Unmarshal([]byte(out), &r); err != nil || !strings.Contains(out, `"max":[[null,`) || len(r.Routings) != 2 {
		t.Errorf("%v: %s", err, out)
	}
}

// Every method answers, of keys and values and of latents, and says what it was.
func TestMethodsAnswer(t *testing.T) {
	for _, m := range []string{needle, models + "needle-dsv2"} {
		for _, method := range strings.Split(attentionNames, ", ") {
			r := asObject(t, "", m, "--prompt-ids", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20", "-n", "3", "--greedy", "--ignore-eos",
				"--attention", method, "--budget", "16", "--block", "8", "--parents", "probe", "--attention-seed", "5")
			if r.Attention.Name != method || len(r.TokenIDs) != 3 || r.Attention.AccessPercent <= 0 {
				t.Errorf("%s, %s: %+v", m, method, r)
			}
			if budget := r.Attention.Budget; (budget == 16) != (method != "dense") {
				t.Errorf("%s says budget %d", method, budget)
			}
		}
	}
}
