package template

import (
	"cmp"
	"slices"
	"strings"

	"github.com/ardanlabs/jinja"
)

// equal compares as Python does: true is 1, and 1 is 1.0. Tuples are lists here.
func equal(a, b jinja.Value) bool {
	a, b = asNumber(a), asNumber(b)
	switch {
	case a.IsInt() && b.IsInt():
		return a.AsInt() == b.AsInt()
	case a.IsNumber() && b.IsNumber():
		return toFloat(a) == toFloat(b)
	case a.IsList() && b.IsList():
		x, y := a.AsList().Items, b.AsList().Items
		for i := range x {
			if len(x) != len(y) || !equal(x[i], y[i]) {
				return false
			}
		}
		return len(x) == len(y)
	case a.IsDict() && b.IsDict():
		x, y := a.AsDict(), b.AsDict()
		for _, key := range x.Keys {
			if other, ok := y.Get(key); !ok || !equal(x.Data[key], other) {
				return false
			}
		}
		return x.Len() == y.Len()
	}
	return a.Equals(b)
}

// asNumber is a boolean as a number, and any other value as it is.
func asNumber(v jinja.Value) jinja.Value {
	switch {
	case !v.IsBool():
		return v
	case v.AsBool():
		return jinja.NewInt(1)
	}
	return jinja.NewInt(0)
}

// compare is a row of comparisons, values and operators in turn, up to the first that does not hold.
func (g *guard) compare(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	for at := 2; at < len(args); at += 2 {
		if err := g.ended(); err != nil {
			return jinja.Undefined(), err
		}
		if holds, err := holds(args[at-2], args[at-1].AsString(), args[at]); err != nil || !holds {
			return jinja.NewBool(false), err
		}
	}
	return jinja.NewBool(true), nil
}

// holds tells whether one comparison holds.
func holds(a jinja.Value, operator string, b jinja.Value) (bool, error) {
	switch operator {
	case "==":
		return equal(a, b), nil
	case "!=":
		return !equal(a, b), nil
	case "in":
		return contains(operator, a, b)
	case "not in":
		in, err := contains(operator, a, b)
		return !in, err
	}
	order, err := ordered(operator, a, b)
	switch operator {
	case "<":
		return order < 0, err
	case "<=":
		return order <= 0, err
	case ">":
		return order > 0, err
	}
	return order >= 0, err
}

// ordered is the order of two numbers or two texts.
func ordered(operator string, a, b jinja.Value) (int, error) {
	switch x, y := asNumber(a), asNumber(b); {
	case x.IsInt() && y.IsInt():
		return cmp.Compare(x.AsInt(), y.AsInt()), nil
	case x.IsNumber() && y.IsNumber():
		return cmp.Compare(toFloat(x), toFloat(y)), nil
	case x.IsString() && y.IsString():
		return strings.Compare(x.AsString(), y.AsString()), nil
	}
	return 0, unsupported(operator, a, b)
}

// contains is a in b.
func contains(operator string, a, b jinja.Value) (bool, error) {
	switch {
	case b.IsUndefined():
		return false, nil
	case b.IsList():
		return slices.ContainsFunc(b.AsList().Items, func(item jinja.Value) bool { return equal(a, item) }), nil
	case b.IsString() && a.IsString():
		return strings.Contains(b.AsString(), a.AsString()), nil
	case b.IsDict() && a.IsString():
		return b.AsDict().Has(a.AsString()), nil
	case b.IsDict() && (a.IsUndefined() || a.IsNone()):
		return false, nil
	}
	return false, unsupported(operator, a, b)
}
