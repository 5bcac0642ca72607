package comparison

import (
	"math/rand/v2"

	"blitzen/attention"
	"blitzen/kvcache"
)

// Shuffled puts the prompt's rows into a random order before an exact method
// reads them: the same sums in another order, so that what differs is rounding.
func Shuffled(build Build, seed uint64) Build {
	return func(c *kvcache.Cache) (attention.Backend, error) {
		rng := rand.New(rand.NewPCG(seed, 0))
		for i, l := range c.Layers {
			order := make([][]int32, l.KVHeads)
			for h := range order {
				order[h] = make([]int32, c.Frozen())
				for place, row := range rng.Perm(c.Frozen()) {
					order[h][place] = int32(row)
				}
			}
			if err := c.Permute(i, order); err != nil {
				return nil, err
			}
		}
		return build(c)
	}
}
