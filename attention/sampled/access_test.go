package sampled_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"blitzen/attention"
	"blitzen/attention/centroid"
	"blitzen/attention/oracle"
	"blitzen/attention/sampled"
	"blitzen/attention/santapp"
	"blitzen/attention/uniform"
	"blitzen/device"
	"blitzen/internal/attentiontest"
	"blitzen/internal/modeltest"
	"blitzen/teams"
)

const (
	kvHeads, heads, width = 2, 6, 8
	prompt, steps         = 61, 3
)

var cfg = santapp.Config{Config: teams.Config{ParentSize: 8, Representatives: 4}, Budget: 12, Seed: 3}

// methods are the backends that draw groups, each over a cache of its own.
func methods(t *testing.T, l *attentiontest.Layer) map[string]func() (*sampled.Backend, error) {
	made := func() santapp.Teams {
		g, err := santapp.Group(context.Background(), l.Dev, l.Cache, cfg, nil)
		attentiontest.Check(t, err)
		return g
	}
	return map[string]func() (*sampled.Backend, error){
		"santapp": func() (*sampled.Backend, error) { return santapp.New(l.Dev, l.Cache, made(), cfg) },
		"uniform": func() (*sampled.Backend, error) { return uniform.New(l.Dev, l.Cache, made(), cfg) },
		"oracle":  func() (*sampled.Backend, error) { return oracle.New(l.Dev, l.Cache, made(), cfg, heads) },
		"centroid": func() (*sampled.Backend, error) {
			return centroid.Build(context.Background(), l.Dev, l.Cache, centroid.Config{Block: 4, Budget: 12, Seed: 3}, nil)
		},
	}
}

// Access over three steps must be what a count by hand of the groups drawn
// gives, in the paper's units: m + 2(u + e) of 2N′, or r + |I| of N′ where a
// latent is key and value. The oracle's m is N′ and uniform's 0.
func TestAccessByHand(t *testing.T) {
	for kind, layer := range map[string]func(*testing.T) *attentiontest.Layer{"keys and values": randomLayer, "latent": randomLatent} {
		for _, name := range []string{"santapp", "uniform", "oracle", "centroid"} {
			t.Run(name+" of "+kind, func(t *testing.T) { checkAccess(t, layer(t), name) })
		}
	}
}

func checkAccess(t *testing.T, l *attentiontest.Layer, method string) {
	b, err := methods(t, l)[method]()
	attentiontest.Check(t, err)
	defer b.Close()
	attentiontest.Check(t, b.Observe(l.Cache, heads))
	spec := l.Cache.Specs()[0]
	keyHeads, vectors := int64(spec.KVHeads), int64(2)
	if spec.ValueIsKeyPrefix {
		vectors = 1
	}
	var want attention.Access
	for e := range int64(steps) {
		position(t, l, prompt-1+int(e))
		a := b.Args(l.Input())
		attentiontest.Check(t, l.Dev.Run(func(ops *device.Ops) { b.Attend(ops, l.Input()) }))
		rows, groups := drawnRows(t, l, a)
		want.Rows += rows
		want.Suffix += keyHeads * e
		want.Dense += keyHeads * (prompt + e)
		switch method {
		case "santapp", "centroid":
			want.Routed += groups
		case "oracle":
			want.Routed += keyHeads * (prompt + e)
		}
	}
	got := b.Access(l.Counts(t, b))
	if got.Routed != want.Routed || got.Rows != want.Rows || got.Suffix != want.Suffix || got.Dense != want.Dense {
		t.Errorf("counted %+v, by hand %+v", got, want)
	}
	percent := 100 * float64(want.Routed+vectors*(want.Rows+want.Suffix)) / float64(vectors*want.Dense)
	if want.Rows == 0 || want.Rows >= keyHeads*prompt*steps || math.Abs(got.Percent()-percent) > 1e-9 {
		t.Errorf("%v %% read, by hand %v: %+v", got.Percent(), percent, want)
	}
}

// A representative as F8 counts as one vector of a byte a number.
func TestAccessF8(t *testing.T) {
	l := randomLayer(t)
	cfg := cfg
	cfg.RepsF8 = true
	b, err := santapp.Build(context.Background(), l.Dev, l.Cache, cfg, nil)
	attentiontest.Check(t, err)
	defer b.Close()
	position(t, l, prompt)
	attentiontest.Check(t, l.Dev.Run(func(ops *device.Ops) { b.Attend(ops, l.Input()) }))
	a := b.Access(l.Counts(t, b))
	rows := a.Rows + a.Suffix
	percent := 100 * float64(a.Routed+2*rows) / float64(2*a.Dense)
	if bytes := a.Routed*width + rows*2*width*4; a.Routed == 0 || a.Bytes() != bytes || math.Abs(a.Percent()-percent) > 1e-9 {
		t.Errorf("%d bytes, %v %%; by hand %d, %v", a.Bytes(), a.Percent(), bytes, percent)
	}
}

