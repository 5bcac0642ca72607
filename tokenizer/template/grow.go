package template

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/ardanlabs/jinja"
)

// Functions of the engine that make much of little, in one step that no watch could end. The guard's own tell how large the
// result will be, and then do the same.

// texts are the values of args as Jinja prints them.
func (g *guard) texts(args []jinja.Value) ([]string, error) {
	all := make([]string, len(args))
	for i, v := range args {
		var err error
		if all[i], err = g.text(v); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// exchange replaces the first count occurrences of old, all if that is negative.
func (g *guard) exchange(text, old, by string, count int) (string, error) {
	found := strings.Count(text, old)
	if count >= 0 {
		found = min(found, count)
	}
	if len(text)+found*(len(by)-len(old)) > g.room {
		return "", g.tooLarge()
	}
	return strings.Replace(text, old, by, found), nil
}

func (g *guard) tooLarge() error { return fmt.Errorf("a value is larger than %d bytes", g.room) }

// replace is the engine's, of a text and of an expression (as a filter): text, old, new and how often.
func (g *guard) replace(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	count := -1
	if limit, ok := named["count"]; ok {
		args = append(args[:min(3, len(args)):min(3, len(args))], limit)
	}
	if len(args) > 3 {
		if count = 0; args[3].IsInt() {
			count = int(args[3].AsInt())
		}
		args = args[:3]
	}
	all, err := g.texts(args)
	switch {
	case err != nil:
		return jinja.Undefined(), err
	case len(all) < 3:
		return jinja.Undefined(), errors.New("replace needs what to replace and by what")
	}
	text, err := g.exchange(all[0], all[1], all[2], count)
	return jinja.NewString(text), err
}

// replaceIn is the method, of a text alone.
func (g *guard) replaceIn(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	if err := textFirst("replace", args); err != nil {
		return jinja.Undefined(), err
	}
	return g.replace(args, named)
}

// textFirst refuses a method of what is not a text.
func textFirst(method string, args []jinja.Value) error {
	if len(args) == 0 || !args[0].IsString() {
		return fmt.Errorf(".%s of %s is not supported, only of a text: mend the template", method, kinds(args[:min(1, len(args))]...))
	}
	return nil
}

// toText is the filter string.
func (g *guard) toText(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	all, err := g.texts(args)
	if err != nil || len(all) != 1 {
		return jinja.Undefined(), cmp.Or(err, errors.New("string has no arguments"))
	}
	return jinja.NewString(all[0]), nil
}

// format is the engine's: {} and {0} in a text are replaced by what follows it.
func (g *guard) format(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	if err := textFirst("format", args); err != nil {
		return jinja.Undefined(), err
	}
	all, err := g.texts(args)
	if err != nil {
		return jinja.Undefined(), err
	}
	text := all[0]
	for i, by := range all[1:] {
		if text, err = g.exchange(text, fmt.Sprintf("{%d}", i), by, -1); err == nil {
			text, err = g.exchange(text, "{}", by, 1)
		}
		if err != nil {
			return jinja.Undefined(), err
		}
	}
	return jinja.NewString(text), nil
}

// join is the engine's filter: the separator comes once for every item.
func (g *guard) join(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	return g.separated("join", args, named, append(args[min(1, len(args)):], named["d"])...)
}

// toJSON is the engine's filter, whose separators can be given.
func (g *guard) toJSON(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	return g.separated("tojson", args, named, named["separators"])
}

// separated has the engine put items together.
func (g *guard) separated(filter string, args []jinja.Value, named map[string]jinja.Value, by ...jinja.Value) (jinja.Value, error) {
	size, err := g.sizes(args[:min(1, len(args))])
	if err != nil {
		return jinja.Undefined(), err
	}
	each, err := g.sizes(by)
	if err != nil {
		return jinja.Undefined(), err
	}
	each -= valueBytes * len(by)
	if each > 0 && size/valueBytes > g.room/each {
		return jinja.Undefined(), g.tooLarge()
	}
	return engineFilter(filter, args, named)
}

// sizes is the size of values together.
func (g *guard) sizes(values []jinja.Value) (total int, err error) {
	for _, v := range values {
		size, err := g.size(v, g.room, 0)
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}

// engineFilter applies a filter of the engine.
func engineFilter(name string, args []jinja.Value, named map[string]jinja.Value) (result jinja.Value, err error) {
	variables := map[string]jinja.Value{"take": jinja.NewCallable("take", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		result = args[0]
		return jinja.NewString(""), nil
	})}
	var given []string
	for i, v := range args {
		key := fmt.Sprintf("a%d", i)
		variables[key] = v
		given = append(given, key)
	}
	for name, v := range named {
		variables["n_"+name] = v
		given = append(given, name+"=n_"+name)
	}
	if len(given) == 0 {
		return result, fmt.Errorf("%s of nothing", name)
	}
	call, err := jinja.Compile("{{ take(" + given[0] + " | " + name + "(" + strings.Join(given[1:], ", ") + ")) }}")
	if err == nil {
		_, err = call.RenderValues(variables)
	}
	return result, err
}

// sized passes on a value that a filter gets.
func (g *guard) sized(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	return g.assign(args[:min(1, len(args))], nil)
}
