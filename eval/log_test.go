package eval

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"blitzen/attention"
)

func header(arms ...string) Header {
	h := Header{
		Format: Format, Version: "1", Model: Model{Path: "m", Hash: "abc", DType: "F32", Device: "cpu"}, Prompts: 6, Shards: 1, Repeats: 2,
		Settings: map[string]json.RawMessage{"--tasks": json.RawMessage(`["x"]`), "--n": json.RawMessage(`3`)},
	}
	for _, name := range arms {
		h.Arms = append(h.Arms, Arm{Label: name, Method: name, Draws: name != "dense", Settings: json.RawMessage(`{"a":1}`)})
	}
	return h
}

// answered are all answers of a run, in order; the scores are of no meaning.
func answered(h Header) []Answer {
	var all []Answer
	for p := range h.Prompts {
		for arm := range h.Arms {
			for r := range h.RepeatsOf(arm) {
				access := attention.Access{Rows: int64(p + arm), Dense: 20, Vectors: 2}
				all = append(all, Answer{
					Prompt: p, Arm: arm, Repeat: r, ID: "p", Task: []string{"one", "two"}[p%2], Limit: 9, Prefix: WithPrefix, Scorer: ScorerAll, Label: h.Arms[arm].Label,
					Text: "<t>", Expected: []string{"t"}, Score: float64((p+arm*r)%3) / 2, Access: access, Percent: access.Percent(),
				})
			}
		}
	}
	return all
}

