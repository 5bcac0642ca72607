package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestVisits(t *testing.T) {
	for _, c := range []struct {
		prompts, tokens, depths []int
		want                    string
	}{
		{[]int{8, 16}, []int{2, 3}, nil, "[{8 true 0 [2 3]} {16 true 0 [2 3]}]"},
		{[]int{8}, nil, nil, "[{8 true 0 []}]"},
		{nil, []int{2}, nil, "[{0 false 0 [2]}]"},
		{nil, nil, []int{5}, "[]"},
		{nil, nil, nil, "[]"},
		{[]int{8, 16}, []int{2}, []int{0, 99}, "[{8 true 0 []} {16 true 0 []} {0 false 0 [2]} {99 false 8 []} {99 false 16 []} {99 false 0 [2]}]"},
	} {
		if got := fmt.Sprint(visitsOf(c.prompts, c.tokens, c.depths)); got != c.want {
			t.Errorf("-p %v, -n %v, -d %v: %s, want %s", c.prompts, c.tokens, c.depths, got, c.want)
		}
	}
	if rows := (visit{depth: 0, tokens: []int{3, 7}}).rows(); rows != 8 {
		t.Errorf("%d rows, want 8: one token to begin with and 7", rows)
	}
}

// Depths as in llama-bench: names, counts, and what a token reads.
func TestBenchDepth(t *testing.T) {
	var rows []struct {
		Test, Attention    string
		Prompt             int     `json:"n_prompt"`
		Tokens             int     `json:"n_gen"`
		Depth              int     `json:"n_depth"`
		Bytes              float64 `json:"bytes_per_token"`
		MS                 float64 `json:"ms_per_token"`
		Samples            []float64
		DType, Unit, Model string
	}
	out := answer(t, "", "bench", tiny+"qwen2_tied_gqa", "-p", "8", "-n", "2,3", "-d", "0,20", "-r", "2", "--attention", "dense", "-o", "json").out
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range rows {
		names = append(names, fmt.Sprintf("%s %d %d %d", r.Test, r.Prompt, r.Tokens, r.Depth))
		if len(r.Samples) != 2 || r.DType != "f32" || r.Tokens > 0 != (r.MS > 0) {
			t.Errorf("%+v", r)
		}
	}
	const want = "pp8 8 0 0, tg2 0 2 0, tg3 0 3 0, pp8 @ d20 8 0 20, tg2 @ d20 0 2 20, tg3 @ d20 0 3 20"
	if got := strings.Join(names, ", "); got != want {
		t.Fatalf("rows %s\nwant %s", got, want)
	}
	// Two steps at depth 20 are fed positions 19 and 20, those at depth 0 positions
	// 0 and 1: they read 19 rows more each, of 3 layers, 2 key heads, keys and
	// values of 8 float32 numbers.
	if more := rows[4].Bytes - rows[1].Bytes; more != 19*3*2*2*8*4 {
		t.Errorf("%v bytes more at depth 20", more)
	}
}

func TestBenchCSV(t *testing.T) {
	out := answer(t, "", "bench", tiny+"qwen2_tied_gqa", "-p", "8", "-n", "2", "-r", "2", "--attention", "dense", "-o", "csv").out
	lines, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(lines) != 3 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	column := func(name string) int { return slices.Index(lines[0], name) }
	if got := lines[2][column("test")]; got != "tg2 @ d8" {
		t.Errorf("test %q", got)
	}
	if samples := strings.Fields(lines[2][column("samples")]); len(samples) != 2 {
		t.Errorf("samples %v", samples)
	}
	if column("model") != 0 || column("copy_percent") < 0 {
		t.Errorf("header %v", lines[0])
	}
	for _, name := range []string{"ms_per_token", "bytes_per_token", "access_percent"} { // of reading a prompt
		if got := lines[1][column(name)]; got != "" {
			t.Errorf("%s of pp8 is %q", name, got)
		}
	}
	if got := lines[1][column("n_gen")]; got != "0" {
		t.Errorf("n_gen of pp8 is %q", got)
	}
}

