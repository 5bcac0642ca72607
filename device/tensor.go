package device

import (
	"fmt"
	"slices"
)

// Tensor is a strided view of a device's memory. Views share the Buffer of
// the tensor they were cut from and are valid until Device.Free frees that.
//
// Cutting a view out of bounds is a programming mistake that cannot be
// returned from an expression; the view then carries the error, and the first
// operation that is given it fails with it.
type Tensor struct {
	Name   string
	DType  DType
	Shape  []int // elements a dimension, outermost first
	Stride []int // elements from one index to the next; 0 repeats
	Offset int   // elements from the start of Buffer to element [0, 0, …]
	Buffer any   // the device's own handle: a comparable type
	// Scale turns the elements of an I8 or F8 tensor into real numbers: one factor a
	// row, F32 of the shape without its last dimension. The rows of a matrix of an
	// F8 tensor share theirs (stride 0). nil for other types.
	Scale *Tensor

	err error
}

// NewTensor describes a contiguous tensor over buffer. Devices call it;
// everyone else gets tensors from Device.New and Device.Import.
func NewTensor(name string, t DType, buffer any, shape ...int) *Tensor {
	stride := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		stride[i] = n
		n *= shape[i]
	}
	return &Tensor{Name: name, DType: t, Shape: append([]int(nil), shape...), Stride: stride, Buffer: buffer}
}

// SizeOf is the bytes of a tensor to be made, at most 2⁴⁷; an error names it.
func SizeOf(name string, t DType, shape []int) (int, error) {
	n := t.Size()
	if n == 0 {
		return 0, fmt.Errorf("%s: %v has no size", name, t)
	}
	for _, s := range shape {
		if s < 0 || s > 0 && n > (1<<47)/s {
			return 0, fmt.Errorf("%s: %v%v is impossible", name, t, shape)
		}
		n *= s
	}
	return n, nil
}

// CheckInt8 refuses what Device.ImportInt8 does not take.
func CheckInt8(name string, t DType, shape []int) error {
	if !t.Float() || len(shape) != 2 || shape[0] < 0 || shape[1] < 0 || shape[1] > 0 && shape[0] > (1<<46)/shape[1] {
		return fmt.Errorf("%s: %v%v is no matrix of floats, which alone can be kept as int8", name, t, shape)
	}
	return nil
}

// NewInt8Tensor describes the matrix [rows, n] that Device.ImportInt8 makes:
// signed bytes at the start of buffer and, from the next multiple of 4 bytes
// on, the factors of the rows. size is the bytes of both.
func NewInt8Tensor(name string, buffer any, rows, n int) (t *Tensor, size int) {
	t = NewTensor(name, I8, buffer, rows, n)
	t.Scale = NewTensor(name+" scale", F32, buffer, rows)
	t.Scale.Offset = (t.Bytes() + 3) / 4
	return t, 4*t.Scale.Offset + t.Scale.Bytes()
}

// Err returns the mistake made when this view was cut, or nil.
func (t *Tensor) Err() error { return t.err }

// Rank is the number of dimensions.
func (t *Tensor) Rank() int { return len(t.Shape) }

// Len is the number of elements.
func (t *Tensor) Len() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes is the size of the elements, in bytes.
func (t *Tensor) Bytes() int { return t.Len() * t.DType.Size() }

// Contiguous reports whether the elements lie in row-major order without gaps.
func (t *Tensor) Contiguous() bool {
	n := 1
	for i := len(t.Shape) - 1; i >= 0; i-- {
		if t.Shape[i] != 1 && t.Stride[i] != n {
			return false
		}
		n *= t.Shape[i]
	}
	return true
}

// RowsContiguous reports whether the innermost dimension has no gaps: what
// every kernel needs.
func (t *Tensor) RowsContiguous() bool {
	last := len(t.Shape) - 1
	return last < 0 || t.Shape[last] == 1 || t.Stride[last] == 1
}

// Slice is the view with dimension dim cut to [from, to).
func (t *Tensor) Slice(dim, from, to int) *Tensor {
	if dim < 0 || dim >= len(t.Shape) || from < 0 || to < from || to > t.Shape[dim] {
		return t.bad("slice [%d:%d] of dimension %d", from, to, dim)
	}
	v := t.view(append([]int(nil), t.Shape...), append([]int(nil), t.Stride...))
	v.Offset += from * t.Stride[dim]
	v.Shape[dim] = to - from
	if dim < len(t.Shape)-1 { // part of a row has the row's factor
		v.Scale = t.scale(func(s *Tensor) *Tensor { return s.Slice(dim, from, to) }, dim)
	}
	return v
}

// Index is the view at position i of dimension dim, without that dimension.
func (t *Tensor) Index(dim, i int) *Tensor {
	v := t.Slice(dim, i, i+1)
	if v.err != nil {
		return v
	}
	v.Shape = append(v.Shape[:dim], v.Shape[dim+1:]...)
	v.Stride = append(v.Stride[:dim], v.Stride[dim+1:]...)
	v.Scale = t.scale(func(s *Tensor) *Tensor { return s.Index(dim, i) }, dim)
	return v
}

