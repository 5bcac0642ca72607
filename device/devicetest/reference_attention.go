package devicetest

import (
	"math"
	"slices"

	"blitzen/device"
)

func (kernels) Append(cache, rows, pos, slots *device.Tensor) error {
	for t := range rows.Shape[0] {
		p, err := rowNumber(pos, cache.Shape[1], t)
		if err != nil {
			return err
		}
		for h := range rows.Shape[1] {
			slot := p
			if slots != nil && p < slots.Shape[1] {
				if slot, err = rowNumber(slots, cache.Shape[1], h, p); err != nil {
					return err
				}
			}
			move(cache, []int{h, slot}, rows, []int{t, h})
		}
	}
	return nil
}

func (kernels) PermuteRows(t, order *device.Tensor, inverse bool, _ int) error {
	for h := range order.Shape[0] {
		n := order.Shape[1]
		former := make([][]byte, n)
		for i := range former {
			former[i] = slices.Clone(rowBytes(t, h, i))
		}
		for i := range n {
			j, err := rowNumber(order, n, h, i)
			if err != nil {
				return err
			}
			if inverse {
				copy(rowBytes(t, h, j), former[i])
			} else {
				copy(rowBytes(t, h, i), former[j])
			}
		}
	}
	return nil
}

func (k kernels) Attend(a device.AttendArgs) error {
	if a.Then != nil {
		return device.AttendBySteps(k, a)
	}
	kvHeads := a.K.Shape[0]
	group := a.Q.Shape[1] / kvHeads
	from := 0
	if a.From != nil {
		from = integer(a.From, 0)
	}
	for t := range a.Q.Shape[0] {
		end := integer(a.Pos, t) + 1
		for kv := range kvHeads {
			keys, values := rowRange(a.K, from, end, kv), rowRange(a.V, from, end, kv)
			for h := kv * group; h < (kv+1)*group; h++ {
				var part softSum
				q := row(a.Q, t, h)
				for j, key := range keys {
					part.add(float64(a.Scale)*dot(q, key), values[j])
				}
				part.store(a.Out, t, h)
			}
			addTo(a.Read, len(keys))
		}
	}
	return nil
}

// softSum is a softmax-weighted sum of value rows.
type softSum struct {
	logits []float64
	values [][]float64
}

func (s *softSum) add(logit float64, value []float64) {
	s.logits = append(s.logits, logit)
	s.values = append(s.values, value)
}

func (s *softSum) store(p device.Partial, t, h int) {
	setRow(p.Out, s.mean(p.Out.Shape[2]), t, h)
	if p.LSE != nil {
		setNumber(p.LSE, logSumExp(s.logits), t, h)
	}
}

// mean is the weighted mean of the values, of the given width; 0 for none.
func (s *softSum) mean(width int) []float64 {
	out := make([]float64, width)
	lse := logSumExp(s.logits)
	for j, value := range s.values {
		w := math.Exp(s.logits[j] - lse)
		for i := range out {
			out[i] += w * value[i]
		}
	}
	return out
}

// logSumExp is ln Σ exp(x), −Inf for no terms.
func logSumExp(x []float64) float64 {
	top := math.Inf(-1)
	for _, v := range x {
		top = max(top, v)
	}
	if math.IsInf(top, -1) {
		return top
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(v - top)
	}
	return top + math.Log(sum)
}

func (kernels) Merge(dst *device.Tensor, a, b device.Partial) error {
	for t := range dst.Shape[0] {
		for h := range dst.Shape[1] {
			lseA, lseB := number(a.LSE, t, h), number(b.LSE, t, h)
			whole := logSumExp([]float64{lseA, lseB})
			out := make([]float64, dst.Shape[2])
			if !math.IsInf(whole, -1) {
				outA, outB := row(a.Out, t, h), row(b.Out, t, h)
				for i := range out {
					out[i] = math.Exp(lseA-whole)*outA[i] + math.Exp(lseB-whole)*outB[i]
				}
			}
			setRow(dst, out, t, h)
		}
	}
	return nil
}
