// Command generate runs a language model from a checkpoint folder: it answers
// a prompt with exact or sampled attention, and compares, evaluates and times
// the two.
//
// The answer goes to stdout and nothing else does; everything else goes to
// stderr. Exit codes: 0 done (also when the reader of stdout went away), 1
// loading or running failed, 2 the command line or the prompt cannot be used,
// 130 interrupted.
//
// A file begins with the command that it belongs to (generate, compare, evaluate,
// diagnose, report, bench, inspect, tokenize). What commands share:
//
//	devices, open, models, resolve    --device, MODEL and its weights
//	attentions, attention_report      --attention: methods from flags, their labels
//	prompt, sampling                  what is asked, and how tokens are chosen
//	sources, prompts, task            prompts of tasks
//	context, need                     whether it fits
//	spread                            what a latent cache should be grouped by
//	usage, help, environment, unused  flags in general, errors about them
//	lists, numbers                    flags that are lists or numbers
//	terminal, progress, stdout, file  the terminal and files
//	figures                           what an interrupted run has to show
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const version = "0.1.0"

func main() {
	// A reader that goes away must end in a write error, not in a signal.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	ctx = withFigures(ctx)
	if stdoutClosed() {
		fmt.Fprintln(os.Stderr, "generate: stdout is closed: there is nowhere to write the answer")
		os.Exit(1)
	}
	done := make(chan int, 1)
	go func() { done <- run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }()
	os.Exit(await(ctx, done, os.Stderr))
}

// patience is how long an interrupted program may take to end by itself. A read
// of stdin, a template or a library does not look at the context, and a layer of a
// large model on a CPU takes longer than that.
const patience = time.Second

// await is the exit code of a run, 130 if it does not end when ctx does. A run that
// has figures is waited for: they would be lost.
func await(ctx context.Context, done <-chan int, stderr io.Writer) int {
	select {
	case code := <-done:
		return code
	case <-ctx.Done():
	}
	select {
	case code := <-done:
		return code
	case <-time.After(patience):
	}
	if !hasFigures(ctx) {
		tellNoFigures(ctx, stderr)
		return interrupted
	}
	fmt.Fprintln(stderr, "interrupted: the figures so far come when the work under way has ended; Ctrl-C again ends at once")
	return <-done
}

// interrupted is the exit code after Ctrl-C, as shells count it.
const interrupted = 130

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newGenerateCommand()
	root.AddCommand(newTokenizeCommand(), newCompareCommand(), newEvaluateCommand(), newReportCommand(), newDiagnoseCommand(), newBenchCommand(), newInspectCommand())
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(printHelp)
	root.SetArgs(spellOut(args))
	root.SetIn(stdin)
	shown, messages := &terminal{to: stdout}, &terminal{to: stderr}
	root.SetOut(shown)
	root.SetErr(messages)
	cmd, err := root.ExecuteContextC(ctx)
	switch parent := cmd.Parent(); {
	case shown.err != nil:
		err = shown.err // which a help text does not return
	case parent != nil && parent.Name() == "completion":
		err = asUsage(err) // cobra's own command
	}
	if errors.Is(err, syscall.EPIPE) && ctx.Err() != nil {
		err = ctx.Err() // Ctrl-C ended the reader as well
	}
	if errors.Is(err, context.Canceled) {
		tellNoFigures(ctx, messages)
	}
	return exitCode(err, messages)
}

func exitCode(err error, stderr io.Writer) int {
	var usage usageError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return 0
	case errors.Is(err, context.Canceled):
		return interrupted
	}
	fmt.Fprintf(stderr, "generate: %v\n", err)
	if errors.As(err, &usage) {
		return 2
	}
	return 1
}
