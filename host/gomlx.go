package host

import (
	"fmt"
	"reflect"
	"unsafe"

	"blitzen/host/kernels"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// gomlx multiplies many rows by a weight with GoMLX's Go backend. A graph is compiled for a shape; rows therefore come in pieces of a power of two, the
// last one filled up with zeros, so that a weight has few shapes.
type gomlx struct {
	backend compute.Backend
	execs   map[[2]int]*graph.Exec // by outputs and inputs of the weight
	stage   scratch                // rows that must be moved together or filled up
}

// Pieces of rows that GoMLX is given; fewer rows go to the C kernels, which need no copies.
const (
	gomlxMin = 16
	gomlxMax = 512
)

func newGoMLX(threads int) (*gomlx, error) {
	backend, err := gobackend.New("")
	if err != nil {
		return nil, fmt.Errorf("GoMLX: %w", err)
	}
	// The backend's own option "parallelism" prints to standard output.
	workers, err := field(backend, "Workers")
	if err != nil {
		return nil, err
	}
	set := workers.MethodByName("SetMaxParallelism")
	if !set.IsValid() {
		return nil, fmt.Errorf("GoMLX: %v has no SetMaxParallelism; check its version", workers.Type())
	}
	set.Call([]reflect.Value{reflect.ValueOf(threads)})
	return &gomlx{backend: backend, execs: map[[2]int]*graph.Exec{}}, nil
}

// field is an exported field of a GoMLX type whose package is internal.
func field(x any, name string) (reflect.Value, error) {
	v := reflect.ValueOf(x)
	if v.Kind() == reflect.Pointer && v.Elem().Kind() == reflect.Struct {
		if f := v.Elem().FieldByName(name); f.IsValid() {
			return f, nil
		}
	}
	return reflect.Value{}, fmt.Errorf("GoMLX: %T has no field %s; check its version", x, name)
}

// alias is a GoMLX tensor over rows × width floats that already lie in memory. Finalizing it leaves them alone.
func (g *gomlx) alias(p *float32, rows, width int) (*tensors.Tensor, error) {
	buffer, _, err := g.backend.NewSharedBuffer(0, shapes.Make(dtypes.Float32, 1))
	if err != nil {
		return nil, fmt.Errorf("GoMLX: %w", err)
	}
	flat, err := field(buffer, "Flat")
	if err != nil {
		return nil, err
	}
	shape, err := field(buffer, "RawShape")
	if err != nil {
		return nil, err
	}
	flat.Set(reflect.ValueOf(unsafe.Slice(p, rows*width)))
	shape.Set(reflect.ValueOf(shapes.Make(dtypes.Float32, rows, width)))
	t, err := tensors.FromBuffer(buffer)
	if err != nil {
		return nil, fmt.Errorf("GoMLX: %w", err)
	}
	return t, nil
}

func (g *gomlx) exec(outs, in int) (*graph.Exec, error) {
	key := [2]int{outs, in}
	if e := g.execs[key]; e != nil {
		return e, nil
	}
	e, err := graph.NewExec(g.backend, func(x, w *graph.Node) *graph.Node {
		return graph.DotGeneral(x, []int{1}, nil, w, []int{1}, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("GoMLX: %w", err)
	}
	g.execs[key] = e.SetMaxCache(-1)
	return e, nil
}

// product computes x·wᵀ for the first rows of x that make a piece and hands them to store, whose matrix is valid until it returns. It reports how many
// rows those were.
func (g *gomlx) product(x, w kernels.Matrix, rows, outs, in int, store func(y kernels.Matrix, rows int)) (int, error) {
	size := gomlxMax
	for size > gomlxMin && size > rows {
		size /= 2
	}
	count := min(rows, size)
	if rows-count > 0 && rows-count < gomlxMin && size < gomlxMax {
		size, count = 2*size, rows // a small rest costs less as padding
	}
	e, err := g.exec(outs, in)
	if err != nil {
		return 0, err
	}
	p, err := g.contiguous(x, count, size, in)
	if err != nil {
		return 0, err
	}
	xt, err := g.alias(p, size, in)
	if err != nil {
		return 0, err
	}
	wt, err := g.alias(w.P, outs, in)
	if err != nil {
		return 0, err
	}
	defer xt.FinalizeAll()
	defer wt.FinalizeAll()
	y, err := e.Exec(xt, wt)
	if err != nil {
		return 0, fmt.Errorf("GoMLX: %w", err)
	}
	defer y[0].FinalizeAll()
	return count, y[0].ConstFlatData(func(flat any) {
		store(kernels.Matrix{P: unsafe.SliceData(flat.([]float32)), LD: outs}, count)
	})
}

// contiguous is the address of size adjacent rows, the first count of them those of x, the others zero.
func (g *gomlx) contiguous(x kernels.Matrix, count, size, in int) (*float32, error) {
	if x.LD == in && count == size {
		return x.P, nil
	}
	p, err := g.stage.floats(size * in)
	if err != nil {
		return nil, err
	}
	for i := range count {
		copy(slice(shift(p, i*in), in), slice(below(x, i).P, in))
	}
	clear(slice(shift(p, count*in), (size-count)*in))
	return p, nil
}

func (g *gomlx) close() {
	for _, e := range g.execs {
		e.Finalize()
	}
	g.backend.Finalize()
	g.stage.free()
}
