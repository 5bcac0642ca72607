// Reorders the first n rows of every head through a packed copy: first pack,
// then permute: t[i] = former t[order[i]], or with inverse t[order[i]] = former
// t[i]. Grid: (8 rows, heads), 256 threads, a warp a row, VEC elements a lane at
// once. t [heads, n, d], copy [heads, n, d] without gaps, order [heads, n].
#include "common.cuh"

struct Args {
	Cube<DST> t;
	DST *copy;
	Mat<const int> order;
	int d, n, inverse, pad;
};

__device__ void copy_row(DST *into, const DST *from, int d)
{
	for (int j = lane_id() * VEC; j < d; j += WARP * VEC)
		*(Vec<DST, VEC> *)(into + j) = *(const Vec<DST, VEC> *)(from + j);
}

KERNEL pack(PARAM)
{
	int h = blockIdx.y, i = blockIdx.x * (blockDim.x / WARP) + warp_id();
	if (i < a.n)
		copy_row(a.copy + (h * (i64)a.n + i) * a.d, a.t.row(h, i), a.d);
}

KERNEL permute(PARAM)
{
	int h = blockIdx.y, here = blockIdx.x * (blockDim.x / WARP) + warp_id();
	if (here >= a.n)
		return;
	int there = a.order.row(h)[here];
	if ((u32)there >= (u32)a.n)
		return;
	int from = a.inverse ? here : there, into = a.inverse ? there : here;
	copy_row(a.t.row(h, into), a.copy + (h * (i64)a.n + from) * a.d, a.d);
}
