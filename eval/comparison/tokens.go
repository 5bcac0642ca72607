package comparison

// Match compares the tokens of two free runs: at how many of the longer one's
// places they agree, as a share, and the first place where they do not, −1 for
// none.
func Match(a, b []int32) (rate float64, first int) {
	first = -1
	same := 0
	for i := range max(len(a), len(b)) {
		if i < min(len(a), len(b)) && a[i] == b[i] {
			same++
		} else if first < 0 {
			first = i
		}
	}
	if first < 0 {
		return 1, first
	}
	return float64(same) / float64(max(len(a), len(b))), first
}
