package device

// Kernels is what a device implements: every operation of Ops, under the same
// names and with the same meaning, called only with arguments that Ops has
// checked. An error means that the device could not execute (a dtype it lacks,
// a launch that failed).
type Kernels interface {
	Embed(dst, table, ids *Tensor) error
	RMSNorm(dst, x, gamma *Tensor, eps float32) error
	Linear(dst, x *Tensor, w Weight, add bool) error
	HeadLinear(dst, x, w *Tensor, transpose bool) error
	Rotate(x, pos *Tensor, r RoPE) error
	SwiGLU(dst, gateUp *Tensor) error
	Router(a RouterArgs) error
	Experts(a ExpertsArgs) error
	Copy(dst, src *Tensor) error

	NormLinear(dst, h, x *Tensor, n Norm, w Weight) error
	NormSwiGLU(dst, gateUp, h, x *Tensor, n Norm, w Weight) error
	RotateAppend(a RotateAppendArgs) error
	MoE(a MoEArgs) error

	Append(cache, rows, pos, slots *Tensor) error
	PermuteRows(t, order *Tensor, inverse bool, within int) error

	Attend(a AttendArgs) error
	Merge(dst *Tensor, a, b Partial) error

	Route(a RouteArgs) error
	Quantize(dst, src *Tensor) error
	SampleTopK(a TopKArgs) error
	SampleWithReplacement(a ReplacementArgs) error
	GroupMass(phi, scores, offsets *Tensor) error
	AttendSelected(a SelectedArgs) error
	AttendTeams(a TeamsArgs) error

	GatherRows(dst, src, ids *Tensor) error
	SpreadCenters(a SpreadArgs) error
	Nearest(a NearestArgs) error
	MoveCenters(a MoveArgs) error
	DivideTeams(a DivideArgs) error

	Sample(a SampleArgs) error
	TopLogProbs(a LogProbArgs) error
	MarkSeen(seen, ids *Tensor) error
	Increment(t *Tensor) error
}

// Pairing says which coordinates a rotary encoding turns together.
type Pairing uint8

const (
	HalfSplit   Pairing = iota // (i, i + d/2): Qwen2
	Interleaved                // (2i, 2i + 1): DeepSeek-V2
)

// RoPE describes a rotary position encoding of width d.
type RoPE struct {
	InvFreq *Tensor // F32 [d/2]: radians a position
	Scale   float32 // multiplies cos and sin (YaRN's attention factor)
	Pairing Pairing
}

// RotateAppendArgs are the arguments of Ops.RotateAppend.
type RotateAppendArgs struct {
	Q      *Tensor // [tokens, heads, d]
	K      *Tensor // [tokens, kv heads, dk]: the last d numbers of a row are rotated
	V      *Tensor // [tokens, kv heads, dv]; nil where values are part of the keys
	Turned *Tensor // [tokens, heads, d]; nil when nobody asks
	Norm   Norm    // of the first dk − d numbers of a key; Gamma nil for none
	Pos    *Tensor // I32 [tokens], distinct, each below capacity
	RoPE   RoPE
	Keys   *Tensor // [kv heads, capacity, dk]
	Values *Tensor // [kv heads, capacity, dv]; nil without V
	Slots  *Tensor // I32 [kv heads, n] as Append takes it, or nil
	Beside *HeadProduct
}

// HeadProduct is a HeadLinear that an operation does as well, nil for none.
// Beside it reads nothing that the operation writes, and writes nothing that it
// reads; Then it reads what the operation writes, rounded or not.
type HeadProduct struct {
	Dst       *Tensor // [tokens, heads, out]
	X         *Tensor // [tokens, heads, in]
	W         *Tensor // [heads, out, in]; with Transpose [heads, in, out]
	Transpose bool
}

// RouterArgs are the arguments of Ops.Router.
type RouterArgs struct {
	IDs       *Tensor // I32 [tokens, k]: chosen experts, order free
	Weights   *Tensor // F32 [tokens, k]
	X         *Tensor // [tokens, hidden]
	Gate      *Tensor // [experts, hidden]
	Groups    int     // expert groups; 1 for plain greedy
	TopGroups int     // groups kept, by their best expert
	Normalize bool    // divide the chosen weights by their sum; then Scale is not applied
	Scale     float32 // routed_scaling_factor
}

// ExpertsArgs are the arguments of Ops.Experts.
type ExpertsArgs struct {
	Dst     *Tensor // F32 or BF16 [tokens, hidden]: added to
	X       *Tensor // [tokens, hidden]
	IDs     *Tensor // I32 [tokens, k]
	Weights *Tensor // F32 [tokens, k]
	Experts []Expert
}

