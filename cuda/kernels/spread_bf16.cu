// Greedy k-means++ as kernels/spread.cu, for bf16 rows of D columns and at most
// 16 trials. The tensor cores tell, with a bound on their error, which rows may
// be nearer to a candidate than to every center: few. For those alone distances
// are computed in float64; all others keep near. So a step reads the rows once
// and little else is done.
// One block a problem, 512 threads; the rows' numbers, near, lower bounds and
// marks stay in dynamic shared memory: 14·m bytes, 128·D, and 4 for 32 rows.
// chosen [problems, k], near [problems, m], pot [problems]; ids [m]; words [k,
// trials, 2]; now [problems, 16, m].
#include "tensor.cuh"

#define WARPS 16
#define TRIALS 16
#define CHUNK 32
#define PARTS (D / 32) // pieces of 8 columns that a lane has of a row
// Of float32 sums of exact products, far more than their error.
#define DOUBT 0x1p-14f

struct Args {
	Mat<int> chosen;
	Mat<float> near;
	float *pot;
	const Mat<const SRC> *x;
	const int *ids;
	Cube<const u32> words;
	double *work; // [problems, m] the rows' squares
	float *now;
	int m, d, trials, from, to, first;
};

struct Memory {
	double *points; // [trials, D] the candidates
	float *near, *low, *running; // [m], [m], [m/32] before each chunk
	int *ids;
	u16 *marks; // [m] the trials that are nearer
};

__device__ inline double f64(u32 bits) { return __uint_as_float(bits); }

