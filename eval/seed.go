package eval

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// PromptSeed is the attention seed of one prompt: a hash (FNV-1a) of the base
// seed and the prompt's id, the same for every budget and method, so that they
// differ by their settings alone.
func PromptSeed(base uint64, id string) uint64 { return RepeatSeed(base, id, 0) }

// RepeatSeed is the attention seed of a prompt's repeat, from 0: that of
// another id for every repeat after the first.
func RepeatSeed(base uint64, id string, repeat int) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, base))
	h.Write([]byte(id))
	if repeat > 0 {
		fmt.Fprintf(h, "#%d", repeat)
	}
	return h.Sum64()
}
