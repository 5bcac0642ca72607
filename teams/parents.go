package teams

import (
	"context"
	"fmt"

	"blitzen/device"
	"blitzen/teams/kmeans"
)

// Parents is a way to group rows into parents.
type Parents uint8

const (
	Contiguous Parents = iota // spans of P consecutive rows, the last may be shorter
	KMeans                    // clusters of about P rows, as scikit-learn's MiniBatchKMeans finds them
	Probe                     // the same clusters of fingerprints: what probe queries make of the keys
)

var parentNames = [...]string{Contiguous: "contiguous", KMeans: "kmeans", Probe: "probe"}

// ParseParents returns the way that the flag --parents names.
func ParseParents(name string) (Parents, error) {
	for p, s := range parentNames {
		if s == name {
			return Parents(p), nil
		}
	}
	return 0, fmt.Errorf("--parents %q: want one of %q", name, parentNames)
}

// String returns the name that ParseParents reads.
func (p Parents) String() string {
	if int(p) >= len(parentNames) {
		return fmt.Sprintf("Parents(%d)", uint8(p))
	}
	return parentNames[p]
}

// Of returns the parent of each row of x, F32 or BF16 [n, d], for parents of
// about size rows. Every number from 0 to the largest occurs. x is what parents
// are made of: the keys, with Probe their fingerprints; contiguous parents look
// at its length alone.
func (p Parents) Of(ctx context.Context, dev device.Device, x *device.Tensor, size int) ([]int32, error) {
	switch {
	case size < 1:
		return nil, fmt.Errorf("--parent-size %d: must be at least 1", size)
	case x == nil || x.Rank() != 2:
		return nil, fmt.Errorf("%v parents of %v: want [rows, width]", p, x)
	case x.Err() != nil:
		return nil, fmt.Errorf("%v parents: %w", p, x.Err())
	case x.Shape[0] == 0:
		return nil, nil
	}
	switch n := x.Shape[0]; p {
	case Contiguous:
		return spans(n, size), nil
	case KMeans, Probe:
		r, err := kmeans.Fit(ctx, dev, x, clusters(n, size))
		if err != nil {
			return nil, fmt.Errorf("parents: %w", err)
		}
		return dropEmpty(r.Labels), nil
	default:
		return nil, fmt.Errorf("%v is no way to make parents", p)
	}
}

func spans(n, size int) []int32 {
	parent := make([]int32, n)
	for row := range parent {
		parent[row] = int32(row / size)
	}
	return parent
}

// clusters is the number of clusters of about size of n rows. Rows for fewer
// than two still make two.
func clusters(n, size int) int { return min(n, max(2, n/size)) }

// dropEmpty renumbers labels so that none is unused, keeping their order.
func dropEmpty(label []int32) []int32 {
	largest := int32(-1)
	for _, g := range label {
		largest = max(largest, g)
	}
	used := make([]int32, largest+1)
	for _, g := range label {
		used[g] = 1
	}
	next := int32(0)
	for g, u := range used {
		used[g] = next
		next += u
	}
	renumbered := make([]int32, len(label))
	for row, g := range label {
		renumbered[row] = used[g]
	}
	return renumbered
}
