package host

import (
	"fmt"
	"reflect"
	"runtime"
	"unsafe"

	"blitzen/host/kernels"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// gomlx multiplies tiles of rows by tiles of a weight with GoMLX's Go backend.
// A graph is compiled for a shape; rows therefore come in powers of two, the
// last piece filled up with zeros, so that a weight has few shapes. The backend
// works on the calling thread alone: the threads are ours.
type gomlx struct {
	backend compute.Backend
	execs   map[[2]int]*graph.Exec // by outputs and inputs of a tile
}

// Tiles that GoMLX is given. It is slow with fewer rows than gomlxMin: those go
// to the C kernels.
const (
	gomlxMin  = 64
	gomlxRows = 128
	gomlxOuts = 512
)

func newGoMLX() (*gomlx, error) {
	backend, err := gobackend.New("ops_sequential")
	if err != nil {
		return nil, fmt.Errorf("GoMLX: %w", err)
	}
	// The backend's option "parallelism=0" would do the same but prints to
	// standard output.
	workers, err := field(backend, "Workers")
	if err != nil {
		return nil, err
	}
	set := workers.MethodByName("SetMaxParallelism")
	if !set.IsValid() {
		return nil, fmt.Errorf("GoMLX: %v has no SetMaxParallelism; check its version", workers.Type())
	}
	set.Call([]reflect.Value{reflect.ValueOf(0)})
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

// alias is a GoMLX tensor over rows × width floats that already lie in memory.
// Finalizing it leaves them alone.
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

// prepare makes the graph for tiles of a shape, if it is new. Not for
// concurrent use; tile is.
func (g *gomlx) prepare(outs, in int) error {
	key := [2]int{outs, in}
	if g.execs[key] != nil {
		return nil
	}
	e, err := graph.NewExec(g.backend, func(x, w *graph.Node) *graph.Node {
		return graph.DotGeneral(x, []int{1}, nil, w, []int{1}, nil)
	})
	if err != nil {
		return fmt.Errorf("GoMLX: %w", err)
	}
	g.execs[key] = e.SetMaxCache(-1)
	return nil
}

// multiply computes a tile whose weight rows are adjacent. stage has room for
// gomlxRows·in floats.
func (g *gomlx) multiply(p product, stage *float32) error {
	size := gomlxMin
	for size < p.rows {
		size *= 2
	}
	x, err := g.alias(contiguous(p.x, p.rows, size, p.in, stage), size, p.in)
	if err != nil {
		return err
	}
	defer x.FinalizeAll()
	w, err := g.alias(p.w.P, p.outs, p.in)
	if err != nil {
		return err
	}
	defer w.FinalizeAll()
	y, err := g.exec(g.execs[[2]int{p.outs, p.in}], x, w)
	if err != nil {
		return fmt.Errorf("GoMLX: %w", err)
	}
	defer y.FinalizeAll()
	return y.ConstFlatData(func(flat any) {
		product := kernels.Matrix{P: unsafe.SliceData(flat.([]float32)), LD: p.outs}
		kernels.Store(p.dst, product, p.bias, p.rows, p.outs, p.add)
	})
}

// exec runs a graph and leaves the thread's vector registers clean.
func (g *gomlx) exec(e *graph.Exec, x, w *tensors.Tensor) (*tensors.Tensor, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer clearUpperBits()
	y, err := e.Call(x, w)
	if err != nil {
		return nil, err
	}
	return y[0], nil
}

// contiguous is the address of size adjacent rows, the first of them those of
// x, the others zero. It moves them to stage if need be.
func contiguous(x kernels.Matrix, rows, size, in int, stage *float32) *float32 {
	if x.LD == in && rows == size {
		return x.P
	}
	for i := range rows {
		copy(slice(shift(stage, i*in), in), slice(below(x, i).P, in))
	}
	clear(slice(shift(stage, rows*in), (size-rows)*in))
	return stage
}

func (g *gomlx) close() {
	for _, e := range g.execs {
		e.Finalize()
	}
	g.backend.Finalize()
}
