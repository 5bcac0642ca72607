package santa

import "math"

// This file is the method in float64, written to be read and to judge: no fast
// path calls it. One query head at a time.

// Probabilities are the attention weights softmax(a·q·k) that rows are drawn
// by. q [d]; keys [rows][d]; a the softmax scale.
func Probabilities(q []float64, keys [][]float64, a float64) []float64 {
	p := make([]float64, len(keys))
	top := math.Inf(-1)
	for i, k := range keys {
		for j := range q {
			p[i] += a * q[j] * k[j]
		}
		top = math.Max(top, p[i])
	}
	sum := 0.0
	for i := range p {
		p[i] = math.Exp(p[i] - top)
		sum += p[i]
	}
	for i := range p {
		p[i] /= sum
	}
	return p
}

// Draw takes, for each number u from 0 to 1, the first row whose running sum of
// p exceeds it. Independent uniform numbers make independent draws; (j + u)/S
// for j = 0 … S−1 and one u, systematic ones.
func Draw(p, u []float64) []int {
	rows := make([]int, len(u))
	for j := range u {
		sum := 0.0
		for i := range p {
			sum += p[i]
			rows[j] = i
			if sum > u[j] {
				break
			}
		}
	}
	return rows
}

// Mean is the method's output: the mean of the values [rows][dv] drawn. Its
// expectation is Σ p·v, dense attention.
func Mean(values [][]float64, drawn []int) []float64 {
	out := make([]float64, len(values[0]))
	for _, i := range drawn {
		for j, v := range values[i] {
			out[j] += v / float64(len(drawn))
		}
	}
	return out
}
