package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// helpGroup is the annotation that holds a flag's heading.
const helpGroup = "group"

// addFlags registers flags under a heading of the help text.
func addFlags(cmd *cobra.Command, heading string, register func(*pflag.FlagSet)) {
	group := pflag.NewFlagSet(heading, pflag.ContinueOnError)
	group.SortFlags = false
	register(group)
	group.VisitAll(func(f *pflag.Flag) {
		f.Annotations = map[string][]string{helpGroup: {heading}}
		readDecimal(f)
		refuseEmpty(f)
	})
	cmd.Flags().AddFlagSet(group)
	cmd.Flags().SetNormalizeFunc(aliases)
}

// printHelp writes what a command does, its commands, and its flags by group.
func printHelp(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	about := cmd.Long
	if about == "" {
		about = cmd.Short
	}
	fmt.Fprintf(w, "%s\n\nUsage:\n  %s\n", strings.TrimSpace(about), cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s COMMAND ...\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprint(w, "\nCommands:\n")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-*s  %s\n", cmd.Commands()[0].NamePadding(), c.Name(), c.Short)
			}
		}
	}
	printFlags(w, cmd.Flags())
	if !cmd.HasParent() {
		fmt.Fprintln(w, "\nA flag that is not given can come from the environment: GENERATE_MAX_TOKENS for --max-tokens.")
	}
}

// startsFlag matches the first line of a flag's help; others continue it.
var startsFlag = regexp.MustCompile(`^ {2,6}-`)

// printFlags writes a line for each flag, all in the same columns.
func printFlags(w io.Writer, flags *pflag.FlagSet) {
	lines := strings.Split(flags.FlagUsages(), "\n")
	heading := ""
	flags.VisitAll(func(f *pflag.Flag) {
		group := "Other"
		if g := f.Annotations[helpGroup]; len(g) > 0 {
			group = g[0]
		}
		if group != heading {
			heading = group
			fmt.Fprintf(w, "\n%s:\n", heading)
		}
		end := 1
		for end < len(lines) && !startsFlag.MatchString(lines[end]) {
			end++
		}
		fmt.Fprintln(w, strings.TrimRight(strings.Join(lines[:end], "\n"), "\n"))
		lines = lines[end:]
	})
}
