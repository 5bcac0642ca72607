package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"blitzen/bench"
	"blitzen/device"
)

// operatorRow is a method's attention of one token in one layer.
type operatorRow struct {
	machine
	Protocol string  `json:"protocol"`
	Rows     int     `json:"rows"`
	Drawn    int     `json:"drawn,omitempty"`
	Suffix   int     `json:"suffix"`
	Heads    int     `json:"heads"`
	KeyHeads int     `json:"key_heads"`
	KeyDim   int     `json:"key_dim"`
	ValueDim int     `json:"value_dim"`
	Method   string  `json:"method"`
	US       float64 `json:"us"`
	Spread   float64 `json:"spread_us,omitempty"` // half the distance of the quartiles
	// Of SANTA++, for each query: distinct prompt rows of a key head.
	UnionRows float64      `json:"union_rows,omitempty"`
	Bytes     float64      `json:"bytes"` // read, each row once
	CopyShare float64      `json:"copy_percent,omitempty"`
	RoundsUS  []float64    `json:"rounds_us,omitempty"` // medians
	Faster    []fasterThan `json:"faster_than,omitempty"`
	// Of --protocol paper: the largest error of an output before anything is timed.
	Error float64 `json:"largest_error,omitempty"`
}

// fasterThan is a method's time over that of the row, with a 95 % interval or
// zeros.
type fasterThan struct {
	Method string  `json:"method"`
	Times  float64 `json:"times"`
	Low    float64 `json:"low,omitempty"`
	High   float64 `json:"high,omitempty"`
}

// operatorColumns has a column for each method that others are compared with.
func operatorColumns(rows []operatorRow) []column[operatorRow] {
	columns := slices.Clone(operatorFigures)
	named := map[string]bool{}
	for _, r := range rows {
		for _, f := range r.Faster {
			if named[f.Method] {
				continue
			}
			named[f.Method] = true
			columns = append(columns, column[operatorRow]{"faster than " + f.Method, func(r operatorRow) string { return r.times(f.Method) }})
		}
	}
	return columns
}

func (r operatorRow) times(method string) string {
	for _, f := range r.Faster {
		switch {
		case f.Method != method:
		case f.Low > 0:
			return fmt.Sprintf("%.3f× [%.3f, %.3f]", f.Times, f.Low, f.High)
		default:
			return fmt.Sprintf("%.2f×", f.Times)
		}
	}
	return "-"
}

// time has the spread where there is one: medians of rounds have none.
func (r operatorRow) time() string {
	if r.Spread == 0 {
		return fmt.Sprintf("%.2f", r.US)
	}
	return fmt.Sprintf("%.2f ± %.2f", r.US, r.Spread)
}

var operatorFigures = []column[operatorRow]{
	{"rows", func(r operatorRow) string { return fmt.Sprint(r.Rows) }},
	{"drawn", func(r operatorRow) string { return known("%.0f", float64(r.Drawn)) }},
	{"attention", func(r operatorRow) string { return r.Method }},
	{"µs", operatorRow.time},
	{"MB read", func(r operatorRow) string { return fmt.Sprintf("%.2f", r.Bytes/1e6) }},
	{"% of copies", func(r operatorRow) string { return known("%.1f", r.CopyShare) }},
	{"rows a key head", func(r operatorRow) string { return known("%.0f", r.UnionRows) }},
}

// row is what all rows of an operator share.
func (r *operatorBench) row(o *bench.Operator, method string, bytes float64) operatorRow {
	on := r.on
	on.DType = typeName(o.DType)
	return operatorRow{
		machine: on, Protocol: r.protocol, Rows: o.Rows, Suffix: o.Suffix, Heads: o.Heads, KeyHeads: o.KeyHeads,
		KeyDim: o.KeyDim, ValueDim: o.ValueDim, Method: method, Bytes: bytes,
	}
}

// typeName is an element type as --peer and the paper call it.
func typeName(t device.DType) string {
	if t == device.F16 {
		return "fp16"
	}
	return strings.ToLower(t.String())
}

// time gives a row its time.
func (r *operatorBench) time(row *operatorRow, t bench.Timing) {
	row.US, row.Spread, row.CopyShare = t.Median, t.Spread, r.on.copyShare(row.Bytes, t.Median)
}

