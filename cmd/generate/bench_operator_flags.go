package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"blitzen/bench"

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
	listVar(f, &b.rows, "rows", "", "", "over `N` prompt rows, the prompt repeated as need be; or a list (default: "+defaultRows+", CPU: "+defaultRowsCPU+")")
	listVar(f, &b.drawn, "drawn", "", "31", "draw `K` teams a query head; lists with commas")
	f.StringVar(&b.heads, "heads", "", "`Q/K` query heads and key heads (default: 28/4; 16/1 for a latent cache)")
	f.StringVar(&b.dim, "dim", "", "`D` numbers a key (default: 128; 576/512 for a latent cache, values its first 512)")
	f.IntVar(&b.suffix, "suffix", 64, "`N` rows after the prompt")
	f.IntVar(&b.firstLayer, "first-layer", 0, "take heads from layer `N` of MODEL on")
	f.StringVar(&b.protocol, "protocol", protocolGraph, "time by `NAME`: graph, a row of cold layers; paper, its appendix E, in fp16")
	f.BoolVar(&b.stages, "stages", false, "time every stage alone in place of the whole")
	f.IntVar(&b.rounds, "rounds", bench.PaperRounds, "`N` rounds of --protocol paper and --stages")
	f.StringVar(&b.peer, "peer", "", "time another program beside, such as tools/cuda/peer.py serve: a `COMMAND`,\nended when it gives no answer for five minutes")
}

// operatorOnly are flags of attention by itself, modelOnly those of a model.
var (
	operatorOnly = []string{"rows", "drawn", "heads", "dim", "suffix", "first-layer", "protocol", "stages", "rounds", "peer"}
	modelOnly    = []string{"n-prompt", "n-gen", "n-depth", "repetitions", "kernels", "attention", "budget", "block", "draw", "min-context", "dense-layers"}
)

// checkUse refuses flags that mean nothing here.
func (b *operatorFlags) checkUse(f *pflag.FlagSet) error {
	switch {
	case b.attentionOp && onCommandLine(f, "repetitions"):
		return usagef("--repetitions means nothing with --attention-op: give --rounds, with --protocol paper or --stages")
	case b.attentionOp && onCommandLine(f, "rounds") && b.protocol == protocolGraph && !b.stages:
		return usagef("--rounds means nothing with --protocol graph: it goes with --protocol paper and --stages")
	case b.stages && onCommandLine(f, "peer"):
		return usagef("--peer means nothing with --stages, which are those of SANTA++")
	}
	list, hint := operatorOnly, "without --attention-op"
	if b.attentionOp {
		list, hint = modelOnly, "with --attention-op"
	}
	for _, name := range list {
		if onCommandLine(f, name) {
			return usagef("--%s means nothing %s", name, hint)
		}
	}
	return b.checkProtocol(f)
}

// checkProtocol refuses flags of what the paper's protocol sets.
func (b *operatorFlags) checkProtocol(f *pflag.FlagSet) error {
	if !b.attentionOp || b.protocol != protocolPaper {
		return nil
	}
	for _, set := range []struct{ flag, to string }{{"suffix", "0"}, {"dtype", "fp16"}} {
		if onCommandLine(f, set.flag) {
			return usagef("--%s %v: --protocol paper sets it, to %s: leave --%[1]s out, or time by --protocol graph", set.flag, f.Lookup(set.flag).Value, set.to)
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
	case len(rows) == 0 || slices.Min(rows) < 1:
		return nil, nil, usagef("--rows %q: want numbers of at least 1", list)
	case len(drawn) == 0 || slices.Min(drawn) < 1:
		return nil, nil, usagef("--drawn %q: want numbers of at least 1", b.drawn)
	case slices.Max(rows) > 1<<24:
		return nil, nil, usagef("--rows %d: want at most %d", slices.Max(rows), 1<<24)
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
		return 0, 0, usagef("%s %q: want a number of 1 to %d, or two with / between", flag, s, 1<<16)
	}
	return a, b, nil
}
