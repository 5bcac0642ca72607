package host

import "cmp"

// topN returns the indices of the n largest scores, falling, the lower index
// first among equals. It works in heap, whose memory is reused if it suffices.
func topN[T cmp.Ordered](heap []int32, score []T, n int) []int32 {
	n = min(n, len(score))
	// worse orders a before b when a is to be dropped first.
	worse := func(a, b int32) bool { return score[a] < score[b] || score[a] == score[b] && a > b }
	heap = heap[:0]
	for i := range int32(n) {
		heap = append(heap, i)
	}
	sink := func(i, n int) {
		for {
			least := 2*i + 1
			if least >= n {
				return
			}
			if least+1 < n && worse(heap[least+1], heap[least]) {
				least++
			}
			if !worse(heap[least], heap[i]) {
				return
			}
			heap[i], heap[least] = heap[least], heap[i]
			i = least
		}
	}
	for i := n/2 - 1; i >= 0; i-- {
		sink(i, n)
	}
	for i := n; n > 0 && i < len(score); i++ {
		if score[i] > score[heap[0]] { // an equal one comes later and loses
			heap[0] = int32(i)
			sink(0, n)
		}
	}
	for last := n - 1; last > 0; last-- {
		heap[0], heap[last] = heap[last], heap[0]
		sink(0, last)
	}
	return heap
}
