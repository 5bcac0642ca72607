#pragma once
// Histograms of scores in the shared memory of a block of WARPS warps. A bin is a range of scores; bin 0 is the highest.

// Sum of x over the threads before this one, and over all; totals is not read again before another barrier.
__device__ inline int scan(int x, int *totals, int &all)
{
	int upto = x;
#pragma unroll
	for (int step = 1; step < WARP; step *= 2) {
		int y = __shfl_up_sync(~0u, upto, step);
		upto += lane_id() >= step ? y : 0;
	}
	if (lane_id() == WARP - 1)
		totals[warp_id()] = upto;
	__syncthreads();
	int t = lane_id() < WARPS ? totals[lane_id()] : 0;
	all = __reduce_add_sync(~0u, t);
	return __reduce_add_sync(~0u, lane_id() < warp_id() ? t : 0) + upto - x;
}

// Finds the bin that the need-th key lies in; returns how many keys there are. cross stays where there are fewer.
__device__ inline int find_bin(Selection &m, const u32 *bin, int need, int *totals)
{
	static_assert(BINS == 2 * THREADS, "two bins a thread");
	uint2 x = *(const uint2 *)&bin[2 * threadIdx.x];
	int all, before = scan(x.x + x.y, totals, all), first = before + x.x;
	if (before < need && need <= first + (int)x.y) {
		bool second = first < need;
		m.cross = 2 * threadIdx.x + second, m.above = second ? first : before, m.in = second ? x.y : x.x;
	}
	__syncthreads();
	return all;
}

// A score's distance from the largest, in bins of `by`; BINS or more where there is no team.
__device__ inline float distance(float y, float high, float by)
{
	float d = (high - y) * by;
	return d < BINS ? d : BINS;
}

// The range of scores, from a thread's own.
template <int N> __device__ inline void range(Selection &m, const float (&top)[N], float &high, float &low)
{
	high = -INF, low = INF;
#pragma unroll
	for (int j = 0; j < N; j++) {
		high = fmaxf(high, top[j]);
		low = fminf(low, top[j] == -INF ? INF : top[j]);
	}
	u32 h = __reduce_max_sync(~0u, order_bits(high)), l = __reduce_min_sync(~0u, order_bits(low));
	if (lane_id() == 0)
		m.tops[warp_id()] = h, m.bottoms[warp_id()] = l;
	__syncthreads();
	high = from_order_bits(__reduce_max_sync(~0u, m.tops[lane_id() % WARPS]));
	low = from_order_bits(__reduce_min_sync(~0u, m.bottoms[lane_id() % WARPS]));
}

// How many come before a key, of which the first `above` are not among the `in` that are looked at.
__device__ inline int rank_of(const u64 *keys, int in, u64 mine, int above)
{
	int rank = above;
#pragma unroll 4
	for (int j = 0; j < in; j++)
		rank += keys[j] > mine;
	return rank;
}
