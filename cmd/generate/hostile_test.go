package main

import (
	"bytes"
	"errors"
	"io/fs"
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
