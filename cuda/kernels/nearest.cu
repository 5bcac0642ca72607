// labels[p, i] = base[p] + argminⱼ |centers[j]|² − 2·x[i]·centers[j], the lower
// center among equals, over the rows of problem p or those that ids names.
// Products in float64, |centers[j]|² in float32 in the order of the coordinates,
// the difference rounded once to float32.
// Grid: (8 rows, problems), 256 threads; a thread takes every 256th center for
// all 8 rows. Dynamic shared memory: 8·d doubles. labels, ids [problems, n];
// centers [problems, k, d].
#include "common.cuh"

#define MINE 8

struct Args {
	Mat<int> labels;
	const Mat<const SRC> *x;
	Mat<const int> ids;
	Cube<const float> centers;
	const int *base, *live;
	float *norms; // this and the next are not used
	bf16 *parts;
	int *largest, *list, *listed;
	int n, k, d, pad;
};

KERNEL nearest(PARAM)
{
	extern __shared__ double x[];
	__shared__ u64 best[MINE][WARP];
	int problem = blockIdx.y, first = blockIdx.x * MINE;
	if (a.live && !a.live[problem])
		return;
	const Mat<const SRC> rows = a.x[problem];
	for (int i = threadIdx.x; i < MINE * a.d; i += blockDim.x) {
		int row = first + i / a.d;
		x[i] = row < a.n ? f32(rows.row(a.ids.p ? a.ids.row(problem)[row] : row)[i % a.d]) : 0;
	}
	__syncthreads();
	u64 least[MINE]; // order bits of the distance, then the center
	for (int r = 0; r < MINE; r++)
		least[r] = ~0ull;
	for (int j = threadIdx.x; j < a.k; j += blockDim.x) {
		const float *center = a.centers.row(problem, j);
		float norm = 0;
		double dot[MINE] = {};
		for (int i = 0; i < a.d; i++) {
			float c = center[i];
			norm = __fadd_rn(norm, __fmul_rn(c, c));
			for (int r = 0; r < MINE; r++)
				dot[r] += x[r * a.d + i] * c;
		}
		for (int r = 0; r < MINE; r++)
			least[r] = min(least[r], (u64)order_bits((float)(norm - 2 * dot[r])) << 32 | (u32)j);
	}
	for (int r = 0; r < MINE; r++) {
		for (int step = WARP / 2; step > 0; step /= 2)
			least[r] = min(least[r], __shfl_xor_sync(~0u, least[r], step));
		if (lane_id() == 0)
			best[r][warp_id()] = least[r];
	}
	__syncthreads();
	if (threadIdx.x < MINE && first + threadIdx.x < a.n) {
		u64 winner = best[threadIdx.x][0];
		for (int w = 1; w < blockDim.x / WARP; w++)
			winner = min(winner, best[threadIdx.x][w]);
		a.labels.row(problem)[first + threadIdx.x] = (int)(u32)winner + (a.base ? a.base[problem] : 0);
	}
}