// sampledName is SANTA++ with what is beyond the paper.
func (r *operatorBench) sampledName() string {
	if beyond := r.as("santapp").beyond(); beyond != "" {
		return "santapp (" + beyond + ")"
	}
	return "santapp"
}

// sampledRow is one of SANTA++.
func (r *operatorBench) sampledRow(o *bench.Operator, drawn int) (operatorRow, bench.Reads, error) {
	reads, err := o.Reads(drawn)
	row := r.row(o, r.sampledName(), reads.Bytes)
	row.Drawn, row.UnionRows = drawn, reads.Union
	return row, reads, err
}

// graph times a row of layers: each number of teams, exact attention, and the
// peer's.
func (r *operatorBench) graph(o *bench.Operator, drawn []int) error {
	replays := 40
	if !r.clocked {
		replays = 4
	}
	var sampled, others []operatorRow
	dense := 0.0
	for _, k := range drawn {
		row, reads, err := r.sampledRow(o, k)
		if err != nil {
			return err
		}
		t, err := o.TimeLayers(r.watch, replays, func(ops *device.Ops, layer int) { o.Sampled(ops, layer, k) })
		if err != nil {
			return err
		}
		r.time(&row, t)
		sampled, dense = append(sampled, row), reads.Dense
	}
	t, err := o.TimeLayers(r.watch, replays, o.Dense)
	if err != nil {
		return err
	}
	row := r.row(o, "dense", dense)
	r.time(&row, t)
	others = append(others, row)
	err = r.askPeer(func(backend string) error {
		laps, err := r.peer.Ask(r.request(o, backend, "graph", 3, replays))
		if err != nil {
			return err
		}
		row := r.row(o, r.peer.Name+" "+backend, dense)
		r.time(&row, bench.Summary(bench.Microseconds(laps)))
		others = append(others, row)
		return nil
	})
	r.addRows(o, sampled, others)
	return err
}

// addRows compares every number of teams with every other method.
func (r *operatorBench) addRows(o *bench.Operator, sampled, others []operatorRow) {
	for _, s := range sampled {
		for _, other := range others {
			s.Faster = append(s.Faster, fasterThan{Method: other.Method, Times: other.US / s.US})
		}
		r.noteReads(s)
		r.rows = append(r.rows, s)
	}
	r.rows = append(r.rows, others...)
	haveFigures(r.cmd.Context())
	r.noteTeams(o)
}

// The workload of the paper's kernel benchmark: rows that the query heads of a
// key head read together.
const (
	paperRows, paperDrawn             = 32768, 31
	paperUnion                        = 1217
	paperUnionLeast, paperUnionMost   = 1000, 1400
	paperPreparationMiB, paperSpeedup = 71.98, 1.69
	paperDraws, paperError            = 3, 4.30e-6 // of its check before anything is timed
)

// noteReads says whether a figure is of the paper's workload, and what it would
// be if not.
func (r *operatorBench) noteReads(s operatorRow) {
	if s.Rows != paperRows || s.Drawn != paperDrawn || r.shape.Latent {
		return
	}
	text := fmt.Sprintf("At %d rows and %d drawn, %.0f distinct rows are read of a key head; the paper's workload has about %d.", s.Rows, s.Drawn, s.UnionRows, paperUnion)
	if s.UnionRows < paperUnionLeast || s.UnionRows > paperUnionMost {
		text += " The figure is of another workload."
		more := (paperUnion - s.UnionRows) * float64(s.KeyHeads*(s.KeyDim+s.ValueDim)*r.elements().Size())
		if us, known := r.on.copyTime(more); known {
			text += fmt.Sprintf(" Scaled: with %.2f MB more to read at the rate of copies it were about %.2f µs.", more/1e6, s.US+us)
		}
	}
	r.notes = append(r.notes, text)
}

func (r *operatorBench) noteTeams(o *bench.Operator) {
	text := fmt.Sprintf("%s: %s of %s parents over %s, built in %.2f s; beside the cache they take %.2f MiB a layer (the paper's preparation %.2f MiB at %d rows); %s with data of their own.",
		count(o.Rows, "row"), count(o.Groups, "team"), r.parents, count(o.KeyHeads, "key head"), o.BuildTime.Seconds(), float64(o.Beyond)/(1<<20), paperPreparationMiB, paperRows, count(o.Layers(), "layer"))
	r.notes = append(r.notes, text)
}

