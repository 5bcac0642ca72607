package main

import (
	"fmt"

	"blitzen/decode"
	"blitzen/device"
	"blitzen/model"
	"blitzen/sample"
	"blitzen/weights"
)

// need is the memory that a model takes on a device, in bytes, counted by
// making model and session on a meter.
type need struct {
	weights   int64
	scratch   int64  // of a forward pass
	rows      int    // prompt tokens that go through it at once
	session   int64  // beside its rows
	row       int64  // of one token in the cache, with what a sampled method keeps for it
	context   int    // tokens
	workspace int64  // what the device takes beside tensors
	limit     int    // tokens, the model's
	kind      string // "int8 " where the weights are kept as signed bytes
}

func (n need) cache() int64 { return n.session + n.row*int64(n.context) }
func (n need) total() int64 { return n.weights + n.scratch + n.cache() + n.workspace }

// fits reports whether it fits, as far as is known.
func (n need) fits(s space) bool { return s.total == 0 || n.total() <= s.free }

// longest is the most tokens that fit, at most the model's limit; 0 if not one
// does.
func (n need) longest(s space) int {
	n.context = 0
	return int(max(0, min((s.free-n.total())/n.row, int64(n.limit))))
}

// parts lists what the total is made of.
func (n need) parts() string {
	return fmt.Sprintf("%sweights %s, cache %s for %d tokens, scratch %s for %d tokens at once, workspace %s",
		n.kind, mebibytes(n.weights), mebibytes(n.cache()), n.context, mebibytes(n.scratch), n.rows, mebibytes(n.workspace))
}

// refusal says why it does not fit and what would.
func (n need) refusal(s space) error {
	most := "not one token fits"
	if longest := n.longest(s); longest > 0 {
		most = fmt.Sprintf("at most %d tokens of context fit", longest)
	}
	if n.kind == "" && n.total()-n.weights/2 <= s.free {
		most += "; --quantize int8 halves the weights"
	}
	return fmt.Errorf("the model does not fit on %s: %s: %s in all, but %s of %s are free: %s",
		s.name, n.parts(), mebibytes(n.total()), mebibytes(s.free), mebibytes(s.total), most)
}

// space is the memory of a device and how it is used.
type space struct {
	name        string
	dtype       device.DType
	rows        int   // prompt tokens at once, where that fits
	workspace   int64 // beside tensors
	widened     int64 // likewise, where weights are int8
	free, total int64 // 0: not known
}

const (
	rowsCPU = 512
	rowsGPU = 8192 // experts want many
	rowsMin = 256  // products of matrices are slow with fewer

	scratchMost = 1100 << 20

	workspaceCPU = 128 << 20 // scratch of threads
	workspaceGPU = 1 << 30   // compiled kernels, cuBLASLt, intermediate results inside an operation
	widenedGPU   = 256 << 20 // int8 weights that many tokens are multiplied by
)

// aGPU stands for any, of unknown size.
var aGPU = space{name: "a GPU", dtype: device.BF16, rows: rowsGPU, workspace: workspaceGPU, widened: widenedGPU}

func spaceOf(dev device.Device) space {
	s := space{name: dev.Name(), dtype: dev.DType(), rows: rowsCPU, workspace: workspaceCPU}
	if isGPU(dev) {
		s.rows, s.workspace, s.widened = rowsGPU, workspaceGPU, widenedGPU
	}
	s.free, s.total = dev.Space()
	return s
}

// need counts what the model needs for sessions of up to context tokens, with
// chunk prompt tokens at once. With chunk 0 it halves what the device takes at
// most until scratch is small enough and all fits.
func (l *loaded) need(s space, chunk, context int, attention ...attentionFlags) (need, error) {
	if err := withinLimit(context, l.Config); err != nil {
		return need{}, err
	}
	rows := min(max(chunk, 1), context)
	if chunk == 0 {
		rows = min(s.rows, context)
	}
	queries := 0
	for _, a := range attention {
		queries = max(queries, a.probes())
		if err := a.checkLayers(len(l.specs)); err != nil {
			return need{}, err
		}
	}
	for {
		n, err := l.count(s.dtype, rows, context, queries)
		if err != nil {
			return n, err
		}
		teams := int64(0)
		for _, a := range attention {
			teams = max(teams, a.rowBytes(l.specs, l.Config.Heads, s.dtype))
		}
		n.row += teams
		n.workspace = s.workspace
		if l.int8 {
			n.kind = "int8 "
			n.workspace += s.widened
		}
		if n.row > mostCache/int64(context) {
			return n, fmt.Errorf("a cache of %d bytes a token for %d tokens is impossible: check the sizes in config.json", n.row, context)
		}
		if chunk > 0 || rows <= rowsMin || n.fits(s) && n.scratch <= scratchMost {
			return n, nil
		}
		rows = max(rows/2, rowsMin)
	}
}

// mostCache is beyond any machine; sums of a few cannot overflow.
const mostCache = 1 << 60

// source is the weights to count: made-up ones without their numbers.
func (l *loaded) source() model.Source {
	if dummy, ok := l.Checkpoint.(*weights.Dummy); ok {
		return dummy.Shapes()
	}
	return l.Checkpoint
}

// count makes the model and sessions on a meter; sessions keep so many last
// queries of their prompt.
func (l *loaded) count(d device.DType, rows, context, queries int) (need, error) {
	meter := device.NewMeter(d)
	m, err := l.plan.load(meter, l.source(), l.options(rows))
	if err != nil {
		return need{}, err
	}
	defer m.Close()
	n := need{weights: meter.Imported(), scratch: meter.Made(), rows: rows, context: context, limit: l.Config.MaxPositions}
	one, err := sessionBytes(meter, m, 1, queries)
	if err != nil {
		return n, err
	}
	two, err := sessionBytes(meter, m, 2, queries)
	n.row, n.session = two-one, one-(two-one)
	return n, err
}

func sessionBytes(meter *device.Meter, m model.Model, capacity, queries int) (int64, error) {
	before := meter.Made()
	s, err := decode.New(meter, m, decode.Options{Capacity: capacity, Sampling: sample.Greedy(), Probes: queries})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	return meter.Made() - before, nil
}
