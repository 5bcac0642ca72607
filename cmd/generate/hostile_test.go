package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A text that has too many tokens, whatever they are, is refused before it is
// split.
func TestLongTextIsNotSplit(t *testing.T) {
	dir := t.TempDir()
	text := strings.Repeat("word ", 4<<20)
	write(t, dir+"/prompt.txt", text)
	write(t, dir+"/rows.jsonl", `{"input": "`+text+`", "outputs": ["x"]}`+"\n")
	for _, args := range [][]string{
		{needle, "-f", dir + "/prompt.txt"},
		{"compare", needle, "-f", dir + "/prompt.txt"},
		{"evaluate", needle, "--tasks", dir + "/rows.jsonl"},
	} {
		o := generate(t, "", args...)
		if o.code != 2 || !strings.Contains(o.errors, "20971520 bytes, of which a token has at most") || !strings.Contains(o.errors, "the limit, the model's, is ") {
			t.Errorf("%q: exit code %d, %s", args[:2], o.code, o.errors)
		}
	}
}

// Control characters of names and rows do not reach the terminal.
func TestControlCharactersAreShown(t *testing.T) {
	dir := t.TempDir()
	const bell = "\x1b]0;x\a"
	write(t, dir+"/rows.jsonl", `{"id": "a\u001b]0;x\u0007\u009b", "input": "What\u001b\u0007?", "outputs": ["x\u001b]0;x\u0007"]}`+"\n")
	for _, args := range [][]string{
		{"compare", needle, "--task", dir + "/rows.jsonl", "-n", "2", "--control=false"},
		{"evaluate", needle, "--tasks", dir + "/" + bell + ".jsonl"},
		{bell, "-p", "x"},
		{"inspect", dir + "/" + bell},
		{needle, "--" + bell},
		{needle, "-p", "x", "--attention", bell},
		{bell, bell},
	} {
		o := generate(t, "", args...)
		if o.code == 0 && args[0] != "compare" || strings.ContainsAny(o.errors+o.out, "\x1b\a\u009b") || !strings.Contains(o.errors, `x\u0007`) && !strings.Contains(o.errors, `x\a`) {
			t.Errorf("%q: exit code %d, %q", args, o.code, o.errors)
		}
	}
	for text, want := range map[string]string{"": "", "a\n\tb": "a\n\tb", "\r": `\u000d`, "é\x7f\u0085\xffx\x00": "é\\u007f\\u0085\xffx\\u0000"} {
		if got := visible([]byte(text)); string(got) != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// A help text that cannot be written is an error, too.
func TestHelpOnFullDisk(t *testing.T) {
	for _, args := range [][]string{{"--help"}, {"--version"}, {"compare", "--help"}, {"completion", "bash"}} {
		full := &fs.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.ENOSPC}
		var stderr bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(""), &writer{then: func() error { return full }}, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), "generate: write /dev/stdout: no space left on device") {
			t.Errorf("%q: exit code %d, %q", args, code, stderr.String())
		}
		gone := &writer{then: func() error { return errors.Join(syscall.EPIPE) }}
		if code := run(t.Context(), args, strings.NewReader(""), gone, &stderr); code != 0 {
			t.Errorf("%q: the reader went away: exit code %d", args, code)
		}
	}
}

