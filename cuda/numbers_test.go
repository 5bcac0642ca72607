package cuda

import (
	"fmt"
	"regexp"
	"testing"
)

// TestNumbersOfKernels compares numbers that kernels and their launches both
// have, each in its own language.
func TestNumbersOfKernels(t *testing.T) {
	for file, numbers := range map[string]map[string]string{
		"bounds.cuh":          {"KEPT": text(boundsKept), "SINK": fmt.Sprintf("(%d << 10)", boundsSink>>10)},
		"split.cuh":           {"SPLITS": text(splits), "ROWS": text(tileRow)},
		"attention.cuh":       {"THREADS": text(threads)},
		"latent_tiles.cuh":    {"HEADS": text(latentHeads), "ROWS": text(latentRows), "PIECE": text(latentPiece), "WARPS": text(latentWarps), "BUFFERS": text(latentBuffers)},
		"attend_merge.cu":     {"COLUMNS": text(mergeColumns), "THREADS": text(mergeThreads)},
		"experts_prefill.cu":  {"ROWS": text(expertRows), "COLUMNS": text(expertColumns), "STAGES": text(expertStages), "PART": text(expertPart)},
		"moe.cu":              {"OUTS": text(moeOuts), "DEEP": text(moeDeep)},
		"nearest_double.cu":   {"ROWS": text(doubleRows), "COLS": text(doubleCols), "WIDE": text(doubleWide)},
		"nearest_bf16.cu":     {"ROWS": text(doubleRows), "COLS": text(doubleCols)},
		"permute.cu":          {"AT_ONCE": text(piecesABlock / threads)},
		"gather.cu":           {"AT_ONCE": text(piecesABlock / threads)},
		"small.cuh":           {"THREADS": text(smallThreads), "GAP": text(smallRowBytes)},
		"small_attend.cu":     {"CLUSTER": text(smallCluster)},
		"small_up.cu":         {"MOST": text(mostSmallPairs)},
		"small_down.cu":       {"OUTS": text(smallOuts)},
		"spread_bf16.cu":      {"TRIALS": text(bf16Trials)},
		"teams.cuh":           {"SLAB": text(slabTeams)},
		"teams_score.cu":      {"WARPS": text(scoreWarps)},
		"teams_score_wide.cu": {"TALL": text(wideTeams)},
		"teams_attend.cu":     {"WARPS": text(attendThreads / 32)},
		"teams_union.cu":      {"WARPS": text(attendThreads / 32)},
	} {
		source, err := sources.ReadFile("kernels/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range numbers {
			m := regexp.MustCompile(`(?m)^#define ` + name + ` (.*?)\s*(//.*)?$`).FindSubmatch(source)
			if m == nil || string(m[1]) != want {
				t.Errorf("%s: %s is %q, its launch has %s", file, name, m, want)
			}
		}
	}
}

func text(n int) string { return fmt.Sprint(n) }
