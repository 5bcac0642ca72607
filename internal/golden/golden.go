// Package golden reads expected tensors that other software made, and says how
// far results are from them.
package golden

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/nlpodyssey/safetensors"
)

// File is a safetensors file held in memory.
type File struct {
	t    testing.TB
	path string
	st   safetensors.SafeTensors
}

// Open reads a file; a failure ends the test.
func Open(t testing.TB, path string) *File {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	st, err := safetensors.Deserialize(data)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return &File{t, path, st}
}

// Files are the contents of the files that match pattern, the seeds of a fuzz
// target, say; without any the test ends.
func Files(t testing.TB, pattern string) [][]byte {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("%s: no files, %v", pattern, err)
	}
	var all [][]byte
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

// JSON decodes a file into v; a failure ends the test.
func JSON(t testing.TB, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// Has reports whether the file holds a tensor.
func (f *File) Has(name string) bool {
	_, ok := f.st.Tensor(name)
	return ok
}

// Shape is a tensor's shape.
func (f *File) Shape(name string) []int {
	var shape []int
	for _, n := range f.view(name).Shape() {
		shape = append(shape, int(n))
	}
	return shape
}

// Floats are the elements of an F32 or F64 tensor.
func (f *File) Floats(name string) []float64 {
	f.t.Helper()
	v := f.view(name)
	data, out := v.Data(), []float64{}
	switch v.DType() {
	case safetensors.F64:
		for ; len(data) > 0; data = data[8:] {
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(data)))
		}
	case safetensors.F32:
		for ; len(data) > 0; data = data[4:] {
			out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(data))))
		}
	default:
		f.t.Fatalf("%s: %s is %v", f.path, name, v.DType())
	}
	return out
}

// Float32s are the elements of an F32 tensor.
func (f *File) Float32s(name string) []float32 {
	f.t.Helper()
	return Float32s(f.Floats(name))
}

// Int32s are the elements of an I32 tensor.
func (f *File) Int32s(name string) []int32 {
	f.t.Helper()
	v := f.view(name)
	if v.DType() != safetensors.I32 {
		f.t.Fatalf("%s: %s is %v", f.path, name, v.DType())
	}
	data, out := v.Data(), []int32{}
	for ; len(data) > 0; data = data[4:] {
		out = append(out, int32(binary.LittleEndian.Uint32(data)))
	}
	return out
}

// Rows are the elements of a tensor [n, d], or of entry i of [k, n, d].
func (f *File) Rows(name string, index ...int) [][]float64 {
	f.t.Helper()
	shape, x := f.Shape(name), f.Floats(name)
	for _, i := range index {
		n := len(x) / shape[0]
		x, shape = x[i*n:(i+1)*n], shape[1:]
	}
	d := shape[len(shape)-1]
	rows := make([][]float64, len(x)/d)
	for i := range rows {
		rows[i] = x[i*d : (i+1)*d]
	}
	return rows
}

func (f *File) view(name string) safetensors.TensorView {
	f.t.Helper()
	v, ok := f.st.Tensor(name)
	if !ok {
		f.t.Fatalf("%s: no tensor %s", f.path, name)
	}
	return v
}

// Float32s rounds.
func Float32s(x []float64) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		out[i] = float32(v)
	}
	return out
}

// Float64s widens.
func Float64s(x []float32) []float64 {
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = float64(v)
	}
	return out
}

// Near fails the test unless got equals want to an absolute tolerance, with
// NaN and infinities in the same places.
func Near(t testing.TB, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d values, want %d", what, len(got), len(want))
		return
	}
	worst, at := 0.0, -1
	for i := range want {
		d := math.Abs(got[i] - want[i])
		if got[i] == want[i] || math.IsNaN(got[i]) && math.IsNaN(want[i]) {
			d = 0
		}
		if math.IsNaN(d) {
			d = math.Inf(1)
		}
		if d > worst {
			worst, at = d, i
		}
	}
	if !(worst <= tolerance) {
		t.Errorf("%s: element %d is %v, want %v: off by %.3g, tolerance %.3g (cosine %.9f)", what, at, got[at], want[at], worst, tolerance, Cosine(got, want))
	}
}

// Cosine is the angle between x and y; 1 for parallel.
func Cosine(x, y []float64) float64 {
	xy, xx, yy := 0.0, 0.0, 0.0
	for i := range x {
		xy, xx, yy = xy+x[i]*y[i], xx+x[i]*x[i], yy+y[i]*y[i]
	}
	return xy / math.Sqrt(xx*yy)
}
