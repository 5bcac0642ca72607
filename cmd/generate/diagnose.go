package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"blitzen/attention"
	"blitzen/attention/centroid"
	"blitzen/attention/dense"
	"blitzen/attention/santapp"
	"blitzen/eval/diagnostics"
	"blitzen/kvcache"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// diagnoseFlags are those of generate diagnose.
type diagnoseFlags struct {
	modelFlags
	promptFlags
	sourceFlags
	attentionFlags
	parentLists, blocks string
	variants            bool
	sharpen             float64
	maxTokens           int
	output              string
}

func newDiagnoseCommand() *cobra.Command {
	d := &diagnoseFlags{}
	cmd := newCommand("diagnose [flags] MODEL", "Measure what sampled attention goes by, along exact answers", d.run)
	addFlags(cmd, "Prompts (lists are separated by commas; all combinations are run)", d.sourceFlags.register)
	addFlags(cmd, "How a prompt is put", d.promptFlags.registerTemplate)
	addFlags(cmd, "Groups (lists are separated by commas)", func(f *pflag.FlagSet) {
		listVar(f, &d.parentLists, "parents", "", "kmeans", "teams of parents by `NAMES`: "+parentNames)
		listVar(f, &d.blocks, "block", "", "4,16", "k-means clusters of `B` keys on average, scored by their mean")
		f.StringVar(&d.cluster, "cluster", clusterLatent, "group the rows of a latent cache (DeepSeek-V2) by `PART`: latent, row")
		f.BoolVar(&d.variants, "variants", false, "also teams scored by mean keys, and all groups by their most central key")
		f.Float64Var(&d.sharpen, "sharpen", 1, "take all scores times `F`, as if queries were so much longer")
		f.IntVar(&d.parentSize, "parent-size", 16, "`P` keys on average in a first group, a parent")
		f.IntVar(&d.representatives, "representatives", 4, "split a parent into at most `R` teams, each with a representative key")
	})
	addFlags(cmd, "Answers", func(f *pflag.FlagSet) {
		f.IntVarP(&d.maxTokens, "max-tokens", "n", 0, "follow at most `N` tokens each (default: by the task, else 64)")
		f.StringVarP(&d.output, "output", "o", "md", "`FORMAT` of the figures: md; json has them by layer and head, too")
	})
	addFlags(cmd, "Model", d.modelFlags.register)
	return cmd
}

// diagnosis is the prompts of one task and length.
type diagnosis struct {
	task  string
	limit int
	diagnostics.Task
}

func (d *diagnoseFlags) run(cmd *cobra.Command, args []string) (err error) {
	if err := d.check(cmd.Flags()); err != nil {
		return err
	}
	wantFigures(cmd.Context())
	o, err := d.modelFlags.open(args)
	if err != nil {
		return err
	}
	defer o.end(&err)
	if err := o.needTokenizer(); err != nil {
		return err
	}
	plan, err := d.sourceFlags.plan(cmd, o, &d.promptFlags, d.maxTokens)
	if err != nil {
		return err
	}
	if err := plan.firsts(); err != nil {
		return err
	}
	o.noteUnused(cmd.ErrOrStderr(), cmd.Flags(), d.methods()...)
	if err := o.load(plan.context, d.methods()...); err != nil {
		return err
	}
	found, err := d.diagnose(cmd, o, plan)
	return showRest(cmd.ErrOrStderr(), err, len(found) > 0, func() error {
		if d.output == "json" {
			return d.printJSON(cmd.OutOrStdout(), o, found)
		}
		return d.printTables(cmd.OutOrStdout(), o, found)
	})
}

// diagnose takes the figures of all prompts, or of those up to an error.
func (d *diagnoseFlags) diagnose(cmd *cobra.Command, o *opened, plan *promptPlan) (found []*diagnosis, err error) {
	progress := newTimeLeft(cmd.ErrOrStderr(), plan.prompts)
	for n := range plan.prompts {
		q, err := plan.question(n)
		if plan.leavesOut(cmd.ErrOrStderr(), err) {
			continue
		}
		if err != nil {
			return found, err
		}
		p, err := d.prompt(cmd.Context(), o, q)
		if err != nil {
			return found, fmt.Errorf("%s: %w", q.ID, err)
		}
		if last := len(found) - 1; last < 0 || found[last].task != q.Task || found[last].limit != q.limit {
			found = append(found, &diagnosis{task: q.Task, limit: q.limit})
		}
		own := found[len(found)-1]
		own.Task = append(own.Task, p)
		haveFigures(cmd.Context())
		progress.step()
	}
	return found, nil
}

// mostSharpen keeps scores, and their exponentials' sums, within float32.
const mostSharpen = 1e6

