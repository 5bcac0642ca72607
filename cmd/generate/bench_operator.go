package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"blitzen/bench"
	"blitzen/decode"
	"blitzen/device"
	"blitzen/sample"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// operatorFlags are those of bench --attention-op.
type operatorFlags struct {
	attentionOp bool
	rows, drawn string
	heads, dim  string
	suffix      int
	firstLayer  int
	protocol    string
	stages      bool
	rounds      int
	peer        string
}

// What --rows is by default: the paper's workload, and one for which a CPU takes
// seconds.
const (
	defaultRows    = "32768"
	defaultRowsCPU = "4096"
)

// The protocols of --protocol.
const (
	protocolGraph = "graph"
	protocolPaper = "paper"
)

func (b *operatorFlags) register(f *pflag.FlagSet) {
	f.BoolVar(&b.attentionOp, "attention-op", false, "time attention of one token in one layer, MODEL's heads side by side")
	f.StringVar(&b.rows, "rows", "", "over `N` prompt rows, the prompt repeated as need be; or a list (default: "+defaultRows+", CPU: "+defaultRowsCPU+")")
	f.StringVar(&b.drawn, "drawn", "31", "draw `K` teams a query head; lists with commas")
	f.StringVar(&b.heads, "heads", "", "`Q/K` query heads and key heads (default: 28/4; 16/1 for a latent cache)")
	f.StringVar(&b.dim, "dim", "", "`D` numbers a key (default: 128; 576/512 for a latent cache, values its first 512)")
	f.IntVar(&b.suffix, "suffix", 64, "`N` rows after the prompt")
	f.IntVar(&b.firstLayer, "first-layer", 0, "take heads from layer `N` of MODEL on")
	f.StringVar(&b.protocol, "protocol", protocolGraph, "time by `NAME`: graph, a row of cold layers; paper, its appendix E, in fp16")
	f.BoolVar(&b.stages, "stages", false, "time every stage alone in place of the whole")
	f.IntVar(&b.rounds, "rounds", bench.PaperRounds, "`N` rounds of --protocol paper and --stages")
	f.StringVar(&b.peer, "peer", "", "time another program beside, such as tools/cuda/peer.py serve; a `COMMAND`")
}

// operatorOnly are flags of attention by itself, modelOnly those of a model.
var (
	operatorOnly = []string{"rows", "drawn", "heads", "dim", "suffix", "first-layer", "protocol", "stages", "rounds", "peer"}
	modelOnly    = []string{"n-prompt", "n-gen", "n-depth", "repetitions", "kernels", "attention", "budget", "block", "draw", "min-context", "dense-layers"}
)

// checkUse refuses flags that mean nothing here.
func (b *operatorFlags) checkUse(f *pflag.FlagSet) error {
	list, hint := operatorOnly, "without --attention-op"
	if b.attentionOp {
		list, hint = modelOnly, "with --attention-op"
	}
	for _, name := range list {
		if f.Changed(name) && !fromVariable(f, name) {
			return usagef("--%s means nothing %s", name, hint)
		}
	}
	return nil
}

// check refuses values before a model is opened; byDefault stands for --rows
// where that is not given.
func (b *operatorFlags) check(byDefault string) (rows, drawn []int, err error) {
	list := cmp.Or(b.rows, byDefault)
	if rows, err = numbers("--rows", list); err != nil {
		return nil, nil, err
	}
	if drawn, err = numbers("--drawn", b.drawn); err != nil {
		return nil, nil, err
	}
	switch {
	case len(rows) == 0 || len(drawn) == 0 || slices.Min(rows) < 1 || slices.Min(drawn) < 1:
		return nil, nil, usagef("--rows %q, --drawn %q: want numbers of at least 1", list, b.drawn)
	case slices.Max(rows) > 1<<24:
		return nil, nil, usagef("--rows %d: want at most %d", slices.Max(rows), 1<<24)
	case slices.Max(drawn) > slices.Max(rows):
		return nil, nil, usagef("--drawn %d: %d rows (--rows) have fewer teams", slices.Max(drawn), slices.Max(rows))
	case b.suffix > 1<<24 || b.rounds > mostRepeats:
		return nil, nil, usagef("--suffix %d, --rounds %d: want at most %d and %d", b.suffix, b.rounds, 1<<24, mostRepeats)
	case b.protocol != protocolGraph && b.protocol != protocolPaper:
		return nil, nil, usagef("--protocol %q: want graph or paper", b.protocol)
	case b.stages && b.protocol != protocolGraph:
		return nil, nil, usagef("--stages has a protocol of its own: leave --protocol out")
	case b.rounds < 1 || b.suffix < 0 || b.firstLayer < 0:
		return nil, nil, usagef("--rounds %d, --suffix %d, --first-layer %d: want at least 1, 0 and 0", b.rounds, b.suffix, b.firstLayer)
	}
	return rows, drawn, nil
}