// endless is a stream without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// Files and streams without end are not read into memory.
func TestEndlessInputs(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir+"/model", os.DirFS(needle)); err != nil {
		t.Fatal(err)
	}
	sparse := func(name string) string {
		write(t, name, "")
		if err := os.Truncate(name, 1<<40); err != nil {
			t.Fatal(err)
		}
		return name
	}
	sparse(dir + "/rows.jsonl")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{needle}, "stdin: more than 67108864 bytes: no model reads as much"},
		{[]string{needle, "-f", "/dev/zero"}, "--file: /dev/zero: more than 67108864 bytes"},
		{[]string{needle, "--prompt-ids", "@/dev/zero"}, "--prompt-ids: /dev/zero: more than 67108864 bytes"},
		{[]string{needle, "-p", "x", "--chat-template", sparse(dir + "/t.jinja")}, "--chat-template: DIR/t.jinja: more than 67108864 bytes"},
		{[]string{"tokenize", needle}, "stdin: more than 67108864 bytes"},
		{[]string{"evaluate", needle, "--tasks", dir + "/rows.jsonl"}, "line 1: it has more than 268435456 bytes"},
		{[]string{"evaluate", needle, "--output", sparse(dir + "/results")}, "no results file"},
		{[]string{"report", dir + "/results", "-o", dir + "/x.html"}, "no results file"},
	} {
		o := generateWith(t.Context(), endless{}, c.args...)
		if o.code == 0 || !strings.Contains(strings.ReplaceAll(o.errors, dir, "DIR"), c.want) {
			t.Errorf("%q: exit code %d, %s, want %q", c.args, o.code, o.errors, c.want)
		}
	}
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json", "config.json", "generation_config.json"} {
		before := read(t, dir+"/model/"+name)
		sparse(dir + "/model/" + name)
		if o := generate(t, "", dir+"/model", "-p", "x"); o.code != 1 || !strings.Contains(o.errors, name+" has 1099511627776 bytes, which no such file has") {
			t.Errorf("%s: exit code %d, %s", name, o.code, o.errors)
		}
		write(t, dir+"/model/"+name, before)
	}
}

// One number of a checkpoint that is NaN is found when the logits are.
func TestNumberNotFinite(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(tiny+"qwen2_tied_gqa")); err != nil {
		t.Fatal(err)
	}
	file := read(t, dir+"/model.safetensors")
	write(t, dir+"/model.safetensors", file[:len(file)-2]+"\xc0\x7f") // of the last tensor, a BF16
	const want = "are not finite: the checkpoint is damaged or its numbers overflow; weights: DIR/model.safetensors holds tensor model.norm.weight [112], whose number 111 is not finite: download that file again"
	for _, args := range [][]string{
		{dir, "--prompt-ids", "1,2,3", "-n", "2"},
		{"compare", dir, "--prompt-ids", "1,2,3,4,5,6,7,8", "-n", "2", "--budget", "4"},
	} {
		if o := generate(t, "", args...); o.code != 1 || !strings.Contains(strings.ReplaceAll(o.errors, dir, "DIR"), want) {
			t.Errorf("%q: exit code %d, %s, want %s", args, o.code, o.errors, want)
		}
	}
}

// What has no room is refused before a prompt is read.
func TestRowsWithoutRoom(t *testing.T) {
	o := generate(t, "", "bench", "--attention-op", "--rows", "16777216", "--heads", "64/64", "--dim", "256", needle)
	if o.code != 1 || !strings.Contains(o.errors, "two layers of 16777216 rows take 5242900.0 MiB") || !strings.Contains(o.errors, "give fewer --rows") || strings.Contains(o.errors, "reading") {
		t.Errorf("exit code %d, %s", o.code, o.errors)
	}
}

// Rows that the prompt of --attention-op does not fit name --rows.
func TestRowsTooFew(t *testing.T) {
	o := generate(t, "", "bench", "--attention-op", "--rows", "50", "--drawn", "2", needle)
	if o.code != 2 || !strings.HasSuffix(o.errors, "generate: --rows 50: a prompt of access codes is read: 8 codes and the question take 187 tokens of 50: give more --rows\n") {
		t.Errorf("exit code %d, %s", o.code, o.errors)
	}
}

func TestEmptyName(t *testing.T) {
	for _, args := range [][]string{{"", "-p", "x"}, {"inspect", ""}, {"bench", ""}} {
		refused(t, generate(t, "", args...), 2, "", "the name of the model is empty: want a folder, or org/name in the Hugging Face cache")
	}
}
