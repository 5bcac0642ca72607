package diagnostics

import (
	"math"
	"testing"

	"blitzen/internal/golden"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"
)

// goldens are the values of an independent float64 program, to 1e-9.
type goldens struct {
	KL []struct {
		Case     string
		Logits   []float64
		Team     []int32
		N        []float64
		Route    []float64
		KL       float64
		Centroid []float64 `json:"route_centroid"`
		KLC      float64   `json:"kl_centroid"`
	}
	Averaging struct {
		First   [][][]float64 `json:"prompt0[step][layer][head]"`
		Second  [][][]float64 `json:"prompt1[step][layer][head]"`
		Prompts []float64     `json:"prompt_means"`
		Task    float64       `json:"task_mean"`
	} `json:"kl_averaging"`
	WER []struct {
		Case    string
		Weights []float64
		W       int
		K       int `json:"K_w"`
		WER     float64
	}
	Jensen []struct {
		Logits    []float64
		Exact     float64 `json:"exact_mass"`
		Surrogate float64 `json:"centroid_surrogate"`
		Ratio     float64
	}
}

func read(t *testing.T) goldens {
	t.Helper()
	var g goldens
	golden.JSON(t, "../../testdata/diagnostics/diagnostics.json", &g)
	return g
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want))) {
		t.Errorf("%s is %v, want %v", what, got, want)
	}
}

func TestKLGolden(t *testing.T) {
	for _, c := range read(t).KL {
		scored := func(route []float64) []float64 {
			phi := make([]float64, len(route))
			for g := range route {
				phi[g] = math.Log(c.N[g]) + route[g]
			}
			return phi
		}
		near(t, c.Case, Diverge(c.Logits, c.Team, scored(c.Route)).KL(), c.KL)
		if c.Centroid != nil {
			near(t, c.Case+", mean keys", Diverge(c.Logits, c.Team, scored(c.Centroid)).KL(), c.KLC)
		}
	}
}

// The paper's averaging: within a prompt over steps, layers and heads alike,
// then over prompts.
func TestAveragingGolden(t *testing.T) {
	g := read(t).Averaging
	var prompts []float64
	for i, kl := range [][][][]float64{g.First, g.Second} {
		mean := newGrid[Divergence](len(kl[0]), len(kl[0][0]))
		for _, layers := range kl {
			for l, heads := range layers {
				for h, x := range heads {
					mean[l][h].Scores += x / float64(len(kl))
				}
			}
		}
		prompt := mean.Mean(Divergence.KL)
		near(t, "prompt mean", prompt, g.Prompts[i])
		prompts = append(prompts, prompt)
	}
	near(t, "task mean", stat.Mean(prompts, nil), g.Task)
}

func TestWERGolden(t *testing.T) {
	for _, c := range read(t).WER {
		near(t, c.Case, WER(c.Weights, c.W, c.K), c.WER)
	}
}

func TestJensenGolden(t *testing.T) {
	for i, c := range read(t).Jensen {
		j := JensenOf(c.Logits)
		near(t, "exact mass", math.Exp(j.Exact), c.Exact)
		near(t, "surrogate", math.Exp(j.Surrogate), c.Surrogate)
		near(t, "ratio", j.Ratio(), c.Ratio)
		if i == 0 && math.Abs(j.Ratio()-737.4) > 0.1 {
			t.Errorf("the sparse example is off by %v", j.Ratio())
		}
	}
}

// The divergence must be Σ p·ln(p/q) by definition, both parts at least 0, and
// its part of the scores 0 where groups are scored by their exact mass.
func TestDivergeByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := rapid.IntRange(1, 6).Draw(t, "groups")
		group := make([]int32, 0, 40)
		for g := range groups {
			for range rapid.IntRange(1, 6).Draw(t, "rows") {
				group = append(group, int32(g))
			}
		}
		number := rapid.Float64Range(-30, 30)
		logits, phi := make([]float64, len(group)), make([]float64, groups)
		n, members := make([]float64, groups), make([][]float64, groups)
		for i, g := range group {
			logits[i] = number.Draw(t, "logit")
			n[g]++
			members[g] = append(members[g], logits[i])
		}
		exact := make([]float64, groups)
		for g := range phi {
			phi[g], exact[g] = number.Draw(t, "phi"), floats.LogSumExp(members[g])
		}
		want, lse, norm := 0.0, floats.LogSumExp(logits), floats.LogSumExp(phi)
		for i, g := range group {
			want += math.Exp(logits[i]-lse) * (logits[i] - lse - (phi[g] - norm - math.Log(n[g])))
		}
		// 36 terms of at most 60 + 60 in float64, weighted, in another order: off by
		// less than 36·120·2⁻⁵³ = 5e-13.
		d := Diverge(logits, group, phi)
		if math.Abs(d.KL()-want) > 1e-12 || d.Scores < -1e-12 || d.Grouping < -1e-12 {
			t.Fatalf("%+v, by definition %v", d, want)
		}
		if d := Diverge(logits, group, exact); math.Abs(d.Scores) > 1e-12 {
			t.Fatalf("exact masses leave %v to the scores", d.Scores)
		}
	})
}

// Distances of a line of points, by hand: groups {0, 4}, {1, 2, 9} have means 2
// and 4.
func TestCompactness(t *testing.T) {
	near(t, "mean distance", Compactness([]float32{0, 1, 4, 2, 9}, 1, []int32{0, 1, 0, 1, 1}), (2+3+2+2+5)/5.0)
	near(t, "of a plane", Compactness([]float32{0, 0, 6, 8}, 2, []int32{0, 0}), 5)
	near(t, "of single rows", Compactness([]float32{3, 4, 5}, 1, []int32{0, 1, 2}), 0)
}
