package teams

import (
	"context"

	"blitzen/device"
)

// Segments of about segmentParents parents are clustered one by one, by
// lloydSteps iterations each: a prompt of N rows costs N·segmentParents
// comparisons an iteration, not N²/P.
const (
	segmentParents = 64
	lloydSteps     = 10
)

// segment is a number of segments of equal size, side by side.
type segment struct {
	from, rows, count int // count segments of rows, the first at row from
	clusters          int // of each
}

// segments cuts n rows into segments of nearly equal size, the longer ones
// first.
func segments(n, size int) []segment {
	count := max(1, n/(segmentParents*size))
	rows, longer := n/count, n%count
	var s []segment
	if longer > 0 {
		s = append(s, segment{0, rows + 1, longer, max(1, (rows+1)/size)})
	}
	return append(s, segment{longer * (rows + 1), rows, count - longer, max(1, rows/size)})
}

// labelSegments clusters every segment of every head by Lloyd's algorithm,
// from centers at evenly spaced rows. A center that loses its rows stays.
func labelSegments(ctx context.Context, dev device.Device, x device.RowSets, size int, labels *device.Tensor, progress func(done, of int)) error {
	base := 0
	all := segments(labels.Shape[1], size)
	for i, s := range all {
		l := lloyd{Owner: device.Owner{Dev: dev}, segment: s, labels: labels}
		err := l.open(x, base)
		if err == nil {
			err = l.run(ctx, func(step int) {
				if progress != nil {
					progress(i*lloydSteps+step, len(all)*lloydSteps)
				}
			})
		}
		l.Free()
		if err != nil {
			return err
		}
		base += s.count * s.clusters
	}
	return nil
}

// lloyd clusters segments of one size, of all heads side by side: a segment of
// a head is a problem.
type lloyd struct {
	device.Owner
	segment
	labels *device.Tensor // I32 [heads, n]: those of all segments

	x                 device.RowSets // [segments, rows, d] each
	centers, counts   *device.Tensor // F32 [problems, clusters, d], [problems, clusters]
	none              *device.Tensor // F32: counts of 0
	mine, flat        *device.Tensor // I32 [problems, rows], the same memory as [heads, rows of all its segments]
	base              *device.Tensor // I32 [problems]
	starts, ownLabels *device.Tensor // I32 [1, clusters]: the rows that centers start from
}

// open makes what the iterations need; base is the number of the first cluster.
func (l *lloyd) open(x device.RowSets, base int) error {
	end := l.from + l.rows*l.count
	for _, t := range x {
		for h := range t.Shape[0] {
			l.x = append(l.x, t.Index(0, h).Slice(0, l.from, end).Unflatten(0, l.count, l.rows))
		}
	}
	problems, d := l.x.Problems(), x[0].Shape[2]
	l.centers = l.New("segments.centers", device.F32, problems, l.clusters, d)
	l.counts = l.New("segments.counts", device.F32, problems, l.clusters)
	l.none = l.New("segments.none", device.F32, problems, l.clusters)
	mine := l.New("segments.labels", device.I32, problems*l.rows)
	l.base = l.New("segments.base", device.I32, problems)
	l.starts = l.New("segments.starts", device.I32, l.clusters)
	if l.ownLabels = l.New("segments.places", device.I32, l.clusters); l.Err() != nil {
		return l.Err()
	}
	l.mine, l.flat = mine.Unflatten(0, problems, l.rows), mine.Unflatten(0, problems/l.count, l.count*l.rows)
	starts, places, bases := make([]int32, l.clusters), make([]int32, l.clusters), make([]int32, problems)
	for c := range starts {
		starts[c], places[c] = int32((2*c+1)*l.rows/(2*l.clusters)), int32(c)
	}
	for p := range bases {
		bases[p] = int32(base + p%l.count*l.clusters)
	}
	for _, err := range []error{device.Write(l.Dev, l.starts, starts), device.Write(l.Dev, l.ownLabels, places), device.Write(l.Dev, l.base, bases)} {
		if err != nil {
			return err
		}
	}
	return l.Dev.Run(func(o *device.Ops) {
		o.MoveCenters(device.MoveArgs{Centers: l.centers, Counts: l.counts, X: l.x, IDs: l.starts.Repeat(0, problems), Labels: l.ownLabels.Repeat(0, problems)})
	})
}

func (l *lloyd) run(ctx context.Context, progress func(step int)) error {
	for step := range lloydSteps {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := l.Dev.Run(func(o *device.Ops) {
			o.Nearest(device.NearestArgs{Labels: l.mine, X: l.x, Centers: l.centers})
			o.Copy(l.counts, l.none)
			o.MoveCenters(device.MoveArgs{Centers: l.centers, Counts: l.counts, X: l.x, Labels: l.mine})
		})
		if err != nil {
			return err
		}
		progress(step + 1)
	}
	into := l.labels.Slice(1, l.from, l.from+l.rows*l.count)
	return l.Dev.Run(func(o *device.Ops) {
		o.Nearest(device.NearestArgs{Labels: l.mine, X: l.x, Centers: l.centers, Base: l.base})
		o.Copy(into, l.flat)
	})
}
