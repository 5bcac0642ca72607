package devicetest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/internal/golden"
)

const santaDir = "../../testdata/santa"

// santaCase is a case of testdata/santa/cases.json.
type santaCase struct {
	Case       string
	QueryHeads int `json:"query_heads"`
	KVHeads    int `json:"kv_heads"`
	N, Suffix  int
	D, DV      int
	Scale      float64
	KV         []struct {
		M, K int
		Rows int `json:"union_rows"`
	}
}

// The reference agrees with a program that none of us wrote, checked there
// with 60 digits: scores, teams, corrections, and attention over teams, suffix
// and both.
func TestReferenceAgreesWithGoldens(t *testing.T) {
	var all struct{ Estimator []santaCase }
	golden.JSON(t, filepath.Join(santaDir, "cases.json"), &all)
	for _, c := range all.Estimator {
		if c.Case == "kmeans_parents" { // too large to ship
			continue
		}
		t.Run(c.Case, func(t *testing.T) {
			f := golden.Open(t, filepath.Join(santaDir, c.Case+".safetensors"))
			for h := range c.QueryHeads {
				newSantaHead(t, c, f, h).check()
			}
		})
	}
}

// santaHead is one query head of a case, on a reference of its own.
type santaHead struct {
	*testing.T
	santaCase
	f      *golden.File
	d      device.Device
	h, kv  int
	q      *tensor
	k, v   *tensor // prompt rows team by team, then the suffix
	starts []float64
	logit  float64 // its largest magnitude
}

func newSantaHead(t *testing.T, c santaCase, f *golden.File, h int) *santaHead {
	s := &santaHead{T: t, santaCase: c, f: f, d: NewReference(), h: h, kv: h / (c.QueryHeads / c.KVHeads)}
	q, k, v := f.Rows("Q")[h], f.Rows("K", s.kv), f.Rows("V", s.kv)
	owner := f.Int32s(fmt.Sprintf("kv%d.team", s.kv))
	order := upTo(len(k))
	slices.SortStableFunc(order[:c.N], func(a, b int) int { return int(owner[a] - owner[b]) })
	var keys, values []float64
	for _, row := range order {
		keys, values = append(keys, k[row]...), append(values, v[row]...)
	}
	s.starts = []float64{0}
	for _, n := range f.Int32s(fmt.Sprintf("kv%d.n", s.kv)) {
		s.starts = append(s.starts, s.starts[len(s.starts)-1]+float64(n))
	}
	s.q = s.floats(q, 1, 1, c.D)
	s.k, s.v = s.floats(keys, 1, len(order), c.D), s.floats(values, 1, len(order), len(v[0]))
	s.logit = c.Scale * maxNorm(q, c.D) * maxNorm(keys, c.D)
	return s
}

func (s *santaHead) floats(values []float64, shape ...int) *tensor {
	return made(s.T, s.d, device.F32, values, shape...)
}

func (s *santaHead) ints(values []float64, shape ...int) *tensor {
	return made(s.T, s.d, device.I32, values, shape...)
}

func (s *santaHead) want(name string) []float64 { return s.f.Floats(fmt.Sprintf("q%d.%s", s.h, name)) }

func (s *santaHead) near(what string, got, want []float64, e float64) {
	s.Helper()
	if err := compare(got, want, tolerance{round: unit(device.F32), abs: e}, nil); err != nil {
		s.Errorf("head %d, %s: %v", s.h, what, err)
	}
}

func (s *santaHead) check() {
	m, k := s.KV[s.kv].M, s.KV[s.kv].K
	// The only errors are those of F32 storage: of results, of the scale in a
	// logit, and of what is added to it, ln n or −ln c.
	logN := s.f.Floats(fmt.Sprintf("kv%d.log_n", s.kv))
	e := unit(device.F32) * (s.logit + maxAbs(logN) + maxAbs(s.want("log_c")))
	s.near("phi", s.route(logN), s.want("phi"), e)
	gumbel := s.want("gumbel")
	teams, logC := sampleTopK(s.want("phi"), func(g int) float64 { return gumbel[g] }, k)
	var selected []float64
	for _, g := range s.f.Int32s(fmt.Sprintf("q%d.selected", s.h)) {
		selected = append(selected, float64(g))
	}
	if k == m { // all teams, in any order
		slices.Sort(teams)
	}
	if !slices.Equal(teams, selected) {
		s.Errorf("head %d: teams %v, want %v", s.h, teams, selected)
	}
	// Below δ = −20 devices use ln c = δ, which is e²⁰ too much there.
	s.near("ln c", logC, s.want("log_c"), math.Exp(-20))
	s.attention(selected, e)
}

