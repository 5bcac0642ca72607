// Greedy k-means++: chooses centers from ≤ c < to of every problem. Of trials
// candidates, drawn in proportion to near, the one that leaves the smallest sum
// becomes center c. Distances in float64, rounded once; running sums of near in
// float32 one after the other; other sums in float64.
// One block a problem, 512 threads; dynamic shared memory: 16·trials doubles.
// chosen [problems, k], near [problems, m], pot [problems]; ids [m]; words [k,
// trials, 2].
#include "common.cuh"

#define WARPS 16
#define AT_ONCE 4

struct Args {
	Mat<int> chosen;
	Mat<float> near;
	float *pot;
	const Mat<const SRC> *x;
	const int *ids;
	Cube<const u32> words;
	float *work, *now; // [problems, m] running sums; [problems, trials, m]
	int m, d, trials, from, to, first;
};

__device__ double sum(double x)
{
	for (int step = WARP / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(~0u, x, step);
	return x;
}

// Running sums of near, one after the other.
__device__ void run_up(const float *near, float *running, int m)
{
	__shared__ float part[1024];
	float sum = 0;
	for (int from = 0; from < m; from += 1024) {
		int count = min(1024, m - from);
		for (int i = threadIdx.x; i < count; i += blockDim.x)
			part[i] = near[from + i];
		__syncthreads();
		if (threadIdx.x == 0)
			for (int i = 0; i < count; i++)
				part[i] = sum = __fadd_rn(sum, part[i]);
		__syncthreads();
		for (int i = threadIdx.x; i < count; i += blockDim.x)
			running[from + i] = part[i];
		__syncthreads();
	}
}

// The first index at which the running sum is at least r, at most m − 1.
__device__ int reach(const float *running, int m, double r)
{
	int low = 0, high = m - 1;
	while (low < high) {
		int middle = (low + high) / 2;
		if (running[middle] >= r)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

// The distances of all rows from the candidates, at most near, and their sums
// by warp.
__device__ void measure(const Args &a, Mat<const SRC> rows, const int *candidates, int count, const float *near, float *now, double *sums)
{
	for (int t = threadIdx.x; t < WARPS * count; t += blockDim.x)
		sums[t] = 0;
	__syncthreads();
	for (int i = warp_id(); i < a.m; i += WARPS) {
		const SRC *x = rows.row(a.ids[i]);
		for (int t = 0; t < count; t += AT_ONCE) {
			double both[AT_ONCE] = {}, right[AT_ONCE] = {}, left = 0;
			const SRC *y[AT_ONCE];
			for (int v = 0; v < AT_ONCE; v++)
				y[v] = rows.row(a.ids[candidates[min(t + v, count - 1)]]);
			for (int j = lane_id(); j < a.d; j += WARP) {
				double u = f32(x[j]);
				left += u * u;
				for (int v = 0; v < AT_ONCE; v++) {
					double w = f32(y[v][j]);
					both[v] += u * w, right[v] += w * w;
				}
			}
			left = sum(left);
			for (int v = 0; v < AT_ONCE && t + v < count; v++) {
				double distance = (-2 * sum(both[v]) + left) + sum(right[v]);
				if (lane_id() == 0) {
					float d = fmax(0, distance);
					d = near && near[i] < d ? near[i] : d;
					now[(t + v) * (i64)a.m + i] = d;
					sums[warp_id() * count + t + v] += d;
				}
			}
		}
	}
	__syncthreads();
}

// The smallest sum, the first among equals, rounded to float32.
__device__ int smallest(const double *sums, int count, float *pot)
{
	int best = 0;
	for (int t = 0; t < count; t++) {
		double total = 0;
		for (int w = 0; w < WARPS; w++)
			total += sums[w * count + t];
		if (t == 0 || (float)total < *pot)
			best = t, *pot = total;
	}
	return best;
}

KERNEL spread(PARAM)
{
	extern __shared__ double sums[];
	__shared__ int candidates[64];
	__shared__ float pot;
	__shared__ int best;
	int problem = blockIdx.x;
	float *near = a.near.row(problem), *running = a.work + problem * (i64)a.m, *now = a.now + problem * (i64)a.trials * a.m;
	int *chosen = a.chosen.row(problem);
	if (threadIdx.x == 0)
		pot = a.pot[problem];
	for (int c = a.from; c < a.to; c++) {
		int count = c ? a.trials : 1;
		if (c)
			run_up(near, running, a.m);
		__syncthreads();
		for (int t = threadIdx.x; t < count; t += blockDim.x) {
			const u32 *w = a.words.row(c, t);
			double u = ((double)(w[0] >> 5) * 67108864 + (w[1] >> 6)) / 9007199254740992.0;
			candidates[t] = c ? reach(running, a.m, u * pot) : a.first;
		}
		__syncthreads();
		measure(a, a.x[problem], candidates, count, c ? near : 0, now, sums);
		if (threadIdx.x == 0) {
			best = smallest(sums, count, &pot);
			chosen[c] = candidates[best];
		}
		__syncthreads();
		for (int i = threadIdx.x; i < a.m; i += blockDim.x)
			near[i] = now[best * (i64)a.m + i];
		__syncthreads();
	}
	if (threadIdx.x == 0 && a.from < a.to)
		a.pot[problem] = pot;
}
