package cuda

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

// teamsProblem is a step of the fused kernels that float64 can follow. All
// numbers are BF16.
type teamsProblem struct {
	t                   *testing.T
	d                   *gpu
	args                device.TeamsArgs
	heads, keyHeads, dk int
	teams, rows, suffix int
	q, k, v             []float64
	offsets             []int32
}

// newTeamsProblem makes teams of 1 to 7 rows, and 3 rows after them. spread is
// the deviation of a logit.
func newTeamsProblem(t *testing.T, heads, keyHeads, dk, teams, drawn int, spread float64) *teamsProblem {
	t.Helper()
	p := &teamsProblem{t: t, d: requireGPU(t, Options{DType: device.BF16}), heads: heads, keyHeads: keyHeads, dk: dk, teams: teams, suffix: 3}
	rng := rand.New(rand.NewPCG(7, uint64(teams)))
	var logN []float32
	sizes := make([]int, teams)
	for g := range sizes {
		sizes[g] = 1 + rng.IntN(7)
		p.rows += sizes[g]
	}
	for range keyHeads {
		p.offsets = append(p.offsets, 0)
		for _, n := range sizes {
			p.offsets = append(p.offsets, p.offsets[len(p.offsets)-1]+int32(n))
			logN = append(logN, float32(math.Log(float64(n))))
		}
	}
	normal := func(n int, deviation float64) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = float64(math.Float32frombits(math.Float32bits(float32(deviation*rng.NormFloat64())) &^ 0xffff))
		}
		return x
	}
	capacity := p.rows + p.suffix
	p.q, p.k, p.v = normal(heads*dk, spread), normal(keyHeads*capacity*dk, 1), normal(keyHeads*capacity*dk, 1)
	var reps []float64
	for kv := range keyHeads {
		for g := range teams {
			at := (kv*capacity + int(p.offsets[kv*(teams+1)+g])) * dk
			reps = append(reps, p.k[at:at+dk]...)
		}
	}
	p.args = device.TeamsArgs{
		Out: p.tensor(device.BF16, 1, heads, dk), Q: p.bf16(p.q, 1, heads, dk), K: p.bf16(p.k, keyHeads, capacity, dk), V: p.bf16(p.v, keyHeads, capacity, dk),
		Reps: p.bf16(reps, keyHeads, teams, dk), Bias: p.tensor(device.F32, keyHeads, teams), Offsets: p.tensor(device.I32, keyHeads, teams+1),
		From: p.tensor(device.I32, 1), Scale: float32(1 / math.Sqrt(float64(dk))), Drawn: drawn,
		Draw:  device.Draw{Seed: p.tensor(device.U32, 2), Layer: 3, Pos: p.tensor(device.I32, 1)},
		Teams: p.tensor(device.I32, 1, heads, drawn), LogC: p.tensor(device.F32, 1, heads, drawn),
	}
	write(p, p.args.Bias, logN)
	write(p, p.args.Offsets, p.offsets)
	write(p, p.args.From, []int32{int32(p.rows)})
	write(p, p.args.Draw.Pos, []int32{int32(capacity - 1)})
	c := p.d.kernels.card.capability // other cards take the operations one by one: the same must hold
	if c >= hopper && c < smallShared && !p.d.kernels.forTeams(p.args) {
		t.Fatal("the fused kernels refuse this problem")
	}
	return p
}

func (p *teamsProblem) tensor(t device.DType, shape ...int) *device.Tensor {
	p.t.Helper()
	v, err := p.d.New("t", t, shape...)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { p.d.Free(v) })
	return v
}

func (p *teamsProblem) bf16(values []float64, shape ...int) *device.Tensor {
	p.t.Helper()
	v := p.tensor(device.BF16, shape...)
	if err := p.d.Upload(v, devicetest.Encode(device.BF16, values)); err != nil {
		p.t.Fatal(err)
	}
	return v
}

func write[T device.Element](p *teamsProblem, t *device.Tensor, values []T) {
	p.t.Helper()
	if err := device.Write(p.d, t, values); err != nil {
		p.t.Fatal(err)
	}
}

