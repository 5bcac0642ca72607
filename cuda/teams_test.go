package cuda

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"blitzen/device"
	"blitzen/device/devicetest"
)

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
		few                 bool // multiprocessors, so that blocks have more teams each
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
