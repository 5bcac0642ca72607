// dst[i] = src[ids[i]]: Embed and GatherRows. An id outside src reads row 0.
// Grid: one block a row of dst. dst [rows, n]; src [limit, n]; ids [rows].
#include "early.cuh"

#define AT_ONCE 8 // elements that a thread loads before it stores one

struct Args {
	Mat<DST> dst;
	Mat<const SRC> src;
	const int *ids;
	int n, limit;
};

KERNEL gather_rows(PARAM)
{
	let_next_start();
	wait_for_previous();
	int id = a.ids[blockIdx.x];
	const SRC *src = a.src.row((u32)id < (u32)a.limit ? id : 0);
	DST *dst = a.dst.row(blockIdx.x);
	for (int i0 = threadIdx.x; i0 < a.n; i0 += AT_ONCE * blockDim.x) {
		SRC x[AT_ONCE];
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++)
			x[j] = src[min(i0 + j * (int)blockDim.x, a.n - 1)];
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++)
			if (int i = i0 + j * blockDim.x; i < a.n)
				dst[i] = to<DST>(x[j]);
	}
}
