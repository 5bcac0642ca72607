// Command generate runs a language model from a checkpoint folder: it answers
// a prompt with exact or sampled attention, and compares, evaluates and times
// the two.
//
// The answer goes to stdout and nothing else does; everything else goes to
// stderr. Exit codes: 0 done (also when the reader of stdout went away), 1
// loading or running failed, 2 the command line or the prompt cannot be used,
// 130 interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const version = "0.1.0"

func main() {
	// A reader that goes away must end in a write error, not in a signal.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is the whole program: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newGenerateCommand()
	root.AddCommand(newTokenizeCommand(), newCompareCommand(), newEvaluateCommand(), newBenchCommand(), newInspectCommand())
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	return exitCode(root.ExecuteContext(ctx), stderr)
}

// usageError is a mistake on the command line or a prompt that does not fit.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func exitCode(err error, stderr io.Writer) int {
	var usage usageError
	switch {
	case err == nil, errors.Is(err, syscall.EPIPE):
		return 0
	case errors.Is(err, context.Canceled):
		return 130
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "generate: %v\n", err)
		return 2
	}
	fmt.Fprintf(stderr, "generate: %v\n", err)
	return 1
}

// newCommand has what all commands share: errors are printed by exitCode
// alone, and every flag can come from the environment.
func newCommand(use, short string, args cobra.PositionalArgs, runE func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Args: usageArgs(args),
		SilenceErrors: true, SilenceUsage: true,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return fromEnvironment(cmd.Flags(), os.LookupEnv) },
		RunE:    runE,
	}
}

func usageArgs(args cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, a []string) error {
		if err := args(cmd, a); err != nil {
			return usagef("%v; see generate %s--help", err, strings.TrimPrefix(cmd.Name()+" ", "generate "))
		}
		return nil
	}
}

// fromEnvironment sets flags that the command line leaves open from
// GENERATE_<FLAG>.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "GENERATE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value, ok := lookup(name)
		if !ok || f.Changed || first != nil {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			first = usagef("%s=%q: %v", name, value, err)
		}
	})
	return first
}
