package device

import (
	"fmt"
	"slices"
	"strings"
)

// kinds is a set of element types that an argument may have.
type kinds uint16

const (
	f32    = kinds(1 << F32)
	i32    = kinds(1 << I32)
	u32    = kinds(1 << U32)
	i64    = kinds(1 << I64)
	real   = f32 | kinds(1<<BF16)
	half   = real | kinds(1<<F16) // what attention takes
	stored = real | kinds(1<<I8)  // weights
	scored = half | kinds(1<<F8)  // what teams are scored by
)

func (k kinds) has(t DType) bool { return k&(1<<t) != 0 }

func (k kinds) String() string {
	var names []string
	for t := F32; t <= I64; t++ {
		if k.has(t) {
			names = append(names, t.String())
		}
	}
	return strings.Join(names, " or ")
}

// call collects the arguments of one operation, checks them and remembers what
// the record check compares.
type call struct {
	Call
	ops     *Ops
	scalars []any
	err     error
}

func (o *Ops) begin(name string, scalars ...any) *call {
	return &call{Call: Call{Name: name, Read: 1, Of: 1}, ops: o, scalars: scalars, err: o.err}
}

// arg checks type and shape; −1 in shape accepts any length.
func (c *call) arg(name string, t *Tensor, k kinds, shape ...int) {
	c.Args = append(c.Args, Arg{name, t})
	switch {
	case c.err != nil:
	case t == nil:
		c.fail("%s is nil", name)
	case t.err != nil:
		c.fail("%s: %w", name, t.err)
	case !k.has(t.DType):
		c.fail("%s is %v, want %v", name, t, k)
	case !matches(t.Shape, shape):
		c.fail("%s is %v, want shape %s", name, t, shapeText(shape))
	case !t.RowsContiguous():
		c.fail("%s is %v with a gap between the elements of a row (strides %v)", name, t, t.Stride)
	case t.DType == F8 && !t.scaled():
		c.fail("%s is %v with the scales %v; want one that repeats over its rows", name, t, t.Scale)
	case t.DType == I8 && !t.scaled():
		c.fail("%s is %v with the scales %v; want one a row", name, t, t.Scale)
	}
}

// optional is arg for a tensor that may be nil.
func (c *call) optional(name string, t *Tensor, k kinds, shape ...int) {
	if t != nil {
		c.arg(name, t, k, shape...)
	} else {
		c.Args = append(c.Args, Arg{name, nil})
	}
}

// dims is arg for a tensor whose rank is known and whose lengths are not; they
// are returned, zeros after an error.
func (c *call) dims(name string, t *Tensor, k kinds, rank int) []int {
	any := make([]int, rank)
	for i := range any {
		any[i] = -1
	}
	c.arg(name, t, k, any...)
	if c.err != nil {
		return make([]int, rank)
	}
	return t.Shape
}

func (c *call) require(ok bool, format string, args ...any) {
	if c.err == nil && !ok {
		c.fail(format, args...)
	}
}

func (c *call) fail(format string, args ...any) {
	c.err = fmt.Errorf("%s: "+format, append([]any{c.Name}, args...)...)
}

// run executes the kernel when all arguments are right and keeps the first
// error.
func (c *call) run(kernel func(Kernels) error) {
	o := c.ops
	if o.err != nil {
		return
	}
	if c.err == nil && o.trace != nil {
		c.err = o.trace.add(c)
	}
	if c.err == nil && o.kernels != nil {
		if err := kernel(o.kernels); err != nil {
			c.err = fmt.Errorf("%s(%s): %w", c.Name, argsText(c.Args), err)
		}
	}
	o.err = c.err
}

// attention checks queries with the keys and values that they look at and returns
// their shapes.
func (c *call) attention(queries, keys, values *Tensor) (q, k, v []int) {
	q = c.dims("q", queries, half, 3)
	k = c.dims("k", keys, half, 3)
	c.arg("k", keys, half, -1, -1, q[2])
	v = c.dims("v", values, half, 3)
	c.arg("v", values, half, k[0], k[1], -1)
	c.group(q[1], k[0])
	return q, k, v
}

func (c *call) partial(p Partial, tokens, heads, dv int) {
	c.arg("out", p.Out, half, tokens, heads, dv)
	c.optional("lse", p.LSE, f32, tokens, heads)
}

func (c *call) weight(w Weight, out, in int) {
	c.require(len(w.Parts) > 0, "the weight has no parts")
	c.require(len(w.Bias) == 0 || len(w.Bias) == len(w.Parts), "%d biases for %d parts", len(w.Bias), len(w.Parts))
	sum := 0
	for i, p := range w.Parts {
		sum += c.dims("weight", p, stored, 2)[0]
		c.arg("weight", p, stored, -1, in)
		if c.err == nil && len(w.Bias) > 0 {
			c.arg("bias", w.Bias[i], real, p.Shape[0])
		}
	}
	c.require(sum == out, "the weight has %d outputs, want %d", sum, out)
}

// reads says how many of the weights are read.
func (c *call) reads(n, of int) { c.Read, c.Of = min(n, of), of }

// group checks that heads is a multiple of kv.
func (c *call) group(heads, kv int) {
	c.require(kv > 0 && heads%kv == 0, "%d query heads cannot share %d key heads evenly", heads, kv)
}

func (c *call) draw(d Draw, tokens int) {
	c.scalars = append(c.scalars, d.Layer)
	c.arg("seed", d.Seed, u32, 2)
	c.arg("pos", d.Pos, i32, tokens)
}

func matches(have, want []int) bool {
	if len(have) != len(want) {
		return false
	}
	for i := range have {
		if want[i] >= 0 && have[i] != want[i] {
			return false
		}
	}
	return true
}

func shapeText(shape []int) string {
	return strings.ReplaceAll(fmt.Sprint(shape), "-1", "?")
}

func argsText(args []Arg) string {
	names := make([]string, len(args))
	for i, a := range args {
		names[i] = a.Tensor.String()
	}
	return strings.Join(names, ", ")
}

// sameView reports whether a and b denote the same elements of the same memory.
func sameView(a, b *Tensor) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Buffer == b.Buffer && a.DType == b.DType && a.Offset == b.Offset &&
		slices.Equal(a.Shape, b.Shape) && slices.Equal(a.Stride, b.Stride)
}
