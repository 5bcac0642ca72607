package eval

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
)

// RepeatSeed is the attention seed of a prompt's repeat, from 0: a hash (FNV-1a)
// of the base seed and the prompt's id, the same for every budget and method, so
// that they differ by their settings alone. Repeats after the first have that of
// another id.
func RepeatSeed(base uint64, id string, repeat int) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, base))
	h.Write([]byte(id))
	if repeat > 0 {
		fmt.Fprintf(h, "#%d", repeat)
	}
	return h.Sum64()
}
