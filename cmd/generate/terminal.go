package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// terminal shows control characters, which names and texts of others can hold and
// a terminal would obey, as JSON writes them. It keeps the first error. Goroutines
// may share it.
type terminal struct {
	to   io.Writer
	lock sync.Mutex
	err  error
}

func (t *terminal) Write(p []byte) (int, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	_, err := t.to.Write(visible(p))
	if t.err == nil {
		t.err = err
	}
	return len(p), err
}

// visible replaces control characters but newlines and tabs.
func visible(p []byte) []byte {
	var shown []byte
	from := 0
	for at := 0; at < len(p); {
		r, size := utf8.DecodeRune(p[at:])
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			shown = fmt.Appendf(append(shown, p[from:at]...), `\u%04x`, r)
			from = at + size
		}
		at += size
	}
	if from == 0 {
		return p
	}
	return append(shown, p[from:]...)
}

// exact is where w writes to, for what must come out byte for byte: answers.
func exact(w io.Writer) io.Writer {
	if t, ok := w.(*terminal); ok {
		return t.to
	}
	return w
}

func isTerminal(f any) bool {
	if w, ok := f.(io.Writer); ok {
		f = exact(w)
	}
	file, ok := f.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
