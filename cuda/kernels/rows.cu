// dst[i] = src[ids[i]]: Embed and GatherRows. An id outside src reads row 0.
// Grid: one block a row of dst. dst [rows, n]; src [limit, n]; ids [rows].
#include "early.cuh"

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
	for (int i = threadIdx.x; i < a.n; i += blockDim.x)
		dst[i] = to<DST>(src[i]);
}
