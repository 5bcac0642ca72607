package host

import (
	"fmt"
	"unsafe"

	"blitzen/device"
	"blitzen/host/kernels"
)

// clusterRows is the number of rows that a thread compares at once.
const clusterRows = 240

// Distances implements device.Kernels.
func (k *hostKernels) Distances(dst, x, points *device.Tensor) error {
	if ok, err := k.start(outputs{dst}, x, points); !ok {
		return err
	}
	if err := k.pool.lend(2 * kernels.NearScratch(x.Shape[1])); err != nil {
		return err
	}
	k.pool.run(pieces(x.Shape[0], clusterRows), func(thread, i int) {
		s := piece(i, x.Shape[0], clusterRows)
		to, from := column(matrix(dst), s.from), matrixFrom(x, s.from)
		kernels.Distances(to, from, s.len(), matrix(points), points.Shape[0], x.Shape[1], k.pool.doubles(thread))
	})
	return nil
}

// Nearest implements device.Kernels.
func (k *hostKernels) Nearest(labels, x, centers *device.Tensor) error {
	if ok, err := k.start(outputs{labels}, x, centers); !ok {
		return err
	}
	count, width := centers.Shape[0], centers.Shape[1]
	if count == 0 {
		return fmt.Errorf("there are no centers")
	}
	packed := kernels.PackedCenters(count, width)
	mem, err := k.pool.shared.floats(2*packed + count)
	if err != nil {
		return err
	}
	norms, table := shift(mem, 2*packed), (*float64)(unsafe.Pointer(mem))
	kernels.PackCenters(table, norms, matrix(centers), count, width)
	if err := k.pool.lend(2 * kernels.NearScratch(width)); err != nil {
		return err
	}
	k.pool.run(pieces(x.Shape[0], clusterRows), func(thread, i int) {
		s := piece(i, x.Shape[0], clusterRows)
		kernels.Nearest(at[int32](labels, s.from), matrixFrom(x, s.from), s.len(), table, norms, count, width,
			k.pool.doubles(thread))
	})
	return nil
}
