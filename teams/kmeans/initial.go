package kmeans

import (
	"context"
	"math"
	"sort"

	"blitzen/device"
)

// initialRows chooses k rows of x [n, d] as first centers by greedy k-means++:
// each next center is the best of 2 + ⌊ln k⌋ candidates drawn in proportion to
// their squared distance from the nearest center so far. Of more than 12,288
// rows a sample takes part.
func initialRows(ctx context.Context, dev device.Device, x *device.Tensor, k int, rng *mt19937) ([]int32, error) {
	n := x.Shape[0]
	size := 3 * min(batchSize, n)
	if size < k {
		size = 3 * k
	}
	size = min(size, n)
	for range size { // scikit-learn's validation rows: without use when n_init = 1
		rng.interval(uint32(n - 1))
	}
	if size == n {
		return plusPlus(ctx, dev, x, k, rng)
	}
	sample := make([]int32, size)
	for i := range sample {
		sample[i] = int32(rng.interval(uint32(n - 1)))
	}
	s := device.Owner{Dev: dev}
	defer s.Free()
	ids := s.New("k-means sample ids", device.I32, size)
	y := s.New("k-means sample", x.DType, size, x.Shape[1])
	if s.Err() != nil {
		return nil, s.Err()
	}
	if err := device.Write(dev, ids, sample); err != nil {
		return nil, err
	}
	if err := dev.Run(func(o *device.Ops) { o.GatherRows(y, x, ids) }); err != nil {
		return nil, err
	}
	chosen, err := plusPlus(ctx, dev, y, k, rng)
	for i, c := range chosen {
		chosen[i] = sample[c]
	}
	return chosen, err
}

// plusPlus chooses k of the rows of y [m, d]. Every round is one trip to the
// device.
func plusPlus(ctx context.Context, dev device.Device, y *device.Tensor, k int, rng *mt19937) ([]int32, error) {
	m, trials := y.Shape[0], 2+int(math.Log(float64(k)))
	p := prober{Owner: device.Owner{Dev: dev}, y: y}
	defer p.Free()
	if err := p.prepare(trials); err != nil {
		return nil, err
	}
	chosen := make([]int32, k)
	candidates := make([]int32, trials)
	chosen[0] = newEqualWeights(m).draw(rng)
	distances, err := p.distances(chosen[:1])
	if err != nil {
		return nil, err
	}
	near := append([]float32(nil), distances...) // squared distance to the nearest center so far
	pot := lower(near, near)
	running := make([]float32, m)
	for c := 1; c < k; c++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var sum float32
		for j, v := range near {
			sum += v
			running[j] = sum
		}
		for t := range candidates {
			r := rng.double() * float64(pot)
			j := sort.Search(m, func(j int) bool { return float64(running[j]) >= r })
			candidates[t] = int32(min(j, m-1))
		}
		if distances, err = p.distances(candidates); err != nil {
			return nil, err
		}
		best := 0
		for t := range candidates {
			v := lower(distances[t*m:(t+1)*m], near)
			if t == 0 || v < pot {
				best, pot = t, v
			}
		}
		copy(near, distances[best*m:(best+1)*m])
		chosen[c] = candidates[best]
	}
	return chosen, nil
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

// prober computes squared distances from a few rows of y to all of them.
type prober struct {
	device.Owner
	y                *device.Tensor // [m, d]
	ids, points, out *device.Tensor // I32 [trials]; [trials, d]; F32 [trials, m]
	host             []float32      // [trials, m]
}

func (p *prober) prepare(trials int) error {
	m, d := p.y.Shape[0], p.y.Shape[1]
	p.ids = p.New("k-means candidate ids", device.I32, trials)
	p.points = p.New("k-means candidates", p.y.DType, trials, d)
	p.out = p.New("k-means distances", device.F32, trials, m)
	p.host = make([]float32, trials*m)
	return p.Err()
}

// distances returns [rows, m], valid until the next call.
func (p *prober) distances(rows []int32) ([]float32, error) {
	ids, points := p.ids.Slice(0, 0, len(rows)), p.points.Slice(0, 0, len(rows))
	out, host := p.out.Slice(0, 0, len(rows)), p.host[:len(rows)*p.y.Shape[0]]
	if err := device.Write(p.Dev, ids, rows); err != nil {
		return nil, err
	}
	err := p.Dev.Run(func(o *device.Ops) {
		o.GatherRows(points, p.y, ids)
		o.Distances(out, p.y, points)
	})
	if err != nil {
		return nil, err
	}
	return host, device.Collect(p.Dev.Fetch(out), host)
}
