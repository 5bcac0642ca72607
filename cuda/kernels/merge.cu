// Joins attention over two disjoint parts of the keys, weighted by exp(lse).
// Grid: (tokens, heads). dst, outA, outB [tokens, heads, dv]; lse [tokens,
// heads].
#include "common.cuh"

struct Args {
	Cube<DST> dst;
	Cube<const A> outA;
	Cube<const B> outB;
	Mat<const float> lseA, lseB;
	i64 dv;
};

KERNEL merge(PARAM)
{
	int t = blockIdx.x, h = blockIdx.y;
	float x = a.lseA.row(t)[h], y = a.lseB.row(t)[h], top = fmaxf(x, y);
	float wa = 0, wb = 0; // two empty parts give 0
	if (x != -INF || y != -INF) { // one that is not a number makes the result none
		wa = expf(x - top), wb = expf(y - top);
		float sum = wa + wb;
		wa /= sum, wb /= sum;
	}
	for (int i = threadIdx.x; i < a.dv; i += blockDim.x)
		a.dst.row(t, h)[i] = to<DST>(wa * f32(a.outA.row(t, h)[i]) + wb * f32(a.outB.row(t, h)[i]));
}
