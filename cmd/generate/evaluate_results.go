package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"blitzen/attention"
	"blitzen/eval"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// bootstrapSeed is that of the intervals, printed with them.
const bootstrapSeed = 1

// header says what answers of this run depend on.
func (r *evaluation) header(shard, shards int) (eval.Header, error) {
	o := r.opened
	h := eval.Header{
		Format: eval.Format, Version: version, Prompts: r.plan.prompts, Shard: shard, Shards: shards, Repeats: r.repeats,
		Model: eval.Model{Path: o.Dir, Architecture: o.Config.Architecture, Hash: o.Checkpoint.Fingerprint(), DType: o.Device.DType().String(), Device: o.Device.Name()},
	}
	for _, a := range r.arms {
		arm, err := a.arm()
		if err != nil {
			return h, err
		}
		h.Arms = append(h.Arms, arm)
	}
	var err error
	h.Settings, err = r.settings()
	return h, err
}

// settings are all that decides an answer beside the model and the arms.
func (r *evaluation) settings() (map[string]json.RawMessage, error) {
	o := r.opened
	var tasks []string
	files := map[string]string{}
	for _, task := range choices(r.tasks) {
		name := filepath.Base(task)
		tasks = append(tasks, name)
		if isFile(task) {
			hash, err := fileHash(task)
			if err != nil {
				return nil, err
			}
			files[name] = hash
		}
	}
	tokenizer, err := fileHash(filepath.Join(o.Dir, "tokenizer.json"))
	if err != nil {
		return nil, err
	}
	template, how, err := r.promptFlags.chooseTemplate(o.Tokenizer, o.Name)
	if err != nil {
		return nil, err
	}
	values := map[string]any{
		"--tasks": tasks, "--length": choices(r.lengths), "--samples": r.perTask, "--task-seed": r.taskSeed, "--answer-prefix": r.prefix,
		"--scorer": r.scorer, "--limit": r.limit, "--truncate": r.truncate, "--max-tokens": r.maxTokens, "--system-prompt": r.system,
		"--attention-seed": r.attentionFlags.seed, "--divergence": r.divergence, "--quantize": o.quantize(),
		"files": files, "tokenizer": tokenizer, "template": how, "template text": shortHash([]byte(template)), "end tokens": o.EOS,
	}
	if common := commonAttention(r.cmd.Flags()); len(common) > 0 {
		values["attention flags"] = common
	}
	out := map[string]json.RawMessage{}
	for name, value := range values {
		if out[name], err = json.Marshal(value); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// commonAttention are those of commonSizes that were given.
func commonAttention(f *pflag.FlagSet) map[string]string {
	given := map[string]string{}
	for _, name := range commonSizes {
		if flag := f.Lookup(name); flag.Changed {
			given[name] = flag.Value.String()
		}
	}
	return given
}

// arm describes the method with all its settings.
func (a attentionFlags) arm() (eval.Arm, error) {
	settings := map[string]any{}
	data, err := json.Marshal(a.report(attention.Access{}, 0))
	if err == nil {
		err = json.Unmarshal(data, &settings)
	}
	for _, figure := range []string{"access_percent", "selected_percent", "bytes_percent", "bytes_read", "seed"} {
		delete(settings, figure)
	}
	arm := eval.Arm{Label: a.label(), Series: a.series(), Method: a.name, Draws: a.samples()}
	if a.samples() {
		arm.Budget = a.budget
		settings["cluster"] = a.cluster // the report has it for latent caches alone
	}
	if err == nil {
		arm.Settings, err = json.Marshal(settings)
	}
	return arm, err
}

// mergeFiles prints the figures of results files, and writes all their answers
// to --output.
func (e *evaluateFlags) mergeFiles(cmd *cobra.Command, paths []string) error {
	if len(paths) == 0 {
		return usagef("--merge: name the files that --output wrote")
	}
	var idle error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains([]string{"merge", "output", "pairs"}, f.Name) && !fromVariable(cmd.Flags(), f.Name) {
			idle = usagef("--%s means nothing with --merge", f.Name)
		}
	})
	if idle != nil {
		return idle
	}
	if _, _, err := parsePairs(e.pairs); err != nil {
		return err
	}
	all, err := readResults(cmd.ErrOrStderr(), paths)
	if err != nil {
		return err
	}
	var methods []string
	for _, a := range all.Arms {
		methods = append(methods, a.Method)
	}
	if err := checkPairs(e.pairs, methods); err != nil {
		return err
	}
	if e.output != "" {
		if err := writeNew(e.output, all); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote %s\n", e.output)
	}
	return printResults(cmd.OutOrStdout(), all, e.pairs)
}

// readResults joins results files, and says what is missing in them.
func readResults(w io.Writer, paths []string) (eval.Results, error) {
	var parts []eval.Results
	for _, path := range paths {
		part, err := eval.ReadResults(path)
		if err != nil {
			return part, usageError{err}
		}
		parts = append(parts, part)
	}
	all, err := eval.Merge(parts...)
	if err != nil {
		return all, usageError{err}
	}
	if n := all.Missing(); n > 0 {
		fmt.Fprintf(w, "%s missing: the figures are those of the prompts that all methods answered\n", count(n, "answer"))
	}
	return all, nil
}

// writeNew writes results to a file that does not exist yet, as a whole.
func writeNew(path string, r eval.Results) error {
	if _, err := os.Lstat(path); err == nil {
		return usagef("--output: open %s: the file exists: name another", path)
	}
	return writeFile("--output", path, nil, func(w io.Writer) error { return eval.WriteResults(w, r) })
}

// checkPairs refuses --pairs of methods that are not there.
func checkPairs(pairs string, methods []string) error {
	as, bs, err := parsePairs(pairs)
	for _, name := range slices.Concat(as, bs) {
		if !slices.Contains(methods, name) {
			return usagef("--pairs %q: %s is none of the methods: %s", pairs, name, strings.Join(methods, ", "))
		}
	}
	return err
}

// parsePairs reads --pairs.
func parsePairs(s string) (as, bs []string, err error) {
	for _, pair := range choices(s) {
		a, b, ok := strings.Cut(pair, ":")
		if !ok || a == "" || b == "" {
			return nil, nil, usagef("--pairs %q: want A:B, two methods, separated by commas", s)
		}
		as, bs = append(as, a), append(bs, b)
	}
	return as, bs, nil
}
