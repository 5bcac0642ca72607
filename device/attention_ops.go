package device

// Append stores one row a token and head in a cache: cache[h, slot] =
// rows[t, h] with slot = pos[t], or slots[h, pos[t]] where pos[t] is below the
// width of slots. cache [heads, capacity, d]; rows [tokens, heads, d]; pos I32
// [tokens], distinct, each below capacity; slots I32 [heads, n] or nil.
func (o *Ops) Append(cache, rows, pos, slots *Tensor) {
	c := o.begin("Append")
	d := c.dims("rows", rows, real, 3)
	c.arg("cache", cache, real, d[1], -1, d[2])
	c.arg("pos", pos, i32, d[0])
	c.optional("slots", slots, i32, d[1], -1)
	c.run(func(k Kernels) error { return k.Append(cache, rows, pos, slots) })
}

// PermuteRows reorders the first n rows of every head in place: row i becomes
// the former row order[h, i]; with inverse, the former row i goes to
// order[h, i]. t [heads, capacity, d]; order I32 [heads, n], a permutation of
// 0…n−1 for each head. Where within is not 0, every row stays in its block of so
// many rows, which spares a device a copy.
func (o *Ops) PermuteRows(t, order *Tensor, inverse bool, within int) {
	c := o.begin("PermuteRows", inverse, within)
	d := c.dims("t", t, real, 3)
	n := c.dims("order", order, i32, 2)[1]
	c.arg("order", order, i32, d[0], -1)
	c.require(n <= d[1], "order has %d rows, t %d", n, d[1])
	c.require(within >= 0, "rows stay within blocks of %d", within)
	c.run(func(k Kernels) error { return k.PermuteRows(t, order, inverse, within) })
}

// Attend is exact attention of every token over the rows from ≤ j ≤ pos[t]:
// softmax(scale·q·k)·v and its log-sum-exp. Query heads h·g … h·g+g−1 share key
// head h. An empty range gives Out = 0 and LSE = −Inf. Rows outside the range
// are not read. The order of the sums depends on the range and Most alone, never on
// the capacity. A HeadLinear of the result may follow.
func (o *Ops) Attend(a AttendArgs) {
	c := o.begin("Attend", a.Scale, a.Most)
	c.require(a.Most >= 0, "at most %d rows", a.Most)
	q, _, v := c.attention(a.Q, a.K, a.V)
	c.partial(a.Out, q[0], q[1], v[2])
	c.optional("from", a.From, i32, 1)
	c.arg("pos", a.Pos, i32, q[0])
	c.optional("read", a.Read, i64, 1)
	if p := a.Then; p != nil {
		c.scalars = append(c.scalars, p.Transpose)
		c.require(p.X == a.Out.Out, "the product after attention is of %v, not of its results", p.X)
		c.headLinear(p.Dst, p.X, p.W, p.Transpose)
	}
	c.run(func(kn Kernels) error { return kn.Attend(a) })
}

// Merge joins attention over two disjoint parts of the keys into dst [tokens,
// heads, dv]: the outputs weighted by exp(LSE), computed without overflow. Two
// empty parts give 0.
func (o *Ops) Merge(dst *Tensor, a, b Partial) {
	c := o.begin("Merge")
	d := c.dims("dst", dst, half, 3)
	for _, p := range []Partial{a, b} {
		c.partial(p, d[0], d[1], d[2])
		c.require(p.LSE != nil, "a part has no lse")
	}
	c.run(func(k Kernels) error { return k.Merge(dst, a, b) })
}

// Route scores teams by their representatives: phi[t, h, g] = bias[kv, g] +
// scale·q[t, h]·reps[kv, g], kv the key head of h; −Inf beyond the last team of
// a token. The rows of a cache are teams of one key each. Representatives may be
// F8 with a factor a head.
func (o *Ops) Route(a RouteArgs) {
	c := o.begin("Route", a.Scale)
	q := c.dims("q", a.Q, half, 3)
	r := c.dims("reps", a.Reps, scored, 3)
	c.arg("reps", a.Reps, scored, -1, -1, q[2])
	c.group(q[1], r[0])
	c.arg("bias", a.Bias, f32, r[0], r[1])
	c.arg("phi", a.Phi, f32, q[0], q[1], r[1])
	c.optional("last", a.Last, i32, q[0])
	c.optional("read", a.Read, i64, 1)
	c.run(func(k Kernels) error { return k.Route(a) })
}

