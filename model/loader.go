package model

import (
	"errors"
	"strings"

	"blitzen/device"
	"blitzen/weights"
)

// Source is where weights come from: a checkpoint, or numbers made up for a
// model that has none.
type Source interface {
	// Has reports whether there is a tensor of that name.
	Has(name string) bool
	// Bind returns the tensor of exactly that name and shape, or an error that
	// names it.
	Bind(name string, shape ...int) (weights.Tensor, error)
	// Unused returns an error that names tensors which nobody has bound and
	// ignore, which may be nil, does not excuse.
	Unused(ignore func(name string) bool) error
}

// Loader binds a source's tensors to a device by name and shape. The first
// error sticks until Finish, which frees everything then.
type Loader struct {
	dev   device.Device
	from  Source
	int8  bool
	owned []*device.Tensor
	tied  bool // the head is the embedding table
	err   error
}

// Options say how a model is loaded.
type Options struct {
	Rows int // the most tokens that one Forward takes
	// Int8 keeps the matrices of products as signed bytes with a factor a row:
	// those of attention, MLP and experts, and the head where it is a matrix of
	// its own. Embeddings, norms, biases and the gates that choose experts, a
	// small part of the bytes that a token reads, stay as they are.
	Int8 bool
}

// NewLoader reads from an open source, which must stay open as long as the
// tensors are used.
func NewLoader(dev device.Device, from Source, o Options) *Loader {
	return &Loader{dev: dev, from: from, int8: o.Int8}
}

// Weight imports a tensor of the source.
func (l *Loader) Weight(name string, shape ...int) *device.Tensor {
	return l.load(l.dev.Import, name, shape)
}

// Matrix imports the matrix [out, in] of a product.
func (l *Loader) Matrix(name string, out, in int) *device.Tensor {
	if l.int8 {
		return l.load(l.dev.ImportInt8, name, []int{out, in})
	}
	return l.Weight(name, out, in)
}

// load gives the source's bytes to a device's way of importing them.
func (l *Loader) load(by func(string, device.DType, []int, []byte) (*device.Tensor, error), name string, shape []int) *device.Tensor {
	if l.err != nil {
		return nil
	}
	w, err := l.from.Bind(name, shape...)
	if err != nil {
		l.err = err
		return nil
	}
	return l.keep(by(name, w.DType, w.Shape, w.Data))
}

// Norm imports an RMS norm's gamma [n].
func (l *Loader) Norm(name string, n int, eps float32) device.Norm {
	return device.Norm{Gamma: l.Weight(name, n), Eps: eps}
}

// Linear imports PREFIX.weight [out, in].
func (l *Loader) Linear(prefix string, out, in int) device.Weight {
	return device.Weight{Parts: []*device.Tensor{l.Matrix(prefix+".weight", out, in)}}
}

// Biased imports PREFIX.weight [out, in] and PREFIX.bias [out].
func (l *Loader) Biased(prefix string, out, in int) device.Weight {
	w := l.Linear(prefix, out, in)
	w.Bias = []*device.Tensor{l.Weight(prefix+".bias", out)}
	return w
}

// Head is the product that makes logits: lm_head.weight, of the shape of the
// embedding table embed, or with tied the table itself.
func (l *Loader) Head(embed *device.Tensor, tied bool) device.Weight {
	switch {
	case l.err != nil:
		return device.Weight{}
	case tied:
		l.tied = true
		return device.Weight{Parts: []*device.Tensor{embed}}
	case !l.from.Has("lm_head.weight"):
		l.err = errors.New("lm_head.weight is missing and config.json does not say tie_word_embeddings: " +
			"download the missing shard, or set \"tie_word_embeddings\": true if the head is the embedding table")
		return device.Weight{}
	}
	return l.Linear("lm_head", embed.Shape[0], embed.Shape[1])
}

// Join makes one product of several that share their input.
func Join(ws ...device.Weight) device.Weight {
	var all device.Weight
	for _, w := range ws {
		all.Parts = append(all.Parts, w.Parts...)
		all.Bias = append(all.Bias, w.Bias...)
	}
	return all
}

// Scratch makes a tensor in the device's activation type.
func (l *Loader) Scratch(name string, shape ...int) *device.Tensor {
	return l.New(name, l.dev.DType(), shape...)
}

// New makes a zeroed tensor of any type.
func (l *Loader) New(name string, t device.DType, shape ...int) *device.Tensor {
	if l.err != nil {
		return nil
	}
	return l.keep(l.dev.New(name, t, shape...))
}

// Values makes a float tensor [len(values)] that the program computed.
func (l *Loader) Values(name string, values []float32) *device.Tensor {
	t := l.New(name, device.F32, len(values))
	if l.err == nil {
		l.err = device.Write(l.dev, t, values)
	}
	return t
}

// Finish refuses tensors that nobody bound and returns all that was made, or
// the first error after freeing it.
func (l *Loader) Finish() ([]*device.Tensor, error) {
	if l.err == nil {
		l.err = l.from.Unused(l.needless)
	}
	if l.err != nil {
		for _, t := range l.owned {
			l.dev.Free(t)
		}
		return nil, l.err
	}
	return l.owned, nil
}

// needless names tensors that older or tied checkpoints carry without need.
func (l *Loader) needless(name string) bool {
	return strings.HasSuffix(name, "rotary_emb.inv_freq") || l.tied && name == "lm_head.weight"
}

func (l *Loader) keep(t *device.Tensor, err error) *device.Tensor {
	if err != nil {
		l.err = err
		return nil
	}
	l.owned = append(l.owned, t)
	return t
}