func read[T device.Element](p *teamsProblem, t *device.Tensor) []T {
	p.t.Helper()
	values, err := device.Read[T](p.d, t)
	if err != nil {
		p.t.Fatal(err)
	}
	return values
}

// multiprocessors plans for so many, until the function that it returns is called.
func (p *teamsProblem) multiprocessors(n int) (restore func()) {
	card := &p.d.kernels.card
	all := card.multiprocessors
	card.multiprocessors = n
	return func() { card.multiprocessors = all }
}

// quantize has representatives as F8; the fused kernels must take them, too.
func (p *teamsProblem) quantize() {
	p.t.Helper()
	wide, keys := p.args.Reps, p.tensor(device.F8, p.args.Reps.Shape...)
	keys.Scale = p.tensor(device.F32, p.keyHeads).Repeat(1, p.teams)
	if err := p.d.Run(func(o *device.Ops) { o.Quantize(keys, wide) }); err != nil {
		p.t.Fatal(err)
	}
	fused := p.d.kernels.forTeams(p.args)
	if p.args.Reps = keys; fused != p.d.kernels.forTeams(p.args) {
		p.t.Fatal("the fused kernels refuse F8")
	}
}

func (p *teamsProblem) attend() {
	p.t.Helper()
	if err := p.d.Run(func(o *device.Ops) { o.AttendTeams(p.args) }); err != nil {
		p.t.Fatal(err)
	}
}

func (p *teamsProblem) output() []byte { return p.bytes(p.args.Out) }

func (p *teamsProblem) bytes(t *device.Tensor) []byte {
	p.t.Helper()
	data := make([]byte, t.Bytes())
	if err := p.d.Fetch(t).Wait(data); err != nil {
		p.t.Fatal(err)
	}
	return data
}

// sums are the mass of rows of a head and the weighted sums of their values.
type sums struct {
	mass  float64
	value []float64
}

func (s *sums) add(o sums, weight float64) {
	s.mass += weight * o.mass
	for j := range s.value {
		s.value[j] += weight * o.value[j]
	}
}

func (p *teamsProblem) sum(head, from, to int) sums {
	kv := head / (p.heads / p.keyHeads)
	s := sums{value: make([]float64, p.dk)}
	for r := from; r < to; r++ {
		at := (kv*(p.rows+p.suffix) + r) * p.dk
		logit := 0.0
		for j := range p.dk {
			logit += p.q[head*p.dk+j] * p.k[at+j]
		}
		s.add(sums{1, p.v[at : at+p.dk]}, math.Exp(logit*float64(p.args.Scale)))
	}
	return s
}

// ofTeams are the sums of every team of a head, and those of all rows.
func (p *teamsProblem) ofTeams(head int) (teams []sums, all sums) {
	all = p.sum(head, p.rows, p.rows+p.suffix)
	for g := range p.teams {
		at := head/(p.heads/p.keyHeads)*(p.teams+1) + g
		s := p.sum(head, int(p.offsets[at]), int(p.offsets[at+1]))
		teams = append(teams, s)
		all.add(s, 1)
	}
	return teams, all
}

// estimate is Ẑ and Û of a head from what the device drew.
func (p *teamsProblem) estimate(head int, of []sums, drawn []int32, logC []float32) sums {
	s := p.sum(head, p.rows, p.rows+p.suffix)
	for i := head * p.args.Drawn; i < (head+1)*p.args.Drawn; i++ {
		if drawn[i] >= 0 {
			s.add(of[drawn[i]], math.Exp(-float64(logC[i])))
		}
	}
	return s
}

