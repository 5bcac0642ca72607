package sampled

import (
	"context"
	"errors"
	"fmt"

	"blitzen/device"
	"blitzen/kvcache"
)

// EachHead calls fn with what the frozen rows of every layer and key head are
// grouped by, x F32 [rows, width], valid until fn returns: the whole keys, or of
// a latent cache the latent alone unless wholeRow. progress, if not nil, is
// called after each layer.
func EachHead(ctx context.Context, dev device.Device, cache *kvcache.Cache, wholeRow bool, progress func(layer, of int), fn func(layer, head int, x *device.Tensor) error) error {
	if cache.Frozen() == 0 {
		return errors.New("the cache has no frozen prompt to sample")
	}
	for i, l := range cache.Layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := eachHead(dev, l, cache.Frozen(), wholeRow, func(h int, x *device.Tensor) error { return fn(i, h, x) }); err != nil {
			return fmt.Errorf("layer %d: %w", i, err)
		}
		if progress != nil {
			progress(i+1, len(cache.Layers))
		}
	}
	return nil
}

func eachHead(dev device.Device, l *kvcache.Layer, rows int, wholeRow bool, fn func(head int, x *device.Tensor) error) error {
	width := l.ClusterDim
	if width == 0 || wholeRow {
		width = l.KeyDim
	}
	x, err := dev.New("cluster", device.F32, rows, width)
	if err != nil {
		return err
	}
	defer dev.Free(x)
	for h := range l.KVHeads {
		err := dev.Run(func(ops *device.Ops) {
			ops.Copy(x, l.K.Index(0, h).Slice(0, 0, rows).Slice(1, 0, width))
		})
		if err != nil {
			return err
		}
		if err := fn(h, x); err != nil {
			return fmt.Errorf("key head %d: %w", h, err)
		}
	}
	return nil
}

// GatherKeys copies the given frozen rows of one layer and key head into dst
// [rows, dk]: actual keys for Config.Keys. The cache must be in token order.
func GatherKeys(dev device.Device, cache *kvcache.Cache, dst *device.Tensor, layer, head int, rows []int32) error {
	ids, err := dev.New("rows", device.I32, len(rows))
	if err != nil {
		return err
	}
	defer dev.Free(ids)
	if err := device.Write(dev, ids, rows); err != nil {
		return err
	}
	return dev.Run(func(ops *device.Ops) { ops.GatherRows(dst, cache.Layers[layer].K.Index(0, head), ids) })
}
