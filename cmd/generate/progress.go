package main

import (
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows one bar at a time on a terminal and nothing elsewhere.
type progress struct {
	w   io.Writer // nil: silent
	bar *progressbar.ProgressBar
}

func newProgress(w io.Writer) *progress {
	if !isTerminal(w) {
		w = nil
	}
	return &progress{w: w}
}

// stage returns a callback for one piece of work, which begins with the first
// call.
func (p *progress) stage(name string) func(done, of int) {
	if p.w == nil {
		return nil
	}
	started := false
	return func(done, of int) {
		if !started {
			p.done()
			started = true
			p.bar = progressbar.NewOptions(of, progressbar.OptionSetWriter(p.w), progressbar.OptionSetDescription(name),
				progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
		}
		p.bar.Set(done)
	}
}

// done clears the bar.
func (p *progress) done() {
	if p.bar != nil {
		p.bar.Clear()
		p.bar = nil
	}
}
