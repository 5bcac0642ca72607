package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"blitzen/attention"
	"blitzen/attention/sampled"
	"blitzen/device"
	"blitzen/kvcache"
)

// usesTeams reports whether the method groups keys into teams, so that the
// flags of teams mean something.
func (a attentionFlags) usesTeams() bool {
	return a.name == "santapp" || a.name == "uniform" || a.name == "oracle"
}

// clustersKeys reports whether the method groups keys into clusters of --block.
func (a attentionFlags) clustersKeys() bool { return a.name == "centroid" }

// groupsKeys reports whether the method takes time to group keys.
func (a attentionFlags) groupsKeys() bool { return a.usesTeams() || a.clustersKeys() }

// samples reports whether the method draws what it reads, by --budget and
// --attention-seed.
func (a attentionFlags) samples() bool { return a.name != "dense" }

// rowBytes is what the method keeps beside the cache for every prompt token, at
// most: for a group its size, its first row and the key it is scored by, and as
// it is built both a second time and the row of the key; for a row its place in
// the groups; where rows are scored, their scores for all query heads, and a few
// numbers more; of all layers where they are watched.
func (a attentionFlags) rowBytes(specs []kvcache.Spec, heads int, d device.DType) int64 {
	const number = 4 // bytes
	group, places, scored := 0, 0, d
	if a.repsF8() {
		scored = device.F8
	}
	for _, s := range specs {
		group += s.KVHeads * 5 * number
		places += s.KVHeads * number
		if a.name == "santapp" || a.name == "centroid" {
			group += s.KVHeads * s.KeyDim * scored.Size()
		}
	}
	n := 0
	switch {
	case a.usesTeams():
		n = places + (group*a.representatives+a.parentSize-1)/a.parentSize
	case a.clustersKeys():
		n = places + (group+a.block-1)/a.block
	}
	if a.name == "santa" || a.name == "oracle" {
		n += (2*heads + specs[0].KVHeads + 1) * number
	}
	if a.watched {
		n += len(specs) * heads * number
	}
	return int64(n)
}

// label names the method with the settings that matter.
func (a attentionFlags) label() string { return a.named(fmt.Sprintf("S %d", a.budget)) }

// series is the label without the budget: the curve that arms are points of.
func (a attentionFlags) series() string { return a.named("") }

// named is the method's name with its settings; budget may be left out.
func (a attentionFlags) named(budget string) string {
	row := ""
	if a.cluster == clusterRow {
		row = " whole rows"
	}
	var settings []string
	switch {
	case !a.samples():
		return a.name
	case a.usesTeams():
		settings = append(settings, a.parents+row)
	case a.clustersKeys():
		settings = append(settings, fmt.Sprintf("B %d%s", a.block, row))
	case a.draw == "systematic":
		settings = append(settings, a.draw)
	}
	if budget != "" {
		settings = append(settings, budget)
	}
	parts := []string{strings.Join(settings, ", "), a.beyond()}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	if len(parts) == 0 {
		return a.name
	}
	return a.name + " (" + strings.Join(parts, "; ") + ")"
}

// beyond names the settings that the paper does not have, if they are on.
func (a attentionFlags) beyond() string {
	set, err := a.beyondPaper()
	var on []string
	if set.MinContext > 0 {
		on = append(on, fmt.Sprintf("exact below %d tokens", set.MinContext))
	}
	if set.DenseLayers != (sampled.LayerSet{}) {
		on = append(on, fmt.Sprintf("exact layers %v", set.DenseLayers))
	}
	if a.repsF8() {
		on = append(on, "FP8 representatives")
	}
	if err != nil || on == nil {
		return ""
	}
	return "beyond the paper: " + strings.Join(on, ", ")
}

// attentionReport is what results say of the method and its reads.
type attentionReport struct {
	Name            string  `json:"name"`
	Budget          int     `json:"budget,omitempty"`
	Parents         string  `json:"parents,omitempty"`
	ParentSize      int     `json:"parent_size,omitempty"`
	Representatives int     `json:"representatives,omitempty"`
	Block           int     `json:"block,omitempty"`
	Draw            string  `json:"draw,omitempty"`
	Cluster         string  `json:"cluster,omitempty"`
	MinContext      int     `json:"beyond_paper_min_context,omitempty"`
	DenseLayers     string  `json:"beyond_paper_dense_layers,omitempty"`
	Reps            string  `json:"beyond_paper_reps,omitempty"`
	Seed            *uint64 `json:"seed,omitempty"`
	AccessPercent   float64 `json:"access_percent"`   // Eq. 13 or 14
	SelectedPercent float64 `json:"selected_percent"` // without representatives
	BytesPercent    float64 `json:"bytes_percent"`
	BytesRead       int64   `json:"bytes_read"`
}

// printExhaustive says, under a name, that a method that samples read every row
// and scored no representative, if it did: with a short prompt it is exact
// attention.
func (r attentionReport) printExhaustive(w io.Writer, name string) {
	if r.exhaustive() {
		fmt.Fprintf(w, "%s %s\n", name, readEveryRow)
	}
}

// aboveAll explains figures of access above 100 %, where there are any.
const aboveAll = "KV access above 100 %: what is scored to choose rows (representatives, mean keys, or all keys) counts as read, beside the rows chosen; dense reads every row once"

const readEveryRow = "read every row, as dense does; it samples where the prompt is longer or --budget smaller"

// exhaustive reports whether a method that samples read every row once.
func (r attentionReport) exhaustive() bool {
	return r.Name != "dense" && r.Name != "santa" && r.AccessPercent == 100 && r.SelectedPercent == 100
}

func (a attentionFlags) report(access attention.Access, seed uint64) attentionReport {
	r := attentionReport{
		Name: a.name, AccessPercent: access.Percent(), SelectedPercent: access.SelectedPercent(),
		BytesPercent: access.BytesPercent(), BytesRead: access.Bytes(),
	}
	if a.samples() {
		r.Budget, r.Seed = a.budget, &seed
	}
	if a.usesTeams() {
		r.Parents, r.ParentSize, r.Representatives = a.parents, a.parentSize, a.representatives
	}
	if a.clustersKeys() {
		r.Block = a.block
	}
	if a.name == "santa" {
		r.Draw = a.draw
	}
	if set, err := a.beyondPaper(); err == nil && a.samples() {
		r.MinContext, r.DenseLayers = set.MinContext, set.DenseLayers.String()
	}
	if a.repsF8() {
		r.Reps = a.reps
	}
	if a.groupsKeys() && access.Vectors == 1 { // a latent cache
		r.Cluster = a.cluster
	}
	return r
}
