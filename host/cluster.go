package host

import (
	"fmt"
	"sort"
	"unsafe"

	"blitzen/device"
	"blitzen/host/kernels"
)

// clusterRows is the number of rows that a thread compares at once.
const clusterRows = 240

// rowSet is the rows of one problem, one after the other or picked by ids.
type rowSet struct {
	kernels.Matrix
	n, d int
	ids  []int32 // nil: all rows in order
}

// sets are the problems of x; ids, if any, are their rows.
func sets(x device.RowSets, ids *device.Tensor) ([]rowSet, error) {
	var all []rowSet
	for _, t := range x {
		for h := range t.Shape[0] {
			s := rowSet{Matrix: head(t, h), n: t.Shape[1], d: t.Shape[2]}
			if ids != nil {
				if s.ids = row[int32](ids, len(all)); s.ids == nil {
					s.ids = []int32{}
				}
				if err := checkIDs(s.ids, s.n); err != nil {
					return nil, fmt.Errorf("problem %d: %w", len(all), err)
				}
			}
			all = append(all, s)
		}
	}
	return all, nil
}

func checkIDs(ids []int32, n int) error {
	for i, id := range ids {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("ids[%d] is %d, outside 0 to %d", i, id, n-1)
		}
	}
	return nil
}

func (s rowSet) len() int {
	if s.ids != nil {
		return len(s.ids)
	}
	return s.n
}

// index is the row that comes i-th.
func (s rowSet) index(i int) int {
	if s.ids != nil {
		return int(s.ids[i])
	}
	return i
}

func (s rowSet) row(i int) []float32 { return slice(shift(s.P, s.index(i)*s.LD), s.d) }

// packed copies the rows that are picked together.
func (s rowSet) packed() rowSet {
	if s.ids == nil {
		return s
	}
	mem := make([]float32, max(1, len(s.ids)*s.d))
	p := rowSet{Matrix: kernels.Matrix{P: &mem[0], LD: s.d}, n: len(s.ids), d: s.d}
	for i := range s.ids {
		copy(p.row(i), s.row(i))
	}
	return p
}

// distinct keeps each row that is picked once, and tells its place.
func (s rowSet) distinct() (once rowSet, place []int32) {
	once, place = s, make([]int32, len(s.ids))
	once.ids = []int32{}
	seen := make([]int32, s.n) // 1 + place
	for i, id := range s.ids {
		if seen[id] == 0 {
			once.ids = append(once.ids, id)
			seen[id] = int32(len(once.ids))
		}
		place[i] = seen[id] - 1
	}
	return once, place
}

// Nearest implements device.Kernels. A row that is picked again is compared
// once.
func (k *hostKernels) Nearest(a device.NearestArgs) error {
	if ok, err := k.start(outputs{a.Labels, a.Inertia}, append([]*device.Tensor{a.IDs, a.Centers, a.Base, a.Live}, a.X...)...); !ok {
		return err
	}
	all, err := sets(a.X, a.IDs)
	if err != nil {
		return err
	}
	for p, s := range all {
		if !live(a.Live, p) {
			continue
		}
		labels, centers := row[int32](a.Labels, p), head(a.Centers, p)
		if s.ids == nil {
			err = k.nearest(labels, s, centers, a.Centers.Shape[1])
		} else {
			once, place := s.distinct()
			found := make([]int32, once.len())
			if err = k.nearest(found, once.packed(), centers, a.Centers.Shape[1]); err == nil {
				for i, at := range place {
					labels[i] = found[at]
				}
			}
		}
		if err != nil {
			return err
		}
		if a.Inertia != nil {
			row[float32](a.Inertia)[p] = inertia(s, labels, centers)
		}
		if a.Base != nil {
			for i := range labels {
				labels[i] += row[int32](a.Base)[p]
			}
		}
	}
	return nil
}

func live(t *device.Tensor, p int) bool { return t == nil || row[int32](t)[p] != 0 }

// nearest labels rows that lie one after the other.
func (k *hostKernels) nearest(labels []int32, s rowSet, centers kernels.Matrix, count int) error {
	packed := kernels.PackedCenters(count, s.d)
	mem, err := k.pool.shared.floats(2*packed + count)
	if err != nil {
		return err
	}
	norms, table := shift(mem, 2*packed), (*float64)(unsafe.Pointer(mem))
	kernels.PackCenters(table, norms, centers, count, s.d)
	if err := k.pool.lend(2 * kernels.NearScratch(s.d)); err != nil {
		return err
	}
	k.pool.run(pieces(s.n, clusterRows), func(thread, i int) {
		part := piece(i, s.n, clusterRows)
		kernels.Nearest(&labels[part.from], below(s.Matrix, part.from), part.len(), table, norms, count, s.d, k.pool.doubles(thread))
	})
	return nil
}

// inertia is the sum of squared distances of rows from their centers. Products
// of float32 are converted before they are added, which forbids fusing the two:
// results are the same on every processor.
func inertia(s rowSet, labels []int32, centers kernels.Matrix) float32 {
	var sum float32
	for i, label := range labels {
		sum += squares(s.row(i), slice(below(centers, int(label)).P, s.d))
	}
	return sum
}

func squares(a, b []float32) float32 {
	var s float32
	j := 0
	for ; j+4 <= len(a); j += 4 {
		d0, d1, d2, d3 := a[j]-b[j], a[j+1]-b[j+1], a[j+2]-b[j+2], a[j+3]-b[j+3]
		s += float32(d0*d0) + float32(d1*d1) + float32(d2*d2) + float32(d3*d3)
	}
	for ; j < len(a); j++ {
		d0 := a[j] - b[j]
		s += float32(d0 * d0)
	}
	return s
}

