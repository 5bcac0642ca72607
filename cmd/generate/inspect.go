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

func newInspectCommand() *cobra.Command {
	m := &modelFlags{}
	context := 0
	cmd := newCommand("inspect [flags] MODEL", "Show what a checkpoint is and the memory it needs, from its headers alone",
		func(cmd *cobra.Command, args []string) error { return m.inspect(cmd.OutOrStdout(), args, context) })
	addFlags(cmd, "Plan", func(f *pflag.FlagSet) {
		f.IntVarP(&context, "ctx-size", "c", 4096, "a context of `N` tokens, prompt and answer")
	})
	addFlags(cmd, "Model", func(f *pflag.FlagSet) {
		m.registerName(f)
		m.registerFormat(f)
	})
	return cmd
}

func (m *modelFlags) inspect(w io.Writer, args []string, context int) error {
	if context < 1 {
		return usagef("-c %d: want at least 1", context)
	}
	if err := m.checkFormat(); err != nil {
		return err
	}
	src, err := m.find(args)
	if err != nil {
		return err
	}
	l, err := m.openModel(src.dir)
	if err != nil {
		return err
	}
	defer l.Close()
	spaces, err := allSpaces()
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "folder         %s\n", l.Dir)
	fmt.Fprintf(w, "architecture   %s, %d layers, %d query heads, vocabulary %d\n", l.Architecture, l.Layers, l.Heads, l.Vocab)
	fmt.Fprintf(w, "limit          %d tokens\n", l.MaxPositions)
	if ck, ok := l.Checkpoint.(*weights.Checkpoint); ok {
		printStored(w, ck)
	}
	stored := kvcache.RowWidth(l.specs)
	fmt.Fprintf(w, "cache          %d bytes a token in bf16, %d in f32", 2*stored, 4*stored)
	if l.expanded != stored {
		fmt.Fprintf(w, "; expanded keys and values would take %d in bf16", 2*l.expanded)
	}
	fmt.Fprintln(w)
	for _, s := range spaces {
		if err := l.printNeed(w, s, context); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "fingerprint    %s\n", l.Checkpoint.Fingerprint())
	return err
}

// printStored says what the files hold.
func printStored(w io.Writer, ck *weights.Checkpoint) {
	var parameters int64
	byType := map[string]int64{}
	for _, t := range ck.Tensors() {
		n := int64(1)
		for _, d := range t.Shape {
			n *= int64(d)
		}
		parameters += n
		byType[t.DType] += n
	}
	var kinds []string
	for _, dtype := range slices.Sorted(maps.Keys(byType)) {
		kinds = append(kinds, fmt.Sprintf("%d %s", byType[dtype], dtype))
	}
	fmt.Fprintf(w, "parameters     %d (%s)\n", parameters, strings.Join(kinds, ", "))
	fmt.Fprintf(w, "weights        %s stored\n", mebibytes(ck.Size()))
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

// printNeed says what a context takes on a device, and which fits.
func (l *loaded) printNeed(w io.Writer, s space, context int) error {
	n, err := l.need(s, 0, context)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "on %s, %s\n               %s\n               %s in all", s.name, strings.ToLower(s.dtype.String()), n.parts(), mebibytes(n.total()))
	if s.total > 0 {
		fmt.Fprintf(w, "; %s of %s are free: up to %d tokens fit", mebibytes(s.free), mebibytes(s.total), n.longest(s))
	}
	_, err = fmt.Fprintln(w)
	return err
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
