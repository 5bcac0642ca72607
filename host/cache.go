package host

import (
	"errors"
	"fmt"

	"blitzen/device"
)

// Append implements device.Kernels.
func (k *hostKernels) Append(cache, rows, pos, slots *device.Tensor) error {
	if ok, err := k.start(outputs{cache}, rows, pos, slots); !ok {
		return err
	}
	capacity, kv := cache.Shape[1], cache.Shape[0]
	for t, p := range row[int32](pos) { // all checked before any is written
		for h := range kv {
			if slot := slotOf(slots, h, p); slot < 0 || int(slot) >= capacity {
				return fmt.Errorf("position %d of token %d (head %d, slot %d) is outside the capacity %d", p, t, h, slot, capacity)
			}
		}
	}
	for t, p := range row[int32](pos) {
		for h := range kv {
			copy(row[float32](cache, h, int(slotOf(slots, h, p))), row[float32](rows, t, h))
		}
	}
	return nil
}

func slotOf(slots *device.Tensor, h int, pos int32) int32 {
	if slots == nil || pos < 0 || int(pos) >= slots.Shape[1] {
		return pos
	}
	return row[int32](slots, h)[pos]
}

// PermuteRows implements device.Kernels. It follows the cycles of the
// permutation with one row of scratch.
func (k *hostKernels) PermuteRows(t, order *device.Tensor, inverse bool, within int) error {
	if ok, err := k.start(outputs{t}, order); !ok {
		return err
	}
	n, width := order.Shape[1], t.Shape[2]
	failed := make([]error, order.Shape[0])
	k.pool.run(order.Shape[0], func(_, h int) {
		from := row[int32](order, h)
		done, err := permutation(from, within)
		if err != nil {
			failed[h] = fmt.Errorf("head %d: %w", h, err)
			return
		}
		spare := make([]float32, width)
		at := func(i int) []float32 { return row[float32](t, h, i) }
		for start := range n {
			if done[start] {
				continue
			}
			done[start] = true
			if inverse {
				pushCycle(at, from, done, start, spare)
			} else {
				pullCycle(at, from, done, start, spare)
			}
		}
	})
	return errors.Join(failed...)
}

// permutation checks that order holds 0 … n−1 once each, in blocks of within
// where that is not 0, and returns n false.
func permutation(order []int32, within int) ([]bool, error) {
	seen := make([]bool, len(order))
	for i, j := range order {
		if j < 0 || int(j) >= len(order) || seen[j] {
			return nil, fmt.Errorf("order[%d] = %d is not a permutation of %d rows", i, j, len(order))
		}
		if within > 0 && i/within != int(j)/within {
			return nil, fmt.Errorf("order[%d] = %d is outside its block of %d rows", i, j, within)
		}
		seen[j] = true
	}
	clear(seen)
	return seen, nil
}

// pullCycle fills row i from row order[i] along the cycle of start.
func pullCycle(at func(int) []float32, order []int32, done []bool, start int, spare []float32) {
	copy(spare, at(start))
	i := start
	for next := int(order[i]); next != start; next = int(order[i]) {
		copy(at(i), at(next))
		done[next] = true
		i = next
	}
	copy(at(i), spare)
}

// pushCycle sends row i to row order[i] along the cycle of start.
func pushCycle(at func(int) []float32, order []int32, done []bool, start int, spare []float32) {
	copy(spare, at(start))
	for i := int(order[start]); i != start; i = int(order[i]) {
		held := at(i)
		for j := range held {
			held[j], spare[j] = spare[j], held[j]
		}
		done[i] = true
	}
	copy(at(start), spare)
}
