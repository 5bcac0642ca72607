// dst[t, o] += src[t, o] + bias[o]: the end of a product whose sum must be
// rounded once. Grid: (rows, blocks of columns). dst [rows, n]; src float32
// [rows, n] without gaps; bias [n] or null.
#include "common.cuh"

struct Args {
	Mat<DST> dst;
	const float *src;
	const BIAS *bias;
	i64 n;
};

KERNEL add(PARAM)
{
	i64 o = blockIdx.y * (i64)blockDim.x + threadIdx.x;
	if (o >= a.n)
		return;
	DST *dst = a.dst.row(blockIdx.x) + o;
	*dst = to<DST>(f32(*dst) + (a.src[blockIdx.x * a.n + o] + (a.bias ? f32(a.bias[o]) : 0)));
}