// request is what a peer is asked for.
func (r *operatorBench) request(o *bench.Operator, backend, mode string, warm, observations int) bench.Request {
	return bench.Request{
		Backend: backend, Mode: mode, DType: typeName(o.DType), Heads: o.Heads, KeyHeads: o.KeyHeads, KeyDim: o.KeyDim, ValueDim: o.ValueDim,
		Rows: o.Rows + o.Suffix, Warm: warm, Observations: observations,
	}
}

// askPeer calls ask for each of the peer's backends; one that cannot do it is
// noted.
func (r *operatorBench) askPeer(ask func(backend string) error) error {
	if r.peer == nil {
		return nil
	}
	for _, backend := range r.peer.Backends {
		err := ask(backend)
		if errors.Is(err, bench.ErrUnsupported) {
			r.notes = append(r.notes, err.Error())
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// paper runs the protocol of appendix E.
func (r *operatorBench) paper(o *bench.Operator, drawn []int) error {
	evict, free, err := r.evicted()
	if err != nil {
		return err
	}
	defer free()
	for _, k := range drawn {
		if err := r.paperFor(o, k, evict); err != nil {
			return err
		}
	}
	r.noteTeams(o)
	if r.peer != nil {
		r.notes = append(r.notes, "Those of "+r.peer.Name+" are taken in one piece of a round, after or before the others, in a process of its own.")
	}
	p := r.paired(evict)
	clock := "no graph, the device's clock"
	if !r.clocked {
		clock = "the host's clock"
	}
	r.notes = append(r.notes, fmt.Sprintf(
		"%s of %s and %s a method, by turns, the first method reversed from round to round; %d MiB read and written before each; %s, no suffix, %s. Medians of round medians; intervals of 95 %% from %d resamples of rounds. The paper, in fp16 on another card, has %.2f× over flash.",
		count(p.Rounds, "round"), count(p.Warm, "warm-up"), count(p.Observations, "observation"), r.evictBytes()>>20, typeName(o.DType), clock, bench.Resamples, paperSpeedup))
	return nil
}

// paired is the protocol; a CPU takes few observations.
func (r *operatorBench) paired(evict func() error) bench.Paired {
	p := bench.Paired{Rounds: r.rounds, Warm: bench.PaperWarm, Observations: bench.PaperObservations, Evict: evict}
	if !r.clocked {
		p.Warm, p.Observations = 1, 5
	}
	return p
}

func (r *operatorBench) paperFor(o *bench.Operator, k int, evict func() error) error {
	row, reads, err := r.sampledRow(o, k)
	if err != nil {
		return err
	}
	if row.Error, err = o.Check(k, paperDraws); err != nil {
		return err
	}
	r.notes = append(r.notes, fmt.Sprintf("%d drawn: over %d draws, outputs in float32 are within %.3g of float64 over the same rows with the same chances (the paper's: %.3g).", k, paperDraws, row.Error, paperError))
	rows := []operatorRow{row, r.row(o, "dense", reads.Dense)}
	methods := []bench.Method{
		{Name: "santapp", Run: func() error { return r.Device.Run(func(ops *device.Ops) { o.Sampled(ops, 0, k) }) }},
		{Name: "dense", Run: func() error { return r.Device.Run(func(ops *device.Ops) { o.Dense(ops, 0) }) }},
	}
	err = r.askPeer(func(backend string) error {
		if _, err := r.peer.Ask(r.request(o, backend, "events", 1, 1)); err != nil {
			return err
		}
		rows = append(rows, r.row(o, r.peer.Name+" "+backend, reads.Dense))
		methods = append(methods, bench.Method{Name: backend, Elsewhere: func(warm, observations int) ([]time.Duration, error) {
			return r.peer.Ask(r.request(o, backend, "events", warm, observations))
		}})
		return nil
	})
	if err != nil {
		return err
	}
	rounds, err := r.paired(evict).Measure(r.watch, methods)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].RoundsUS = rounds[i]
		r.time(&rows[i], bench.Timing{Median: rounds.Estimate(i)})
		if i > 0 {
			f := fasterThan{Method: rows[i].Method}
			f.Times, f.Low, f.High = rounds.Ratio(i, 0, 1)
			rows[0].Faster = append(rows[0].Faster, f)
		}
	}
	r.rows = append(r.rows, rows...)
	haveFigures(r.cmd.Context())
	r.noteReads(rows[0])
	return nil
}
