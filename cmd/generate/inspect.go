package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"blitzen/kvcache"
	"blitzen/model"
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
	addFlags(cmd, "Model", m.registerName)
	return cmd
}

func (m *modelFlags) inspect(w io.Writer, args []string, context int) error {
	if context < 1 {
		return usagef("-c %d: want at least 1", context)
	}
	src, err := m.find(args)
	if err != nil {
		return err
	}
	fields, err := model.ReadFields(filepath.Join(src.dir, "config.json"))
	if err != nil {
		return err
	}
	p, err := planModel(fields)
	if err != nil {
		return err
	}
	ck, err := weights.Open(src.dir)
	if err != nil {
		return err
	}
	defer ck.Close()
	return printPlan(w, src.dir, p, ck, context)
}

func printPlan(w io.Writer, dir string, p plan, ck *weights.Checkpoint, context int) error {
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
	stored := kvcache.RowWidth(p.specs)
	fmt.Fprintf(w, "folder         %s\n", dir)
	fmt.Fprintf(w, "architecture   %s, %d layers, %d query heads, vocabulary %d\n", p.Architecture, p.Layers, p.Heads, p.Vocab)
	fmt.Fprintf(w, "limit          %d tokens\n", p.MaxPositions)
	fmt.Fprintf(w, "parameters     %d (%s)\n", parameters, strings.Join(kinds, ", "))
	fmt.Fprintf(w, "weights        %s stored, %s on the CPU (float32)\n", mebibytes(ck.Size()), mebibytes(4*parameters))
	fmt.Fprintf(w, "cache          %d bytes a token in bf16, %d on the CPU (float32)", 2*stored, 4*stored)
	if p.expanded != stored {
		fmt.Fprintf(w, "; expanded keys and values would take %d in bf16", 2*p.expanded)
	}
	fmt.Fprintf(w, "\n               %s on the CPU for %d tokens\n", mebibytes(4*int64(stored*context)), context)
	_, err := fmt.Fprintf(w, "fingerprint    %s\n", ck.Fingerprint())
	return err
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
