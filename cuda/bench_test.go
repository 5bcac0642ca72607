package cuda

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"blitzen/cuda/driver"
	"blitzen/device"
)

// scale is what a benchmark reports besides its time.
type scale struct {
	bytes, flops float64 // moved and computed by one operation
}

// measure times issue, recorded in a step, by events. issue runs the operation
// on as many sets of tensors as it takes to leave the caches behind; sets is
// their number. Few sets are issued several times in a step: that a step begins
// takes microseconds itself.
func measure(b *testing.B, d *gpu, sets int, s scale, issue func(o *device.Ops)) {
	b.Helper()
	rounds := 1
	if sets > 1 {
		rounds = max(1, 64/sets)
	}
	step, err := d.Record(func(o *device.Ops) {
		for range rounds {
			issue(o)
		}
	})
	if err != nil {
		b.Fatal(err)
	}
	defer step.Close()
	var marks [2]driver.Event
	for i := range marks {
		if marks[i], err = driver.NewEvent(true); err != nil {
			b.Fatal(err)
		}
		defer marks[i].Destroy()
	}
	replay := func(n int) {
		for range n {
			if err := step.Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
	replay(3)
	if err := marks[0].Record(d.stream); err != nil {
		b.Fatal(err)
	}
	replay(b.N)
	if err := marks[1].Record(d.stream); err != nil {
		b.Fatal(err)
	}
	if err := d.stream.Wait(); err != nil {
		b.Fatal(err)
	}
	took, err := driver.Elapsed(marks[0], marks[1])
	if err != nil {
		b.Fatal(err)
	}
	seconds := took.Seconds() / float64(b.N*sets*rounds)
	b.ReportMetric(seconds*1e6, "µs/op")
	b.ReportMetric(0, "ns/op")
	if s.bytes > 0 {
		b.ReportMetric(s.bytes/seconds/1e9, "GB/s")
	}
	if s.flops > 0 {
		b.ReportMetric(s.flops/seconds/1e12, "TFLOP/s")
	}
}

// made fills tensors with numbers of any kind but zeros, on the GPU.
type made struct {
	b *testing.B
	d *gpu
	n int
}

func (m *made) tensor(t device.DType, shape ...int) *device.Tensor {
	m.b.Helper()
	v, err := m.d.New("t", t, shape...)
	if err != nil {
		m.b.Fatal(err)
	}
	m.b.Cleanup(func() { m.d.Free(v) })
	return v
}

// act is a tensor of activations that repeats a mebibyte of numbers.
func (m *made) act(shape ...int) *device.Tensor {
	m.b.Helper()
	v := m.tensor(m.d.DType(), shape...)
	piece := make([]byte, 1<<20)
	for i := 0; i < len(piece); i += 2 { // BF16 between 1/256 and 1 in magnitude
		m.n++
		bits := math.Float32bits(float32(math.Sin(float64(m.n)))) >> 16
		piece[i], piece[i+1] = byte(bits), byte(bits>>8)
	}
	b := v.Buffer.(*buffer)
	for at := 0; at < b.size; at += len(piece) {
		if err := m.d.sendAll(b.at+driver.Address(at), piece[:min(len(piece), b.size-at)]); err != nil {
			m.b.Fatal(err)
		}
	}
	return v
}

func (m *made) ints(values ...int32) *device.Tensor {
	m.b.Helper()
	v := m.tensor(device.I32, len(values))
	if err := device.Write(m.d, v, values); err != nil {
		m.b.Fatal(err)
	}
	return v
}

// cold is how many sets of so many bytes pass any cache.
func cold(bytes float64) int { return max(2, int(400e6/bytes)) }

func BenchmarkLinear(b *testing.B) {
	d := requireGPU(b, Options{DType: device.BF16})
	for _, s := range []struct {
		name     string
		rows, in int
		outs     []int
	}{
		{"7B qkv", 1, 3584, []int{3584, 512, 512}}, {"7B o", 1, 3584, []int{3584}}, {"7B gate-up", 1, 3584, []int{18944, 18944}},
		{"7B down", 1, 18944, []int{3584}}, {"7B head", 1, 3584, []int{152064}}, {"0.5B qkv", 1, 896, []int{896, 128, 128}},
		{"0.5B down", 1, 4864, []int{896}}, {"7B gate-up, 4 rows", 4, 3584, []int{18944, 18944}}, {"7B gate-up, 8 rows", 8, 3584, []int{18944, 18944}},
		{"7B gate-up, 4096 rows", 4096, 3584, []int{18944, 18944}},
	} {
		b.Run(s.name, func(b *testing.B) {
			m := &made{b: b, d: d}
			outs := 0
			for _, o := range s.outs {
				outs += o
			}
			bytes := 2 * float64(outs) * float64(s.in)
			sets := cold(bytes)
			var ws []device.Weight
			for range sets {
				var w device.Weight
				for _, o := range s.outs {
					w.Parts = append(w.Parts, m.act(o, s.in))
				}
				ws = append(ws, w)
			}
			x, dst := m.act(s.rows, s.in), m.act(s.rows, outs)
			sc := scale{bytes: bytes}
			if s.rows > fewTokens {
				sc = scale{flops: 2 * float64(s.rows) * float64(outs) * float64(s.in)}
			}
			measure(b, d, sets, sc, func(o *device.Ops) {
				for _, w := range ws {
					o.Linear(dst, x, w)
				}
			})
		})
	}
}

func BenchmarkAttend(b *testing.B) {
	d := requireGPU(b, Options{DType: device.BF16})
	for _, s := range []struct {
		name         string
		model        string
		tokens, rows int
	}{
		{"7B 8K", "qwen2.5-7b", 1, 8192}, {"7B 32K", "qwen2.5-7b", 1, 32768}, {"7B 128K", "qwen2.5-7b", 1, 131072},
		{"MLA 32K", "v2-lite absorbed", 1, 32768}, {"MLA 128K", "v2-lite absorbed", 1, 131072}, {"0.5B 32K", "qwen2.5-0.5b", 1, 32768},
		{"7B prefill 8192 of 8192", "qwen2.5-7b", 8192, 8192}, {"7B prefill 8192 of 32768", "qwen2.5-7b", 8192, 32768},
		{"0.5B prefill 8192 of 32768", "qwen2.5-0.5b", 8192, 32768}, {"V2-Lite prefill 8192 of 8192", "v2-lite expanded", 8192, 8192},
	} {
		b.Run(s.name, func(b *testing.B) {
			m, size := &made{b: b, d: d}, models[s.model]
			bytes := 2 * float64(s.rows) * float64(size.keyHeads) * float64(size.dk+size.dv)
			if size.dv == 512 { // values are the keys' first columns
				bytes = 2 * float64(s.rows) * float64(size.dk)
			}
			sets := cold(bytes)
			if s.tokens > 1 {
				sets = 1
			}
			positions := make([]int32, s.tokens)
			for i := range positions {
				positions[i] = int32(s.rows - s.tokens + i)
			}
			pos, q := m.ints(positions...), m.act(s.tokens, size.heads, size.dk)
			out := device.Partial{Out: m.act(s.tokens, size.heads, size.dv), LSE: m.tensor(device.F32, s.tokens, size.heads)}
			var all []device.AttendArgs
			for range sets {
				k := m.act(size.keyHeads, s.rows, size.dk)
				v := k.Slice(2, 0, min(size.dv, size.dk))
				if size.dv != 512 {
					v = m.act(size.keyHeads, s.rows, size.dv)
				}
				all = append(all, device.AttendArgs{Out: out, Q: q, K: k, V: v, Pos: pos, Scale: float32(1 / math.Sqrt(float64(size.dk)))})
			}
			sc := scale{bytes: bytes}
			if s.tokens > 1 {
				pairs := float64(s.tokens) * (float64(s.rows) - float64(s.tokens)/2)
				sc = scale{flops: 2 * pairs * float64(size.heads) * float64(size.dk+size.dv)}
			}
			measure(b, d, sets, sc, func(o *device.Ops) {
				for _, a := range all {
					o.Attend(a)
				}
			})
		})
	}
}

// BenchmarkSelect is one layer of the sampled method at 32K by plain
// operations: 7,915 teams a key head, 32 drawn a query head.
func BenchmarkSelect(b *testing.B) {
	const keyHeads, heads, d, rows, teams, k = 4, 28, 128, 32768, 7915, 32
	g := requireGPU(b, Options{DType: device.BF16})
	m := &made{b: b, d: g}
	offsets := make([]int32, keyHeads*(teams+1))
	for h := range keyHeads {
		for t := range teams + 1 {
			offsets[h*(teams+1)+t] = int32(t * rows / teams)
		}
	}
	q, pos := m.act(1, heads, d), m.ints(rows)
	phi, drawn, logC := m.tensor(device.F32, 1, heads, teams), m.tensor(device.I32, 1, heads, k), m.tensor(device.F32, 1, heads, k)
	reps, bias := m.act(keyHeads, teams, d), m.tensor(device.F32, keyHeads, teams)
	out := device.Partial{Out: m.act(1, heads, d), LSE: m.tensor(device.F32, 1, heads)}
	keys, values, off := m.act(keyHeads, rows, d), m.act(keyHeads, rows, d), m.ints(offsets...).Unflatten(0, keyHeads, teams+1)
	draw := device.Draw{Seed: m.tensor(device.U32, 2), Layer: 3, Pos: pos}
	route := device.RouteArgs{Phi: phi, Q: q, Reps: reps, Bias: bias, Scale: 0.09}
	topK := device.TopKArgs{Teams: drawn, LogC: logC, Phi: phi, Draw: draw}
	selected := device.SelectedArgs{Out: out, Q: q, K: keys, V: values, Offsets: off, Teams: drawn, LogC: logC, Scale: 0.09}
	for name, issue := range map[string]func(o *device.Ops){
		"route":  func(o *device.Ops) { o.Route(route) },
		"draw":   func(o *device.Ops) { o.SampleTopK(topK) },
		"attend": func(o *device.Ops) { o.AttendSelected(selected) },
	} {
		if err := g.Run(func(o *device.Ops) { o.Route(route); o.SampleTopK(topK) }); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			measure(b, g, 10, scale{}, func(o *device.Ops) {
				for range 10 {
					issue(o)
				}
			})
		})
	}
}

