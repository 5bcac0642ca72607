package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/ardanlabs/jinja"
)

// Names of functions that the rewriting of a template puts into it.
const (
	enterMacro  = "__enter"
	leaveMacro  = "__leave"
	enterLoop   = "__step"
	printed     = "__print"
	assigned    = "__assign"
	assignField = "__field"
	indentBy    = "__indent"
	sized       = "__sized"
	replaceText = "__replace"
	formatText  = "__format"
	joinItems   = "__join"
	writeJSON   = "__tojson"
	replaceIn   = "__replaced"
	asText      = "__string"
)

// Bounds on a template, far beyond any published one: they keep a broken or hostile template from overflowing the stack,
// which would end the program, from filling the memory and from running for ever.
const (
	maxTemplateBytes = 256 << 10
	maxMacroDepth    = 200
	maxNesting       = 1000     // lists in lists
	maxSteps         = 1 << 20  // turns of loops and calls of macros, all together
	maxVisits        = 1 << 26  // values looked at by size, all together
	minRoom          = 16 << 20 // bytes of one value, and of all that is printed, beside roomPerByte
	roomPerByte      = 8        // of the messages
	valueBytes       = 16       // what a value counts for beside its text
)

// guard keeps count for one rendering.
type guard struct {
	depth, steps, visits int
	room, printed        int
	namespaces           map[*jinja.Dict]bool
	done                 <-chan struct{} // nobody waits for the result any more
}

type callable = func(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error)

// addTo puts the guard's functions among the variables of a template.
func (g *guard) addTo(variables map[string]jinja.Value) error {
	g.room, g.namespaces = minRoom, map[*jinja.Dict]bool{}
	given, err := sizeOf(variables)
	if err != nil {
		return err
	}
	g.room = minRoom + roomPerByte*given
	for name, f := range map[string]callable{
		enterMacro: g.enterMacro, leaveMacro: g.leaveMacro, enterLoop: g.step, printed: g.print,
		assigned: g.assign, assignField: g.assignField, indentBy: g.indent, "range": g.rangeOf, "namespace": g.namespace,
		sized: g.sized, replaceText: g.replace, formatText: g.format, joinItems: g.join, writeJSON: g.toJSON,
		replaceIn: g.replaceIn, asText: g.toText,
	} {
		variables[name] = jinja.NewCallable(name, f)
	}
	for name, f := range g.operationsByName() {
		variables[name] = jinja.NewCallable(name, f)
	}
	return nil
}