// TestTeamsOutput compares outputs in norm with float64 over what was drawn. BF16
// rounds weights and results by up to 2⁻⁹, a root mean square of 2⁻⁹·√(1/3 + 1/3) of the
// norm together: 2⁻⁸ allows for chance. With all teams drawn it is dense attention. 4
// blocks that share 8,400 rows read more than a list of theirs has.
func TestTeamsOutput(t *testing.T) {
	for _, s := range []struct {
		heads, keyHeads, teams, drawn int
		f8                            bool
	}{
		{28, 4, 2100, 1, false}, {28, 4, 2100, 31, false}, {28, 4, 2100, 31, true}, {28, 4, 2100, 64, false}, {28, 4, 2100, 100, false}, {28, 4, 2100, 100, true},
		{28, 4, 2100, 600, false}, {28, 4, 2100, 600, true}, {28, 4, 700, 700, false}, {64, 32, 2100, 1000, false}, {28, 4, 9001, 31, false}, {28, 4, 9001, 31, true},
	} {
		drawn := s.drawn
		p := newTeamsProblem(t, s.heads, s.keyHeads, 128, s.teams, drawn, 1)
		if s.f8 {
			p.quantize()
		}
		p.attend()
		teams, logC := read[int32](p, p.args.Teams), read[float32](p, p.args.LogC)
		values := devicetest.Decode(device.BF16, p.output())
		var off, size float64
		for h := range p.heads {
			of, all := p.ofTeams(h)
			want := p.estimate(h, of, teams, logC)
			if drawn >= p.teams {
				want = all
			}
			for j, v := range want.value {
				v /= want.mass
				off += (values[h*p.dk+j] - v) * (values[h*p.dk+j] - v)
				size += v * v
			}
		}
		if e := math.Sqrt(off / size); !(e <= 0x1p-8) {
			t.Errorf("%d of %d heads, %d of %d teams drawn, F8 %v: error %.2g of the norm", s.heads, s.keyHeads, drawn, p.teams, s.f8, e)
		}
	}
}

// TestTeamsRing has the blocks of teams_score_wide score more than lies in shared memory
// at once: the order of sums does not depend on how many blocks there are.
func TestTeamsRing(t *testing.T) {
	p := newTeamsProblem(t, 16, 1, 512, 3001, 31, 1)
	p.args.Phi = p.tensor(device.F32, 1, p.heads, p.teams)
	defer p.multiprocessors(p.d.kernels.card.multiprocessors)()
	var scores []float32
	var drawn []int32
	for _, n := range []int{0, 24, 3, 1} {
		if n > 0 {
			p.multiprocessors(n)
		}
		p.attend()
		phi, teams := read[float32](p, p.args.Phi), read[int32](p, p.args.Teams)
		if scores == nil {
			scores, drawn = phi, teams
		}
		if !slices.Equal(phi, scores) || !slices.Equal(teams, drawn) {
			t.Errorf("%d multiprocessors: other scores or teams", n)
		}
	}
}

// TestTeamsUnbiased draws with 10,000 seeds: the means of Ẑ and of coordinates of
// Û lie within 4.5 standard errors of the sums over all rows.
func TestTeamsUnbiased(t *testing.T) { checkUnbiased(t, newTeamsProblem(t, 4, 2, 64, 200, 12, 0.5)) }

// The same with representatives as F8, whose scores are the ones that the chances
// are of.
func TestTeamsUnbiasedF8(t *testing.T) {
	p := newTeamsProblem(t, 4, 2, 64, 200, 12, 0.5)
	p.quantize()
	checkUnbiased(t, p)
}

func checkUnbiased(t *testing.T, p *teamsProblem) {
	const seeds, coordinates = 10000, 4
	of, want := make([][]sums, p.heads), make([]sums, p.heads)
	for h := range p.heads {
		of[h], want[h] = p.ofTeams(h)
	}
	var mean, square [4][1 + coordinates]float64
	for seed := range uint32(seeds) {
		write(p, p.args.Draw.Seed, []uint32{seed, 99})
		p.attend()
		teams, logC := read[int32](p, p.args.Teams), read[float32](p, p.args.LogC)
		for h := range p.heads {
			e := p.estimate(h, of[h], teams, logC)
			for j, x := range append([]float64{e.mass}, e.value[:coordinates]...) {
				mean[h][j] += x / seeds
				square[h][j] += x * x / seeds
			}
		}
	}
	for h := range p.heads {
		for j, x := range append([]float64{want[h].mass}, want[h].value[:coordinates]...) {
			deviation := math.Sqrt((square[h][j] - mean[h][j]*mean[h][j]) / seeds)
			if z := (mean[h][j] - x) / deviation; !(math.Abs(z) <= 4.5) {
				t.Errorf("head %d, sum %d: mean %g of %g, off by %.1f standard errors", h, j, mean[h][j], x, z)
			}
		}
	}
}