func (s *santaHead) route(logN []float64) []float64 {
	m := len(logN)
	var reps []float64
	keys := s.f.Rows("K", s.kv)
	for _, row := range s.f.Int32s(fmt.Sprintf("kv%d.reps", s.kv)) {
		reps = append(reps, keys[row]...)
	}
	phi := s.floats(make([]float64, m), 1, 1, m)
	s.run(func(o *device.Ops) {
		o.Route(device.RouteArgs{Phi: phi, Q: s.q, Reps: s.floats(reps, 1, m, s.D), Bias: s.floats(logN, 1, m), Scale: float32(s.Scale)})
	})
	return elementsOf(s.T, s.d, phi)
}

func (s *santaHead) attention(teams []float64, e float64) {
	dv := s.v.Shape[2]
	var part [2]device.Partial
	for i := range part {
		part[i] = device.Partial{Out: s.floats(make([]float64, dv), 1, 1, dv), LSE: s.floats([]float64{0}, 1, 1)}
	}
	both := s.floats(make([]float64, dv), 1, 1, dv)
	s.run(func(o *device.Ops) {
		o.AttendSelected(device.SelectedArgs{
			Out: part[0], Q: s.q, K: s.k, V: s.v, Offsets: s.ints(s.starts, 1, len(s.starts)), Scale: float32(s.Scale),
			Teams: s.ints(teams, 1, 1, len(teams)), LogC: s.floats(s.want("log_c"), 1, 1, len(teams)),
		})
		o.Attend(device.AttendArgs{
			Out: part[1], Q: s.q, K: s.k, V: s.v, Scale: float32(s.Scale),
			From: s.ints([]float64{float64(s.N)}, 1), Pos: s.ints([]float64{float64(s.N + s.Suffix - 1)}, 1),
		})
		o.Merge(both, part[0], part[1])
	})
	value := maxAbs(elementsOf(s.T, s.d, s.v))
	lse := s.want("lse")
	s.near("prompt_out", elementsOf(s.T, s.d, part[0].Out), s.want("prompt_out"), 2*e*value)
	s.near("suffix_out", elementsOf(s.T, s.d, part[1].Out), s.want("suffix_out"), 2*e*value)
	s.near("lse", append(elementsOf(s.T, s.d, part[0].LSE), elementsOf(s.T, s.d, part[1].LSE)...), lse[1:], e)
	// The parts' LSEs are stored before they are merged.
	s.near("out", elementsOf(s.T, s.d, both), s.want("out"), 2*value*(e+unit(device.F32)*maxAbs(lse)))
}

func (s *santaHead) run(fn func(o *device.Ops)) {
	s.Helper()
	if err := s.d.Run(fn); err != nil {
		s.Fatal(err)
	}
}

// The reference keeps the tokens that transformers' own steps keep, with the
// same probabilities, where no two logits are equal.
func TestReferenceKeepsWhatTransformersKeeps(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for trial := range 3000 {
		n := 1 + rng.IntN(40)
		logits, seen := make([]float64, n), make([]float64, n)
		for i := range logits {
			logits[i], seen[i] = rng.NormFloat64()*3, float64(rng.IntN(2))
		}
		settings := []float64{0.2 + 2*rng.Float64(), float64(rng.IntN(12)), 1.2 * rng.Float64(), 0.6 * rng.Float64(), 0.7 + rng.Float64()}
		if settings[device.SetTopP] > 1 {
			settings[device.SetTopP] = 1
		}
		got, want := keptProbabilities(logits, seen, settings), transformersProbabilities(logits, seen, settings)
		for id := range want {
			if math.Abs(got[id]-want[id]) > 1e-12 {
				t.Fatalf("trial %d, settings %v: token %d has %v, want %v", trial, settings, id, got[id], want[id])
			}
		}
	}
}