func BenchmarkExperts(b *testing.B) {
	const hidden, width, experts, k = 2048, 1408, 64, 6
	d := requireGPU(b, Options{DType: device.BF16})
	m := &made{b: b, d: d}
	var list []device.Expert
	for range experts {
		list = append(list, device.Expert{
			GateUp: device.Weight{Parts: []*device.Tensor{m.act(width, hidden), m.act(width, hidden)}},
			Down:   device.Weight{Parts: []*device.Tensor{m.act(hidden, width)}},
		})
	}
	for _, tokens := range []int{1, 512, 8192} {
		b.Run(fmt.Sprint(tokens), func(b *testing.B) {
			ids := make([]int32, tokens*k)
			for i := range ids {
				ids[i] = int32(i * 7 % experts)
			}
			a := device.ExpertsArgs{
				Dst: m.tensor(device.F32, tokens, hidden), X: m.act(tokens, hidden), IDs: m.ints(ids...).Unflatten(0, tokens, k),
				Weights: m.tensor(device.F32, tokens, k), Experts: list,
			}
			sc := scale{bytes: 2 * 3 * k * hidden * width}
			if tokens > fewTokens {
				sc = scale{flops: 2 * 3 * float64(tokens) * k * hidden * width}
			}
			measure(b, d, 1, sc, func(o *device.Ops) { o.Experts(a) })
		})
	}
}

