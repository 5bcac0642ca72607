package devicetest

import (
	"errors"
	"fmt"
	"math"

	"blitzen/device"
)

// limit is the z-score that no frequency may pass. Seeds are fixed, so a test
// passes always or never; a right device fails one of 100 comparisons with a
// chance of 6·10⁻⁵.
const limit = 5

func drawRules() []rule {
	rules := []rule{
		{"draws/teams are drawn in proportion and corrected", teamFrequencies},
		{"draws/with replacement, in proportion", func(d device.Device) error { return replacementFrequencies(d, false) }},
		{"draws/with replacement, systematic", func(d device.Device) error { return replacementFrequencies(d, true) }},
	}
	for _, s := range samplerSettings() {
		if s.values[device.SetTemperature] > 0 {
			rules = append(rules, rule{"draws/tokens, " + s.name, func(d device.Device) error { return tokenFrequencies(d, s.values) }})
		}
	}
	return rules
}

// teamFrequencies draws 2 of 5 teams at many positions. The first team follows
// softmax(phi); the pair without replacement, so that a team is in it with the
// probability below; and Σ 1/c over the draws of a team is unbiased for their
// number.
func teamFrequencies(d device.Device) error {
	const draws, heads, k = 4000, 3, 2
	score := []float64{0, 1, -1, 0.5, 2}
	n := len(score)
	phi := make([]float64, 0, draws*heads*n)
	for range draws * heads {
		phi = append(phi, score...)
	}
	desk := &desk{dev: d}
	a := device.TopKArgs{
		Teams: desk.new("teams", device.I32, nil, draws, heads, k), LogC: desk.new("logC", device.F32, nil, draws, heads, k),
		Phi: desk.new("phi", device.F32, phi, draws, heads, n),
		Draw: device.Draw{Seed: desk.new("seed", device.U32, []float64{11, 12}, 2), Layer: 3,
			Pos: desk.new("pos", device.I32, floats(upTo(draws)), draws)},
	}
	desk.note(d.Run(func(o *device.Ops) { o.SampleTopK(a) }))
	teams, logC := desk.read(a.Teams), desk.read(a.LogC)
	if err := desk.done(); err != nil {
		return err
	}
	first, both, corrected := make([]float64, n), make([]float64, n), make([]float64, n)
	squares := make([]float64, n)
	for i, team := range teams {
		if team < 0 || int(team) >= n {
			return fmt.Errorf("team %v of %d", team, n)
		}
		g, w := int(team), math.Exp(-logC[i])
		if i%k == 0 {
			first[g]++
		}
		both[g]++
		corrected[g] += w
		squares[g] += w * w
	}
	var errs []error
	const total = draws * heads
	p := softmax(score)
	for g := range p {
		in := p[g]
		for other := range p {
			if other != g {
				in += p[other] * p[g] / (1 - p[other])
			}
		}
		errs = append(errs, frequency(fmt.Sprintf("team %d first", g), first[g], total, p[g]),
			frequency(fmt.Sprintf("team %d drawn", g), both[g], total, in))
		mean := corrected[g] / total
		deviation := math.Sqrt((squares[g]/total - mean*mean) / total)
		if z := (mean - 1) / deviation; !(math.Abs(z) <= limit) {
			errs = append(errs, fmt.Errorf("team %d: mean of 1/c is %.4f, want 1: z = %.1f", g, mean, z))
		}
	}
	return errors.Join(errs...)
}

// replacementFrequencies draws 8 of 5 teams at many positions. A team is drawn
// 8p times on average; systematically, that number rounded down or up each time.
func replacementFrequencies(d device.Device, systematic bool) error {
	const positions, draws = 4000, 8
	score := []float64{0, 1, -1, 0.5, 2}
	var phi []float64
	for range positions {
		phi = append(phi, score...)
	}
	k := &desk{dev: d}
	a := device.ReplacementArgs{
		Teams: k.new("teams", device.I32, nil, positions, 1, draws), LogC: k.new("logC", device.F32, nil, positions, 1, draws),
		Phi: k.new("phi", device.F32, phi, positions, 1, len(score)), Systematic: systematic,
		Draw: device.Draw{Seed: k.new("seed", device.U32, []float64{11, 12}, 2), Layer: 3, Pos: k.new("pos", device.I32, floats(upTo(positions)), positions)},
	}
	k.note(d.Run(func(o *device.Ops) { o.SampleWithReplacement(a) }))
	teams := k.read(a.Teams)
	if err := k.done(); err != nil {
		return err
	}
	p := softmax(score)
	counts := make([]float64, len(p))
	for at := 0; at < len(teams); at += draws {
		here := make([]float64, len(p))
		for _, team := range teams[at : at+draws] {
			if team < 0 || int(team) >= len(p) {
				return fmt.Errorf("team %v of %d", team, len(p))
			}
			here[int(team)]++
		}
		for g, n := range here {
			counts[g] += n
			if systematic && math.Abs(n-draws*p[g]) >= 1 {
				return fmt.Errorf("team %d is drawn %v times where %.3f are expected", g, n, draws*p[g])
			}
		}
	}
	var errs []error
	for g := range p {
		// Systematic counts vary less than independent draws.
		errs = append(errs, frequency(fmt.Sprintf("team %d", g), counts[g], positions*draws, p[g]))
	}
	return errors.Join(errs...)
}

// frequency compares a count with its expectation under probability p.
func frequency(what string, count, draws, p float64) error {
	if p == 0 || p == 1 {
		if count != draws*p {
			return fmt.Errorf("%s: %v of %v draws at probability %v", what, count, draws, p)
		}
		return nil
	}
	z := (count - draws*p) / math.Sqrt(draws*p*(1-p))
	if !(math.Abs(z) <= limit) {
		return fmt.Errorf("%s: %v of %v draws, expected %.1f: z = %.1f", what, count, draws, draws*p, z)
	}
	return nil
}

// tokenFrequencies draws one token at many positions and compares with the
// probabilities that transformers' processors give.
func tokenFrequencies(d device.Device, settings []float64) error {
	const draws, vocab = 3000, 12
	logits, seen := make([]float64, vocab), make([]float64, vocab)
	for i := range logits {
		logits[i] = 1.7 * math.Sin(float64(3*i+1))
		seen[i] = float64(i % 2)
	}
	logits, settings = rounded(device.F32, logits), rounded(device.F32, settings)
	k := &desk{dev: d}
	ids := k.new("ids", device.I32, nil, draws)
	pos := k.new("pos", device.I32, floats(upTo(draws)), draws)
	a := device.SampleArgs{
		Logits: k.new("logits", device.F32, logits, vocab), Seen: k.new("seen", device.I32, seen, vocab),
		Settings: k.new("settings", device.F32, settings, device.NumSettings),
		Seed:     k.new("seed", device.U32, []float64{21, 22}, 2),
	}
	k.note(d.Run(func(o *device.Ops) {
		for i := range draws {
			a.ID, a.Pos = ids.Slice(0, i, i+1), pos.Slice(0, i, i+1)
			o.Sample(a)
		}
	}))
	drawn := k.read(ids)
	if err := k.done(); err != nil {
		return err
	}
	counts := make([]float64, vocab)
	for _, id := range drawn {
		if id < 0 || id >= vocab {
			return fmt.Errorf("token %v of %d", id, vocab)
		}
		counts[int(id)]++
	}
	var errs []error
	for id, p := range transformersProbabilities(logits, seen, settings) {
		errs = append(errs, frequency(fmt.Sprintf("token %d", id), counts[id], draws, p))
	}
	return errors.Join(errs...)
}
