package weights

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"sync"

	"blitzen/device"
)

// Dummy stands in for the checkpoint of a model whose config.json alone is
// there: it has every tensor that is asked for, of seeded random BF16 numbers,
// so that a model of full size can be timed. Not for concurrent use.
//
// Numbers are normal with the standard deviation that both model families are
// initialised with; the gains of norms are 1. Tensors are cut from one sequence
// of numbers, at places that their names choose: memory is that of the largest
// tensor.
type Dummy struct {
	seed    uint64
	hollow  bool
	tensors int    // handed out
	bytes   int64  // of those
	pool    []byte // BF16; grows, never changes: tensors that were handed out view it
}

const (
	dummyDeviation = 0.02    // initializer_range
	dummySpread    = 1 << 20 // places that a tensor may begin at

	// What a config.json may ask for: beyond any model, within what int64 and
	// the memory of their descriptions can hold.
	dummyTensors = 1 << 20
	dummyBytes   = 1 << 50
)

// NewDummy makes the numbers of a seed.
func NewDummy(seed uint64) *Dummy { return &Dummy{seed: seed} }

// Shapes is a dummy whose tensors have no numbers, only shapes, for those who
// count: their Data is nil and nothing is allocated.
func (d *Dummy) Shapes() *Dummy { return &Dummy{seed: d.seed, hollow: true} }

// Has reports true: no tensor is missing.
func (d *Dummy) Has(string) bool { return true }

// Bind makes up a tensor. More than 2²⁰ tensors, or 2⁵⁰ bytes in all, is an
// error.
func (d *Dummy) Bind(name string, shape ...int) (Tensor, error) {
	n := 1
	for _, s := range shape {
		if s < 0 || s > 0 && n > (1<<45)/s {
			return Tensor{}, fmt.Errorf("weights: tensor %s cannot have the shape %v: check the sizes in config.json", name, shape)
		}
		n *= s
	}
	d.tensors++
	d.bytes += 2 * int64(n)
	if d.tensors > dummyTensors || d.bytes > dummyBytes {
		return Tensor{}, fmt.Errorf("weights: with tensor %s the model has %s of %d TiB in all, too many: check the sizes in config.json",
			name, count(d.tensors, "tensor"), d.bytes>>40)
	}
	t := Tensor{Name: name, DType: device.BF16, Shape: slices.Clone(shape)}
	if d.hollow {
		return t, nil
	}
	if strings.HasSuffix(name, "norm.weight") {
		t.Data = slices.Repeat([]byte{0x80, 0x3f}, n) // 1
		return t, nil
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	at := int(h.Sum64() % dummySpread)
	d.grow(at + n)
	t.Data = d.pool[2*at : 2*(at+n) : 2*(at+n)]
	return t, nil
}

// Unused is nil: there are no tensors but those that were asked for.
func (d *Dummy) Unused(func(name string) bool) error { return nil }

// Fingerprint tells dummy weights from those of a checkpoint.
func (d *Dummy) Fingerprint() string { return fmt.Sprintf("dummy, seed %d", d.seed) }

// Close lets go of the numbers.
func (d *Dummy) Close() error {
	d.pool = nil
	return nil
}

// dummyBlock is how many numbers are made at once: those of one 64-bit word
// after the other, four in each.
const dummyBlock = 1 << 16

// grow makes the sequence at least n numbers long.
func (d *Dummy) grow(n int) {
	have := len(d.pool) / 2
	if n <= have {
		return
	}
	n = (n + dummyBlock - 1) / dummyBlock * dummyBlock
	pool := make([]byte, 2*n)
	copy(pool, d.pool)
	d.pool = pool
	table := normals()
	blocks := make(chan int)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for b := range blocks {
				d.fill(pool[2*b*dummyBlock:2*(b+1)*dummyBlock], uint64(b)*dummyBlock/4, table)
			}
		})
	}
	for b := have / dummyBlock; b < n/dummyBlock; b++ {
		blocks <- b
	}
	close(blocks)
	wg.Wait()
}

// fill writes the numbers of words from `word` on.
func (d *Dummy) fill(dst []byte, word uint64, table []uint16) {
	for ; len(dst) > 0; dst, word = dst[8:], word+1 {
		x := mix(d.seed, word)
		binary.LittleEndian.PutUint64(dst, uint64(table[x&0xffff])|uint64(table[x>>16&0xffff])<<16|
			uint64(table[x>>32&0xffff])<<32|uint64(table[x>>48])<<48)
	}
}

// mix is a random word, a function of seed and number: the folded product of
// two odd multiples of them.
func mix(seed, n uint64) uint64 {
	high, low := bits.Mul64((n+1)*0x9E3779B97F4A7C15^seed, 0xD6E8FEB86659FD93)
	x := high ^ low
	x ^= x >> 32
	return x * 0xD6E8FEB86659FD93
}

// normals are BF16 quantiles of the normal distribution, one for each 16-bit
// word.
func normals() []uint16 {
	table := make([]uint16, 1<<16)
	for i := range table {
		x := dummyDeviation * math.Sqrt2 * math.Erfinv((2*float64(i)+1)/(1<<16)-1)
		b := math.Float32bits(float32(x))
		table[i] = uint16((b + 0x7fff + b>>16&1) >> 16)
	}
	return table
}
