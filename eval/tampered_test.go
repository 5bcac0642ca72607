package eval

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A file that was changed by hand, or joined from several, is refused with the
// line: an answer must not fall out of the figures unseen.
func TestTampered(t *testing.T) {
	h := header("dense", "santapp")
	first := answered(h)[0]
	with := func(change func(*Answer)) Answer {
		a := first
		change(&a)
		return a
	}
	for name, c := range map[string]struct {
		lines []any
		want  string
	}{
		"twice":        {[]any{h, first, first}, "line 3: prompt 0, arm 0, repeat 0 is in line 2 already: keep one of them"},
		"two files":    {[]any{h, first, h}, `line 3: json: unknown field "evaluation"`},
		"no answer":    {[]any{h, struct{}{}}, "line 2: prompt 0, arm 0: "},
		"other arm":    {[]any{h, with(func(a *Answer) { a.Label = "other" })}, `line 2: prompt 0, arm 0: the answer is one of "other", and the header's arm is "dense"`},
		"repeat":       {[]any{h, with(func(a *Answer) { a.Repeat = 1 })}, "line 2: prompt 0, arm 0, repeat 1: the header has 1"},
		"before it":    {[]any{h, with(func(a *Answer) { a.Repeat = -1 })}, "line 2: prompt 0, arm 0, repeat -1: the header has 1"},
		"score":        {[]any{h, with(func(a *Answer) { a.Score = 1e308 })}, "line 2: prompt 0, arm 0: score 1e+308"},
		"access":       {[]any{h, with(func(a *Answer) { a.Percent = -1 })}, "access -1 %"},
		"rows":         {[]any{h, with(func(a *Answer) { a.Access.Rows++ })}, "line 2: prompt 0, arm 0: access 0 %, and its counts make 5: the line was changed"},
		"dense":        {[]any{h, with(func(a *Answer) { a.Access.Dense = -20 })}, "the line was changed"},
		"bytes":        {[]any{h, with(func(a *Answer) { a.Access.RowBytes = -1 })}, "the line was changed"},
		"steps":        {[]any{h, with(func(a *Answer) { a.Divergence = &Divergence{Steps: -1} })}, "line 2: prompt 0, arm 0: the divergence of -1 steps is 0, at most 0, and 0 have"},
		"same":         {[]any{h, with(func(a *Answer) { a.Divergence = &Divergence{Steps: 3, Same: 4} })}, "and 4 have the same most probable token"},
		"largest":      {[]any{h, with(func(a *Answer) { a.Divergence = &Divergence{Steps: 3, KL: 3.1, Max: 1} })}, "the divergence of 3 steps is 3.1, at most 1"},
		"negative":     {[]any{h, with(func(a *Answer) { a.Divergence = &Divergence{Steps: 3, KL: -1} })}, "the divergence of 3 steps is -1"},
		"name":         {[]any{h, renamed(t, first)}, `line 2: json: unknown field "scorg"`},
		"task":         {[]any{h, first, with(func(a *Answer) { a.Arm, a.Label, a.Task = 1, "santapp", "two" })}, "line 3: prompt 0 is {ID:p Task:two Prefix:with Scorer:string_match_all Limit:9} here, and {ID:p Task:one"},
		"limit":        {[]any{h, first, with(func(a *Answer) { a.Arm, a.Label, a.Limit = 1, "santapp", 8 })}, "Limit:8} here"},
		"skipped":      {[]any{h, with(func(a *Answer) { a.Arm = skippedArm })}, `line 2: prompt 0, arm -1: `},
		"many prompts": {[]any{func() Header { h := h; h.Prompts = 1 << 62; return h }(), first}, "its first line is no header"},
		"many repeats": {[]any{func() Header { h := h; h.Repeats = 1 << 62; return h }(), first}, "its first line is no header"},
	} {
		var file bytes.Buffer
		for _, l := range c.lines {
			line, err := encode(l)
			if err != nil {
				t.Fatal(err)
			}
			file.Write(line)
		}
		path := t.TempDir() + "/file"
		if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadResults(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if l, _, err := OpenLog(path, h); err == nil {
			l.Close()
			t.Errorf("%s: the run goes on", name)
		}
	}
}

// renamed is an answer one bit of which was changed, in the name of a field.
func renamed(t *testing.T, a Answer) json.RawMessage {
	line, err := encode(a)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Replace(line, []byte(`"score":`), []byte(`"scorg":`), 1)
}

// What has no end is not read to its end.
func TestLogNotAFile(t *testing.T) {
	pipe := t.TempDir() + "/pipe"
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, "/dev/full", "/dev/null", t.TempDir()} {
		if _, _, err := OpenLog(path, header("dense")); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: error %v", path, err)
		}
	}
}
