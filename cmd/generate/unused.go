package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"blitzen/model"
	"blitzen/sample"

	"github.com/spf13/pflag"
)

// uses reports whether a flag of attention means something to the method.
func (a attentionFlags) uses(flag string) bool {
	switch flag {
	case "budget", "min-context", "dense-layers", "attention-seed", "attention-seeds":
		return a.samples()
	case "parents", "parent-size", "representatives":
		return a.usesTeams()
	case "cluster":
		return a.groupsKeys()
	case "block":
		return a.clustersKeys()
	case "draw":
		return a.name == "santa"
	case "reps":
		return a.name == "santapp"
	}
	return true
}

// noteUnused says, once, which flags of attention on the command line mean
// nothing to the methods or the model. All of them change nothing.
func (o *opened) noteUnused(w io.Writer, f *pflag.FlagSet, methods ...attentionFlags) {
	var names []string
	for _, m := range methods {
		if !slices.Contains(names, m.name) {
			names = append(names, m.name)
		}
	}
	if idle := typed(f, one("threads", "products")); idle != "" && isGPU(o.Device) {
		fmt.Fprintf(w, "a GPU does not use %s\n", idle)
	}
	grouped := slices.ContainsFunc(methods, attentionFlags.groupsKeys)
	if onCommandLine(f, "revision") && o.Name == o.Dir {
		fmt.Fprintf(w, "--revision is not used: %s is a folder\n", o.Name)
	}
	if grouped && o.specs[0].ClusterDim == 0 && onCommandLine(f, "cluster") {
		fmt.Fprintln(w, "--cluster is not used: it is for latent caches (DeepSeek-V2), and this model has none")
	}
	idle := typed(f, func(flag string) bool {
		return !slices.ContainsFunc(methods, func(m attentionFlags) bool { return m.uses(flag) })
	})
	switch {
	case idle == "":
	case len(names) == 1:
		fmt.Fprintf(w, "%s attention does not use %s\n", names[0], idle)
	default:
		fmt.Fprintf(w, "none of %s uses %s\n", strings.Join(names, ", "), idle)
	}
}

// noteUnused says which flags of a choice between tokens mean nothing where the
// most probable one is taken.
func (s *samplingFlags) noteUnused(w io.Writer, f *pflag.FlagSet, temperature float64) {
	if idle := typed(f, one("top-k", "top-p", "min-p")); idle != "" && temperature == 0 {
		fmt.Fprintf(w, "a greedy choice of tokens does not use %s\n", idle)
	}
}

// noteUnused says which flags mean nothing to the prompts that are named.
func (p *promptPlan) noteUnused(w io.Writer, f *pflag.FlagSet) {
	isFile := func(s rowSource) bool { return s.file }
	prefixed := func(s rowSource) bool { return s.prefixed }
	if idle := typed(f, one("scorer", "limit", "truncate", "skip-bad")); idle != "" && !slices.ContainsFunc(p.sources, isFile) {
		fmt.Fprintf(w, "not used, for want of a file of rows: %s\n", idle)
	}
	if idle := typed(f, one("length", "task-seed")); idle != "" && !slices.ContainsFunc(p.sources, func(s rowSource) bool { return !s.file }) {
		fmt.Fprintf(w, "not used, since prompts are rows of a file: %s\n", idle)
	}
	if idle := typed(f, one("answer-prefix")); idle != "" && !slices.ContainsFunc(p.sources, prefixed) {
		fmt.Fprintf(w, "not used, since no prompt has a prefix: %s\n", idle)
	}
}

// typed are the flags of the command line that which picks, as a list for people;
// without those that are empty, which ask for nothing.
func typed(f *pflag.FlagSet, which func(name string) bool) string {
	var names []string
	f.Visit(func(flag *pflag.Flag) {
		if which(flag.Name) && onCommandLine(f, flag.Name) && flag.Value.String() != "" {
			names = append(names, "--"+flag.Name)
		}
	})
	return strings.Join(names, ", ")
}

// one picks flags by name.
func one(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

// noteUnread says which settings of generation_config.json, nil if there is none,
// would change an answer in transformers and are not read here.
func noteUnread(w io.Writer, generation *model.Fields) {
	if generation == nil {
		return
	}
	var unread []string
	for _, c := range []struct{ field, neutral string }{
		{"num_beams", "1"}, {"num_beam_groups", "1"}, {"diversity_penalty", "0"}, {"penalty_alpha", "0"}, {"guidance_scale", "1"},
		{"typical_p", "1"}, {"epsilon_cutoff", "0"}, {"eta_cutoff", "0"}, {"no_repeat_ngram_size", "0"}, {"encoder_repetition_penalty", "1"},
		{"min_length", "0"}, {"min_new_tokens", "0"}, {"exponential_decay_length_penalty", "[]"}, {"bad_words_ids", "[]"}, {"sequence_bias", "{}"},
		{"suppress_tokens", "[]"}, {"begin_suppress_tokens", "[]"}, {"forced_bos_token_id", "[]"}, {"forced_eos_token_id", "[]"},
		{"forced_decoder_ids", "[]"}, {"stop_strings", "[]"}, {"watermarking_config", "{}"},
	} {
		if v := generation.Text(c.field); generation.Has(c.field) && v != c.neutral && v != c.neutral+".0" {
			unread = append(unread, c.field+" "+v)
		}
	}
	if unread != nil {
		fmt.Fprintf(w, "%s: not used: %s\n", sample.FromFile, strings.Join(unread, ", "))
	}
}
