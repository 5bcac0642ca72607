package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync/atomic"
)

type figuresKey struct{}

// withFigures is a context in which a run can say that it has figures.
func withFigures(ctx context.Context) context.Context {
	return context.WithValue(ctx, figuresKey{}, new(atomic.Bool))
}

// haveFigures says that there are figures which Ctrl-C must not lose: the program
// waits until they are shown.
func haveFigures(ctx context.Context) {
	if has, ok := ctx.Value(figuresKey{}).(*atomic.Bool); ok {
		has.Store(true)
	}
}

func hasFigures(ctx context.Context) bool {
	has, ok := ctx.Value(figuresKey{}).(*atomic.Bool)
	return ok && has.Load()
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
