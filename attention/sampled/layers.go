package sampled

import (
	"fmt"
	"strconv"
	"strings"
)

// maxLayers is the most layers that a LayerSet can name.
const maxLayers = 256

// LayerSet is a set of layers, numbered from 0. It can be compared.
type LayerSet [maxLayers / 64]uint64

// ParseLayers reads a list such as "0,1" or "0-3,27"; an empty one is the empty
// set.
func ParseLayers(list string) (LayerSet, error) {
	var s LayerSet
	if strings.TrimSpace(list) == "" {
		return s, nil
	}
	for _, part := range strings.Split(list, ",") {
		low, high, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			high = low
		}
		from, err1 := strconv.Atoi(low)
		to, err2 := strconv.Atoi(high)
		if err1 != nil || err2 != nil || from < 0 || to < from || to >= maxLayers {
			return s, fmt.Errorf("--dense-layers %q: want layers from 0 to %d such as 0,1 or 0-3", list, maxLayers-1)
		}
		for i := from; i <= to; i++ {
			s[i/64] |= 1 << (i % 64)
		}
	}
	return s, nil
}

// Has reports whether layer i is in the set.
func (s LayerSet) Has(i int) bool { return i < maxLayers && s[i/64]>>(i%64)&1 == 1 }

// Within reports whether all are below n.
func (s LayerSet) Within(n int) bool {
	for i := n; i < maxLayers; i++ {
		if s.Has(i) {
			return false
		}
	}
	return true
}

// String is the shortest list that ParseLayers reads.
func (s LayerSet) String() string {
	var parts []string
	for i := 0; i < maxLayers; i++ {
		if !s.Has(i) {
			continue
		}
		last := i
		for s.Has(last + 1) {
			last++
		}
		part := strconv.Itoa(i)
		if last > i {
			part += "-" + strconv.Itoa(last)
		}
		parts = append(parts, part)
		i = last
	}
	return strings.Join(parts, ",")
}