// check refuses flags before a model is opened.
func (d *diagnoseFlags) check(f *pflag.FlagSet) error {
	if d.output != "md" && d.output != "json" {
		return usagef("-o %q: want md or json", d.output)
	}
	if !(d.sharpen > 0) || d.sharpen > mostSharpen {
		return usagef("--sharpen %v: want more than 0, and at most %g", d.sharpen, mostSharpen)
	}
	if err := checkAnswer(f, d.maxTokens); err != nil {
		return err
	}
	if len(d.methods()) == 0 {
		return usagef("nothing to do: --parents %q, --block %q", d.parentLists, d.blocks)
	}
	for _, block := range choices(d.blocks) {
		if _, err := strconv.Atoi(block); err != nil {
			return usagef("--block %q: want whole numbers, separated by commas", block)
		}
	}
	for _, m := range d.methods() {
		if err := m.check("--attention"); err != nil {
			return err
		}
	}
	return errors.Join(d.sourceFlags.check(f), d.promptFlags.check())
}

// methods are the ways to group keys that the flags name; nothing is drawn, so
// the budget is one group.
func (d *diagnoseFlags) methods() []attentionFlags {
	var all []attentionFlags
	for _, parents := range choices(d.parentLists) {
		m := d.as("santapp")
		m.parents, m.budget = parents, d.teamRows()
		all = append(all, m)
	}
	for _, block := range choices(d.blocks) {
		m := d.as("centroid")
		m.block, _ = strconv.Atoi(block)
		m.budget = m.block
		all = append(all, m)
	}
	return all
}

// prompt answers one prompt with exact attention and takes its figures.
func (d *diagnoseFlags) prompt(ctx context.Context, o *opened, q question) (diagnostics.Prompt, error) {
	var none diagnostics.Prompt
	s, err := q.read(ctx, o)
	if err != nil {
		return none, err
	}
	defer s.Close()
	made := made{flags: d, ctx: ctx, opened: o}
	defer made.close()
	err = s.Build(func(c *kvcache.Cache) (attention.Backend, error) {
		if err := made.group(c); err != nil {
			return nil, err
		}
		return dense.New(o.Device, o.Model.CacheSpec())
	})
	if err != nil {
		return none, err
	}
	limits, err := q.limits(o)
	if err != nil {
		return none, err
	}
	answer, err := s.Generate(ctx, limits, nil)
	if err != nil {
		return none, err
	}
	t, err := diagnostics.Record(ctx, o.Device, s, o.Heads, answer.IDs())
	if err != nil {
		return none, err
	}
	t.Scale *= d.sharpen
	routings, err := made.routings(t)
	if err != nil {
		return none, err
	}
	even, err := t.Clusters("", made.even)
	if err != nil {
		return none, err
	}
	return t.Diagnose(routings, even, d.parentSize), nil
}

// made are the groups of one prompt.
type made struct {
	flags    *diagnoseFlags
	ctx      context.Context
	opened   *opened
	teams    []santapp.Teams
	clusters []centroid.Clusters
	even     centroid.Clusters // of --parent-size keys, perhaps one of clusters
}

func (m *made) close() {
	for _, t := range m.teams {
		t.Close()
	}
	for _, c := range m.clusters {
		c.Close()
	}
	m.even.Close()
}

func (m *made) group(c *kvcache.Cache) error {
	for _, flags := range m.flags.methods() {
		if flags.usesTeams() {
			cfg, err := flags.santapp()
			if err != nil {
				return err
			}
			cfg.SampleAlways = true // teams whatever the budget
			t, err := santapp.Group(m.ctx, m.opened.Device, c, cfg, nil)
			if err != nil {
				return err
			}
			m.teams = append(m.teams, t)
			continue
		}
		k, err := m.cluster(c, flags.block)
		if err != nil {
			return err
		}
		m.clusters = append(m.clusters, k)
		if flags.block == m.flags.parentSize {
			m.even = k
		}
	}
	if m.even.Teams != nil {
		return nil
	}
	var err error
	m.even, err = m.cluster(c, m.flags.parentSize)
	return err
}

func (m *made) cluster(c *kvcache.Cache, size int) (centroid.Clusters, error) {
	cfg := centroid.Config{Block: size, Budget: size, WholeRow: m.flags.cluster == clusterRow, SampleAlways: true}
	return centroid.Group(m.ctx, m.opened.Device, c, cfg, nil)
}

// routings are the groups with what they are scored by, in the order of methods;
// variants after them.
func (m *made) routings(t *diagnostics.Trajectory) ([]diagnostics.Grouping, error) {
	var all, variants []diagnostics.Grouping
	for i, name := range choices(m.flags.parentLists) {
		g, err := t.Teams("teams, "+name, m.teams[i])
		if err != nil {
			return nil, err
		}
		all = append(all, g)
		means, err := t.ByMeans(g.Name+", mean keys", g)
		if err != nil {
			return nil, err
		}
		variants = append(variants, means)
	}
	for i, block := range choices(m.flags.blocks) {
		g, err := t.Clusters("centroid, B "+block, m.clusters[i])
		if err != nil {
			return nil, err
		}
		all = append(all, g)
	}
	if !m.flags.variants {
		return all, nil
	}
	for _, g := range all {
		central, err := t.ByCentralKeys(g.Name+", central keys", g)
		if err != nil {
			return nil, err
		}
		variants = append(variants, central)
	}
	return append(all, variants...), nil
}
