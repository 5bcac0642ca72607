// dst[t, h, o] = Σᵢ x[t, h, i]·w[h, o, i] for few tokens, w transposed or not.
// Grid: (blocks of outputs, heads, tokens), 256 threads. x [tokens, heads, in];
// dst [tokens, heads, outs]; w [heads, outs, in] (direct: a warp an output), or
// [heads, in, outs] (transposed: a thread an output). Sums in float32.
#include "common.cuh"

struct Args {
	Cube<DST> dst;
	Cube<const SRC> x;
	Cube<const W> w;
	int in, outs;
};

KERNEL direct(PARAM)
{
	int h = blockIdx.y, t = blockIdx.z, o = blockIdx.x * (blockDim.x / WARP) + warp_id();
	if (o >= a.outs)
		return;
	const SRC *x = a.x.row(t, h);
	const W *w = a.w.row(h, o);
	float sum = 0;
	for (int i = lane_id(); i < a.in; i += WARP)
		sum += f32(x[i]) * f32(w[i]);
	sum = warp_sum(sum);
	if (lane_id() == 0)
		a.dst.row(t, h)[o] = to<DST>(sum);
}

KERNEL transposed(PARAM)
{
	int h = blockIdx.y, t = blockIdx.z, o = blockIdx.x * blockDim.x + threadIdx.x;
	if (o >= a.outs)
		return;
	const SRC *x = a.x.row(t, h);
	const W *w = a.w.row(h, 0) + o;
	float sum = 0;
#pragma unroll 8
	for (int i = 0; i < a.in; i++)
		sum += f32(x[i]) * f32(w[i * a.w.s1]);
	a.dst.row(t, h)[o] = to<DST>(sum);
}
