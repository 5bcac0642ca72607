package main

import (
	"fmt"
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
		return &progress{}
	}
	return &progress{w: exact(w)}
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

// timeLeft tells how far a run is and about how long the rest takes.
type timeLeft struct {
	w        io.Writer
	start    time.Time
	last     time.Time
	done, of int
	every    time.Duration // the least time between two lines
}

func newTimeLeft(w io.Writer, of int) *timeLeft {
	now := time.Now()
	return &timeLeft{w: w, start: now, last: now, of: of, every: 2 * time.Second}
}

// step counts one prompt as done.
func (c *timeLeft) step() {
	c.done++
	now := time.Now()
	if c.done < c.of && now.Sub(c.last) < c.every {
		return
	}
	c.last = now
	spent := now.Sub(c.start)
	left := spent / time.Duration(c.done) * time.Duration(c.of-c.done)
	fmt.Fprintf(c.w, "%d of %s, %v, about %v left\n", c.done, count(c.of, "prompt"), spent.Round(time.Second), left.Round(time.Second))
}
