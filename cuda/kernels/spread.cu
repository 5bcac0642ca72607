// Greedy k-means++: chooses centers from ≤ c < to of every problem. Of trials
// candidates, drawn in proportion to near, the one that leaves the smallest sum
// becomes center c. Distances in float64, rounded once; running sums of near in
// float32 one after the other; other sums in float64.
// Two launches a center, and one of choose after the last, with c = to:
//   choose   one block a problem, 512 threads: ends center c − 1, draws the
//            candidates of c
//   measure  grid (blocks, problems), 512 threads, dynamic shared memory:
//            16·trials doubles: distances of the rows from the candidates
// chosen [problems, k], near [problems, m], pot [problems]; ids [m]; words [k,
// trials, 2].
#include "common.cuh"

#define WARPS 16
#define AT_ONCE 4
#define CHUNK 32
#define PART 4096

struct Args {
	Mat<int> chosen;
	Mat<float> near;
	float *pot;
	const Mat<const SRC> *x;
	const int *ids;
	Cube<const u32> words;
	float *running, *now;	 // [problems, m/32 rounded up] sums before each 32 rows; [problems, trials, m]
	double *squares, *sums;	 // [problems, m] the rows'; [problems, blocks, trials] of what near would be
	double *norms;		 // [problems, trials] the candidates' squares
	int *candidates;	 // [problems, trials]
	int m, d, trials, from, to, first, c, blocks;
};

__device__ double sum(double x)
{
	for (int step = WARP / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(~0u, x, step);
	return x;
}

// The square of a row, by a warp.
__device__ double square(const SRC *x, int d)
{
	double s = 0;
	for (int j = lane_id(); j < d; j += WARP)
		s += (double)f32(x[j]) * f32(x[j]);
	return sum(s);
}

// Running sums of near, one after the other, before each chunk of rows.
__device__ void run_up(const float *near, float *running, int m)
{
	__shared__ __align__(16) float part[PART];
	float sum = 0;
	for (int from = 0; from < m; from += PART) {
		int count = min(PART, m - from);
		for (int i = threadIdx.x; i < PART; i += blockDim.x)
			part[i] = i < count ? near[from + i] : 0;
		__syncthreads();
		if (threadIdx.x == 0)
			for (int i = 0; i < count; i += CHUNK) {
				running[(from + i) / CHUNK] = sum;
#pragma unroll
				for (int j = 0; j < CHUNK; j += 4) {
					float4 v = *(const float4 *)(part + i + j);
					sum = __fadd_rn(__fadd_rn(__fadd_rn(__fadd_rn(sum, v.x), v.y), v.z), v.w);
				}
			}
		__syncthreads();
	}
}

// The first index at which the running sum is at least r, at most m − 1.
__device__ int reach(const float *near, const float *running, int m, double r)
{
	int low = 0, high = (m - 1) / CHUNK; // the last chunk before which the sum is below r
	while (low < high) {
		int middle = (low + high + 1) / 2;
		if (running[middle] >= r)
			high = middle - 1;
		else
			low = middle;
	}
	float sum = running[low];
	for (int j = low * CHUNK; j < m; j++)
		if ((sum = __fadd_rn(sum, near[j])) >= r)
			return j;
	return m - 1;
}

KERNEL choose(PARAM)
{
	__shared__ double totals[64];
	__shared__ int best;
	int problem = blockIdx.x, count = a.c > 1 ? a.trials : 1; // of center c − 1
	float *near = a.near.row(problem), *running = a.running + problem * (i64)((a.m + CHUNK - 1) / CHUNK);
	int *candidates = a.candidates + problem * (i64)a.trials;
	double *squares = a.squares + problem * (i64)a.m;
	if (a.c == a.from)
		for (int i = warp_id(); i < a.m; i += WARPS) {
			double s = square(a.x[problem].row(a.ids[i]), a.d);
			if (lane_id() == 0)
				squares[i] = s;
		}
	else {
		for (int t = warp_id(); t < count; t += WARPS) {
			double total = 0;
			for (int b = lane_id(); b < a.blocks; b += WARP)
				total += a.sums[(problem * (i64)a.blocks + b) * a.trials + t];
			totals[t] = sum(total);
		}
		__syncthreads();
		// The smallest sum, the first among equals, rounded to float32.
		if (threadIdx.x == 0) {
			float pot = totals[0];
			best = 0;
			for (int t = 1; t < count; t++)
				if ((float)totals[t] < pot)
					best = t, pot = totals[t];
			a.pot[problem] = pot;
			a.chosen.row(problem)[a.c - 1] = candidates[best];
		}
		__syncthreads();
		const float *now = a.now + (problem * (i64)a.trials + best) * a.m;
		for (int i = threadIdx.x; i < a.m; i += blockDim.x)
			near[i] = now[i];
	}
	__syncthreads();
	if (a.c == a.to)
		return;
	count = a.c ? a.trials : 1;
	if (a.c)
		run_up(near, running, a.m);
	for (int t = threadIdx.x; t < count; t += blockDim.x) {
		const u32 *w = a.words.row(a.c, t);
		double u = ((double)(w[0] >> 5) * 67108864 + (w[1] >> 6)) / 9007199254740992.0;
		int row = a.c ? reach(near, running, a.m, u * a.pot[problem]) : a.first;
		candidates[t] = row;
		a.norms[problem * (i64)a.trials + t] = squares[row];
	}
}

// The distances of rows from the candidates, at most near, and their sums.
KERNEL measure(PARAM)
{
	extern __shared__ double sums[];
	int problem = blockIdx.y, count = a.c ? a.trials : 1;
	Mat<const SRC> rows = a.x[problem];
	const int *candidates = a.candidates + problem * (i64)a.trials;
	const double *norms = a.norms + problem * (i64)a.trials;
	const float *near = a.near.row(problem);
	float *now = a.now + problem * (i64)a.trials * a.m;
	for (int t = threadIdx.x; t < WARPS * count; t += blockDim.x)
		sums[t] = 0;
	__syncthreads();
	for (int t = 0; t < count; t += AT_ONCE) {
		const SRC *y[AT_ONCE];
		for (int v = 0; v < AT_ONCE; v++)
			y[v] = rows.row(a.ids[candidates[min(t + v, count - 1)]]);
		for (int i = blockIdx.x * WARPS + warp_id(); i < a.m; i += gridDim.x * WARPS) {
			const SRC *x = rows.row(a.ids[i]);
			double both[AT_ONCE] = {};
			for (int j = lane_id(); j < a.d; j += WARP) {
				double u = f32(x[j]);
				for (int v = 0; v < AT_ONCE; v++)
					both[v] += u * f32(y[v][j]);
			}
			double dot = 0; // of candidate t + lane
			for (int v = 0; v < AT_ONCE; v++) {
				double s = sum(both[v]);
				dot = lane_id() == v ? s : dot;
			}
			int own = t + lane_id();
			if (lane_id() < AT_ONCE && own < count) {
				float d = fmax(0, (-2 * dot + a.squares[problem * (i64)a.m + i]) + norms[own]);
				d = a.c && near[i] < d ? near[i] : d;
				now[own * (i64)a.m + i] = d;
				sums[warp_id() * count + own] += d;
			}
		}
	}
	__syncthreads();
	for (int t = threadIdx.x; t < count; t += blockDim.x) {
		double total = 0;
		for (int w = 0; w < WARPS; w++)
			total += sums[w * count + t];
		a.sums[(problem * (i64)gridDim.x + blockIdx.x) * a.trials + t] = total;
	}
}
