package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"blitzen/bench"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/eval"
	"blitzen/sample"

	"github.com/spf13/cobra"
)

// operatorBench is a run of bench --attention-op.
type operatorBench struct {
	*benchFlags
	*opened
	cmd   *cobra.Command
	on    machine
	shape bench.Shape
	watch device.Stopwatch
	// clocked: the device has a clock of its own. A CPU has none: the protocols
	// were not made for one, and it takes fewer observations.
	clocked bool
	peer    *bench.Peer // nil for none
	rows    []operatorRow
	notes   []string
	extra   []section
}

// stoppableWatch is a stopwatch that does not start once ctx has ended: minutes of
// rounds have nothing else that looks at it.
type stoppableWatch struct {
	device.Stopwatch
	ctx context.Context
}

func (w stoppableWatch) Start() error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	return w.Stopwatch.Start()
}

func (b *benchFlags) runOperator(cmd *cobra.Command, args []string) (err error) {
	b.budget = b.teamRows() // it draws --drawn teams
	rows, drawn, err := b.checkOperator(defaultRows)
	if err != nil {
		return err
	}
	if b.parents == "probe" {
		return usagef("--parents probe needs the queries of a prompt, which --attention-op does not keep")
	}
	o, err := b.modelFlags.open(args)
	if err != nil {
		return err
	}
	defer o.end(&err)
	o.noteUnused(cmd.ErrOrStderr(), cmd.Flags(), b.as("santapp"))
	b.attentionFlags = b.forModel(o.loaded)
	r := &operatorBench{benchFlags: b, opened: o, cmd: cmd}
	if r.watch, r.clocked, err = bench.Watch(o.Device); err != nil {
		return err
	}
	defer r.watch.Close()
	r.watch = stoppableWatch{r.watch, cmd.Context()}
	if !r.clocked {
		if rows, drawn, err = b.checkOperator(defaultRowsCPU); err != nil {
			return err
		}
	}
	if err := r.prepare(slices.Max(rows)); err != nil {
		return err
	}
	if b.operatorFlags.peer != "" {
		if r.peer, err = bench.NewPeer(cmd.Context(), b.operatorFlags.peer, cmd.ErrOrStderr(), peerPatience); err != nil {
			return fmt.Errorf("--peer %s: %w", b.operatorFlags.peer, err)
		}
		defer r.peer.Close()
	}
	for _, n := range rows {
		if err = r.measure(n, drawn); err != nil {
			break
		}
	}
	return showRest(cmd.ErrOrStderr(), err, len(r.rows)+len(r.extra) > 0, r.print)
}

// checkOperator refuses values, and more teams than the rows can have; byDefault
// stands for --rows where that is not given.
func (b *benchFlags) checkOperator(byDefault string) (rows, drawn []int, err error) {
	if rows, drawn, err = b.operatorFlags.check(byDefault); err != nil {
		return nil, nil, err
	}
	teams, err := b.as("santapp").santapp()
	if err != nil {
		return nil, nil, err
	}
	n := slices.Min(rows)
	return rows, drawn, enoughTeams(drawn, n, teams.Most(n, teams.Parents), "at most ")
}

// enoughTeams refuses to draw more teams than a key head has of so many rows;
// atMost is "at most " where that is a bound.
func enoughTeams(drawn []int, rows, teams int, atMost string) error {
	if k := slices.Max(drawn); k > teams {
		return usagef("--drawn %d: a key head has %s%s of %s: draw at most %d, or give more --rows", k, atMost, count(teams, "team"), count(rows, "row"), teams)
	}
	return nil
}

// peerPatience is the longest that a peer may take for an answer: PyTorch needs up to
// a minute to start, and 20 rounds of 1,300 calls some seconds.
const peerPatience = 5 * time.Minute

// prepare checks what depends on the model and reads its weights.
func (r *operatorBench) prepare(rows int) (err error) {
	if r.shape, err = r.operatorFlags.shape(r.specs[0].ValueIsKeyPrefix); err != nil {
		return err
	}
	if err := bench.Check(r.specs[0], r.shape); err != nil {
		return usagef("--dim: %v", err)
	}
	if r.firstLayer >= len(r.specs) {
		return usagef("--first-layer %d: %s has layers 0 to %d", r.firstLayer, r.Name, len(r.specs)-1)
	}
	if err := r.load(min(rows, r.Config.MaxPositions-1)+1, r.as("santapp")); err != nil {
		return err
	}
	r.on, err = newMachine(r.opened)
	return err
}

func (r *operatorBench) print() error {
	if r.stages {
		return printSections(r.cmd.OutOrStdout(), r.output, r.extra...)
	}
	if note := r.on.copyNote("MB read"); note != "" {
		r.notes = append(r.notes, note)
	}
	return printSections(r.cmd.OutOrStdout(), r.output, table[operatorRow]{columns: operatorColumns(r.rows), rows: r.rows, notes: r.notes})
}