// Quantize writes src as F8 with one factor a head: factor = the largest magnitude
// of the head divided by 448, dst = src/factor rounded to the nearest, ties to
// even, all in float32. A head of zeros has the factor 0, one with a NaN or an
// infinity the factor NaN, and elements 0 both. src [heads, n, d]; dst F8 of that
// shape.
func (o *Ops) Quantize(dst, src *Tensor) {
	c := o.begin("Quantize")
	d := c.dims("src", src, real, 3)
	c.arg("dst", dst, kinds(1<<F8), d...)
	c.run(func(k Kernels) error { return k.Quantize(dst, src) })
}

// SampleTopK draws K teams a query head without replacement: the K largest of
// y = phi + Gumbel noise (lower team first among equals), and for each the log
// of its inclusion probability given the (K+1)-th largest, τ: ln c =
// ln(1 − exp(−exp(phi − τ))); below phi − τ = −20 it is phi − τ, above 20 it
// is 0. With at most K teams all are chosen and ln c = 0.
//
// Source: SANTA++, Eq. 7; Gumbel-top-k, Kool et al. (2019).
func (o *Ops) SampleTopK(a TopKArgs) {
	c := o.begin("SampleTopK")
	p := c.dims("phi", a.Phi, f32, 3)
	k := c.dims("teams", a.Teams, i32, 3)[2]
	c.arg("teams", a.Teams, i32, p[0], p[1], -1)
	c.arg("logc", a.LogC, f32, p[0], p[1], k)
	c.require(k >= 1, "teams is %v: K must be at least 1", a.Teams)
	c.draw(a.Draw, p[0])
	c.run(func(kn Kernels) error { return kn.SampleTopK(a) })
}

// SampleWithReplacement draws S teams a query head, each from softmax(phi)
// whatever the others are, and for each ln(S·p), the log of how often it is
// drawn on average: what AttendSelected corrects by. Draw j takes the first
// team, in order, whose running sum of exp(phi) exceeds u times their total: u =
// Uniform(word j mod 4 of Philox(j/4, head, layer, pos)), or, where systematic,
// (j + Uniform(word 0 of Philox(0, head, layer, pos)))/S.
//
// Source: SANTA (Lee et al., 2026), the baseline of SANTA++; systematic
// sampling, Madow (1949).
func (o *Ops) SampleWithReplacement(a ReplacementArgs) {
	c := o.begin("SampleWithReplacement", a.Systematic)
	p := c.dims("phi", a.Phi, f32, 3)
	s := c.dims("teams", a.Teams, i32, 3)[2]
	c.arg("teams", a.Teams, i32, p[0], p[1], -1)
	c.arg("logc", a.LogC, f32, p[0], p[1], s)
	c.require(s >= 1, "teams is %v: S must be at least 1", a.Teams)
	c.draw(a.Draw, p[0])
	c.run(func(k Kernels) error { return k.SampleWithReplacement(a) })
}

// GroupMass writes phi[t, h, g] = ln Σ exp(scores[t, h, i]) over the rows
// offsets[kv, g] ≤ i < offsets[kv, g+1], kv the key head of h; −Inf for none.
// phi F32 [tokens, heads, groups]; scores F32 [tokens, heads, rows]; offsets I32
// [kv heads, groups+1], rising.
func (o *Ops) GroupMass(phi, scores, offsets *Tensor) {
	c := o.begin("GroupMass")
	d := c.dims("phi", phi, f32, 3)
	c.arg("scores", scores, f32, d[0], d[1], -1)
	kv := c.dims("offsets", offsets, i32, 2)[0]
	c.arg("offsets", offsets, i32, -1, d[2]+1)
	c.group(d[1], kv)
	c.run(func(k Kernels) error { return k.GroupMass(phi, scores, offsets) })
}

