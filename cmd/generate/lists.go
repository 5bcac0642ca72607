package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// errEmptyElement is what is amiss with 1,,2 and with 1,2 and a comma at an end.
var errEmptyElement = errors.New("the list has an empty element: take a comma out, or give the value")

// listValue is a flag's list of values, separated by commas, as it was given.
// The list may be empty; none of its elements may.
type listValue string

// Set takes a list that choices can read.
func (l *listValue) Set(s string) error {
	if slices.Contains(choices(s), "") {
		return errEmptyElement
	}
	*l = listValue(s)
	return nil
}

func (l *listValue) String() string { return string(*l) }

// Type is that of a text, for help.
func (l *listValue) Type() string { return "string" }

// listVar defines a flag that is a list. shorthand may be "".
func listVar(f *pflag.FlagSet, list *string, name, shorthand, value, usage string) {
	*list = value
	f.VarP((*listValue)(list), name, shorthand, usage)
}

// choices are the elements of a list, without the spaces around them; none of a
// list that is blank.
func choices(list string) []string {
	if strings.TrimSpace(list) == "" {
		return nil
	}
	elements := strings.Split(list, ",")
	for i, e := range elements {
		elements[i] = strings.TrimSpace(e)
	}
	return elements
}
