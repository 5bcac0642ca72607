package host

import (
	"fmt"
	"math"

	"blitzen/device"
	"blitzen/host/kernels"
)

const (
	tileRows  = 64 // query rows (tokens × heads) of a prefill tile
	decodeMax = 4  // tokens up to which each is attended by itself, its rows split over threads
)

// Attend implements device.Kernels.
func (k *hostKernels) Attend(a device.AttendArgs) error {
	if a.Then != nil {
		return device.AttendBySteps(k, a)
	}
	if ok, err := k.startHalf(outputs{a.Out.Out, a.Out.LSE, a.Read}, a.Q, a.K, a.V, a.From, a.Pos); !ok {
		return err
	}
	w := twins{k: k}
	if a.Q, a.Out.Out = w.in(a.Q), w.out(a.Out.Out); w.err != nil {
		return w.err
	}
	if err := k.attend(a); err != nil {
		return err
	}
	return w.done()
}

func (k *hostKernels) attend(a device.AttendArgs) error {
	from := 0
	if a.From != nil {
		from = int(*at[int32](a.From))
	}
	if from < 0 {
		return fmt.Errorf("the first row is %d", from)
	}
	rows := 0
	for t, p := range row[int32](a.Pos) {
		if int(p) >= a.K.Shape[1] {
			return fmt.Errorf("token %d attends to row %d of %d", t, p, a.K.Shape[1])
		}
		rows += max(0, int(p)-from+1)
	}
	if a.Read != nil {
		*at[int64](a.Read) += int64(a.K.Shape[0] * rows)
	}
	if a.Q.Shape[0] <= decodeMax || a.K.DType != device.F32 || a.V.DType != device.F32 {
		return k.attendDecode(a, from)
	}
	return k.attendPrefill(a, from)
}

func cacheOf(keys, values *device.Tensor, h int) kernels.Cache {
	return kernels.Cache{K: head(keys, h), V: head(values, h), DK: keys.Shape[2], DV: values.Shape[2]}
}

func lseAt(p device.Partial, t, h int) (lse *float32, ld int) {
	if p.LSE == nil {
		return nil, 0
	}
	return shift(f32(p.LSE, t), h), p.LSE.Stride[0]
}

func (k *hostKernels) attendPrefill(a device.AttendArgs, from int) error {
	tokens, kv := a.Q.Shape[0], a.K.Shape[0]
	group := a.Q.Shape[1] / kv
	size := max(1, tileRows/group)
	tiles := pieces(tokens, size)
	need := kernels.TileScratch(size, group, a.K.Shape[2], a.V.Shape[2])
	if err := k.pool.lend(need); err != nil {
		return err
	}
	k.pool.run(tiles*kv, func(thread, i int) {
		// Later tokens have more rows: longest first keeps the threads busy to
		// the end.
		h, s := i%kv, piece(tiles-1-i/kv, tokens, size)
		out := kernels.Heads{P: f32(a.Out.Out, s.from, h*group), Token: a.Out.Out.Stride[0], Head: a.Out.Out.Stride[1]}
		q := kernels.Heads{P: f32(a.Q, s.from, h*group), Token: a.Q.Stride[0], Head: a.Q.Stride[1]}
		lse, ldl := lseAt(a.Out, s.from, h*group)
		kernels.AttendTile(out, lse, ldl, q, cacheOf(a.K, a.V, h), s.len(), group, from, at[int32](a.Pos, s.from), a.Scale,
			k.pool.floats(thread))
	})
	return nil
}

// attendDecode attends each token by itself.
func (k *hostKernels) attendDecode(a device.AttendArgs, from int) error {
	for t, p := range row[int32](a.Pos) {
		plans := k.planner.fresh(a.K.Shape[0])
		for h := range plans {
			plans[h].add(kernels.Segment{First: int32(from), Count: p + 1 - int32(from)})
		}
		if err := k.attendPlans(plans, t, a.Out, a.Q, a.K, a.V, a.Scale); err != nil {
			return err
		}
	}
	return nil
}

// Merge implements device.Kernels.
func (k *hostKernels) Merge(dst *device.Tensor, a, b device.Partial) error {
	if ok, err := k.startHalf(outputs{dst}, a.Out, a.LSE, b.Out, b.LSE); !ok {
		return err
	}
	w := twins{k: k}
	if dst, a.Out, b.Out = w.out(dst), w.in(a.Out), w.in(b.Out); w.err != nil {
		return w.err
	}
	k.overRows(dst.Shape[0], func(from, count int) {
		for t := from; t < from+count; t++ {
			for h := range dst.Shape[1] {
				massA, massB := row[float32](a.LSE, t)[h], row[float32](b.LSE, t)[h]
				kernels.Merge(f32(dst, t, h), f32(a.Out, t, h), massA, f32(b.Out, t, h), massB, dst.Shape[2])
			}
		}
	})
	return w.done()
}

// absent reports whether a routing bias or score says that there is no team.
func absent(x float32) bool { return math.IsInf(float64(x), -1) }
