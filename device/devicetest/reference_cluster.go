package devicetest

import "blitzen/device"

func (kernels) GatherRows(dst, src, ids *device.Tensor) error {
	return kernels{}.gather(dst, src, ids)
}

func (kernels) Distances(dst, x, points *device.Tensor) error {
	xs := rows(x)
	for p, point := range rows(points) {
		for i, v := range xs {
			d := (-2*dot(v, point) + dot(v, v)) + dot(point, point)
			setNumber(dst, max(0, d), p, i)
		}
	}
	return nil
}

func (kernels) Nearest(labels, x, centers *device.Tensor) error {
	all := rows(centers)
	norms := make([]float32, len(all))
	for j, center := range all {
		for _, c := range center {
			norms[j] += float32(c) * float32(c)
		}
	}
	for i, v := range rows(x) {
		nearest, least := 0, float32(0)
		for j, center := range all {
			d := float32(float64(norms[j]) - 2*dot(v, center))
			if j == 0 || d < least {
				nearest, least = j, d
			}
		}
		setNumber(labels, float64(nearest), i)
	}
	return nil
}