// MoveCenters implements device.Kernels.
func (k *hostKernels) MoveCenters(a device.MoveArgs) error {
	if ok, err := k.start(outputs{a.Centers, a.Counts}, append([]*device.Tensor{a.IDs, a.Labels, a.Live}, a.X...)...); !ok {
		return err
	}
	all, err := sets(a.X, a.IDs)
	if err != nil {
		return err
	}
	count := a.Centers.Shape[1]
	for p := range all {
		for i, label := range row[int32](a.Labels, p) {
			if live(a.Live, p) && int(label) >= count {
				return fmt.Errorf("problem %d: label %d of row %d, there are %d centers", p, label, i, count)
			}
		}
	}
	k.pool.run(len(all), func(_, p int) {
		if live(a.Live, p) {
			moveCenters(func(c int32) []float32 { return row[float32](a.Centers, p, int(c)) }, row[float32](a.Counts, p), all[p], row[int32](a.Labels, p))
		}
	})
	return nil
}

func moveCenters(center func(c int32) []float32, counts []float32, s rowSet, labels []int32) {
	added := make([]float32, len(counts))
	for i, c := range labels {
		if c < 0 {
			continue
		}
		sum := center(c)
		if added[c] == 0 {
			scale(sum, counts[c])
		}
		added[c]++
		for j, x := range s.row(i) {
			sum[j] += x
		}
	}
	for c, n := range added {
		if n > 0 {
			counts[c] += n
			scale(center(int32(c)), 1/counts[c])
		}
	}
}

func scale(v []float32, by float32) {
	for j := range v {
		v[j] *= by
	}
}

// SpreadCenters implements device.Kernels. Problems run side by side.
func (k *hostKernels) SpreadCenters(a device.SpreadArgs) error {
	if ok, err := k.start(outputs{a.Chosen, a.Near, a.Pot}, append([]*device.Tensor{a.IDs, a.Words}, a.X...)...); !ok {
		return err
	}
	all, err := sets(a.X, nil)
	if err != nil {
		return err
	}
	ids := row[int32](a.IDs)
	if err := checkIDs(ids, all[0].n); err != nil {
		return err
	}
	if err := k.pool.lend(2 * kernels.NearScratch(all[0].d)); err != nil {
		return err
	}
	k.pool.run(len(all), func(thread, p int) {
		s := all[p]
		s.ids = ids
		spread := spreader{
			y: s.packed(), chosen: row[int32](a.Chosen, p), near: row[float32](a.Near, p), pot: at[float32](a.Pot, p),
			words: a.Words, scratch: k.pool.doubles(thread),
		}
		spread.run(a.From, a.To, int32(a.First))
	})
	return nil
}

// spreader chooses the centers of one problem.
type spreader struct {
	y         rowSet // [m, d]
	chosen    []int32
	near      []float32
	pot       *float32
	words     *device.Tensor
	scratch   *float64
	points    []float32 // [trials, d]
	distances []float32 // [trials, m]
	running   []float32 // [m]
}

func (s *spreader) run(from, to int, first int32) {
	trials := s.words.Shape[1]
	s.points, s.distances, s.running = make([]float32, trials*s.y.d), make([]float32, trials*s.y.n), make([]float32, s.y.n)
	candidates := make([]int32, trials)
	if from == 0 && to > 0 {
		s.chosen[0] = first
		copy(s.near, s.measure(s.chosen[:1]))
		*s.pot = lower(s.near, s.near)
	}
	for c := max(from, 1); c < to; c++ {
		s.draw(candidates, c)
		distances := s.measure(candidates)
		best := 0
		for t := range candidates {
			v := lower(distances[t*s.y.n:][:s.y.n], s.near)
			if t == 0 || v < *s.pot {
				best, *s.pot = t, v
			}
		}
		copy(s.near, distances[best*s.y.n:])
		s.chosen[c] = candidates[best]
	}
}

// draw takes each candidate with a chance in proportion to its distance.
func (s *spreader) draw(candidates []int32, c int) {
	var sum float32
	for j, v := range s.near {
		sum += v
		s.running[j] = sum
	}
	for t := range candidates {
		w := row[uint32](s.words, c, t)
		r := device.Double(w[0], w[1]) * float64(*s.pot)
		j := sort.Search(s.y.n, func(j int) bool { return float64(s.running[j]) >= r })
		candidates[t] = int32(min(j, s.y.n-1))
	}
}

// measure is the distances [candidates, m] of all rows.
func (s *spreader) measure(candidates []int32) []float32 {
	d := s.y.d
	for t, c := range candidates {
		copy(s.points[t*d:][:d], s.y.row(int(c)))
	}
	kernels.Distances(kernels.Matrix{P: &s.distances[0], LD: s.y.n}, s.y.Matrix, s.y.n, kernels.Matrix{P: &s.points[0], LD: d}, len(candidates), d, s.scratch)
	return s.distances
}

// lower takes the minimum of row and near into row and returns its sum, rounded
// once to float32.
func lower(row, near []float32) float32 {
	sum := 0.0
	for j, v := range near {
		if v < row[j] {
			row[j] = v
		}
		sum += float64(row[j])
	}
	return float32(sum)
}
