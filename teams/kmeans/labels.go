package kmeans

import "blitzen/device"

// labelStep is what the number of rows to label is rounded up to, so that a
// device that plans by shape sees few shapes.
const labelStep = 256

// labeller finds the nearest centers of rows of x on the device.
type labeller struct {
	device.Owner
	x           *device.Tensor // [n, d]
	ids, labels *device.Tensor // I32 [min(4096, n)], I32 [n]
	rows        *device.Tensor // [min(4096, n), d]
	centers     *device.Tensor // F32 [k, d]
	padded      []int32
	host        []int32
}

func newLabeller(dev device.Device, x *device.Tensor, k int) (*labeller, error) {
	n, d := x.Shape[0], x.Shape[1]
	bs := min(batchSize, n)
	l := &labeller{Owner: device.Owner{Dev: dev}, x: x, padded: make([]int32, bs), host: make([]int32, bs)}
	l.ids = l.New("k-means batch ids", device.I32, bs)
	l.labels = l.New("k-means labels", device.I32, n)
	l.rows = l.New("k-means batch", x.DType, bs, d)
	l.centers = l.New("k-means centers", device.F32, k, d)
	if l.Err() != nil {
		l.Free()
	}
	return l, l.Err()
}

// of returns the nearest of centers [k, d] for each of at most 4,096 rows, valid
// until the next call.
func (l *labeller) of(rows []int32, centers []float32) ([]int32, error) {
	n := min((len(rows)+labelStep-1)/labelStep*labelStep, len(l.padded))
	clear(l.padded[copy(l.padded, rows):n])
	ids, batch := l.ids.Slice(0, 0, n), l.rows.Slice(0, 0, n)
	labels := l.labels.Slice(0, 0, n)
	if err := device.Write(l.Dev, ids, l.padded[:n]); err != nil {
		return nil, err
	}
	if err := device.Write(l.Dev, l.centers, centers); err != nil {
		return nil, err
	}
	err := l.Dev.Run(func(o *device.Ops) {
		o.GatherRows(batch, l.x, ids)
		o.Nearest(labels, batch, l.centers)
	})
	if err != nil {
		return nil, err
	}
	return l.host[:len(rows)], device.Collect(l.Dev.Fetch(labels), l.host[:n])
}

// all returns the nearest of centers [k, d] for every row of x. Blocks bound
// what a device needs for the products.
func (l *labeller) all(centers []float32) ([]int32, error) {
	if err := device.Write(l.Dev, l.centers, centers); err != nil {
		return nil, err
	}
	err := l.Dev.Run(func(o *device.Ops) {
		for from, n := 0, l.x.Shape[0]; from < n; from += batchSize {
			to := min(from+batchSize, n)
			o.Nearest(l.labels.Slice(0, from, to), l.x.Slice(0, from, to), l.centers)
		}
	})
	if err != nil {
		return nil, err
	}
	return device.Read[int32](l.Dev, l.labels)
}