// MoEArgs are the arguments of Ops.MoE.
type MoEArgs struct {
	X       *Tensor    // F32 or BF16 [tokens, hidden]: the residual stream, added to
	Norm    Norm       // of X
	Router  RouterArgs // X, like GateUp and Inner, is scratch: undefined afterwards
	Experts []Expert
	Shared  Expert  // of every token; no parts for none
	GateUp  *Tensor // [tokens, 2·width of Shared]; nil without
	Inner   *Tensor // [tokens, width of Shared]; nil without
}

// AttendArgs are the arguments of Ops.Attend.
type AttendArgs struct {
	Out   Partial
	Q     *Tensor // [tokens, heads, dk]
	K     *Tensor // [kv heads, capacity, dk]
	V     *Tensor // [kv heads, capacity, dv]; may be a view of K's first columns
	From  *Tensor // I32 [1]: first row attended; nil for 0
	Pos   *Tensor // I32 [tokens]: last row attended by each token
	Scale float32
	Read  *Tensor      // I64 [1], added to: rows read, Σ over tokens and kv heads; nil for no counting
	Then  *HeadProduct // of Out, whose X it is
	// Most promises that every Pos is below it, whenever a recorded step runs, so
	// that a device may take a way that is good for few rows; 0 for no promise.
	Most int
}

// RouteArgs are the arguments of Ops.Route.
type RouteArgs struct {
	Phi   *Tensor // F32 [tokens, heads, teams]
	Q     *Tensor // [tokens, heads, dk]
	Reps  *Tensor // [kv heads, teams, dk]; F8 with Scale, too
	Bias  *Tensor // F32 [kv heads, teams]: ln n, −Inf where there is no team (its row is not read)
	Last  *Tensor // I32 [tokens]: last team that there is for each token; nil for all
	Scale float32
	Read  *Tensor // I64 [1], added to: representatives read, Σ over tokens and kv heads; nil for none
}

// Draw names the random numbers of one sampling operation (see Philox).
type Draw struct {
	Seed  *Tensor // U32 [2]: low and high half
	Layer int
	Pos   *Tensor // I32 [tokens]: position of each query
}

// TopKArgs are the arguments of Ops.SampleTopK.
type TopKArgs struct {
	Teams *Tensor // I32 [tokens, heads, K]: falling perturbed score; −1 beyond the last team there is
	LogC  *Tensor // F32 [tokens, heads, K]: ln of the inclusion probability; 0 beyond the last team
	Phi   *Tensor // F32 [tokens, heads, teams]; −Inf: no team
	Draw  Draw
}

// ReplacementArgs are the arguments of Ops.SampleWithReplacement.
type ReplacementArgs struct {
	Teams      *Tensor // I32 [tokens, heads, S]: in the order of the draws; −1 where there is no team at all
	LogC       *Tensor // F32 [tokens, heads, S]: ln of how often the team is drawn on average; 0 where none is
	Phi        *Tensor // F32 [tokens, heads, teams]; −Inf: no team
	Systematic bool    // evenly spaced draws that share one random number
	Draw       Draw
}

// SelectedArgs are the arguments of Ops.AttendSelected.
type SelectedArgs struct {
	Out     Partial
	Q       *Tensor // [tokens, heads, dk]
	K       *Tensor // [kv heads, capacity, dk]
	V       *Tensor // [kv heads, capacity, dv]
	Offsets *Tensor // I32 [kv heads, teams+1]: team g is the rows [offsets[g], offsets[g+1])
	Teams   *Tensor // I32 [tokens, heads, K]; −1: none
	LogC    *Tensor // F32 [tokens, heads, K]
	Scale   float32
	Read    *Tensor // I64 [1], added to: distinct rows read, Σ over tokens and kv heads of the union over the head's group; nil for none
}

// Indices into the settings tensor of Ops.Sample.
const (
	SetTemperature = iota // 0: greedy
	SetTopK               // 0: off
	SetTopP               // 1: off
	SetMinP               // 0: off
	SetRepetition         // 1: off
	NumSettings
)

// SampleArgs are the arguments of Ops.Sample.
type SampleArgs struct {
	ID       *Tensor // I32 [1]: the token drawn
	Logits   *Tensor // F32 [vocab]
	Seen     *Tensor // I32 [vocab]: non-zero where the repetition penalty applies
	Settings *Tensor // F32 [NumSettings]
	Seed     *Tensor // U32 [2]
	Pos      *Tensor // I32 [1]: position of the query
}

// LogProbArgs are the arguments of Ops.TopLogProbs.
type LogProbArgs struct {
	IDs      *Tensor // I32 [n]: falling logit, lower id first among equals
	LogProbs *Tensor // F32 [n]
	Chosen   *Tensor // F32 [1]: of ID; NaN when ID is no token
	Logits   *Tensor // F32 [vocab]
	ID       *Tensor // I32 [1]
}
