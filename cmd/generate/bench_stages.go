package main

import (
	"fmt"
	"slices"
	"strings"

	"blitzen/bench"
	"blitzen/device"
)

// stageRow is a stage timed alone.
type stageRow struct {
	machine
	Rows     int       `json:"rows"`
	Drawn    int       `json:"drawn"`
	Stage    string    `json:"stage"`
	US       float64   `json:"us"`
	Bytes    float64   `json:"bytes"`
	RoundsUS []float64 `json:"rounds_us"`
	Kernels  string    `json:"kernels,omitempty"`
}

var stageColumns = []column[stageRow]{
	{"stage", func(r stageRow) string { return r.Stage }},
	{"µs", func(r stageRow) string { return fmt.Sprintf("%.2f", r.US) }},
	{"MB", func(r stageRow) string { return known("%.2f", r.Bytes/1e6) }},
	{"GB/s", func(r stageRow) string { return known("%.0f", r.Bytes/r.US/1e3) }},
}

// stageKernels is a column where a device tells the kernels of a stage.
var stageKernels = column[stageRow]{"kernels", func(r stageRow) string { return r.Kernels }}

// launchRow is how a kernel of a stage is launched.
type launchRow struct {
	machine
	Stage     string  `json:"stage"`
	Kernel    string  `json:"kernel"`
	Blocks    int     `json:"blocks"`
	Threads   int     `json:"threads"`
	Registers int     `json:"registers"`
	Shared    int     `json:"shared_bytes"`
	Occupancy float64 `json:"occupancy_percent"`
}

var launchColumns = []column[launchRow]{
	{"stage", func(r launchRow) string { return r.Stage }},
	{"kernel", func(r launchRow) string { return r.Kernel }},
	{"blocks", func(r launchRow) string { return known("%.0f", float64(r.Blocks)) }},
	{"threads", func(r launchRow) string { return known("%.0f", float64(r.Threads)) }},
	{"registers", func(r launchRow) string { return known("%.0f", float64(r.Registers)) }},
	{"shared KiB", func(r launchRow) string { return known("%.1f", float64(r.Shared)/1024) }},
	{"occupancy %", func(r launchRow) string { return known("%.1f", r.Occupancy) }},
}

// stageObservations are those of a stage in a round.
const (
	stageObservations    = 500 // appendix E
	stageObservationsCPU = 3
)

// stagesOf times the stages for each number of teams.
func (r *operatorBench) stagesOf(o *bench.Operator, drawn []int) error {
	evict, free, err := r.evicted()
	if err != nil {
		return err
	}
	defer free()
	observations := stageObservations
	if !r.clocked {
		observations = stageObservationsCPU
	}
	for _, k := range drawn {
		stages, err := o.Stages(r.watch, bench.StageConfig{Drawn: k, Rounds: r.rounds, Observations: observations, Evict: evict})
		if err != nil {
			return err
		}
		r.addStages(o, k, stages, observations)
	}
	return nil
}

func (r *operatorBench) addStages(o *bench.Operator, drawn int, stages []bench.Stage, observations int) {
	last := ""
	if r.clocked {
		last = "; the last are its kernels"
	}
	times := table[stageRow]{
		title:   fmt.Sprintf("Stages of %s alone at %d rows, %d drawn, suffix %d, %d/%d heads of %d/%d, %s", r.sampledName(), o.Rows, drawn, o.Suffix, o.Heads, o.KeyHeads, o.KeyDim, o.ValueDim, r.on.DType),
		columns: stageColumns,
		notes: []string{
			fmt.Sprintf("%s of %s, the order rotated, %d MiB read and written before each. Stages have caches and borders of their own: times are not to be added up. The first five are the operations that the whole fuses%s.",
				count(r.rounds, "round"), count(observations, "observation"), r.evictBytes()>>20, last),
			fmt.Sprintf("Preparation takes %.2f MiB a layer beside the cache; the paper's %.2f MiB.", float64(o.Beyond)/(1<<20), paperPreparationMiB),
		},
	}
	launches := table[launchRow]{title: "Launches", columns: launchColumns}
	for _, s := range stages {
		var names []string
		for _, l := range s.Kernels {
			names = append(names, l.Kernel)
			launches.rows = append(launches.rows, r.launchRow(s.Name, l))
		}
		times.rows = append(times.rows, stageRow{r.on, o.Rows, drawn, s.Name, s.Time(), s.Bytes, s.Rounds, strings.Join(names, ", ")})
	}
	if len(launches.rows) > 0 {
		times.columns = append(slices.Clone(stageColumns), stageKernels)
	}
	r.extra = append(r.extra, times)
	haveFigures(r.cmd.Context())
	if len(launches.rows) > 0 {
		r.extra = append(r.extra, launches)
	}
}

func (r *operatorBench) launchRow(stage string, l device.Launch) launchRow {
	return launchRow{r.on, stage, l.Kernel, l.Blocks, l.Threads, l.Registers, l.Shared, 100 * l.Occupancy}
}
