package main

import (
	"slices"
	"strconv"
)

// combinations are all arms that the flags name.
func (e *evaluateFlags) combinations() ([]attentionFlags, error) {
	var arms []attentionFlags
	for _, method := range choices(e.methods) {
		flags := e.as(method)
		if !flags.samples() {
			arms = append(arms, flags)
			continue
		}
		more, err := e.sampled(flags)
		if err != nil {
			return nil, err
		}
		arms = append(arms, more...)
	}
	for _, l := range []struct{ flag, list string }{{"--attention", e.methods}, {"--budget", e.budgets}, {"--parents", e.parents}, {"--cluster", e.clusters}, {"--block", e.blocks}} {
		if len(choices(l.list)) == 0 {
			return nil, usagef("%s %q: the list is empty: give one value or more", l.flag, l.list)
		}
	}
	for _, a := range arms {
		if err := a.check("--attention"); err != nil {
			return nil, err
		}
	}
	return distinct(arms), nil
}

// distinct leaves out arms that another list than their own repeated: parents
// mean nothing to a method without teams.
func distinct(arms []attentionFlags) []attentionFlags {
	seen := map[string]bool{}
	return slices.DeleteFunc(arms, func(a attentionFlags) bool {
		again := seen[a.label()]
		seen[a.label()] = true
		return again
	})
}

// armsOf are the arms as the model can use them, without those that are then the
// same.
func armsOf(l *loaded, arms []attentionFlags) []attentionFlags {
	for i := range arms {
		arms[i] = arms[i].forModel(l)
	}
	return distinct(arms)
}

// sampled are the arms of one sampled method: those that share groups stand
// together.
func (e *evaluateFlags) sampled(flags attentionFlags) ([]attentionFlags, error) {
	var arms []attentionFlags
	for _, flags.cluster = range choices(e.clusters) {
		groups := e.parents
		if flags.clustersKeys() {
			groups = e.blocks
		}
		for _, group := range choices(groups) {
			flags.parents = group
			if flags.clustersKeys() {
				var err error
				if flags.block, err = strconv.Atoi(group); err != nil {
					return nil, usagef("--block %q: want whole numbers, separated by commas", group)
				}
			}
			for _, budget := range choices(e.budgets) {
				var err error
				if flags.budget, err = strconv.Atoi(budget); err != nil {
					return nil, usagef("--budget %q: want whole numbers, separated by commas", budget)
				}
				arms = append(arms, flags)
			}
		}
	}
	return arms, nil
}
