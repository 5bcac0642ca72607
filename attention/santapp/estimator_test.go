package santapp

import (
	"fmt"
	"testing"

	"blitzen/attention/sampled"
	"blitzen/internal/golden"
)

const testdata = "../../testdata/santa/"

// goldenCase is one row of cases.json.
type goldenCase struct {
	Case    string
	Heads   int `json:"query_heads"`
	KVHeads int `json:"kv_heads"`
	N       int
	Suffix  int
	D, DV   int
	P, R, S int
	Scale   float64
	KV      []struct {
		M, K  int
		Union int `json:"union_rows"`
	}
	Parents string
}

// goldenCases are those whose arrays are in testdata.
func goldenCases(t *testing.T) []goldenCase {
	var all struct{ Estimator []goldenCase }
	golden.JSON(t, testdata+"cases.json", &all)
	var here []goldenCase
	for _, c := range all.Estimator {
		if c.Case != "kmeans_parents" { // the largest; its parents are tested in package kmeans
			here = append(here, c)
		}
	}
	return here
}

func TestEstimatorGolden(t *testing.T) {
	for _, c := range goldenCases(t) {
		t.Run(c.Case, func(t *testing.T) {
			f := golden.Open(t, testdata+c.Case+".safetensors")
			for h := range c.Heads {
				kv := h / (c.Heads / c.KVHeads)
				checkHead(t, f, c, h, kv, 1e-10)
			}
		})
	}
}

func checkHead(t *testing.T, f *golden.File, c goldenCase, h, kv int, tolerance float64) {
	name := func(s string) string { return fmt.Sprintf("q%d.%s", h, s) }
	teamOf, repRows := f.Int32s(fmt.Sprintf("kv%d.team", kv)), f.Int32s(fmt.Sprintf("kv%d.reps", kv))
	q, keys, values := f.Rows("Q")[h], f.Rows("K", kv), f.Rows("V", kv)
	sizes := make([]int, len(repRows))
	for _, g := range teamOf {
		sizes[g]++
	}
	var reps [][]float64
	for _, r := range repRows {
		reps = append(reps, keys[r])
	}

	s := sampled.Draw(Scores(q, reps, sizes, c.Scale), f.Floats(name("gumbel")), c.KV[kv].K)
	golden.Near(t, name("phi"), s.Phi, f.Floats(name("phi")), tolerance)
	golden.Near(t, name("tau"), []float64{s.Tau}, f.Floats(name("tau")), tolerance)
	golden.Near(t, name("log_c"), s.LogC, f.Floats(name("log_c")), tolerance)
	for i, g := range f.Int32s(name("selected")) {
		if s.Groups[i] != int(g) {
			t.Fatalf("%s: team %d is %d, want %d", name("selected"), i, s.Groups[i], g)
		}
	}

	prompt := sampled.Attend(q, pick(keys, teamOf, s), pick(values, teamOf, s), biases(teamOf, s), c.Scale, c.DV)
	suffix := sampled.Attend(q, keys[c.N:], values[c.N:], nil, c.Scale, c.DV)
	all := sampled.Merge(prompt, suffix)
	golden.Near(t, name("prompt_out"), prompt.Out, f.Floats(name("prompt_out")), tolerance)
	golden.Near(t, name("suffix_out"), suffix.Out, f.Floats(name("suffix_out")), tolerance)
	golden.Near(t, name("out"), all.Out, f.Floats(name("out")), tolerance)
	golden.Near(t, name("lse"), []float64{all.LogZ, prompt.LogZ, suffix.LogZ}, f.Floats(name("lse")), tolerance)
}

// pick are the rows of the drawn teams, in row order.
func pick(rows [][]float64, teamOf []int32, s sampled.Selection) [][]float64 {
	var out [][]float64
	for i, g := range teamOf {
		if drawn(s, g) >= 0 {
			out = append(out, rows[i])
		}
	}
	return out
}

// biases are the ln c of the same rows.
func biases(teamOf []int32, s sampled.Selection) []float64 {
	var out []float64
	for _, g := range teamOf {
		if k := drawn(s, g); k >= 0 {
			out = append(out, s.LogC[k])
		}
	}
	return out
}

func drawn(s sampled.Selection, team int32) int {
	for k, g := range s.Groups {
		if g == int(team) {
			return k
		}
	}
	return -1
}

// latentCase is one row of the latent cases.
type latentCase struct {
	Case     string
	Heads, N int
	DV, K    int
	Latent   int
	P, R, S  int
	Scale    float64
}

func latentCases(t testing.TB) []latentCase {
	var all struct{ MLA []latentCase }
	golden.JSON(t, testdata+"cases.json", &all)
	return all.MLA
}

// latentKeys are the rows [latent | rotary part], and the latents alone.
func latentKeys(f *golden.File) (keys, latent [][]float64) {
	latent = f.Rows("latent")
	for i, rotary := range f.Rows("k_pe") {
		keys = append(keys, append(append([]float64{}, latent[i]...), rotary...))
	}
	return keys, latent
}

// absorbed is a head's query over such rows: q̃ = W_UKᵀ·q_nope, then the rotary
// part.
func absorbed(f *golden.File, h int) []float64 {
	return append(mulT(f.Rows("W_UK", h), f.Rows("q_nope")[h]), f.Rows("q_pe")[h]...)
}

// The latent form: one partition for all heads, routing and sums in absorbed
// coordinates.
func TestEstimatorGoldenLatent(t *testing.T) {
	for _, c := range latentCases(t) {
		t.Run(c.Case, func(t *testing.T) {
			f := golden.Open(t, testdata+c.Case+".safetensors")
			keys, latent := latentKeys(f)
			teamOf := f.Int32s("team")
			var reps [][]float64
			var sizes []int
			for g, r := range f.Int32s("reps") {
				reps = append(reps, keys[r])
				sizes = append(sizes, int(f.Int32s("n")[g]))
			}
			for h := range c.Heads {
				q := absorbed(f, h)
				s := sampled.Draw(Scores(q, reps, sizes, c.Scale), f.Floats(fmt.Sprintf("q%d.gumbel", h)), c.K)
				golden.Near(t, "phi", s.Phi, f.Floats(fmt.Sprintf("q%d.phi", h)), 1e-10)
				prompt := sampled.Attend(q, pick(keys, teamOf, s), pick(latent, teamOf, s), biases(teamOf, s), c.Scale, c.Latent)
				sum := sampled.Merge(prompt, sampled.Attend(q, keys[c.N:], latent[c.N:], nil, c.Scale, c.Latent))
				golden.Near(t, "out_latent", sum.Out, f.Floats(fmt.Sprintf("q%d.out_latent", h)), 1e-10)
				out := make([]float64, c.DV)
				for i, w := range f.Rows("W_UV", h) {
					out[i] = sampled.Dot(w, sum.Out)
				}
				golden.Near(t, "out", out, f.Floats(fmt.Sprintf("q%d.out", h)), 1e-10)
			}
		})
	}
}

// mulT is wᵀ·x for w [n][d].
func mulT(w [][]float64, x []float64) []float64 {
	y := make([]float64, len(w[0]))
	for i, row := range w {
		for j, v := range row {
			y[j] += x[i] * v
		}
	}
	return y
}
