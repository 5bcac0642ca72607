// Package model is what a decoder network looks like to the rest: a checked
// configuration, the cache rows it needs, and one forward pass that is the
// same on every device and for every attention backend.
package model

import (
	"blitzen/attention"
	"blitzen/device"
	"blitzen/kvcache"
)

// Config is what the rest of the program needs to know of a checkpoint's
// config.json; a model's own package knows the rest.
type Config struct {
	Architecture string // as in config.json: "Qwen2ForCausalLM"
	Vocab        int    // width of the logits; may exceed the tokenizer's ids
	Layers       int
	Heads        int // query heads
	// MaxPositions is the longest context in tokens: max_position_embeddings,
	// or the length that YaRN stretches to.
	MaxPositions int
}

// Batch is a run of new tokens of one sequence.
type Batch struct {
	IDs *device.Tensor // I32 [tokens]
	Pos *device.Tensor // I32 [tokens]: consecutive positions
	// Rows is how many rows the cache holds after this batch, where the host
	// knows it: in prefill. 0 in a recorded step.
	Rows int
	// Most promises that the cache never holds more rows after this batch,
	// however often a recorded step runs; 0 for no promise.
	Most int
}

// Model is a network with its weights on a device.
type Model interface {
	Config() Config
	// CacheSpec describes the cache rows, one entry a layer.
	CacheSpec() []kvcache.Spec
	// MaxRows is the most tokens that one Forward takes.
	MaxRows() int
	// Forward issues the operations that append the batch to the cache and
	// compute the logits of its last n tokens into logits, F32 [n, vocab]; nil
	// for none. Queries see the cache through attn.
	Forward(ops *device.Ops, in Batch, kv *kvcache.Cache, attn attention.Backend, logits *device.Tensor)
	// Close frees the weights and scratch memory.
	Close()
}