// TestTeamsReplays runs a recorded step 1,000 times with the position set back:
// the same bits every time, also where nobody asks what was drawn.
func TestTeamsReplays(t *testing.T) {
	for _, drawn := range []int{31, 64, 128, 600} {
		p := newTeamsProblem(t, 28, 4, 128, 2100, drawn, 1)
		first := read[int32](p, p.args.Draw.Pos)
		p.args.Teams, p.args.LogC = nil, nil
		step, err := p.d.Record(func(o *device.Ops) {
			o.AttendTeams(p.args)
			o.Increment(p.args.Draw.Pos)
		})
		if err != nil {
			t.Fatal(err)
		}
		defer step.Close()
		var want []byte
		for i := range 1000 {
			write(p, p.args.Draw.Pos, first)
			if err := step.Run(); err != nil {
				t.Fatal(err)
			}
			got := p.output()
			if i == 0 {
				want = got
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%d drawn: replay %d gave other bits", drawn, i)
			}
		}
	}
}

// TestTeamsInARow records three layers of so many teams that a warp scores several slabs of them, and that blocks of a layer
// score while the one before still reads: the bits of one operation after the other, every time.
func TestTeamsInARow(t *testing.T) {
	for _, s := range []struct {
		heads, keyHeads, dk int
		f8                  bool
		few                 bool // multiprocessors: more teams for each
	}{{28, 4, 128, false, false}, {28, 4, 128, true, false}, {16, 1, 512, false, false}, {16, 1, 512, false, true}} {
		p := newTeamsProblem(t, s.heads, s.keyHeads, s.dk, 9001, 31, 1)
		if s.f8 {
			p.quantize()
		}
		if s.few {
			defer p.multiprocessors(60)()
		}
		var layers []device.TeamsArgs
		var want [][]byte
		for i := range 3 {
			a := p.args
			a.Teams, a.LogC = nil, nil
			a.Draw.Layer, a.Out = i, p.tensor(device.BF16, a.Out.Shape...)
			a.Reps = p.tensor(a.Reps.DType, a.Reps.Shape...) // teams i before
			a.Reps.Scale = p.args.Reps.Scale
			all := p.bytes(p.args.Reps)
			turn := len(all) - i*len(all)/p.keyHeads/p.teams
			if err := p.d.Upload(a.Reps, append(append([]byte{}, all[turn:]...), all[:turn]...)); err != nil {
				t.Fatal(err)
			}
			if err := p.d.Run(func(o *device.Ops) { o.AttendTeams(a) }); err != nil {
				t.Fatal(err)
			}
			layers, want = append(layers, a), append(want, p.bytes(a.Out))
		}
		step, err := p.d.Record(func(o *device.Ops) {
			for range 4 {
				for _, a := range layers {
					o.AttendTeams(a)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer step.Close()
		for replay := range 100 {
			for _, a := range layers {
				if err := p.d.Upload(a.Out, make([]byte, a.Out.Bytes())); err != nil {
					t.Fatal(err)
				}
			}
			if err := step.Run(); err != nil {
				t.Fatal(err)
			}
			for i, a := range layers {
				if !bytes.Equal(p.bytes(a.Out), want[i]) {
					t.Fatalf("%v, replay %d: layer %d gave other bits", s, replay, i)
				}
			}
		}
		if bytes.Equal(want[0], want[1]) || bytes.Equal(want[1], want[2]) {
			t.Error("layers are alike")
		}
	}
}
