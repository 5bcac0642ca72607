// Moves every center that gets rows to (c·count + its rows in order)/(count +
// rows), in float32; counts grow. First group, then move.
// group: one block a problem, 1024 threads; dynamic shared memory: k ints, unless
// cursor [problems, k] is given. Writes order [problems, n] and start [problems,
// k+1]. move: grid (8 centers, problems), 256 threads, a warp a center, VEC
// columns a lane at once. centers [problems, k, d], counts [problems, k]; ids,
// labels [problems, n].
#include "group.cuh"

struct Args {
	Cube<float> centers;
	Mat<float> counts;
	const Mat<const SRC> *x;
	Mat<const int> ids, labels;
	const int *live;
	int *order, *start, *cursor;
	int n, k, d, pad;
};

KERNEL group(PARAM)
{
	extern __shared__ int shared[];
	int problem = blockIdx.x;
	if (a.live && !a.live[problem])
		return;
	group_rows(a.labels.row(problem), a.n, a.k, a.order + problem * (i64)a.n, a.start + problem * (i64)(a.k + 1),
		   a.cursor ? a.cursor + problem * (i64)a.k : shared);
}

KERNEL move(PARAM)
{
	int problem = blockIdx.y, c = blockIdx.x * (blockDim.x / WARP) + warp_id();
	if (c >= a.k || a.live && !a.live[problem])
		return;
	const int *start = a.start + problem * (i64)(a.k + 1), *order = a.order + problem * (i64)a.n;
	int from = start[c], to = start[c + 1];
	if (from == to)
		return;
	const Mat<const SRC> rows = a.x[problem];
	const int *ids = a.ids.p ? a.ids.row(problem) : 0;
	float *center = a.centers.row(problem, c), *counts = a.counts.row(problem);
	float count = counts[c], now = __fadd_rn(count, (float)(to - from)), by = __fdiv_rn(1, now);
	for (int j = lane_id() * VEC; j < a.d; j += WARP * VEC) {
		float sum[VEC];
		for (int v = 0; v < VEC; v++)
			sum[v] = __fmul_rn(center[j + v], count);
		for (int i = from; i < to; i++) {
			int row = ids ? ids[order[i]] : order[i];
			Vec<SRC, VEC> x = *(const Vec<SRC, VEC> *)(rows.row(row) + j);
			for (int v = 0; v < VEC; v++)
				sum[v] = __fadd_rn(sum[v], f32(x.at[v]));
		}
		for (int v = 0; v < VEC; v++)
			center[j + v] = __fmul_rn(sum[v], by);
	}
	__syncwarp();
	if (lane_id() == 0)
		counts[c] = now;
}
