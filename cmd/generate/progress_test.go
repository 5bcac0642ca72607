package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// pseudoTerminal is a terminal that a program may write to, and its other end.
func pseudoTerminal(t *testing.T) (screen, program *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { screen.Close() })
	fd := int(screen.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	return screen, program
}

// A bar under way when Ctrl-C comes is wiped: what the shell prints next begins
// at the edge.
func TestInterruptedBar(t *testing.T) {
	ids := "--prompt-ids=" + idList(randomIDs(3000, 500, 1))
	for _, args := range [][]string{{tiny + "qwen2_tied_gqa", ids, "-n", "2"}, {"compare", tiny + "qwen2_tied_gqa", ids, "-n", "2"}} {
		bars := 0
		for after := int32(1); after < 24; after += 3 {
			screen, program := pseudoTerminal(t)
			ctx := &countdown{Context: t.Context()}
			ctx.left.Store(after)
			code := run(ctx, append(args, "--prefill-chunk", "100"), strings.NewReader(""), &bytes.Buffer{}, program)
			program.Close()
			shown, _ := io.ReadAll(screen) // which ends with an error, since the program's end is closed
			text := string(shown)
			if code != 130 {
				break
			}
			lines := strings.Split(text, "\r")
			if strings.Contains(text, "reading the prompt ") {
				bars++
				if last := lines[len(lines)-1]; last != "" || strings.Trim(lines[len(lines)-2], " ") != "" {
					t.Fatalf("%v after %d: %q is left", args[0], after, lines[max(0, len(lines)-3):])
				}
			}
		}
		if bars == 0 {
			t.Errorf("%v: no bar was interrupted", args[0])
		}
	}
}