func BenchmarkSample(b *testing.B) {
	d := requireGPU(b, Options{DType: device.BF16})
	m := &made{b: b, d: d}
	const vocab = 151936
	logits, seen := m.tensor(device.F32, vocab), m.tensor(device.I32, vocab)
	values, rng := make([]float32, vocab), rand.New(rand.NewPCG(1, 2))
	for i := range values {
		values[i] = float32(2.5 * rng.NormFloat64())
	}
	if err := device.Write(d, logits, values); err != nil {
		b.Fatal(err)
	}
	settings, seed, pos, id := m.tensor(device.F32, device.NumSettings), m.tensor(device.U32, 2), m.ints(7), m.ints(0)
	for name, set := range map[string][]float32{"greedy": {0, 0, 1, 0, 1}, "top-k, top-p": {0.7, 20, 0.8, 0, 1.05}, "temperature": {1, 0, 1, 0, 1}, "top-p": {1, 0, 0.9, 0, 1}} {
		b.Run(name, func(b *testing.B) {
			if err := device.Write(d, settings, set); err != nil {
				b.Fatal(err)
			}
			measure(b, d, 1, scale{}, func(o *device.Ops) {
				o.Sample(device.SampleArgs{ID: id, Logits: logits, Seen: seen, Settings: settings, Seed: seed, Pos: pos})
			})
		})
	}
	for _, n := range []int{5, 20} {
		ids, probs, chosen := m.tensor(device.I32, n), m.tensor(device.F32, n), m.tensor(device.F32, 1)
		b.Run(fmt.Sprintf("%d log-probabilities", n), func(b *testing.B) {
			measure(b, d, 1, scale{}, func(o *device.Ops) {
				o.TopLogProbs(device.LogProbArgs{IDs: ids, LogProbs: probs, Chosen: chosen, Logits: logits, ID: id})
			})
		})
	}
}

// BenchmarkLaunch is an operation that does nothing worth mentioning.
func BenchmarkLaunch(b *testing.B) {
	d := requireGPU(b, Options{DType: device.BF16})
	m := &made{b: b, d: d}
	n := m.ints(0)
	measure(b, d, 500, scale{}, func(o *device.Ops) {
		for range 500 {
			o.Increment(n)
		}
	})
}

// BenchmarkImport is from memory that was read before.
func BenchmarkImport(b *testing.B) {
	d := requireGPU(b, Options{DType: device.BF16})
	src := make([]byte, 1<<30)
	for i := range src {
		src[i] = byte(i * 7)
	}
	for name, t := range map[string]device.DType{"as it is": device.BF16, "converted": device.F32} {
		b.Run(name, func(b *testing.B) {
			start := time.Now()
			for range b.N {
				w, err := d.Import("w", t, []int{len(src) / t.Size()}, src)
				if err != nil {
					b.Fatal(err)
				}
				if err := d.stream.Wait(); err != nil {
					b.Fatal(err)
				}
				d.Free(w)
			}
			b.ReportMetric(float64(b.N)*float64(len(src))/time.Since(start).Seconds()/1e9, "GB/s")
		})
	}
}