// logf tells on stderr what is being done.
func (r *operatorBench) logf(format string, args ...any) {
	fmt.Fprintf(r.cmd.ErrOrStderr(), format+"\n", args...)
}

// measure makes cache rows of a prompt and times what the flags ask for.
func (r *operatorBench) measure(rows int, drawn []int) error {
	if _, err := r.layers(rows); err != nil { // a prompt of a model takes a while to read
		return err
	}
	tokens := min(rows, r.Config.MaxPositions-1)
	r.logf("%s: reading a prompt of %s", count(rows, "row"), count(tokens, "token"))
	s, err := r.prompt(tokens)
	if err != nil {
		return err
	}
	defer s.Close()
	source, err := bench.Capture(r.Device, s, r.Heads)
	if err != nil {
		return err
	}
	defer source.Close()
	o, err := r.operator(source, rows)
	if err != nil {
		return err
	}
	defer o.Close()
	if err := enoughTeams(drawn, rows, o.Fewest, ""); err != nil {
		return err
	}
	r.logf("%s: timing with %s teams drawn", count(rows, "row"), r.drawn)
	switch {
	case r.stages:
		return r.stagesOf(o, drawn)
	case r.protocol == protocolPaper:
		return r.paper(o, drawn)
	}
	return r.graph(o, drawn)
}

// prompt reads a prompt of access codes, or of random ids where the model has no
// tokenizer.
func (r *operatorBench) prompt(rows int) (*decode.Session, error) {
	ids := randomIDs(rows, r.Config.Vocab, 1)
	if r.Tokenizer != nil {
		task := taskFlags{task: codesTask, length: rows, codes: 8, seed: 1}
		q, err := task.question(r.cmd, r.opened, &promptFlags{}, 0)
		var length *eval.LengthError
		if errors.As(err, &length) {
			return nil, usagef("--rows %d: a prompt of access codes is read: %s: give more --rows", rows, length.Why)
		}
		if err != nil {
			return nil, err
		}
		ids = q.ids
	}
	s, err := r.session(decode.Options{Capacity: rows + 1, Sampling: sample.Greedy()})
	if err != nil {
		return nil, err
	}
	if err := s.Prefill(r.cmd.Context(), ids, nil); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// elements is the type of cache rows and queries: the paper's is fp16.
func (r *operatorBench) elements() device.DType {
	if r.protocol == protocolPaper {
		return device.F16
	}
	return r.Device.DType()
}

// operator makes the work.
func (r *operatorBench) operator(source *bench.Source, rows int) (*bench.Operator, error) {
	flags := r.as("santapp")
	teams, err := flags.santapp()
	if err != nil {
		return nil, err
	}
	teams.Seed = flags.seed
	layers, err := r.layers(rows)
	if err != nil {
		return nil, err
	}
	cfg := bench.OperatorConfig{Shape: r.shape, Rows: rows, Suffix: r.suffix, First: r.firstLayer, Teams: teams, DType: r.elements()}
	if r.protocol == protocolPaper {
		cfg.Suffix = 0
	}
	r.logf("%s: building teams and the caches of %s", count(rows, "row"), count(layers, "layer"))
	return source.Operator(r.cmd.Context(), cfg, layers)
}

// layers is how many layers the work has: for --protocol graph as many as no cache
// holds, or as fit, two at least.
func (r *operatorBench) layers(rows int) (int, error) {
	if r.stages || r.protocol != protocolGraph {
		return 1, nil
	}
	teams, err := r.as("santapp").santapp()
	if err != nil {
		return 0, err
	}
	perRow := float64(r.shape.KeyHeads * r.shape.KeyDim * r.elements().Size())
	layers := bench.LayersPast(float64(rows) * perRow * float64(teams.Representatives) / float64(teams.ParentSize))
	each := int64(float64(rows+r.suffix) * perRow * 2.5) // keys, values, representatives
	if free, _ := r.Device.Space(); free > 0 && int64(layers)*each > free-free/4 {
		if layers = int((free - free/4) / each); layers < 2 {
			return 0, fmt.Errorf("two layers of %d rows take %s, and %s are free on %s: give fewer --rows", rows, mebibytes(2*each), mebibytes(free), r.Device.Name())
		}
	}
	return layers, nil
}

// evicted has the device read so many bytes and write as many.
func (r *operatorBench) evicted() (evict func() error, free func(), err error) {
	size := r.evictBytes()
	memory := device.Owner{Dev: r.Device}
	from, to := memory.New("bench.evict", device.F32, size/4), memory.New("bench.evict", device.F32, size/4)
	if err := memory.Err(); err != nil {
		memory.Free()
		return nil, nil, err
	}
	work := func(ops *device.Ops) { ops.Copy(to, from) }
	return func() error { return r.Device.Run(work) }, memory.Free, r.Device.Prepare(work)
}

// evictBytes are more than a GPU's cache holds, appendix E's; a CPU, which takes
// long for them, has fewer.
func (r *operatorBench) evictBytes() int {
	if r.clocked {
		return 512 << 20
	}
	return 4 << 20
}
