package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// runMain makes the test binary behave as the program.
const runMain = "TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
	}
	os.Exit(m.Run())
}

// writer calls then after every write and takes its error.
type writer struct {
	got  []byte
	then func() error
}

func (w *writer) Write(p []byte) (int, error) {
	w.got = append(w.got, p...)
	return len(p), w.then()
}

// countdown is a context that is cancelled after some questions.
type countdown struct {
	context.Context
	left atomic.Int32
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// Ctrl-C ends with 130 and keeps what was printed.
func TestInterrupted(t *testing.T) {
	args := []string{needle, "-p", "Hello", "-n", "40", "--ignore-eos", "--greedy"}
	full := answer(t, "", args...).out
	ctx, cancel := context.WithCancel(t.Context())
	var stderr bytes.Buffer
	stdout := &writer{then: func() error { cancel(); return nil }}
	if code := run(ctx, args, strings.NewReader(""), stdout, &stderr); code != 130 || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
	if got := string(stdout.got); got == "" || len(got) >= len(full) || !strings.HasPrefix(full, got) {
		t.Errorf("printed %q of %q", got, full)
	}
	if o := generateWith(ctx, strings.NewReader(""), args...); o.code != 130 || o.out != "" || o.errors != "" {
		t.Errorf("cancelled from the start: %+v", o)
	}
	if o := generateWith(ctx, strings.NewReader(""), append(args, "--json")...); o.code != 130 || o.out != "" {
		t.Errorf("with --json: %+v", o)
	}
	if o := generateWith(ctx, strings.NewReader(""), "compare", needle, "-p", "x"); o.code != 130 || o.out != "" {
		t.Errorf("compare: %+v", o)
	}

	ids := []string{tiny + "qwen2_tied_gqa", "--prompt-ids", "1,2,3", "-n", "50", "--ignore-eos", "--greedy", "--attention", "dense"}
	all := strings.TrimSpace(answer(t, "", ids...).out)
	soon := &countdown{Context: t.Context()}
	soon.left.Store(12) // a few of them while the prompt is read
	o := generateWith(soon, strings.NewReader(""), ids...)
	if got := strings.TrimSpace(o.out); o.code != 130 || got == "" || len(got) >= len(all) || !strings.HasPrefix(all, got) {
		t.Errorf("ids: exit code %d, printed %q of %q", o.code, got, all)
	}
}

// What was measured before Ctrl-C is shown: wherever it comes, the tables are whole
// and say no more than there is.
func TestInterruptedFigures(t *testing.T) {
	m := tiny + "qwen2_tied_gqa"
	for _, c := range []struct {
		args      []string
		one, both string // in the figures of the first part, and of the second
	}{
		{[]string{"bench", m, "-p", "8,16", "-n", "1", "-r", "1", "--attention", "dense"}, "| pp8 ", "| pp16 "},
		{[]string{"bench", m, "--attention-op", "--heads", "14/2", "--dim", "16", "--rows", "60,90", "--drawn", "2", "--parents", "contiguous"}, "| 60 ", "| 90 "},
		{[]string{"compare", m, "--prompt-ids", "3,1,4,1,5,9,2,6", "-n", "3", "--ignore-eos", "--budget", "2", "--parents", "contiguous", "--parent-size", "2", "--representatives", "1", "--seeds", "2"}, "along dense's", "2 seeds, mean"},
		{[]string{"diagnose", needle, "--tasks", "access_1", "--length", "90,100", "--samples", "1", "-n", "1", "--parents", "contiguous", "--block", "16"}, "at most 90 tokens", "at most 100 tokens"},
	} {
		some := 0
		for after := int32(1); ; after += 1 + after/6 {
			ctx := &countdown{Context: withFigures(t.Context())}
			ctx.left.Store(after)
			o := generateWith(ctx, strings.NewReader(""), c.args...)
			if o.code == 0 {
				break
			}
			one, both := strings.Contains(o.out, c.one), strings.Contains(o.out, c.both)
			if o.code != 130 || one != strings.HasSuffix(o.errors, "ended early: the figures are those of what was measured before\n") || !one && o.out != "" || !strings.HasSuffix("\n"+o.out, "\n") {
				t.Fatalf("%v after %d: exit code %d\n%s%s", c.args, after, o.code, o.out, o.errors)
			}
			if !one && o.errors[strings.LastIndex(strings.TrimSuffix(o.errors, "\n"), "\n")+1:] != noFigures+"\n" {
				t.Fatalf("%v after %d, before any figure: %q", c.args, after, o.errors)
			}
			if one && !hasFigures(ctx) {
				t.Fatalf("%v after %d: the program would not have waited for the figures", c.args, after)
			}
			if one && !both {
				some++
			}
		}
		if some == 0 {
			t.Errorf("%v: the first part is never shown alone", c.args)
		}
	}
}

// An interrupted comparison leaves the page as it was, and says so.
func TestInterruptedPage(t *testing.T) {
	path := t.TempDir() + "/page.html"
	write(t, path, "before")
	for after, said := int32(1), false; !said; after += 1 + after/6 {
		ctx := &countdown{Context: withFigures(t.Context())}
		ctx.left.Store(after)
		o := generateWith(ctx, strings.NewReader(""), "compare", tiny+"qwen2_tied_gqa", "--prompt-ids", "3,1,4,1,5,9,2,6", "-n", "3", "--ignore-eos",
			"--budget", "2", "--parents", "contiguous", "--parent-size", "2", "--representatives", "1", "--seeds", "2", "--report", path)
		if o.code == 0 {
			t.Fatal("never interrupted with figures")
		}
		said = strings.Contains(o.errors, path+" is not written: the comparison is not whole\n")
		if o.code != 130 || said != (o.out != "") || read(t, path) != "before" {
			t.Fatalf("after %d: exit code %d\n%s%s", after, o.code, o.out, o.errors)
		}
	}
}

// Timing attention alone ends at Ctrl-C, however many rounds are left.
func TestInterruptedTiming(t *testing.T) {
	for _, how := range [][]string{{"--protocol", "paper"}, {"--stages"}} {
		args := append([]string{"bench", tiny + "qwen2_tied_gqa", "--attention-op", "--heads", "14/2", "--dim", "16", "--rows", "60", "--drawn", "2", "--parents", "contiguous", "--rounds", "1000000"}, how...)
		ctx, cancel := context.WithCancel(t.Context())
		stderr := &writer{}
		stderr.then = func() error {
			if bytes.Contains(stderr.got, []byte("timing with")) {
				cancel()
			}
			return nil
		}
		done := make(chan int, 1)
		go func() { done <- run(ctx, args, strings.NewReader(""), io.Discard, stderr) }()
		select {
		case code := <-done:
			if code != 130 {
				t.Errorf("%v: exit code %d\n%s", how, code, stderr.got)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%v: goes on", how)
		}
	}
}

// A reader that went away is no fault; a full disk is.
func TestOutputFails(t *testing.T) {
	for _, args := range [][]string{
		{needle, "-p", "Hello", "-n", "30", "--ignore-eos"},
		{needle, "-p", "Hello", "-n", "3", "--json"},
		{tiny + "qwen2_tied_gqa", "--prompt-ids", "1,2,3", "-n", "3"},
		{"tokenize", needle, "-p", "Hello there"},
		{"inspect", needle},
	} {
		for _, c := range []struct {
			err    error
			code   int
			stderr string
		}{
			{&os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, 0, ""},
			{&os.PathError{Op: "write", Path: "|1", Err: syscall.ENOSPC}, 1, "generate: write |1: no space left on device\n"},
		} {
			var stderr bytes.Buffer
			code := run(t.Context(), args, strings.NewReader(""), &writer{then: func() error { return c.err }}, &stderr)
			if code != c.code || stderr.String() != c.stderr {
				t.Errorf("%q, %v: exit code %d, stderr %q", args, c.err, code, stderr.String())
			}
		}
	}
}

// Ctrl-C ends `| tee` as well: the program was interrupted all the same.
func TestInterruptedWithReader(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	gone := &writer{then: func() error { cancel(); return syscall.EPIPE }}
	var stderr bytes.Buffer
	args := []string{needle, "-p", "Hello", "-n", "30", "--ignore-eos"}
	if code := run(ctx, args, strings.NewReader(""), gone, &stderr); code != 130 || stderr.Len() > 0 {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

// The signals themselves, in a process of its own: `| head -c 1` and Ctrl-C.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(p *os.Process, stdout io.Closer) error
		code int
	}{
		{"closed pipe", func(_ *os.Process, stdout io.Closer) error { return stdout.Close() }, 0},
		{"Ctrl-C", func(p *os.Process, _ io.Closer) error { return p.Signal(os.Interrupt) }, 130},
	} {
		program, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(program, needle, "-p", "Hello", "-n", "5000", "--ignore-eos")
		cmd.Env = append(os.Environ(), runMain+"=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		stdout, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(stdout, make([]byte, 1)); err != nil {
			t.Errorf("%s: no answer: %v", c.name, err)
		}
		if err := c.then(cmd.Process, stdout); err != nil {
			t.Error(err)
		}
		io.Copy(io.Discard, stdout)
		if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Error(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code || stderr.Len() > 0 {
			t.Errorf("%s: exit code %d, want %d; stderr %q", c.name, code, c.code, stderr.String())
		}
	}
}

// A run that does not look at the context is left behind after Ctrl-C, but not with
// figures that it has.
func TestAwait(t *testing.T) {
	ctx, cancel := context.WithCancel(withFigures(t.Context()))
	done := make(chan int, 1)
	done <- 7
	var said bytes.Buffer
	if code := await(ctx, done, &said); code != 7 {
		t.Errorf("exit code %d of a run that ended", code)
	}
	cancel()
	if code := await(ctx, make(chan int), &said); code != interrupted || said.Len() > 0 {
		t.Errorf("exit code %d of a run that hangs, %q", code, said.String())
	}
	wantFigures(ctx)
	for _, want := range []string{noFigures + "\n", ""} { // said once
		said.Reset()
		if code := await(ctx, make(chan int), &said); code != interrupted || said.String() != want {
			t.Errorf("exit code %d of a run without figures yet, %q", code, said.String())
		}
	}
	haveFigures(ctx)
	time.AfterFunc(patience+patience/4, func() { done <- 8 })
	if code := await(ctx, done, &said); code != 8 || !strings.HasSuffix(said.String(), "Ctrl-C again ends at once\n") {
		t.Errorf("exit code %d of a run with figures, %q", code, said.String())
	}
}

// An evaluation that cannot be made leaves the file of an earlier one alone.
func TestEvaluateKeepsFile(t *testing.T) {
	path := t.TempDir() + "/answers"
	write(t, path, "keep")
	o := generate(t, "", "evaluate", "--length", "10", "--samples", "1", "-o", path, needle)
	if o.code != 2 || read(t, path) != "keep" {
		t.Errorf("exit code %d, %q left", o.code, read(t, path))
	}
}

// An answer that nobody can get is no success.
func TestStdoutClosed(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		redirect, stderr string
		code             int
	}{
		{">&-", "generate: stdout is closed: there is nowhere to write the answer\n", 1},
		{">/dev/null", "", 0},
		{"1<>/dev/null", "", 0}, // as some programs start others
	} {
		cmd := exec.Command("sh", "-c", `exec "$0" "$@" `+c.redirect, program, tiny+"qwen2_tied_gqa", "--prompt-ids", "1", "-n", "1")
		cmd.Env = append(os.Environ(), runMain+"=1")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		if code := cmd.ProcessState.ExitCode(); code != c.code || stderr.String() != c.stderr {
			t.Errorf("%s: %v, exit code %d, stderr %q", c.redirect, err, code, stderr.String())
		}
	}
}
