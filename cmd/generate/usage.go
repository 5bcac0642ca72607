package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is a mistake on the command line or a prompt that does not fit.
type usageError struct{ err error }

func (e usageError) Error() string { return e.err.Error() }
func (e usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// asUsage marks an error about what the user gave.
func asUsage(err error) error {
	if err == nil {
		return nil
	}
	return usageError{err}
}

// newCommand has what all commands share: errors are printed by exitCode
// alone, and every flag can come from the environment.
func newCommand(use, short string, runE func(*cobra.Command, []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Args: oneModel,
		SilenceErrors: true, SilenceUsage: true, DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fromEnvironment(cmd.Flags(), args); err != nil {
				return err
			}
			return nameVariables(cmd.Flags(), runE(cmd, args))
		},
	}
	cmd.Flags().SortFlags = false
	return cmd
}

// oneModel allows the model's name and nothing else.
func oneModel(cmd *cobra.Command, args []string) error {
	alone := len(args) == 1 && cmd.Flags().NFlag() == 0
	if (len(args) > 1 || alone) && cmd.HasSubCommands() && !strings.ContainsAny(args[0], "/\\.") {
		if _, err := os.Stat(args[0]); err != nil {
			return usagef("%q is neither a command nor a model folder: want one MODEL, or tokenize, compare, evaluate, report, diagnose, bench or inspect before it; %s", args[0], seeHelp(cmd))
		}
	}
	if len(args) > 1 {
		return usagef("%q is left over: one MODEL is wanted, a text goes with -p; %s", args[1], seeHelp(cmd))
	}
	return nil
}

// spellOut replaces llama.cpp's long flags with one dash, which would be read
// as -s ys and -n o-cnv.
func spellOut(args []string) []string {
	out := slices.Clone(args)
	for i, arg := range out {
		switch arg {
		case "-sys":
			out[i] = "--system-prompt"
		case "-no-cnv":
			out[i] = "--raw"
		}
	}
	return out
}

// atLeastOne reports whether n, the value of the flag called name, can be asked
// for. 0 stands for a flag that is left out, whose default depends on other things:
// given, it would silently mean the default.
func atLeastOne(f *pflag.FlagSet, name string, n int) bool {
	return n > 0 || n == 0 && !f.Changed(name)
}

func seeHelp(cmd *cobra.Command) string { return "see " + cmd.CommandPath() + " --help" }

// flagError says in a line what is wrong with a flag.
func flagError(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &invalid):
		return usagef("--%s %q: %s", invalid.GetFlag().Name, invalid.GetValue(), amiss(invalid.GetFlag(), err))
	case errors.As(err, &missing):
		return usagef("--%s needs a value: %s", missing.GetFlag().Name, wanted(missing.GetFlag()))
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if group := unknown.GetSpecifiedShortnames(); group != "" {
			name = "-" + group
		} else if like := likeFlag(cmd.Flags(), unknown.GetSpecifiedName()); like != "" {
			return usagef("unknown flag %s: is it --%s? %s", name, like, seeHelp(cmd))
		}
		return usagef("unknown flag %s; %s", name, seeHelp(cmd))
	}
	return usagef("%v; %s", err, seeHelp(cmd))
}

// likeFlag is the flag whose name is the nearest to what was typed, "" where
// none is within two letters of it.
func likeFlag(flags *pflag.FlagSet, typed string) string {
	best, least := "", 3
	if len(typed) < 4 {
		return ""
	}
	flags.VisitAll(func(f *pflag.Flag) {
		if d := edits(typed, f.Name); d < least && !f.Hidden {
			best, least = f.Name, d
		}
	})
	return best
}

// edits is how many letters are to be put in, left out or replaced to make b of
// a (Levenshtein).
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// amiss says what is wrong with a flag's value.
func amiss(f *pflag.Flag, err error) string {
	var twice errTwice
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "it is out of range"
	case errors.As(err, &twice):
		return twice.Error()
	case errors.Is(err, errEmptyElement):
		return errEmptyElement.Error()
	case errors.Is(err, errNotDecimal):
		return errNotDecimal.Error()
	case errors.Is(err, errEmptyName):
		name, _ := pflag.UnquoteUsage(f)
		return fmt.Sprintf("it is empty: give %s, or leave --%s out", name, f.Name)
	}
	return "want " + wanted(f)
}

// wanted says what a flag takes.
func wanted(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int":
		return "a whole number"
	case "uint64":
		return "a whole number of at least 0"
	case "float64":
		return "a number"
	case "bool":
		return "true or false"
	}
	name, _ := pflag.UnquoteUsage(f)
	return strings.ToLower(name)
}