// Seconds have the places that few need, and one repetition no deviation.
func TestBenchFigure(t *testing.T) {
	for _, c := range []struct {
		row  benchRow
		want string
	}{
		{benchRow{Unit: "tokens/s", Mean: 528.25, StdDev: 3.5, Samples: []float64{1, 2}}, "528.25 ± 3.50"},
		{benchRow{Unit: "tokens/s", Mean: 528.25, Samples: []float64{1}}, "528.25"},
		{benchRow{Unit: "s", Mean: 0.00037, StdDev: 0.00012, Samples: []float64{1, 2}}, "0.0004 ± 0.0001"},
	} {
		if got := c.row.figure(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// Below the table stands once which methods did not sample.
func TestBenchReadEveryRow(t *testing.T) {
	out := answer(t, "", "bench", tiny+"qwen2_tied_gqa", "-p", "40", "-n", "1,2", "-r", "1", "--attention", "dense,santapp,santa").out
	if strings.Count(out, readEveryRow) != 1 || !strings.HasSuffix(out, "\n\nAt depth 40 santapp (kmeans, S 512) "+readEveryRow+".\n") {
		t.Errorf("a budget for every row:\n%s", out)
	}
	out = answer(t, "", "bench", tiny+"qwen2_tied_gqa", "-p", "40", "-n", "1", "-r", "1", "--budget", "4").out
	if strings.Contains(out, readEveryRow) {
		t.Errorf("a small budget:\n%s", out)
	}
}

// The help explains the words of the table.
func TestBenchWords(t *testing.T) {
	help := answer(t, "", "bench", "--help").out
	for _, text := range []string{"MB a token are", "% of copies is"} {
		if !strings.Contains(help, text) {
			t.Errorf("no %q in\n%s", text, help)
		}
	}
}

// Made-up weights were trained for no length.
func TestBenchBeyondLimit(t *testing.T) {
	args := []string{"bench", tiny + "qwen2_tied_gqa", "-p", "0", "-n", "1", "-d", "32768", "-r", "1", "--attention", "dense"}
	refused(t, generate(t, "", args...), 2, "", `-p "0", -n "1", -d "32768": up to 32769 tokens: the model's limit is 32768 in all`)
	l, err := openModel(tiny+"qwen2_tied_gqa", true)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Config.MaxPositions = mostTokens
	if n, err := l.need(aGPU, 0, 130_000, attentionFlags{name: "dense"}); err != nil || n.context != 130_000 {
		t.Errorf("%+v, %v", n, err)
	}
}

// The attention of one token by itself, in every way, on the CPU.
func TestBenchOperator(t *testing.T) {
	small := []string{"bench", tiny + "qwen2_tied_gqa", "--attention-op", "--heads", "14/2", "--dim", "16", "--rows", "60,90", "--drawn", "2,4", "--suffix", "3", "--parents", "contiguous"}
	var rows []operatorRow
	parse := func(more ...string) {
		t.Helper()
		rows = nil
		if err := json.Unmarshal([]byte(answer(t, "", append(slices.Clone(small), more...)...).out), &rows); err != nil {
			t.Fatal(err)
		}
	}
	names := func() (all []string) {
		for _, r := range rows {
			all = append(all, fmt.Sprintf("%d %d %s", r.Rows, r.Drawn, r.Method))
			if r.US <= 0 || r.Bytes <= 0 || r.KeyDim != 16 || r.Method == "santapp" != (r.UnionRows > 0) || r.Method == "santapp" != (len(r.Faster) > 0) {
				t.Errorf("%+v", r)
			}
		}
		return all
	}
	said := answer(t, "", small...).errors
	for _, n := range []string{"60", "90"} {
		if want := n + " rows: reading a prompt of " + n + " tokens\n" + n + " rows: building teams and the caches of "; !strings.Contains(said, want) || !strings.Contains(said, n+" rows: timing with 2,4 teams drawn\n") {
			t.Errorf("%s rows: stderr says\n%s", n, said)
		}
	}
	const want = "[60 2 santapp 60 4 santapp 60 0 dense 90 2 santapp 90 4 santapp 90 0 dense]"
	if parse("-o", "json"); fmt.Sprint(names()) != want {
		t.Errorf("rows %v", names())
	}
	const peer = `echo '{"peer": "Other", "backends": ["fast", "none"]}'; while read line; do case $line in *none*) echo '{"error": "no"}';; *) echo '{"us": [5, 6, 7]}';; esac; done`
	small = append(small[:8:8], "90", "--drawn", "2", "--parents", "contiguous")
	if parse("-o", "json", "--protocol", "paper", "--rounds", "3", "--peer", peer); fmt.Sprint(names()) != "[90 2 santapp 90 0 dense 90 0 Other fast]" {
		t.Errorf("rows %v", names())
	}
	for i, r := range rows {
		if len(r.RoundsUS) != 3 || r.Suffix != 0 || r.DType != "fp16" || (i == 0) != (r.Error > 0) || r.Error > 4.3e-6 || i == 2 && r.US != 6 {
			t.Errorf("%+v", r)
		}
		for _, f := range r.Faster {
			if f.Low > f.Times || f.High < f.Times || f.Low == 0 {
				t.Errorf("%+v", f)
			}
		}
	}
	once := answer(t, "", append(small, "--protocol", "paper", "--rounds", "1")...).out
	if !regexp.MustCompile(`\| santapp +\| [0-9.]+ +\|.*\| [0-9.]+× +\|\n`).MatchString(once) {
		t.Errorf("one round has a spread or an interval:\n%s", once)
	}
	md := answer(t, "", append(small, "--peer", peer)...)
	for _, text := range []string{"| faster than dense  | faster than Other fast  |", "| Other fast", "none of Other: not supported: no", "teams of contiguous parents over 2 key heads"} {
		if !strings.Contains(md.out, text) {
			t.Errorf("no %q in\n%s", text, md.out)
		}
	}
	md = answer(t, "", append(small, "--stages", "--rounds", "2")...)
	if strings.Contains(md.out, "kernels  |") || strings.Contains(md.out, "|   ") {
		t.Errorf("an empty column:\n%s", md.out)
	}
	for _, text := range []string{"Stages of santapp alone at 90 rows, 2 drawn", "| route ", "| whole ", "the paper's 71.98 MiB", "4 MiB read and written", "that the whole fuses.\n"} {
		if !strings.Contains(md.out, text) {
			t.Errorf("no %q in\n%s", text, md.out)
		}
	}
}

// A CPU takes fewer rows than a GPU unless they are given; what was given is
// taken on both.
func TestBenchOperatorRows(t *testing.T) {
	for given, want := range map[string]string{"": "[4096]", "70,80": "[70 80]"} {
		b := operatorFlags{rows: given, drawn: "31", rounds: 1, protocol: protocolGraph}
		if rows, _, err := b.check(defaultRowsCPU); err != nil || fmt.Sprint(rows) != want {
			t.Errorf("--rows %q: %v, %v; want %s", given, rows, err, want)
		}
	}
	refused(t, generate(t, "", "bench", tiny+"qwen2_tied_gqa", "--attention-op", "--device", "cpu", "--heads", "14/2", "--dim", "16", "--drawn", "5000"), 2, "",
		"--drawn 5000: a key head has at most 1024 teams of 4096 rows: draw at most 1024, or give more --rows")
}

// A protocol that a variable chooses sets nothing where attention is not timed by
// itself, and a suffix that a variable gives is for where there is one.
func TestBenchProtocolVariable(t *testing.T) {
	m := tiny + "qwen2_tied_gqa"
	t.Setenv("GENERATE_PROTOCOL", "paper")
	answer(t, "", "bench", m, "-p", "8", "-n", "1", "-r", "1", "--attention", "dense", "--dtype", "f32")
	t.Setenv("GENERATE_SUFFIX", "5")
	answer(t, "", "bench", m, "--attention-op", "--heads", "14/2", "--dim", "16", "--rows", "60", "--drawn", "2", "--rounds", "1")
}

// --budget means nothing to attention by itself, neither its default nor a
// variable: any size of a team will do.
func TestBenchOperatorBudget(t *testing.T) {
	args := []string{"bench", tiny + "qwen2_tied_gqa", "--attention-op", "--heads", "14/2", "--dim", "16", "--rows", "60", "--drawn", "2", "--parents", "contiguous"}
	for _, size := range []string{"12", "20", "5000"} {
		answer(t, "", append(args, "--parent-size", size)...)
	}
	m := tiny + "qwen2_tied_gqa"
	for _, want := range []string{
		"--parent-size 10|--representatives 4 must divide --parent-size 10: give a number that divides it, or another --parent-size",
		"--parent-size 0|--parent-size 0: must be at least 1",
		"--representatives 0|--representatives 0: must be at least 1",
	} {
		flags, line, _ := strings.Cut(want, "|")
		refused(t, generate(t, "", append([]string{"bench", m, "--attention-op"}, strings.Fields(flags)...)...), 2, "", line)
	}
	t.Setenv("GENERATE_BUDGET", "7")
	answer(t, "", args...)
}

// Clusters of k-means are often too small for all their representatives: what they
// have is known when they are made. What is measured before stays.
func TestBenchOperatorDrawn(t *testing.T) {
	args := []string{"bench", needle, "--attention-op", "--heads", "14/2", "--rows", "512", "--drawn"}
	o := generate(t, "", append(args, "2,128")...)
	said := regexp.MustCompile(`generate: --drawn 128: a key head has (1[012][0-9]) teams of 512 rows: draw at most (\d+), or give more --rows\n$`).FindStringSubmatch(o.errors)
	if o.code != 2 || said == nil || said[1] != said[2] || o.out != "" {
		t.Fatalf("exit code %d, stdout %q, stderr %q", o.code, o.out, o.errors)
	}
	if out := answer(t, "", append(args, said[1])...).out; !strings.Contains(out, "| 512   | "+said[1]) {
		t.Errorf("as many as there are:\n%s", out)
	}
	both := slices.Clone(args)
	both[6] = "2048,512"
	if o := generate(t, "", append(both, "128")...); o.code != 2 || !strings.Contains(o.out, "| 2048  | 128 ") || strings.Contains(o.out, "| 512 ") {
		t.Errorf("exit code %d, stdout %s, stderr %q", o.code, o.out, o.errors)
	}
}

// A latent cache has a latent operator, by default of DeepSeek-V2-Lite's size.
func TestBenchOperatorLatent(t *testing.T) {
	var rows []operatorRow
	out := answer(t, "", "bench", tiny+"dsv2_lite", "--attention-op", "--heads", "6/1", "--dim", "96/64", "--rows", "80", "--drawn", "2", "--parents", "contiguous", "-o", "json").out
	if err := json.Unmarshal([]byte(out), &rows); err != nil || len(rows) != 2 || rows[0].ValueDim != 64 || rows[1].Bytes != (80+64)*96*4 {
		t.Errorf("%v: %s", err, out)
	}
	var b operatorFlags
	if s, err := b.shape(true); err != nil || fmt.Sprint(s) != "{16 1 576 512 true}" {
		t.Errorf("%v, %v", s, err)
	}
	if s, err := b.shape(false); err != nil || fmt.Sprint(s) != "{28 4 128 128 false}" {
		t.Errorf("%v, %v", s, err)
	}
	refused(t, generate(t, "", "bench", tiny+"dsv2_lite", "--attention-op", "--dim", "64"), 2, "",
		"--dim 64: this model has a latent cache: want K/V, values being the first V of K numbers")
	refused(t, generate(t, "", "bench", tiny+"dsv2_lite", "--attention-op", "--dim", "70/64"), 2, "",
		"--dim: rows of 70/64 numbers cannot be made of the model's 48/32 side by side: want multiples")
}

// The script for PyTorch reads what bench writes: names of fields and tests.
func TestPeerRatios(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	dir, model := t.TempDir(), tiny+"qwen2_tied_gqa"
	write(t, dir+"/ours", answer(t, "", "bench", model, "-p", "8,16", "-n", "2", "-r", "1", "--attention", "dense", "-o", "jsonl").out)
	theirs := `{"peer": "x", "model": "M", "cache": "dynamic", "n_prompt": 16, "n_gen": 2, "prefill_tokens_per_s": 0.5, "ms_per_token": 3e6}
{"peer": "x", "model": "M", "cache": "static", "n_prompt": 8, "n_gen": 2, "error": "too new"}
`
	write(t, dir+"/theirs", strings.ReplaceAll(theirs, "M", model))
	out, err := exec.Command(python, "-B", "../../tools/cuda/peer.py", "ratios", dir+"/ours", dir+"/theirs").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, text := range []string{"| model", "|---", "| " + model + " | 16 | prefill, tokens/s |", "| " + model + " | 16 | decode, ms a token |", "| too new |"} {
		if i >= len(lines) || !strings.Contains(lines[i], text) {
			t.Fatalf("no %q in line %d of\n%s", text, i, out)
		}
	}
}
