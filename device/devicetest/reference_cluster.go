package devicetest

import "blitzen/device"

func (kernels) GatherRows(dst, src, ids *device.Tensor) error {
	return kernels{}.gather(dst, src, ids)
}

func (kernels) Distances(dst, x, points *device.Tensor) error {
	for p := range points.Shape[0] {
		point := row(points, p)
		for i := range x.Shape[0] {
			v := row(x, i)
			d := (-2*dot(v, point) + dot(v, v)) + dot(point, point)
			setNumber(dst, max(0, d), p, i)
		}
	}
	return nil
}

func (kernels) Nearest(labels, x, centers *device.Tensor) error {
	norms := make([]float32, centers.Shape[0])
	for j := range norms {
		for _, c := range row(centers, j) {
			norms[j] += float32(c) * float32(c)
		}
	}
	for i := range x.Shape[0] {
		v := row(x, i)
		nearest, least := 0, float32(0)
		for j := range norms {
			d := float32(float64(norms[j]) - 2*dot(v, row(centers, j)))
			if j == 0 || d < least {
				nearest, least = j, d
			}
		}
		setNumber(labels, float64(nearest), i)
	}
	return nil
}
