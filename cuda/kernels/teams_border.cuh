#pragma once
// Finds the border of any number of teams by any scores: a histogram over the bits of the scores, again over the bits of
// one bin. Several times slower than the others.

// Sum of x over the threads before this one, and over all.
__device__ inline int block_before(int x, int *shared, int &all)
{
	int upto = x;
	for (int step = 1; step < WARP; step *= 2) {
		int y = __shfl_up_sync(~0u, upto, step);
		if (lane_id() >= step)
			upto += y;
	}
	__syncthreads();
	if (lane_id() == WARP - 1)
		shared[warp_id()] = upto;
	__syncthreads();
	int before = 0;
	all = 0;
	for (int w = 0; w < WARPS; w++) {
		before += w < warp_id() ? shared[w] : 0;
		all += shared[w];
	}
	return before + upto - x;
}

// The keys of the scores that reach `low`; staged keeps those that fit.
struct Keys {
	const float *y;
	const float *staged;
	int kept;
	__device__ float score(int i) const { return i < kept ? staged[i] : fresh(y + i); }
	__device__ u32 at(int i) const { return order_bits(score(i)); }
};

// Narrows [low, high] to keys of one bin: the (K + 1)-th largest is the need-th of the bin's `found` keys.
__device__ inline void narrow(Selection &m, const Head &a, const Keys &keys)
{
	do {
		u32 low = m.low, span = m.high - low;
		int shift = max(0, 32 - __clz(span) - 11);
		for (int i = threadIdx.x; i < ANY_BINS; i += THREADS)
			m.any_bin[i] = 0;
		__syncthreads();
		for (int i = threadIdx.x; i < a.teams; i += THREADS) {
			u32 key = keys.at(i);
			if (key >= low && key - low <= span)
				atomicAdd(&m.any_bin[(key - low) >> shift], 1u);
		}
		__syncthreads();
		// Thread i has the i-th bins from the top.
		const int each = ANY_BINS / THREADS;
		u32 mine[each];
		int sum = 0, all;
#pragma unroll
		for (int j = 0; j < each; j++)
			sum += mine[j] = m.any_bin[ANY_BINS - 1 - threadIdx.x * each - j];
		u32 before = block_before(sum, m.sums, all), need = m.need;
		__syncthreads();
#pragma unroll
		for (int j = 0; j < each; j++) {
			if (before < need && before + mine[j] >= need) {
				u32 bin = ANY_BINS - 1 - threadIdx.x * each - j;
				m.low = low + (bin << shift);
				m.high = low + min(span, (bin << shift) + (1u << shift) - 1);
				m.need = need - before, m.found = mine[j];
			}
			before += mine[j];
		}
		__syncthreads();
	} while (m.found > BORDER && m.low != m.high);
}

// Finds the key above which those of the K drawn teams are, m.key: the (K+1)-th largest, or less than any where there are
// no more than K teams. ring has `room` floats.
__device__ __noinline__ void border_any(Selection &m, const Head &a, float *ring, int room)
{
	int there = 0, all;
	Keys keys{a.y, ring, min(a.teams, room)};
	u32 low = NOTHING + 1, high = 0;
	__syncthreads();
	for (int i = threadIdx.x; i < a.teams; i += THREADS) {
		float y = fresh(a.y + i);
		if (i < room)
			ring[i] = y;
		there += order_bits(y) >= low;
		high = max(high, order_bits(y));
	}
	block_before(there, m.sums, all);
	high = __reduce_max_sync(~0u, high);
	__syncthreads();
	if (lane_id() == 0)
		m.sums[warp_id()] = high;
	__syncthreads();
	for (int w = 0; w < WARPS; w++)
		high = max(high, (u32)m.sums[w]);
	__syncthreads();
	if (threadIdx.x == 0) {
		m.low = low, m.high = high, m.need = a.k + 1, m.picks = 0;
		m.sure = all <= a.k, m.key = before_key(NOTHING, 0);
	}
	__syncthreads();
	if (all <= a.k)
		return;
	narrow(m, a, keys);
	if (m.found <= BORDER) {
		for (int i = threadIdx.x; i < a.teams; i += THREADS) {
			u32 key = keys.at(i);
			if (key >= m.low && key <= m.high)
				m.border[take(&m.picks, 1)] = before_key(key, i);
		}
		__syncthreads();
		for (int i = threadIdx.x; i < m.found; i += THREADS) {
			u32 rank = 0;
			for (int j = 0; j < m.found; j++)
				rank += m.border[j] > m.border[i];
			if (rank + 1 == m.need)
				m.key = m.border[i];
		}
	} else { // all of the bin are equal: the lower teams
		u32 taken = 0;
		for (int i0 = 0; i0 < a.teams && taken < m.need; i0 += THREADS) {
			int i = i0 + threadIdx.x, n;
			bool is = i < a.teams && keys.at(i) == m.low;
			u32 at = taken + block_before(is, m.sums, n);
			if (is && at + 1 == m.need)
				m.key = before_key(m.low, i);
			taken += n;
		}
	}
	__syncthreads();
}
