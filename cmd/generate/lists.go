package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// errEmptyElement is what is amiss with 1,,2 and with 1,2 and a comma at an end.
var errEmptyElement = errors.New("the list has an empty element: take a comma out, or give the value")

// errTwice is what is amiss with 1,1, of values that are measured side by side.
type errTwice string

func (e errTwice) Error() string { return string(e) + " is named twice: leave one out" }

// listValue is a flag's list of values, separated by commas, as it was given.
// The list may be empty; none of its elements may. Given again, it goes on.
type listValue struct {
	list  *string
	set   bool // a value may come twice
	given bool // not the default any more
}

// Set takes a list that choices can read and adds it to those given before.
func (l *listValue) Set(s string) error {
	elements := choices(s)
	if slices.Contains(elements, "") {
		return errEmptyElement
	}
	all := s
	if l.given && len(choices(*l.list)) > 0 {
		all = *l.list
		if len(elements) > 0 {
			all += "," + s
		}
	}
	if twice := repeated(choices(all)); twice != "" && !l.set {
		return errTwice(twice)
	}
	*l.list, l.given = all, true
	return nil
}

// repeated is the first element that comes again, "" for none; 8 and 08 are one.
func repeated(elements []string) string {
	seen := map[string]bool{}
	for _, e := range elements {
		if n, err := strconv.Atoi(e); err == nil {
			e = strconv.Itoa(n)
		}
		if seen[e] {
			return e
		}
		seen[e] = true
	}
	return ""
}

func (l *listValue) String() string { return *l.list }

// Type is that of a text, for help.
func (l *listValue) Type() string { return "string" }

// listVar defines a flag that is a list. shorthand may be "".
func listVar(f *pflag.FlagSet, list *string, name, shorthand, value, usage string) {
	*list = value
	f.VarP(&listValue{list: list}, name, shorthand, usage)
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