__device__ inline double sum(double x)
{
	for (int step = WARP / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(~0u, x, step);
	return x;
}

// The products of a row with itself or a candidate, by a warp.
__device__ inline double product(const SRC *x, const double *y)
{
	double dot = 0;
	for (int j = lane_id() * 2; j < D; j += 2 * WARP) {
		u32 v = *(const u32 *)(x + j);
		double low = f64(v << 16), high = f64(v & 0xffff0000);
		dot += low * (y ? y[j] : low) + high * (y ? y[j + 1] : high);
	}
	return sum(dot);
}

// A lane's pieces of a row: those of 8 columns that begin at 8·(lane%4 + 4·i).
__device__ inline void pieces(uint4 (&p)[PARTS], const SRC *row)
{
#pragma unroll
	for (int i = 0; i < PARTS; i++)
		p[i] = ((const uint4 *)row)[lane_id() % 4 + 4 * i];
}

// Measures all rows against count candidates: marks and now where a trial is
// nearer; sums [warps, trials] of what near would be.
__device__ void measure(const Args &a, const Memory &s, Mat<const SRC> rows, const int *candidates, const double *norms, const double *squares, float *now, int count,
			double (*sums)[TRIALS])
{
	int group = lane_id() / 4, own = lane_id() % 4 * 2;
	uint4 y[2][PARTS];
	float high[4];
	for (int n = 0; n < 2; n++) {
		pieces(y[n], rows.row(s.ids[candidates[min(n * 8 + group, count - 1)]]));
		for (int e = 0; e < 2; e++)
			high[n * 2 + e] = (float)norms[min(n * 8 + own + e, count - 1)] * (1 - DOUBT);
	}
	double total[4] = {};
	for (int from = warp_id() * 16; from < a.m; from += WARPS * 16) {
		uint4 x[2][PARTS];
		float near[2], low[2];
		for (int r = 0; r < 2; r++) {
			int i = min(from + group + 8 * r, a.m - 1);
			pieces(x[r], rows.row(s.ids[i]));
			near[r] = s.near[i], low[r] = s.low[i];
		}
		float dot[2][4] = {};
#pragma unroll
		for (int i = 0; i < PARTS; i++)
#pragma unroll
			for (int n = 0; n < 2; n++) {
				mma(dot[n], x[0][i].x, x[1][i].x, x[0][i].y, x[1][i].y, y[n][i].x, y[n][i].y);
				mma(dot[n], x[0][i].z, x[1][i].z, x[0][i].w, x[1][i].w, y[n][i].z, y[n][i].w);
			}
		u32 marks[2] = {};
#pragma unroll
		for (int n = 0; n < 2; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				int r = e / 2, t = n * 8 + own + e % 2, i = from + group + 8 * r;
				bool valid = t < count && i < a.m;
				float result = near[r];
				u32 doubt = __ballot_sync(~0u, valid && !(low[r] + high[n * 2 + e % 2] - 2 * dot[n][e] > near[r]));
				while (doubt) {
					int lane = __ffs(doubt) - 1;
					doubt &= doubt - 1;
					int row = from + lane / 4 + 8 * r, trial = n * 8 + lane % 4 * 2 + e % 2;
					double both = product(rows.row(s.ids[row]), s.points + trial * D);
					float far = fmax(0, (-2 * both + squares[row]) + norms[trial]);
					if (lane == lane_id() && far < result) {
						result = far;
						marks[r] |= 1u << t;
						now[t * (i64)a.m + i] = far;
					}
				}
				if (valid)
					total[n * 2 + e % 2] += result;
			}
#pragma unroll
		for (int r = 0; r < 2; r++) {
			marks[r] |= __shfl_xor_sync(~0u, marks[r], 1);
			marks[r] |= __shfl_xor_sync(~0u, marks[r], 2);
			if (own == 0 && from + group + 8 * r < a.m)
				s.marks[from + group + 8 * r] = marks[r];
		}
	}
	for (int v = 0; v < 4; v++) {
		for (int step = 4; step < WARP; step *= 2)
			total[v] += __shfl_xor_sync(~0u, total[v], step);
		if (group == 0)
			sums[warp_id()][v / 2 * 8 + own + v % 2] = total[v];
	}
	__syncthreads();
}

// Running float32 sums of near, one after the other, before each chunk.
__device__ void run_up(const Memory &s, int m)
{
	if (threadIdx.x == 0) {
		float sum = 0;
		int i = 0;
		for (; i + CHUNK <= m; i += CHUNK) {
			s.running[i / CHUNK] = sum;
#pragma unroll
			for (int j = 0; j < CHUNK; j += 4) {
				float4 v = *(const float4 *)(s.near + i + j);
				sum = __fadd_rn(__fadd_rn(__fadd_rn(__fadd_rn(sum, v.x), v.y), v.z), v.w);
			}
		}
		if (i < m)
			s.running[i / CHUNK] = sum;
	}
	__syncthreads();
}

// The first index at which the running sum is at least r, at most m − 1.
__device__ int reach(const Memory &s, int m, double r)
{
	int low = 0, high = (m - 1) / CHUNK; // the last chunk before which the sum is below r
	while (low < high) {
		int middle = (low + high + 1) / 2;
		if (s.running[middle] >= r)
			high = middle - 1;
		else
			low = middle;
	}
	float sum = s.running[low];
	for (int j = low * CHUNK; j < m; j++)
		if ((sum = __fadd_rn(sum, s.near[j])) >= r)
			return j;
	return m - 1;
}

extern "C" __global__ void __launch_bounds__(512, 1) spread(PARAM)
{
	extern __shared__ __align__(16) u8 shared[];
	__shared__ double sums[WARPS][TRIALS], norms[TRIALS];
	__shared__ int candidates[TRIALS], best;
	__shared__ float pot;
	int problem = blockIdx.x, padded = (a.m + 31) / 32 * 32;
	Memory s;
	s.points = (double *)shared;
	s.near = (float *)(s.points + TRIALS * D);
	s.low = s.near + padded;
	s.ids = (int *)(s.low + padded);
	s.running = (float *)(s.ids + padded);
	s.marks = (u16 *)(s.running + padded / 32);
	const Mat<const SRC> rows = a.x[problem];
	double *squares = a.work + problem * (i64)a.m;
	float *now = a.now + problem * (i64)TRIALS * a.m, *near = a.near.row(problem);
	int *chosen = a.chosen.row(problem);
	for (int i = threadIdx.x; i < a.m; i += blockDim.x) {
		s.ids[i] = a.ids[i];
		s.near[i] = a.from ? near[i] : INF;
	}
	if (threadIdx.x == 0)
		pot = a.pot[problem];
	__syncthreads();
	for (int i = warp_id(); i < a.m; i += WARPS) {
		double square = product(rows.row(s.ids[i]), 0);
		if (lane_id() == 0)
			squares[i] = square, s.low[i] = (float)square * (1 - DOUBT);
	}
	__syncthreads();
	for (int c = a.from; c < a.to; c++) {
		int count = c ? a.trials : 1;
		if (c)
			run_up(s, a.m);
		if (threadIdx.x < count) {
			const u32 *w = a.words.row(c, threadIdx.x);
			double u = ((double)(w[0] >> 5) * 67108864 + (w[1] >> 6)) / 9007199254740992.0;
			int chosen = c ? reach(s, a.m, u * pot) : a.first;
			candidates[threadIdx.x] = chosen;
			norms[threadIdx.x] = squares[chosen];
		}
		__syncthreads();
		for (int i = threadIdx.x; i < count * D; i += blockDim.x)
			s.points[i] = f32(rows.row(s.ids[candidates[i / D]])[i % D]);
		__syncthreads();
		measure(a, s, rows, candidates, norms, squares, now, count, sums);
		if (threadIdx.x == 0)
			for (int t = 0; t < count; t++) {
				double total = 0;
				for (int w = 0; w < WARPS; w++)
					total += sums[w][t];
				if (t == 0 || (float)total < pot)
					best = t, pot = total;
			}
		__syncthreads();
		if (threadIdx.x == 0)
			chosen[c] = candidates[best];
		for (int i = threadIdx.x; i < a.m; i += blockDim.x)
			if (s.marks[i] >> best & 1)
				s.near[i] = now[best * (i64)a.m + i];
		__syncthreads();
	}
	for (int i = threadIdx.x; i < a.m; i += blockDim.x)
		near[i] = s.near[i];
	if (threadIdx.x == 0 && a.from < a.to)
		a.pot[problem] = pot;
}