// shape is that of the flags, by default that of Qwen2.5-7B, or of
// DeepSeek-V2-Lite for a latent cache.
func (b *operatorFlags) shape(latent bool) (bench.Shape, error) {
	heads, dim := b.heads, b.dim
	if heads == "" && latent {
		heads = "16/1"
	} else if heads == "" {
		heads = "28/4"
	}
	if dim == "" && latent {
		dim = "576/512"
	} else if dim == "" {
		dim = "128"
	}
	q, k, err := pair("--heads", heads)
	if err != nil {
		return bench.Shape{}, err
	}
	dk, dv, err := pair("--dim", dim)
	switch {
	case err != nil:
		return bench.Shape{}, err
	case q%k != 0:
		return bench.Shape{}, usagef("--heads %s: %d query heads cannot share %d key heads evenly", heads, q, k)
	case !latent && dk != dv:
		return bench.Shape{}, usagef("--dim %s: values are the first numbers of keys in a latent cache alone, which this model does not have", dim)
	case latent && dv >= dk:
		return bench.Shape{}, usagef("--dim %s: this model has a latent cache: want K/V, values being the first V of K numbers", dim)
	}
	return bench.Shape{Heads: q, KeyHeads: k, KeyDim: dk, ValueDim: dv, Latent: latent}, nil
}

// pair reads A/B; A alone is A/A.
func pair(flag, s string) (a, b int, err error) {
	left, right, two := strings.Cut(s, "/")
	if !two {
		right = left
	}
	a, err = strconv.Atoi(left)
	if err == nil {
		b, err = strconv.Atoi(right)
	}
	if err != nil || a < 1 || b < 1 || a > 1<<16 || b > 1<<16 {
		return 0, 0, usagef("%s %q: want a number, or two with / between", flag, s)
	}
	return a, b, nil
}