// Unflatten is the view with dimension dim split into sizes, whose product
// must be its length: a [tokens, heads·d] matrix becomes [tokens, heads, d].
func (t *Tensor) Unflatten(dim int, sizes ...int) *Tensor {
	n, least := 1, 0
	for _, s := range sizes {
		n, least = n*s, min(least, s)
	}
	if dim < 0 || dim >= len(t.Shape) || least < 0 || n != t.Shape[dim] {
		return t.bad("unflatten of dimension %d into %v", dim, sizes)
	}
	var shape, stride []int
	shape = append(append(append(shape, t.Shape[:dim]...), sizes...), t.Shape[dim+1:]...)
	stride = append(stride, t.Stride[:dim]...)
	for i := range sizes {
		inner := 1
		for _, s := range sizes[i+1:] {
			inner *= s
		}
		stride = append(stride, t.Stride[dim]*inner)
	}
	v := t.view(shape, append(stride, t.Stride[dim+1:]...))
	v.Scale = t.scale(func(s *Tensor) *Tensor { return s.Unflatten(dim, sizes...) }, dim)
	return v
}

// Transpose is the view with dimensions a and b exchanged.
func (t *Tensor) Transpose(a, b int) *Tensor {
	if a < 0 || b < 0 || a >= len(t.Shape) || b >= len(t.Shape) {
		return t.bad("transpose of dimensions %d and %d", a, b)
	}
	v := t.view(append([]int(nil), t.Shape...), append([]int(nil), t.Stride...))
	v.Shape[a], v.Shape[b] = v.Shape[b], v.Shape[a]
	v.Stride[a], v.Stride[b] = v.Stride[b], v.Stride[a]
	v.Scale = t.scale(func(s *Tensor) *Tensor { return s.Transpose(a, b) }, a, b)
	return v
}

// Repeat is the view with a new dimension dim of n equal entries; it can be
// read, not written.
func (t *Tensor) Repeat(dim, n int) *Tensor {
	if dim < 0 || dim > len(t.Shape) || n < 1 {
		return t.bad("repeat %d times as dimension %d", n, dim)
	}
	shape := append(append(append([]int(nil), t.Shape[:dim]...), n), t.Shape[dim:]...)
	stride := append(append(append([]int(nil), t.Stride[:dim]...), 0), t.Stride[dim:]...)
	v := t.view(shape, stride)
	v.Scale = t.scale(func(s *Tensor) *Tensor { return s.Repeat(dim, n) }, dim)
	return v
}

// scale is Scale cut like the tensor in the given dimensions; nil where that
// cuts rows up, which operations refuse.
func (t *Tensor) scale(cut func(*Tensor) *Tensor, dims ...int) *Tensor {
	if t.Scale == nil || slices.Max(dims) >= len(t.Shape)-1 {
		return nil
	}
	return cut(t.Scale)
}

// scaled reports whether there is a factor for each row, or for F8 one for all
// rows of a matrix.
func (t *Tensor) scaled() bool {
	last := len(t.Shape) - 1
	return t.Scale != nil && t.Scale.DType == F32 && t.Scale.err == nil && last >= 0 &&
		slices.Equal(t.Scale.Shape, t.Shape[:last]) &&
		(t.DType == I8 && t.Scale.RowsContiguous() || t.DType == F8 && last > 0 && t.Scale.Stride[last-1] == 0)
}

// String gives name, type and shape, as errors print them.
func (t *Tensor) String() string {
	if t == nil {
		return "nil"
	}
	return fmt.Sprintf("%s %s%v", t.Name, t.DType, t.Shape)
}

func (t *Tensor) view(shape, stride []int) *Tensor {
	return &Tensor{Name: t.Name, DType: t.DType, Shape: shape, Stride: stride, Offset: t.Offset, Buffer: t.Buffer, Scale: t.Scale, err: t.err}
}

func (t *Tensor) bad(format string, args ...any) *Tensor {
	v := *t
	if v.err == nil {
		v.err = fmt.Errorf("%s of %v is out of bounds", fmt.Sprintf(format, args...), t)
	}
	return &v
}

// Weight is a matrix [out, in] as checkpoints store it, in one or more row
// blocks that share their input: q‖k‖v, gate‖up. A product with it writes the
// blocks' outputs side by side. Blocks are F32, BF16 or I8 with scales.
type Weight struct {
	Parts []*Tensor // [outᵢ, in]
	Bias  []*Tensor // [outᵢ] a part, or nil for none at all
}

// Out is the sum of the parts' output widths.
func (w Weight) Out() int {
	n := 0
	for _, p := range w.Parts {
		if p != nil && p.Rank() > 0 {
			n += p.Shape[0]
		}
	}
	return n
}

// Expert is one expert's SwiGLU network.
type Expert struct {
	GateUp Weight // gate‖up, each [width, hidden]
	Down   Weight // [hidden, width]
}

// Partial is attention over part of the keys. Out [tokens, heads, dv] is
// normalised within the part. LSE [tokens, heads] F32 is the NATURAL log of
// Σ exp(scale·q·k − ln c), −Inf for an empty part (Out is then zero); nil when
// nobody asks.
type Partial struct{ Out, LSE *Tensor }
