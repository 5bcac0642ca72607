// Reorders the first n rows of a head through a packed copy: first pack, then
// permute: t[i] = former t[order[i]], or with inverse t[order[i]] = former t[i].
// Grid: one block a row. t [n, d], copy [n, d] without gaps, order [n].
#include "common.cuh"

struct Args {
	Mat<DST> t;
	DST *copy;
	const int *order;
	int d, n, inverse;
};

KERNEL pack(PARAM)
{
	for (int i = threadIdx.x; i < a.d; i += blockDim.x)
		a.copy[blockIdx.x * (i64)a.d + i] = a.t.row(blockIdx.x)[i];
}

KERNEL permute(PARAM)
{
	int here = blockIdx.x, there = a.order[here];
	if ((u32)there >= (u32)a.n)
		return;
	int from = a.inverse ? here : there, into = a.inverse ? there : here;
	for (int i = threadIdx.x; i < a.d; i += blockDim.x)
		a.t.row(into)[i] = a.copy[from * (i64)a.d + i];
}
