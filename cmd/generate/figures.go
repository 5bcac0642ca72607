package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

type figuresKey struct{}

// figures is what a run has to show.
type figures struct{ wanted, there atomic.Bool }

// withFigures is a context in which a run can say that it has figures.
func withFigures(ctx context.Context) context.Context {
	return context.WithValue(ctx, figuresKey{}, new(figures))
}

func figuresOf(ctx context.Context) *figures {
	if f, ok := ctx.Value(figuresKey{}).(*figures); ok {
		return f
	}
	return new(figures)
}

// wantFigures says that a run without figures has nothing to show.
func wantFigures(ctx context.Context) { figuresOf(ctx).wanted.Store(true) }

// haveFigures says that there are figures which Ctrl-C must not lose: the program
// waits until they are shown.
func haveFigures(ctx context.Context) { figuresOf(ctx).there.Store(true) }

func hasFigures(ctx context.Context) bool { return figuresOf(ctx).there.Load() }

// noFigures is what an interrupted run says that has none.
const noFigures = "interrupted before any figure"

// tellNoFigures says so, once, if figures were wanted and there are none.
func tellNoFigures(ctx context.Context, w io.Writer) {
	if !hasFigures(ctx) && figuresOf(ctx).wanted.CompareAndSwap(true, false) {
		fmt.Fprintln(w, noFigures)
	}
}

// showRest shows the figures of a run that has ended, with err those that there are:
// what took minutes is not lost with what came after.
func showRest(w io.Writer, err error, any bool, show func() error) error {
	if err != nil && !any {
		return err
	}
	if err != nil {
		fmt.Fprintln(w, "ended early: the figures are those of what was measured before")
	}
	return cmp.Or(err, show())
}
