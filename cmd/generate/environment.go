package main

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// setByVariable is the annotation of flags that a variable set.
const setByVariable = "environment"

func fromVariable(flags *pflag.FlagSet, name string) bool {
	_, ok := flags.Lookup(name).Annotations[setByVariable]
	return ok
}

// onCommandLine reports whether a flag was typed. Variables are set for many
// commands, and may mean nothing to one.
func onCommandLine(flags *pflag.FlagSet, name string) bool {
	return flags.Changed(name) && !fromVariable(flags, name)
}

// fromEnvironment sets the flags that the command line leaves open from
// GENERATE_<FLAG>; an empty variable counts as unset. What the command line
// says wins, also over the variable of a flag that contradicts it.
func fromEnvironment(flags *pflag.FlagSet, args []string) error {
	open := map[string]bool{} // flags that a variable may set
	flags.VisitAll(func(f *pflag.Flag) { open[f.Name] = !f.Changed && f.Name != "help" && f.Name != "version" })
	for _, rivals := range [][]string{{"prompt", "file", "prompt-ids", "ids"}, {"greedy", "temperature"}, {"raw", "chat-template"}} {
		if slices.ContainsFunc(rivals, flags.Changed) {
			for _, name := range rivals {
				open[name] = false
			}
		}
	}
	if len(args) > 0 {
		open["model"] = false
	}
	var first error
	flags.VisitAll(func(f *pflag.Flag) {
		name := "GENERATE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		value := os.Getenv(name)
		if value == "" || !open[f.Name] || first != nil {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			first = usagef("%s=%q: %s", name, value, amiss(f, err))
			return
		}
		first = flags.SetAnnotation(f.Name, setByVariable, nil)
	})
	return first
}
