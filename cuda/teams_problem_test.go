package cuda

import (
	"math"
	"math/rand/v2"
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
