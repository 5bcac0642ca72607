package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"blitzen/kvcache"
	"blitzen/weights"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// inspectFlags are those of generate inspect.
type inspectFlags struct {
	modelFlags
	context int
	json    bool
}

func newInspectCommand() *cobra.Command {
	i := &inspectFlags{}
	cmd := newCommand("inspect [flags] MODEL", "Show what a checkpoint is and the memory it needs, from its headers alone", i.run)
	addFlags(cmd, "Plan", func(f *pflag.FlagSet) {
		f.IntVarP(&i.context, "ctx-size", "c", 4096, "a context of `N` tokens; left out, no more than the model's limit")
	})
	addFlags(cmd, "Model", func(f *pflag.FlagSet) {
		i.registerName(f)
		i.registerFormat(f)
	})
	addFlags(cmd, "Output", func(f *pflag.FlagSet) {
		f.BoolVar(&i.json, "json", false, "print one JSON object in place of the text")
	})
	return cmd
}

func (i *inspectFlags) run(cmd *cobra.Command, args []string) error {
	if i.context < 1 {
		return usagef("-c %d: want at least 1", i.context)
	}
	if err := i.checkFormat(); err != nil {
		return err
	}
	src, err := i.find(args)
	if err != nil {
		return err
	}
	l, err := i.openModel(src.dir)
	if err != nil {
		return err
	}
	defer l.Close()
	if !cmd.Flags().Changed("ctx-size") {
		i.context = min(i.context, l.MaxPositions)
	}
	report, err := l.inspect(i.context)
	if err != nil {
		return err
	}
	if i.json {
		return printJSON(cmd.OutOrStdout(), report)
	}
	return report.print(cmd.OutOrStdout())
}

// inspection is what a checkpoint is and needs, and the JSON object of it.
// Sizes are in bytes.
type inspection struct {
	Folder       string           `json:"folder"`
	Architecture string           `json:"architecture"`
	Layers       int              `json:"layers"`
	Heads        int              `json:"query_heads"`
	Vocab        int              `json:"vocab_size"`
	Limit        int              `json:"max_positions"`
	Stored       int64            `json:"stored_bytes,omitempty"` // 0 where weights are made up
	Parameters   map[string]int64 `json:"parameters,omitempty"`   // numbers stored, by type
	CacheRow     int              `json:"cache_numbers_per_token"`
	Expanded     int              `json:"expanded_numbers_per_token"` // as keys and values of every head
	Context      int              `json:"context"`
	Devices      []deviceNeed     `json:"devices"`
	Fingerprint  string           `json:"hash"`
}

// deviceNeed is what a context takes on a device.
type deviceNeed struct {
	Device    string `json:"device"`
	DType     string `json:"dtype"`
	Weights   int64  `json:"weights_bytes"`
	Kind      string `json:"weights_type,omitempty"` // where it is not dtype
	Cache     int64  `json:"cache_bytes"`
	Scratch   int64  `json:"scratch_bytes"`
	Rows      int    `json:"prefill_chunk"`
	Workspace int64  `json:"workspace_bytes"`
	Total     int64  `json:"total_bytes"`
	Free      int64  `json:"free_bytes,omitempty"` // 0 with Memory: not known
	Memory    int64  `json:"memory_bytes,omitempty"`
	Longest   int    `json:"longest_context,omitempty"` // tokens that fit

	need need
}

// inspect counts what the model needs on every kind of device.
func (l *loaded) inspect(context int) (*inspection, error) {
	r := &inspection{
		Folder: l.Dir, Architecture: l.Architecture, Layers: l.Layers, Heads: l.Heads, Vocab: l.Vocab, Limit: l.MaxPositions,
		CacheRow: kvcache.RowWidth(l.specs), Expanded: l.expanded, Context: context, Fingerprint: l.Checkpoint.Fingerprint(),
	}
	if ck, ok := l.Checkpoint.(*weights.Checkpoint); ok {
		r.Stored, r.Parameters = ck.Size(), parameters(ck)
	}
	spaces, err := allSpaces()
	if err != nil {
		return nil, err
	}
	for _, s := range spaces {
		n, err := l.need(s, 0, context)
		if err != nil {
			return nil, err
		}
		d := deviceNeed{
			Device: s.name, DType: strings.ToLower(s.dtype.String()), Weights: n.weights, Kind: strings.TrimSpace(n.kind), Cache: n.cache(), Scratch: n.scratch, Rows: n.rows,
			Workspace: n.workspace, Total: n.total(), Free: s.free, Memory: s.total, need: n,
		}
		if s.total > 0 {
			d.Longest = n.longest(s)
		}
		r.Devices = append(r.Devices, d)
	}
	return r, nil
}

// parameters are the numbers that the files hold, by type.
func parameters(ck *weights.Checkpoint) map[string]int64 {
	byType := map[string]int64{}
	for _, t := range ck.Tensors() {
		n := int64(1)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		byType[t.DType] += n
	}
	return byType
}

// print writes it for people.
func (r *inspection) print(w io.Writer) error {
	fmt.Fprintf(w, "folder         %s\n", r.Folder)
	fmt.Fprintf(w, "architecture   %s, %s, %s, vocabulary %d\n", r.Architecture, count(r.Layers, "layer"), count(r.Heads, "query head"), r.Vocab)
	fmt.Fprintf(w, "limit          %d tokens\n", r.Limit)
	if r.Parameters != nil {
		var kinds []string
		all := int64(0)
		for _, dtype := range slices.Sorted(maps.Keys(r.Parameters)) {
			kinds = append(kinds, fmt.Sprintf("%d %s", r.Parameters[dtype], dtype))
			all += r.Parameters[dtype]
		}
		fmt.Fprintf(w, "parameters     %d (%s)\n", all, strings.Join(kinds, ", "))
		fmt.Fprintf(w, "weights        %s stored\n", mebibytes(r.Stored))
	}
	fmt.Fprintf(w, "cache          %d bytes a token in bf16, %d in f32", 2*r.CacheRow, 4*r.CacheRow)
	if r.Expanded != r.CacheRow {
		fmt.Fprintf(w, "; expanded keys and values would take %d in bf16", 2*r.Expanded)
	}
	fmt.Fprintln(w)
	for _, d := range r.Devices {
		fmt.Fprintf(w, "on %s, %s\n               %s\n               %s in all", d.Device, d.DType, d.need.parts(), mebibytes(d.Total))
		if d.Memory > 0 {
			fits := "not one token fits"
			if d.Longest > 0 {
				fits = fmt.Sprintf("up to %d tokens fit", d.Longest)
			}
			fmt.Fprintf(w, "; %s of %s are free: %s", mebibytes(d.Free), mebibytes(d.Memory), fits)
		}
		fmt.Fprintln(w)
	}
	_, err := fmt.Fprintf(w, "fingerprint    %s\n", r.Fingerprint)
	return err
}

// allSpaces are the CPU's memory and that of the first GPU, or of any GPU where
// none can be used.
func allSpaces() ([]space, error) {
	var spaces []space
	for _, flags := range []deviceFlags{{device: "cpu", dtype: "auto"}, {device: "cuda", dtype: "auto"}} {
		dev, _, err := flags.open()
		switch {
		case err == nil:
			spaces = append(spaces, spaceOf(dev))
			dev.Close()
		case flags.device == "cuda":
			spaces = append(spaces, aGPU)
		default:
			return nil, err
		}
	}
	return spaces, nil
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
