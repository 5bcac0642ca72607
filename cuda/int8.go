package cuda

import (
	"fmt"
	"slices"

	"blitzen/cuda/driver"
	"blitzen/device"
)

type int8RoundArgs struct {
	dst, scale, src vec
	n               int32
	_               int32
}

// ImportInt8 implements device.Device: rows are uploaded in pieces, which the
// GPU rounds.
func (d *gpu) ImportInt8(name string, t device.DType, shape []int, mapped []byte) (*device.Tensor, error) {
	leave, err := d.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := device.CheckInt8(name, t, shape); err != nil {
		return nil, err
	}
	rows, n := shape[0], shape[1]
	switch {
	case rows*n*t.Size() != len(mapped):
		return nil, fmt.Errorf("%s: %v%v needs %d bytes, the checkpoint has %d", name, t, shape, rows*n*t.Size(), len(mapped))
	case d.recording != nil:
		return nil, fmt.Errorf("cuda: import %s inside Record", name)
	}
	v, size := device.NewInt8Tensor(name, nil, rows, n)
	b, err := d.cut(name, device.I8, shape, size)
	if err != nil {
		return nil, err
	}
	b.readOnly = true
	v.Buffer, v.Scale.Buffer = b, b
	if err := d.sendRounded(v, t, mapped); err != nil {
		d.release(b)
		return nil, d.keep(fmt.Errorf("import %s: %w", name, err))
	}
	return v, nil
}

func (d *gpu) sendRounded(v *device.Tensor, t device.DType, src []byte) error {
	rows, n := v.Shape[0], v.Shape[1]
	if len(src) == 0 {
		return nil
	}
	piece := max(1, segmentSize/(n*t.Size()))
	raw, err := d.scratch.take(piece*n*t.Size(), false)
	if err != nil {
		return d.explain(err, piece*n*t.Size())
	}
	for from := 0; from < rows; from += piece {
		count := min(piece, rows-from)
		if err := d.sendAll(raw.at, src[from*n*t.Size():(from+count)*n*t.Size()]); err != nil {
			return err
		}
		if err := d.kernels.roundRows(v.Slice(0, from, from+count), device.NewTensor("piece", t, raw, count, n)); err != nil {
			return err
		}
	}
	return nil
}

func (k *kernels) roundRows(dst, src *device.Tensor) error {
	c := k.call("int8_round").as("SRC", src.DType).set("VEC", vectorOf(16/src.DType.Size(), src, dst))
	args := int8RoundArgs{dst: c.vec(dst), scale: c.vec(dst.Scale), src: c.vec(src), n: int32(src.Shape[1])}
	return launch(c, "round_rows", blocks(src.Shape[0], threads), 0, &args)
}

func hasInt8(w device.Weight) bool {
	return slices.ContainsFunc(w.Parts, func(p *device.Tensor) bool { return p.DType == device.I8 })
}

// widenMost is how many weights are widened at once, where kernels.widenMost
// does not say otherwise.
const widenMost = 128 << 20

// atOnce is how many rows of n weights are widened at once.
func (k *kernels) atOnce(n int) int {
	most := k.widenMost
	if most == 0 {
		most = widenMost
	}
	return max(1, most/max(n, 1))
}

// linearInt8 multiplies rows by a weight of which some parts are signed bytes.
func (k *kernels) linearInt8(dst, x *device.Tensor, w device.Weight, add bool) error {
	if x.Shape[0] == 0 {
		return nil
	}
	if x.Shape[0] <= fewTokens && onlyInt8(w) {
		return k.gemvInt8(dst, x, w, add, k.fullest(gemvInt8Shapes, w.Out(), x.Shape[1], 16))
	}
	column := 0
	for i, part := range w.Parts {
		one := device.Weight{Parts: []*device.Tensor{part}}
		if len(w.Bias) > 0 {
			one.Bias = w.Bias[i : i+1]
		}
		into := dst.Slice(1, column, column+part.Shape[0])
		column += part.Shape[0]
		if err := k.linearPartInt8(into, x, one, add); err != nil {
			return err
		}
	}
	return nil
}

// onlyInt8 reports whether one launch can take all parts.
func onlyInt8(w device.Weight) bool {
	for i, p := range w.Parts {
		if p.DType != device.I8 || len(w.Bias) > 0 && w.Bias[i].DType != w.Bias[0].DType {
			return false
		}
	}
	return len(w.Parts) <= gemvParts
}

// linearPartInt8 widens signed bytes, some rows at a time, and multiplies.
func (k *kernels) linearPartInt8(dst, x *device.Tensor, w device.Weight, add bool) error {
	part := w.Parts[0]
	switch {
	case part.DType != device.I8:
		return k.Linear(dst, x, w, add)
	case x.Shape[0] <= fewTokens:
		return k.linearInt8(dst, x, w, add)
	}
	rows := k.atOnce(part.Shape[1])
	for from := 0; from < part.Shape[0]; from += rows {
		to := min(from+rows, part.Shape[0])
		wide, err := k.widened(part.Slice(0, from, to).Unflatten(0, 1, to-from), x.DType)
		if err != nil {
			return err
		}
		piece := device.Weight{Parts: []*device.Tensor{wide.Index(0, 0)}}
		if len(w.Bias) > 0 {
			piece.Bias = []*device.Tensor{w.Bias[0].Slice(0, from, to)}
		}
		if err := k.Linear(dst.Slice(1, from, to), x, piece, add); err != nil {
			return err
		}
	}
	return nil
}

// headLinearInt8 is HeadLinear with signed bytes for many tokens.
func (k *kernels) headLinearInt8(dst, x, w *device.Tensor, transpose bool) error {
	wide, err := k.widened(w, x.DType)
	if err != nil {
		return err
	}
	return k.HeadLinear(dst, x, wide, transpose)
}

// takeSteps gives a tensor the memory that passes between the operations of one.
func (k *kernels) takeSteps(t *device.Tensor) error {
	if k.plan != nil {
		return nil
	}
	block, err := k.gpu.steps.take(t.Bytes(), k.gpu.recording != nil)
	if err != nil {
		return k.gpu.explain(err, t.Bytes())
	}
	k.use(block)
	t.Buffer = block
	return nil
}

type int8WidenArgs struct {
	dst     vec
	w       cube
	scale   mat
	rows, n int32
}

// widened is a weight [batch, rows, n] of signed bytes as numbers of type t, in
// memory that the next one takes.
func (k *kernels) widened(w *device.Tensor, t device.DType) (*device.Tensor, error) {
	dst := device.NewTensor(w.Name, t, &buffer{}, w.Shape...)
	if err := k.takeSteps(dst); err != nil {
		return nil, err
	}
	vector := vectorOf(16, w)
	c := k.call("int8_widen").as("DST", t).set("VEC", vector)
	args := int8WidenArgs{c.vec(dst), c.cube(w), c.mat(w.Scale), int32(w.Shape[1]), int32(w.Shape[2])}
	grid := driver.Grid{X: ceil(w.Shape[1]*w.Shape[2]/vector, threads), Y: w.Shape[0], Z: 1, Threads: threads}
	return dst, launch(c, "widen_rows", grid, 0, &args)
}