// An answer that is written is there when the file is opened again; a torn
// line is not, and goes.
func TestLog(t *testing.T) {
	path := t.TempDir() + "/log"
	h := header("dense", "santapp")
	want := answered(h)
	for i := 0; i < len(want); i += 4 {
		l, held, err := OpenLog(path, h)
		if err != nil || len(held) != i || i > 0 && !reflect.DeepEqual(held, want[:i]) {
			t.Fatalf("%d answers, error %v, want %d", len(held), err, i)
		}
		for _, a := range want[i:min(i+4, len(want))] {
			if l.Holds(a.Prompt, a.Arm, a.Repeat) {
				t.Errorf("prompt %d, arm %d is held before it is there", a.Prompt, a.Arm)
			}
			if err := l.Append(a); err != nil || !l.Holds(a.Prompt, a.Arm, a.Repeat) {
				t.Fatalf("append: %v", err)
			}
		}
		if _, _, err := OpenLog(path, h); err == nil || !strings.Contains(err.Error(), "another process writes to it") {
			t.Errorf("opened twice: error %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		tear(t, path, `{"prompt":5,"arm":`)
	}
	r, err := ReadResults(path)
	if err != nil || !reflect.DeepEqual(r.Answers, want) || r.Missing() != 0 {
		t.Fatalf("%d answers, %d missing, error %v", len(r.Answers), r.Missing(), err)
	}
	var file bytes.Buffer
	if err := WriteResults(&file, r); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(path); !bytes.HasPrefix(data, file.Bytes()) {
		t.Error("results written again differ from the log")
	}
}

func tear(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = file.WriteString(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	file.Close()
}

func TestLogRefuses(t *testing.T) {
	h := header("dense")
	first, err := encode(h)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file, want string
		change     func(*Header)
	}{
		"new":              {"", "", nil},
		"torn header":      {string(first[:20]), "", nil},
		"another file":     {"keep", "it is not a results file: name another", nil},
		"lines":            {"a\nb\n", "it is not a results file of this version: its first line is no header", nil},
		"after the header": {string(first[:len(first)-1]) + " 7\n", "it is not a results file of this version: its first line is no header", nil},
		"middle line":      {string(first) + "x\n{}\n", "line 2: invalid character 'x'", nil},
		"unknown arm":      {string(first) + `{"prompt":0,"arm":1}` + "\n", "line 2: prompt 0, arm 1: the header has 6 prompts and 1 arms", nil},
		"other hash":       {string(first), `the hash of the model's weights differs: abd, and abc there`, func(h *Header) { h.Model.Hash = "abd" }},
		"other type":       {string(first), `the number type differs`, func(h *Header) { h.Model.DType = "BF16" }},
		"other arms":       {string(first), `attention differs: [santa {"a":1}], and [dense {"a":1}] there`, func(h *Header) { *h = header("santa") }},
		"other setting":    {string(first), `--n differs: not set, and 3 there`, func(h *Header) { h.Settings = map[string]json.RawMessage{"--tasks": h.Settings["--tasks"]} }},
		"other shard":      {string(first), "it holds shard 0/1, and this is 1/2", func(h *Header) { h.Shard, h.Shards = 1, 2 }},
		"other path":       {string(first), "", func(h *Header) { h.Model.Path, h.Model.Device, h.Version = "n", "cuda", "2" }},
		"other many seeds": {string(first), "the number of attention seeds differs", func(h *Header) { h.Repeats = 3 }},
	} {
		path := t.TempDir() + "/log"
		if err := os.WriteFile(path, []byte(c.file), 0o644); err != nil {
			t.Fatal(err)
		}
		asked := header("dense")
		if c.change != nil {
			c.change(&asked)
		}
		l, _, err := OpenLog(path, asked)
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else {
				l.Close()
			}
			continue
		}
		left, _ := os.ReadFile(path)
		if err == nil || !strings.Contains(err.Error(), c.want) || string(left) != c.file {
			t.Errorf("%s: error %v, want %q in it; left %q", name, err, c.want, left)
		}
	}
}

// Shards in any order, and runs with other arms, make one run.
func TestMerge(t *testing.T) {
	h := header("dense", "santapp", "santa")
	whole := Results{Header: h, Answers: answered(h)}
	var shards [2]Results
	for i := range shards {
		shards[i].Header = h
		shards[i].Shard, shards[i].Shards = i, 2
		for _, a := range whole.Answers {
			if a.Prompt%2 == i {
				shards[i].Answers = append(shards[i].Answers, a)
			}
		}
		if n := shards[i].Missing(); n != 0 {
			t.Errorf("shard %d misses %d answers", i, n)
		}
	}
	merged, err := Merge(shards[1], shards[0], shards[1])
	if err != nil || !reflect.DeepEqual(merged, whole) {
		t.Errorf("merged shards differ (error %v)", err)
	}
	if half, err := Merge(shards[0]); err != nil || half.Missing() != 3*5 {
		t.Errorf("one shard of two: %d missing, error %v", half.Missing(), err)
	}
	two, one := Results{Header: header("dense", "santapp")}, Results{Header: header("santa")}
	for _, a := range whole.Answers {
		if a.Arm == 2 {
			a.Arm = 0
			one.Answers = append(one.Answers, a)
		} else {
			two.Answers = append(two.Answers, a)
		}
	}
	if merged, err := Merge(two, one); err != nil || !reflect.DeepEqual(merged, whole) {
		t.Errorf("merged arms differ (error %v)", err)
	}
	other := Results{Header: h, Answers: answered(h)}
	other.Answers[3].Text = "!"
	if _, err := Merge(whole, other); err == nil || !strings.Contains(err.Error(), "file 2 cannot be joined with the files before it: prompt 0 (p), santa: the answers differ") {
		t.Errorf("two answers to one prompt: error %v", err)
	}
	other.Prompts = 7
	whole.Path, other.Path = "one.jsonl", "two.jsonl"
	if _, err := Merge(whole, other); err == nil || !strings.Contains(err.Error(), "two.jsonl cannot be joined with one.jsonl: the number of prompts differs: 7, and 6 there") {
		t.Errorf("other prompts: error %v", err)
	}
	if _, err := Merge(); err == nil {
		t.Error("nothing is merged")
	}
}

// FuzzResults: whatever is read can be written and read again, unchanged.
func FuzzResults(f *testing.F) {
	var file bytes.Buffer
	h := header("dense", "santapp")
	if err := WriteResults(&file, Results{Header: h, Answers: answered(h)}); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add(file.Bytes()[:file.Len()-7])
	f.Add([]byte("{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, end, err := parse(data)
		if err != nil {
			return
		}
		if end > len(data) {
			t.Fatalf("%d bytes of %d", end, len(data))
		}
		r.Missing()
		var out bytes.Buffer
		if err := WriteResults(&out, r); err != nil {
			t.Fatal(err)
		}
		again, _, err := parse(out.Bytes())
		if err != nil || len(again.Answers) != len(r.Answers) {
			t.Fatalf("%d answers became %d (error %v)", len(r.Answers), len(again.Answers), err)
		}
	})
}
