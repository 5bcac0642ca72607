// dst[t, h, o] = Σᵢ x[t, h, i]·w[h, o, i] for few tokens, w transposed or not.
// Grid: (blocks of outputs, heads, tokens), 256 threads. x [tokens, heads, in];
// dst [tokens, heads, outs]; w [heads, outs, in] (direct: a warp an output, VEC
// inputs a load) or [heads, in, outs] (transposed: VEC outputs a load; the
// threads of a block share LANES·VEC outputs and take the inputs in turn).
// Sums in float32.
#include "head_transposed.cuh"

struct Args : HeadProduct {};

#define AHEAD 4

extern "C" __global__ void __launch_bounds__(256) direct(PARAM)
{
	let_next_start();
	int h = blockIdx.y, t = blockIdx.z, o = blockIdx.x * (256 / WARP) + warp_id();
	if (o >= a.outs)
		return;
	const W *w = a.w.row(h, o);
	const SRC *x = a.x.row(t, h);
	Loaded<W, VEC> v[AHEAD] = {};
#pragma unroll
	for (int n = 0; n < AHEAD; n++)
		if (int i = (n * WARP + lane_id()) * VEC; i < a.in)
			v[n] = stream<W, VEC>(w + i);
	wait_for_previous();
	float sum = 0;
	for (int at = lane_id() * VEC; at < a.in; at += AHEAD * WARP * VEC)
#pragma unroll
		for (int n = 0; n < AHEAD; n++) {
			int i = at + n * WARP * VEC, next = i + AHEAD * WARP * VEC;
			if (i >= a.in)
				break;
			Vec<SRC, VEC> y = *(const Vec<SRC, VEC> *)(x + i);
			float z[VEC];
			widen<W>(v[n], z);
#pragma unroll
			for (int j = 0; j < VEC; j++)
				sum += f32(y.at[j]) * z[j];
			if (next < a.in)
				v[n] = stream<W, VEC>(w + next);
		}
	sum = warp_sum(sum);
	if (lane_id() == 0)
		a.dst.row(t, h)[o] = to<DST>(a.scale.p ? a.scale.row(h)[o] * sum : sum);
}

extern "C" __global__ void __launch_bounds__(256) transposed(PARAM)
{
	let_next_start();
	multiply_transposed(a);
}
