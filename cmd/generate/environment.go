package main

import (
	"os"
	"regexp"
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

// renamed is an error with another text.
type renamed struct {
	error
	text string
}

func (r renamed) Error() string { return r.text }
func (r renamed) Unwrap() error { return r.error }

// nameVariables has an error about the value of a flag that a variable set name the
// variable. What a message advises stays: a flag that is given wins.
func nameVariables(flags *pflag.FlagSet, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	flags.VisitAll(func(f *pflag.Flag) {
		if fromVariable(flags, f.Name) {
			text = nameVariable(f, text)
		}
	})
	if text == err.Error() {
		return err
	}
	return renamed{err, text}
}

// nameVariable names a flag's variable where a message names the flag with its value,
// as the first word of a line, or in brackets.
func nameVariable(f *pflag.Flag, text string) string {
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "(?:" + name + "|-" + f.Shorthand + ")"
	}
	values := []string{regexp.QuoteMeta(f.Value.String()) + `\b`}
	if _, ok := f.Value.(*listValue); ok {
		for _, v := range choices(f.Value.String()) {
			values = append(values, regexp.QuoteMeta(v)+`\b`)
		}
	}
	for _, r := range []struct{ find, replace string }{
		{`(?m)(^|[ (])` + name + ` ("|` + strings.Join(values, "|") + `)`, "${1}VARIABLE=$2"},
		{`(?m)^()` + name + ` ([-+0-9])`, "${1}VARIABLE=$2"}, // a list otherwise written
		{`(?m)^` + name + `([ :,])`, "VARIABLE$1"},
		{`\(` + name + `\)`, "(VARIABLE)"},
	} {
		text = regexp.MustCompile(r.find).ReplaceAllString(text, strings.Replace(r.replace, "VARIABLE", variableOf(f), 1))
	}
	return text
}
