package eval

import (
	"encoding/binary"
	"hash/fnv"
)

// PromptSeed is the attention seed of one prompt: a hash (FNV-1a) of the base
// seed and the prompt's id, the same for every budget and method, so that they
// differ by their settings alone.
func PromptSeed(base uint64, id string) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, base))
	h.Write([]byte(id))
	return h.Sum64()
}
