package devicetest

import (
	"fmt"

	"blitzen/device"
)

// content is the memory of a contiguous tensor.
func content(t *device.Tensor) ([]byte, error) {
	if t.Err() != nil {
		return nil, t.Err()
	}
	if !t.Contiguous() {
		return nil, fmt.Errorf("%v is not contiguous (strides %v)", t, t.Stride)
	}
	size := t.DType.Size()
	return t.Buffer.(*memory).bytes[t.Offset*size : t.Offset*size+t.Bytes()], nil
}

// rowBytes is the memory of the innermost dimension at the index of the others.
func rowBytes(t *device.Tensor, index ...int) []byte {
	return elements(t, index, t.Shape[len(t.Shape)-1])
}

// elements is the memory of n elements from index on.
func elements(t *device.Tensor, index []int, n int) []byte {
	at := t.Offset
	for dim, i := range index {
		at += i * t.Stride[dim]
	}
	size := t.DType.Size()
	return t.Buffer.(*memory).bytes[at*size : (at+n)*size]
}

// row reads the innermost dimension at the index of the others.
func row(t *device.Tensor, index ...int) []float64 {
	values := Decode(t.DType, rowBytes(t, index...))
	if t.Scale != nil {
		scale := number(t.Scale, index...)
		for i := range values {
			values[i] *= scale
		}
	}
	return values
}

// rows reads all rows of a matrix, which has the given index in a larger tensor.
func rows(t *device.Tensor, index ...int) [][]float64 {
	return rowRange(t, 0, t.Shape[len(index)], index...)
}

// rowRange is rows from one row to another; the others are not touched.
func rowRange(t *device.Tensor, from, to int, index ...int) [][]float64 {
	var all [][]float64
	for i := from; i < to; i++ {
		all = append(all, row(t, append(index[:len(index):len(index)], i)...))
	}
	return all
}

func setRow(t *device.Tensor, values []float64, index ...int) {
	copy(rowBytes(t, index...), Encode(t.DType, values))
}

// number reads one element.
func number(t *device.Tensor, index ...int) float64 {
	return Decode(t.DType, elements(t, index, 1))[0]
}

func setNumber(t *device.Tensor, v float64, index ...int) {
	copy(elements(t, index, 1), Encode(t.DType, []float64{v}))
}

func integer(t *device.Tensor, index ...int) int { return int(number(t, index...)) }

// rowNumber reads an integer that numbers a row of n.
func rowNumber(t *device.Tensor, n int, index ...int) (int, error) {
	i := integer(t, index...)
	if i < 0 || i >= n {
		return 0, fmt.Errorf("%s%v is %d, outside 0 to %d", t.Name, index, i, n-1)
	}
	return i, nil
}

// addTo adds to a counter that may be absent.
func addTo(counter *device.Tensor, n int) {
	if counter != nil {
		setNumber(counter, number(counter, 0)+float64(n), 0)
	}
}

// move copies a row: bit by bit within a type, else by value.
func move(dst *device.Tensor, dstIndex []int, src *device.Tensor, srcIndex []int) {
	if dst.DType == src.DType {
		copy(rowBytes(dst, dstIndex...), rowBytes(src, srcIndex...))
		return
	}
	setRow(dst, row(src, srcIndex...), dstIndex...)
}

// indices lists every index of a shape in row-major order.
func indices(shape []int) [][]int {
	all := [][]int{nil}
	for _, n := range shape {
		var longer [][]int
		for _, index := range all {
			for i := range n {
				longer = append(longer, append(append([]int(nil), index...), i))
			}
		}
		all = longer
	}
	return all
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}
