package template

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/ardanlabs/jinja"
)

// Functions that compute as Python does. What Python refuses, and what is not worth copying, is an error.

// operationsByName are the functions that operators call.
func (g *guard) operationsByName() map[string]callable {
	all := map[string]callable{operations["compare"]: g.compare, operations["neg"]: signed("-"), operations["pos"]: signed("+"),
		operations["field"]: have, operations["item"]: item}
	for operator, f := range map[string]func(a, b jinja.Value) (jinja.Value, error){
		"+": g.sum, "*": g.product, "~": g.concat,
		"-": numeric("-"), "/": numeric("/"), "//": numeric("//"), "%": numeric("%"), "**": numeric("**"),
	} {
		all[operations[operator]] = func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
			if len(args) != 2 {
				return jinja.Undefined(), fmt.Errorf("%s needs two values", operator)
			}
			if err := g.ended(); err != nil {
				return jinja.Undefined(), err
			}
			return f(args[0], args[1])
		}
	}
	return all
}

// signed is -x or +x.
func signed(sign string) callable {
	return func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		switch {
		case len(args) != 1 || !asNumber(args[0]).IsNumber():
			return jinja.Undefined(), fmt.Errorf("%s of %s is not supported, only of a number: mend the template", sign, kinds(args...))
		case sign == "+":
			return asNumber(args[0]), nil
		case args[0].IsFloat():
			return jinja.NewFloat(-args[0].AsFloat()), nil
		}
		return numeric("-")(jinja.NewInt(0), args[0])
	}
}

// unsupported tells of an operation on values for which Jinja has none, or one that is not copied here.
func unsupported(operator string, a, b jinja.Value) error {
	if operator == "%" && a.IsString() {
		return errors.New("a text % a value (formatting) is not supported: write the template with ~ instead")
	}
	return fmt.Errorf("%s %s %s is not supported: mend the template", kinds(a), operator, kinds(b))
}

// kinds are the kinds of values in words.
func kinds(values ...jinja.Value) string {
	var all []string
	for _, v := range values {
		switch {
		case v.IsUndefined():
			all = append(all, "an undefined value")
		case v.IsNone():
			all = append(all, "none")
		case v.IsBool():
			all = append(all, "a boolean")
		case v.IsInt():
			all = append(all, "a whole number")
		case v.IsFloat():
			all = append(all, "a fraction")
		case v.IsString():
			all = append(all, "a text")
		case v.IsList():
			all = append(all, "a list")
		case v.IsDict():
			all = append(all, "a mapping")
		default:
			all = append(all, "a function")
		}
	}
	return strings.Join(all, ", ")
}

// numeric computes with two numbers.
func numeric(operator string) func(a, b jinja.Value) (jinja.Value, error) {
	return func(a, b jinja.Value) (jinja.Value, error) {
		if !asNumber(a).IsNumber() || !asNumber(b).IsNumber() {
			return jinja.Undefined(), unsupported(operator, a, b)
		}
		a, b = asNumber(a), asNumber(b)
		if (operator == "/" || operator == "//" || operator == "%") && toFloat(b) == 0 {
			return jinja.Undefined(), fmt.Errorf("%s divides by zero: mend the template", operator)
		}
		if a.IsInt() && b.IsInt() && operator != "/" {
			n, ok := whole(operator, a.AsInt(), b.AsInt())
			if !ok {
				return jinja.Undefined(), fmt.Errorf("%d %s %d is no whole number of 64 bits: mend the template", a.AsInt(), operator, b.AsInt())
			}
			return jinja.NewInt(n), nil
		}
		x, y := toFloat(a), toFloat(b)
		const exact = 1 << 53
		if math.Abs(x) > exact || math.Abs(y) > exact {
			return jinja.Undefined(), unsupported(operator, a, b)
		}
		switch operator {
		case "+":
			return jinja.NewFloat(x + y), nil
		case "-":
			return jinja.NewFloat(x - y), nil
		case "*":
			return jinja.NewFloat(x * y), nil
		case "/":
			return jinja.NewFloat(x / y), nil
		}
		return jinja.Undefined(), unsupported(operator, a, b)
	}
}

func toFloat(v jinja.Value) float64 {
	if v.IsInt() {
		return float64(v.AsInt())
	}
	return v.AsFloat()
}

// whole computes with whole numbers; ok is false when the result is none of 64 bits. Division rounds down.
func whole(operator string, a, b int64) (n int64, ok bool) {
	switch operator {
	case "+":
		return a + b, (a+b > a) == (b > 0)
	case "-":
		return a - b, (a-b < a) == (b > 0)
	case "*":
		high, low := bits.Mul64(absolute(a), absolute(b))
		return a * b, high == 0 && low <= math.MaxInt64
	case "**":
		n, ok = 1, b >= 0 && (b <= 63 || a >= -1 && a <= 1)
		for range min(max(b, 0), 64+b%2) {
			var fits bool
			n, fits = whole("*", n, a)
			ok = ok && fits
		}
		return n, ok
	}
	if a == math.MinInt64 {
		return 0, false
	}
	quotient, rest := a/b, a%b
	if rest != 0 && (rest < 0) != (b < 0) {
		quotient, rest = quotient-1, rest+b
	}
	if operator == "//" {
		return quotient, true
	}
	return rest, true
}

func absolute(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// sum adds numbers, texts or lists.
func (g *guard) sum(a, b jinja.Value) (jinja.Value, error) {
	switch {
	case a.IsString() && b.IsString():
		return g.joined(a.AsString(), b.AsString())
	case a.IsList() && b.IsList():
		x, y := a.AsList().Items, b.AsList().Items
		if (len(x)+len(y))*valueBytes > g.room {
			return jinja.Undefined(), g.tooLarge()
		}
		return jinja.NewList(append(x[:len(x):len(x)], y...)), nil
	}
	return numeric("+")(a, b)
}

// product multiplies numbers or repeats a text.
func (g *guard) product(a, b jinja.Value) (jinja.Value, error) {
	if b.IsString() {
		a, b = b, a
	}
	if b = asNumber(b); !a.IsString() || !b.IsInt() {
		return numeric("*")(a, b)
	}
	text, times := a.AsString(), max(b.AsInt(), 0)
	if len(text) > 0 && times > int64(g.room/len(text)) {
		return jinja.Undefined(), g.tooLarge()
	}
	return jinja.NewString(strings.Repeat(text, int(times))), nil
}

// concat joins values as they are printed.
func (g *guard) concat(a, b jinja.Value) (jinja.Value, error) {
	both, err := g.texts([]jinja.Value{a, b})
	if err != nil {
		return jinja.Undefined(), err
	}
	return g.joined(both[0], both[1])
}

func (g *guard) joined(a, b string) (jinja.Value, error) {
	if len(a)+len(b) > g.room {
		return jinja.Undefined(), g.tooLarge()
	}
	return jinja.NewString(a + b), nil
}
