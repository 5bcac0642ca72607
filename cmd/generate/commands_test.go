package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestTokenize(t *testing.T) {
	const text = "Café <|im_end|>\n"
	var split struct {
		IDs    []int32
		Pieces []string
	}
	out := answer(t, text, "tokenize", needle, "--json").out
	if err := json.Unmarshal([]byte(out), &split); err != nil || len(split.IDs) != len(split.Pieces) || len(split.IDs) == 0 {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(out, `"<|im_end|>"`) {
		t.Errorf("pieces are escaped beyond need: %s", out)
	}
	lines := strings.Split(strings.TrimSpace(answer(t, "", "tokenize", "-m", needle, "-p", text).out), "\n")
	if len(lines) != len(split.IDs) || strings.TrimSpace(lines[0]) != fmt.Sprintf("%d  %q", split.IDs[0], split.Pieces[0]) {
		t.Errorf("printed %q", lines)
	}
	if got := answer(t, "", "tokenize", needle, "--ids", idList(split.IDs)).out; got != text+"\n" {
		t.Errorf("ids back to text: %q, want %q", got, text)
	}
	var back struct {
		IDs  []int32
		Text string
	}
	if err := json.Unmarshal([]byte(answer(t, "", "tokenize", needle, "--ids", idList(split.IDs), "--json").out), &back); err != nil || back.Text != text || len(back.IDs) != len(split.IDs) {
		t.Errorf("%v: %+v", err, back)
	}
	// What --json printed is taken back, as is an answer's object.
	if got := answer(t, "", "tokenize", needle, "--ids", out).out; got != text+"\n" {
		t.Errorf("object back to text: %q, want %q", got, text)
	}
	file := filepath.Join(t.TempDir(), "answer.json")
	write(t, file, fmt.Sprintf(`{"text": "?", "token_ids": [%s]}`, idList(split.IDs)))
	if got := answer(t, "", "tokenize", needle, "--ids", "@"+file).out; got != text+"\n" {
		t.Errorf("answer back to text: %q, want %q", got, text)
	}
	if got := answer(t, "", "tokenize", needle, "-p", "", "--json").out; got != `{"ids":[],"pieces":[]}`+"\n" {
		t.Errorf("no text: %s", got)
	}
}

func TestInspect(t *testing.T) {
	got := answer(t, "", "inspect", needle, "-c", "1024").out
	for _, line := range []string{"architecture   Qwen2ForCausalLM, 6 layers, 6 query heads, vocabulary 4096", "limit          32768 tokens", "parameters     11018880 (11018880 BF16)\n", "1024 tokens"} {
		if !strings.Contains(got, line) {
			t.Errorf("no %q in\n%s", line, got)
		}
	}
}

func TestInspectJSON(t *testing.T) {
	var got struct {
		Architecture string
		Parameters   map[string]int64
		Row          int `json:"cache_numbers_per_token"`
		Expanded     int `json:"expanded_numbers_per_token"`
		Context      int
		Hash         string
		Devices      []struct {
			Device, DType                             string
			Weights, Cache, Scratch, Workspace, Total int64
		}
	}
	out := answer(t, "", "inspect", "--json", models+"needle-dsv2").out
	out = strings.ReplaceAll(out, "_bytes", "")
	if err := json.Unmarshal([]byte(out), &got); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	if got.Architecture != "DeepseekV2ForCausalLM" || got.Parameters["BF16"] == 0 || got.Expanded <= got.Row || got.Context != 4096 || len(got.Hash) < 16 || len(got.Devices) != 2 {
		t.Errorf("%+v", got)
	}
	for _, d := range got.Devices {
		if d.Total != d.Weights+d.Cache+d.Scratch+d.Workspace || d.Weights == 0 {
			t.Errorf("%+v", d)
		}
	}
}

// Weights kept in another type than the device's are named.
func TestInspectInt8(t *testing.T) {
	out := answer(t, "", "inspect", "--json", "--quantize", "int8", needle).out
	if strings.Count(out, `"weights_type":"int8"`) != 2 {
		t.Error(out)
	}
}

// The flags of a prompt count for a made one too.
func TestComparePromptFlags(t *testing.T) {
	length := regexp.MustCompile(`read the prompt, (\d+) tokens`)
	tokens := func(args ...string) string {
		o := answer(t, "", append([]string{"compare", needle, "--length", "160", "--codes", "2", "-n", "1"}, args...)...)
		return length.FindStringSubmatch(o.errors)[1] + o.out[:strings.Index(o.out, "\n")]
	}
	if plain := tokens(); plain == tokens("--raw") {
		t.Errorf("--raw changes nothing: %s", plain)
	} else if plain == tokens("--system-prompt", "You answer questions about access codes.") {
		t.Errorf("--system-prompt changes nothing: %s", plain)
	}
}

func TestBench(t *testing.T) {
	args := []string{"bench", tiny + "qwen2_tied_gqa", "-p", "8,16", "-n", "2", "-r", "2", "--budget", "4"}
	var rows []struct {
		Test, Attention, Unit string
		Mean                  float64
		Access                float64 `json:"access_percent"`
	}
	if err := json.Unmarshal([]byte(answer(t, "", append(args, "-o", "json")...).out), &rows); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, r.Test+" "+r.Attention+" "+r.Unit)
		if r.Mean <= 0 || strings.HasPrefix(r.Test, "tg") != (r.Access > 0) {
			t.Errorf("%+v", r)
		}
	}
	const want = "pp8 dense tokens/s, tg2 @ d8 dense tokens/s, teams @ d8 santapp (kmeans, S 4) s, tg2 @ d8 santapp (kmeans, S 4) tokens/s, " +
		"pp16 dense tokens/s, tg2 @ d16 dense tokens/s, teams @ d16 santapp (kmeans, S 4) s, tg2 @ d16 santapp (kmeans, S 4) tokens/s"
	if strings.Join(got, ", ") != want {
		t.Errorf("rows %s\nwant %s", strings.Join(got, ", "), want)
	}
	if lines := strings.Count(answer(t, "", append(args, "-o", "jsonl")...).out, "\n"); lines != 8 {
		t.Errorf("%d lines of JSON", lines)
	}
	if table := answer(t, "", args...).out; strings.Count(table, "\n|") != 9 || !strings.Contains(table, "| pp16 ") {
		t.Errorf("table\n%s", table)
	}
}

// Queries of the prompt are kept for parents that are made by them.
func TestBenchProbeParents(t *testing.T) {
	out := answer(t, "", "bench", tiny+"qwen2_tied_gqa", "-p", "40", "-n", "1", "-r", "1", "--budget", "4", "--attention", "santapp", "--parents", "probe").out
	if strings.Count(out, "santapp (probe, S 4)") != 2 {
		t.Error(out)
	}
}

// A model given by a link, from any folder.
func TestFolders(t *testing.T) {
	dir := t.TempDir()
	full, err := filepath.Abs(tiny + "qwen2_fp16_sharded")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(full, dir+"/model"); err != nil {
		t.Fatal(err)
	}
	want := answer(t, "", full, "--prompt-ids", "1,2", "-n", "3").out
	t.Chdir(dir)
	for _, name := range []string{"model", "./model", "model/", full + "/"} {
		if got := answer(t, "", name, "--prompt-ids", "1,2", "-n", "3").out; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