// AttendSelected is attention of every query head over the rows of the teams
// it drew, with logits scale·q·k − ln c in numerator and mass alike. Rows are
// read once for the query heads that share a key head.
func (o *Ops) AttendSelected(a SelectedArgs) {
	c := o.begin("AttendSelected", a.Scale)
	q, k, v := c.attention(a.Q, a.K, a.V)
	c.partial(a.Out, q[0], q[1], v[2])
	c.arg("offsets", a.Offsets, i32, k[0], -1)
	n := c.dims("teams", a.Teams, i32, 3)[2]
	c.arg("teams", a.Teams, i32, q[0], q[1], -1)
	c.arg("logc", a.LogC, f32, q[0], q[1], n)
	c.optional("read", a.Read, i64, 1)
	c.run(func(kn Kernels) error { return kn.AttendSelected(a) })
}

// GatherRows writes dst[h, i] = src[h, ids[h, i]]. dst [heads, n, d]; src [heads,
// rows, d], same type; ids I32 [heads, n].
func (o *Ops) GatherRows(dst, src, ids *Tensor) {
	c := o.begin("GatherRows")
	d := c.dims("dst", dst, real, 3)
	c.arg("src", src, real, d[0], -1, d[2])
	c.arg("ids", ids, i32, d[0], d[1])
	c.require(c.err != nil || dst.DType == src.DType, "%v and %v differ in type", src, dst)
	c.run(func(k Kernels) error { return k.GatherRows(dst, src, ids) })
}

// Sample draws the next token: the repetition penalty on seen tokens (logits
// above 0 divided, below multiplied), temperature, then top-k, top-p and min-p
// in this order as in transformers, each on the distribution that the one
// before left: top-k keeps the tokens that fewer than k exceed, top-p those
// whose larger ones have less than p together (the token that crosses p stays,
// the largest always), min-p those with at least p times the largest
// probability. Equals stay or go together. With u = Uniform(word 0 of Philox
// (0, 0, TokenLayer, pos)) the token is the first kept one, in id order, whose
// running sum of probabilities exceeds u times their total. Temperature 0 takes
// the largest penalised logit, the lower id among equals. The id is −1 when a
// logit is NaN or +Inf or all are −Inf.
func (o *Ops) Sample(a SampleArgs) {
	c := o.begin("Sample")
	vocab := c.dims("logits", a.Logits, f32, 1)[0]
	c.arg("id", a.ID, i32, 1)
	c.arg("seen", a.Seen, i32, vocab)
	c.arg("settings", a.Settings, f32, NumSettings)
	c.arg("seed", a.Seed, u32, 2)
	c.arg("pos", a.Pos, i32, 1)
	c.run(func(k Kernels) error { return k.Sample(a) })
}

// TopLogProbs writes the n most probable tokens with their natural-log
// probabilities under softmax(logits), and that of the token ID.
func (o *Ops) TopLogProbs(a LogProbArgs) {
	c := o.begin("TopLogProbs")
	vocab := c.dims("logits", a.Logits, f32, 1)[0]
	n := c.dims("ids", a.IDs, i32, 1)[0]
	c.arg("logprobs", a.LogProbs, f32, n)
	c.arg("chosen", a.Chosen, f32, 1)
	c.arg("id", a.ID, i32, 1)
	c.require(n <= vocab, "%d of %d tokens", n, vocab)
	c.run(func(k Kernels) error { return k.TopLogProbs(a) })
}

// MarkSeen sets seen[ids[i]] = 1. seen I32 [vocab]; ids I32 [n]; an id that is
// no token is ignored.
func (o *Ops) MarkSeen(seen, ids *Tensor) {
	c := o.begin("MarkSeen")
	c.dims("seen", seen, i32, 1)
	c.dims("ids", ids, i32, 1)
	c.run(func(k Kernels) error { return k.MarkSeen(seen, ids) })
}
