package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
)

// setByVariable is the annotation of flags that a variable set.
const setByVariable = "environment"

func fromVariable(flags *pflag.FlagSet, name string) bool {
	_, ok := flags.Lookup(name).Annotations[setByVariable]
	return ok
}

// variableOf is the variable that sets a flag.
func variableOf(f *pflag.Flag) string {
	return "GENERATE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
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
		name := variableOf(f)
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

// nameVariables has an error that speaks of flags which variables set say so.
// Checks of settings lie in packages that know nothing of variables.
func nameVariables(flags *pflag.FlagSet, err error) error {
	if err == nil {
		return nil
	}
	words := strings.FieldsFunc(err.Error(), func(r rune) bool { return r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var set []string
	flags.VisitAll(func(f *pflag.Flag) {
		names := []string{"--" + f.Name}
		if f.Shorthand != "" {
			names = append(names, "-"+f.Shorthand)
		}
		if fromVariable(flags, f.Name) && slices.ContainsFunc(names, func(n string) bool { return slices.Contains(words, n) }) {
			set = append(set, variableOf(f)+" sets "+strings.Join(names, " and "))
		}
	})
	if set == nil {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(set, ", "))
}