// operatorBench is a run of bench --attention-op.
type operatorBench struct {
	*benchFlags
	*opened
	on    machine
	ctx   context.Context
	log   io.Writer // what is being done
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

func (b *benchFlags) runOperator(cmd *cobra.Command, args []string) error {
	rows, drawn, err := b.operatorFlags.check(defaultRows)
	if err != nil {
		return err
	}
	flags := b.as("santapp")
	if err := flags.check("--attention"); err != nil {
		return err
	}
	if b.parents == "probe" {
		return usagef("--parents probe needs the queries of a prompt, which --attention-op does not keep")
	}
	o, err := b.modelFlags.open(args)
	if err != nil {
		return err
	}
	defer o.Close()
	r := &operatorBench{benchFlags: b, opened: o, ctx: cmd.Context(), log: cmd.ErrOrStderr()}
	if r.shape, err = b.operatorFlags.shape(o.specs[0].ValueIsKeyPrefix); err != nil {
		return err
	}
	if err := bench.Check(o.specs[0], r.shape); err != nil {
		return usagef("--dim: %v", err)
	}
	if b.firstLayer >= len(o.specs) {
		return usagef("--first-layer %d: %s has layers 0 to %d", b.firstLayer, args[0], len(o.specs)-1)
	}
	if r.watch, r.clocked, err = bench.Watch(o.Device); err != nil {
		return err
	}
	defer r.watch.Close()
	if !r.clocked {
		if rows, _, err = b.operatorFlags.check(defaultRowsCPU); err != nil {
			return err
		}
	}
	if err := o.load(min(slices.Max(rows), o.Config.MaxPositions-1)+1, flags); err != nil {
		return err
	}
	if r.on, err = newMachine(o); err != nil {
		return err
	}
	if b.operatorFlags.peer != "" {
		if r.peer, err = bench.NewPeer(cmd.Context(), b.operatorFlags.peer, cmd.ErrOrStderr()); err != nil {
			return fmt.Errorf("--peer %s: %w", b.operatorFlags.peer, err)
		}
		defer r.peer.Close()
	}
	for _, n := range rows {
		if err := r.measure(cmd, n, drawn); err != nil {
			return err
		}
	}
	if note := r.on.copyNote("MB read"); note != "" {
		r.notes = append(r.notes, note)
	}
	results := table[operatorRow]{columns: operatorColumns(r.rows), rows: r.rows, notes: r.notes}
	if b.stages {
		return printSections(cmd.OutOrStdout(), b.output, r.extra...)
	}
	return printSections(cmd.OutOrStdout(), b.output, results)
}

// measure makes cache rows of a prompt and times what the flags ask for.
func (r *operatorBench) measure(cmd *cobra.Command, rows int, drawn []int) error {
	tokens := min(rows, r.Config.MaxPositions-1)
	fmt.Fprintf(r.log, "%d rows: reading a prompt of %d tokens\n", rows, tokens)
	s, err := r.prompt(cmd, tokens)
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
	fmt.Fprintf(r.log, "%d rows: timing with %s teams drawn\n", rows, r.drawn)
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
func (r *operatorBench) prompt(cmd *cobra.Command, rows int) (*decode.Session, error) {
	ids := randomIDs(rows, r.Config.Vocab, 1)
	if r.Tokenizer != nil {
		task := taskFlags{task: codesTask, length: rows, codes: 8, seed: 1}
		q, err := task.question(cmd, r.opened, &promptFlags{}, 0)
		if err != nil {
			return nil, err
		}
		ids = q.ids
	}
	s, err := decode.New(r.Device, r.Model, decode.Options{Capacity: rows + 1, Sampling: sample.Greedy()})
	if err != nil {
		return nil, err
	}
	if err := s.Prefill(r.ctx, ids, nil); err != nil {
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

// operator makes the work: for --protocol graph as many layers as no cache
// holds, or as fit.
func (r *operatorBench) operator(source *bench.Source, rows int) (*bench.Operator, error) {
	flags := r.as("santapp")
	teams, err := flags.santapp()
	if err != nil {
		return nil, err
	}
	teams.Seed = flags.seed
	cfg := bench.OperatorConfig{Shape: r.shape, Rows: rows, Suffix: r.suffix, First: r.firstLayer, Teams: teams, DType: r.elements()}
	layers := 1
	if !r.stages && r.protocol == protocolGraph {
		perRow := float64(r.shape.KeyHeads * r.shape.KeyDim * r.elements().Size())
		layers = bench.LayersPast(float64(rows) * perRow * float64(teams.Representatives) / float64(teams.ParentSize))
		each := int64(float64(rows+r.suffix) * perRow * 2.5) // keys, values, representatives
		if free, _ := r.Device.Space(); free > 0 && int64(layers)*each > free-free/4 {
			if layers = int((free - free/4) / each); layers < 2 {
				return nil, fmt.Errorf("two layers of %d rows take %s, and %s are free on %s: give fewer --rows", rows, mebibytes(2*each), mebibytes(free), r.Device.Name())
			}
		}
	} else if r.protocol == protocolPaper {
		cfg.Suffix = 0
	}
	fmt.Fprintf(r.log, "%d rows: building teams and the caches of %d layers\n", rows, layers)
	return source.Operator(r.ctx, cfg, layers)
}

// evicted has the device read 512 MiB and write as many, more than any cache
// holds.
func (r *operatorBench) evicted() (evict func() error, free func(), err error) {
	size := evictBytes
	if !r.clocked {
		size = evictBytesCPU
	}
	memory := device.Owner{Dev: r.Device}
	from, to := memory.New("bench.evict", device.F32, size/4), memory.New("bench.evict", device.F32, size/4)
	if err := memory.Err(); err != nil {
		memory.Free()
		return nil, nil, err
	}
	work := func(ops *device.Ops) { ops.Copy(to, from) }
	return func() error { return r.Device.Run(work) }, memory.Free, r.Device.Prepare(work)
}

const (
	evictBytes    = 512 << 20 // appendix E
	evictBytesCPU = 4 << 20
)
