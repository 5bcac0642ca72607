package teams

import (
	"context"
	"fmt"
	"strings"

	"blitzen/device"
	"blitzen/teams/kmeans"
)

// Parents is a way to group rows into parents.
type Parents uint8

const (
	Contiguous Parents = iota // spans of P consecutive rows, the last may be shorter
	KMeans                    // clusters of about P rows, as scikit-learn's MiniBatchKMeans finds them
	Probe                     // the same clusters of fingerprints: what probe queries make of the keys
	Segmented                 // clusters of about P rows within segments of the prompt, by a few Lloyd iterations
)

var parentNames = [...]string{Contiguous: "contiguous", KMeans: "kmeans", Probe: "probe", Segmented: "segmented"}

// ParseParents returns the way that the flag --parents names.
func ParseParents(name string) (Parents, error) {
	for p, s := range parentNames {
		if s == name {
			return Parents(p), nil
		}
	}
	return 0, fmt.Errorf("--parents %q: want one of %s", name, strings.Join(parentNames[:], ", "))
}

// String returns the name that ParseParents reads.
func (p Parents) String() string {
	if int(p) >= len(parentNames) {
		return fmt.Sprintf("Parents(%d)", uint8(p))
	}
	return parentNames[p]
}

// Most is the most parents of about size rows that n rows are grouped into.
func (p Parents) Most(n, size int) int {
	switch p {
	case Contiguous:
		return (n + size - 1) / size
	case Segmented:
		total := 0
		for _, s := range segments(n, size) {
			total += s.count * s.clusters
		}
		return total
	default:
		return clusters(n, size)
	}
}

// label writes the parent of each row, 0 to Most−1, of every head of x to
// labels, I32 [heads, n]. x is what parents are made of: the keys, with Probe
// their fingerprints. Contiguous parents need no labels: see spans.
func (p Parents) label(ctx context.Context, dev device.Device, x device.RowSets, size int, labels *device.Tensor, progress func(done, of int)) error {
	switch p {
	case KMeans, Probe:
		r, err := kmeans.Fit(ctx, dev, x, clusters(labels.Shape[1], size), labels, progress)
		if err == nil {
			r.Close()
		}
		return err
	case Segmented:
		return labelSegments(ctx, dev, x, size, labels, progress)
	default:
		return fmt.Errorf("%v is no way to make parents", p)
	}
}

// spans is the parent of each of n rows, I32 [n], in spans of size rows; the
// caller frees it.
func spans(dev device.Device, n, size int) (*device.Tensor, error) {
	parent := make([]int32, n)
	for row := range parent {
		parent[row] = int32(row / size)
	}
	t, err := dev.New("teams.spans", device.I32, n)
	if err != nil {
		return nil, err
	}
	if err := device.Write(dev, t, parent); err != nil {
		dev.Free(t)
		return nil, err
	}
	return t, nil
}

// clusters is the number of clusters of about size of n rows. Rows for fewer
// than two still make two.
func clusters(n, size int) int { return min(n, max(2, n/size)) }