// drawnRows counts the distinct rows of the groups that the last step drew, and
// the groups there are, over all key heads.
func drawnRows(t *testing.T, l *attentiontest.Layer, a device.TeamsArgs) (rows, groups int64) {
	drawn, err := device.Read[int32](l.Dev, a.Teams)
	attentiontest.Check(t, err)
	offsets, err := device.Read[int32](l.Dev, a.Offsets)
	attentiontest.Check(t, err)
	most := a.Offsets.Shape[1] - 1
	keyHeads := l.Cache.Specs()[0].KVHeads
	for kv := range keyHeads {
		var read [prompt]bool
		at := offsets[kv*(most+1):][:most+1]
		for _, g := range drawn[kv*len(drawn)/keyHeads : (kv+1)*len(drawn)/keyHeads] {
			for row := at[g]; row < at[g+1]; row++ {
				read[row] = true
			}
		}
		for _, r := range read {
			if r {
				rows++
			}
		}
		for g := range most {
			if at[g+1] > at[g] {
				groups++
			}
		}
	}
	return rows, groups
}

// position is where the next step is.
func position(t *testing.T, l *attentiontest.Layer, pos int) {
	attentiontest.Check(t, device.Write(l.Dev, l.Pos, []int32{int32(pos)}))
}

func randomLayer(t *testing.T) *attentiontest.Layer {
	matrix := randomMatrix()
	rows := prompt + steps
	return attentiontest.Fill(t, modeltest.Host(t), matrix(heads), [][][]float64{matrix(rows), matrix(rows)}, [][][]float64{matrix(rows), matrix(rows)}, prompt, 0.3)
}

// randomLatent is a layer whose values are the first numbers of its keys.
func randomLatent(t *testing.T) *attentiontest.Layer {
	const latent = width - 2
	matrix := randomMatrix()
	return attentiontest.FillLatent(t, modeltest.Host(t), matrix(heads), matrix(prompt+steps), latent, prompt, 0.3)
}

// randomMatrix draws matrices of rows of width numbers.
func randomMatrix() func(rows int) [][]float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	return func(n int) [][]float64 {
		m := make([][]float64, n)
		for i := range m {
			for range width {
				m[i] = append(m[i], rng.NormFloat64())
			}
		}
		return m
	}
}

// A budget over all groups issues what dense attention issues, whatever the
// score.
func TestCovered(t *testing.T) {
	l := randomLayer(t)
	position(t, l, prompt+1)
	everything := cfg
	everything.Budget = 2 * prompt
	g, err := santapp.Group(context.Background(), l.Dev, l.Cache, everything, nil)
	attentiontest.Check(t, err)
	attentiontest.Check(t, l.Dev.Run(func(ops *device.Ops) {
		in := l.Input()
		ops.Attend(device.AttendArgs{Out: device.Partial{Out: in.Out}, Q: in.Q, K: in.K, V: in.V, Pos: in.Pos, Scale: in.Scale})
	}))
	want := attentiontest.Floats(t, l.Dev, l.Out)
	for _, build := range []func() (*sampled.Backend, error){
		func() (*sampled.Backend, error) { return uniform.New(l.Dev, l.Cache, g, everything) },
		func() (*sampled.Backend, error) { return oracle.New(l.Dev, l.Cache, g, everything, heads) },
		func() (*sampled.Backend, error) {
			return centroid.Build(context.Background(), l.Dev, l.Cache, centroid.Config{Block: 4, Budget: 4 * prompt}, nil)
		},
	} {
		b, err := build()
		attentiontest.Check(t, err)
		attentiontest.Check(t, l.Dev.Run(func(ops *device.Ops) { b.Attend(ops, l.Input()) }))
		for i, x := range attentiontest.Floats(t, l.Dev, l.Out) {
			if x != want[i] {
				t.Fatalf("%s: output %d is %v, dense %v", b.Name(), i, x, want[i])
			}
		}
		if a := b.Access(l.Counts(t, b)); !b.Exact() || a.Percent() != 100 {
			t.Errorf("%s: exact %v, %v %% read", b.Name(), b.Exact(), a.Percent())
		}
		b.Close()
	}
}