// sizeOf is the size of variables together.
func sizeOf(variables map[string]jinja.Value) (total int, err error) {
	g := guard{room: 1 << 62}
	for _, v := range variables {
		size, err := g.size(v, g.room, 0)
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}

// size is a value's size in bytes, or an error if it is above limit or nested too deep, as what contains itself is.
func (g *guard) size(v jinja.Value, limit, depth int) (int, error) {
	total := valueBytes
	if g.visits++; g.visits > maxVisits {
		return 0, errors.New("it works on too much data")
	}
	if depth > maxNesting {
		return 0, fmt.Errorf("a value is nested more than %d deep", maxNesting)
	}
	add := func(part jinja.Value) error {
		size, err := g.size(part, limit-total, depth+1)
		total += size
		return err
	}
	switch {
	case v.IsString():
		total += len(v.AsString())
	case v.IsList():
		for _, item := range v.AsList().Items {
			if err := add(item); err != nil {
				return 0, err
			}
		}
	case v.IsDict():
		dict := v.AsDict()
		if depth > 0 && g.namespaces[dict] {
			return 0, errors.New("a namespace inside another value is not supported")
		}
		for _, key := range dict.Keys {
			total += len(key)
			if err := add(dict.Data[key]); err != nil {
				return 0, err
			}
		}
	}
	if total > limit {
		return 0, g.tooLarge()
	}
	return total, nil
}

// ended is an error when nobody waits any more.
func (g *guard) ended() error {
	select {
	case <-g.done:
		return errors.New("it took too long")
	default:
		return nil
	}
}

// step counts a turn of a loop, whose variables are its arguments.
func (g *guard) step(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if g.steps++; g.steps > maxSteps {
		return jinja.Undefined(), fmt.Errorf("loops and macros take more than %d steps", maxSteps)
	}
	for _, arg := range args {
		if _, err := g.size(arg, g.room, 0); err != nil {
			return jinja.Undefined(), err
		}
	}
	return jinja.NewString(""), g.ended()
}

// enterMacro counts a call, whose arguments are the macro's.
func (g *guard) enterMacro(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	if g.depth++; g.depth > maxMacroDepth {
		return jinja.Undefined(), fmt.Errorf("macros call each other more than %d deep", maxMacroDepth)
	}
	return g.step(args, named)
}

func (g *guard) leaveMacro([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
	g.depth--
	return jinja.NewString(""), nil
}

// print passes on what is printed, as a text.
func (g *guard) print(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	v, err := g.assign(args, nil)
	if err != nil {
		return v, err
	}
	text, err := g.text(v)
	if g.printed += len(text); err == nil && g.printed > g.room {
		err = fmt.Errorf("it prints more than %d bytes", g.room)
	}
	return jinja.NewString(text), err
}

// assign passes on a value that a variable gets.
func (g *guard) assign(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 1 {
		return jinja.Undefined(), errors.New("a tag has not one expression")
	}
	if err := g.ended(); err != nil {
		return args[0], err
	}
	_, err := g.size(args[0], g.room, 0)
	return args[0], err
}

// assignField passes on a value that a field of a namespace gets: no namespace, so that none contains itself.
func (g *guard) assignField(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if len(args) != 2 {
		return jinja.Undefined(), errors.New("a tag has not one expression")
	}
	if !args[0].IsDict() || !g.namespaces[args[0].AsDict()] {
		return jinja.Undefined(), errors.New("fields of anything but a namespace cannot be set")
	}
	_, err := g.size(args[1], g.room, 1)
	return args[1], err
}

// namespace is the engine's, but remembers what it makes.
func (g *guard) namespace(_ []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	v := jinja.NewDict()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if _, err := g.size(named[name], g.room, 1); err != nil {
			return v, err
		}
		v.AsDict().Set(name, named[name])
	}
	g.namespaces[v.AsDict()] = true
	return v, nil
}

// rangeOf is range, of numbers and without more of them than loops may take.
func (g *guard) rangeOf(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	bounds := []int64{0, 0, 1}
	if len(args) == 0 || len(args) > 3 || slices.ContainsFunc(args, func(v jinja.Value) bool { return !v.IsInt() }) {
		return jinja.Undefined(), errors.New("range needs one to three whole numbers")
	}
	if len(args) == 1 {
		bounds[1] = args[0].AsInt()
	} else {
		for i, arg := range args {
			bounds[i] = arg.AsInt()
		}
	}
	begin, end, step := bounds[0], bounds[1], bounds[2]
	const far = 1 << 62
	if step == 0 || min(begin, end, step) < -far || max(begin, end, step) > far {
		return jinja.Undefined(), fmt.Errorf("range cannot go from %d to %d by %d", begin, end, step)
	}
	list := jinja.NewList(nil)
	for i := begin; step > 0 && i < end || step < 0 && i > end; i += step {
		if list.AsList().Len() == maxSteps {
			return list, fmt.Errorf("a range has more than %d numbers", maxSteps)
		}
		list.AsList().Append(jinja.NewInt(i))
	}
	return list, nil
}

// indent is the engine's filter, by a width that bounds what it makes.
func (g *guard) indent(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	const widest = 100
	values := map[string]jinja.Value{"width": jinja.NewInt(4), "first": jinja.NewBool(false)}
	for i, name := range []string{"text", "width", "first"} {
		if i < len(args) {
			values[name] = args[i]
		}
		if v, ok := named[name]; ok && name != "text" {
			values[name] = v
		}
	}
	if width := values["width"]; !width.IsInt() || width.AsInt() < 0 || width.AsInt() > widest {
		return jinja.Undefined(), fmt.Errorf("indent needs a width in 0..%d", widest)
	}
	if _, err := g.size(values["text"], g.room, 0); err != nil {
		return jinja.Undefined(), err
	}
	filter, err := jinja.Compile("{{ text | indent(width, first) }}")
	if err != nil {
		return jinja.Undefined(), err
	}
	text, err := filter.RenderValues(values)
	return jinja.NewString(text), err
}
