// Puts the parts of split attention together, in order.
// Grid: (heads, tokens), 128 threads. out [tokens, heads, dv]; lse [tokens,
// heads] or null; parts as attend_few and attend_selected leave them. The
// number of rows is lengths[t, h], or follows from pos and from where lengths is
// null. read, if there is one, grows by keyHeads · rows of every token.
#include "common.cuh"
#include "split.cuh"

struct Args {
	Cube<DST> out;
	Mat<float> lse;
	const float *parts;
	const int *from, *pos, *lengths;
	u64 *read;
	int heads, keyHeads, capacity, dv;
};

KERNEL merge_parts(PARAM)
{
	int h = blockIdx.x, t = blockIdx.y, rows;
	if (a.lengths) {
		rows = a.lengths[t * a.heads + h];
	} else {
		rows = max(min(a.pos[t], a.capacity - 1) - (a.from ? max(*a.from, 0) : 0) + 1, 0);
		if (a.read && h == 0 && threadIdx.x == 0)
			atomicAdd(a.read, (u64)rows * a.keyHeads);
	}
	int n = split_count(rows), width = a.dv + 2;
	const float *part = a.parts + (t * a.heads + h) * (i64)SPLITS * width;
	__shared__ float weight[SPLITS];
	float top = -INF, sum = 0;
	for (int s = 0; s < n; s++)
		top = fmaxf(top, part[s * width + a.dv]);
	for (int s = 0; s < n; s++) {
		float w = expf(part[s * width + a.dv] - reference(top));
		sum += w * part[s * width + a.dv + 1];
		if (threadIdx.x == 0)
			weight[s] = w;
	}
	__syncthreads();
	for (int i = threadIdx.x; i < a.dv; i += blockDim.x) {
		float y = 0;
		for (int s = 0; s < n; s++)
			y += weight[s] * part[s * width + i];
		a.out.row(t, h)[i] = to<DST>(sum != 0 ? y / sum : 0);
	}
	if (threadIdx.x == 0 && a.lse.p)
		a.lse.row(t)[h] = sum != 0 ? top + logf(sum) : -INF;
}
