package main

import (
	"io"
	"os"
	"syscall"
	"testing"
)

// A file that is written as a whole has the permissions that the user's umask leaves, or
// those it had, and a link to it stays one.
func TestWriteFile(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	dir := t.TempDir()
	text := func(w io.Writer) error {
		_, err := io.WriteString(w, "new")
		return err
	}
	put := func(path string) {
		t.Helper()
		if err := writeFile("--output", path, nil, text); err != nil {
			t.Fatal(err)
		}
	}
	check := func(path string, want os.FileMode) {
		t.Helper()
		if info, err := os.Lstat(path); err != nil || info.Mode() != want || read(t, path) != "new" {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
	put(dir + "/fresh")
	check(dir+"/fresh", 0o640)
	write(t, dir+"/kept", "old")
	if err := os.Chmod(dir+"/kept", 0o606); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("kept", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	put(dir + "/link")
	check(dir+"/kept", 0o606)
	check(dir+"/link", os.ModeSymlink|0o777)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 3 {
		t.Errorf("%v, %v: want three files", left, err)
	}
}

// An empty name is refused by every flag that takes a file, or another program.
func TestEmptyFileName(t *testing.T) {
	m := tiny + "qwen2_tied_gqa"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{m, "-f", ""}, "--file"},
		{[]string{m, "-p", "x", "--chat-template="}, "--chat-template"},
		{[]string{"tokenize", needle, "--file", ""}, "--file"},
		{[]string{"compare", m, "--report", ""}, "--report"},
		{[]string{"compare", m, "--prompt-ids", "1", "--chat-template", ""}, "--chat-template"},
		{[]string{"evaluate", m, "-o", ""}, "--output"},
		{[]string{"evaluate", "--merge", "x", "--output", ""}, "--output"},
		{[]string{"report", "x", "-o", "", "--plot", "x.svg"}, "--output"},
		{[]string{"report", "x", "-o", "x.html", "--plot", ""}, "--plot"},
	} {
		refused(t, generate(t, "", c.args...), 2, "", c.want+` "": it is empty: give FILE, or leave `+c.want+" out")
	}
	refused(t, generate(t, "", "compare", m, "--results", "x", "--results", "", "--report", "x"), 2, "", `--results "": it is empty: give FILE, or leave --results out`)
	refused(t, generate(t, "", "bench", m, "--attention-op", "--peer", ""), 2, "", `--peer "": it is empty: give COMMAND, or leave --peer out`)
	t.Setenv("GENERATE_REPORT", "") // counts as unset
	answer(t, "", "compare", m, "--prompt-ids", "1,2", "-n", "1", "--control=false")
}
