#pragma once
// Draws any number of teams by any scores: a histogram over the bits of the scores, again over the bits of one bin.
// Several times slower than the others.

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

// Selects in rising order of teams, and lists the block's first LISTED rows. ring has `room` floats, marks a bit for
// each team.
__device__ __noinline__ void draw_any(Selection &m, const Head &a, float *ring, int room, u32 *marks, int block)
{
	int words = (a.teams + 31) / 32, there = 0, all;
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
	for (int i = threadIdx.x; i < words; i += THREADS)
		marks[i] = 0;
	block_before(there, m.sums, all);
	high = __reduce_max_sync(~0u, high);
	__syncthreads();
	if (lane_id() == 0)
		m.sums[warp_id()] = high;
	__syncthreads();
	for (int w = 0; w < WARPS; w++)
		high = max(high, (u32)m.sums[w]);
	bool sure = all <= a.k;
	u32 winner = low; // keys from here on are drawn
	if (!sure) {
		__syncthreads();
		if (threadIdx.x == 0)
			m.low = low, m.high = high, m.need = a.k + 1, m.picks = 0;
		__syncthreads();
		narrow(m, a, keys);
		winner = m.high + 1;
	}
	for (int i = threadIdx.x; i < a.teams; i += THREADS) {
		u32 key = keys.at(i);
		if (key >= winner)
			atomicOr(&marks[i / 32], 1u << i % 32);
		else if (!sure && key >= m.low && m.found <= BORDER)
			m.border[take(&m.picks, 1)] = (u64)key << 32 | (u32)~i;
	}
	__syncthreads();
	if (!sure && m.found <= BORDER) {
		for (int i = threadIdx.x; i < m.found; i += THREADS) {
			u32 rank = 0, team = ~(u32)m.border[i];
			for (int j = 0; j < m.found; j++)
				rank += m.border[j] > m.border[i];
			if (rank + 1 < m.need)
				atomicOr(&marks[team / 32], 1u << team % 32);
			if (rank + 1 == m.need)
				m.tau = from_order_bits(m.border[i] >> 32);
		}
	} else if (!sure) { // all of the bin are equal: the lower teams
		u32 taken = 0;
		for (int i0 = 0; i0 < a.teams && taken + 1 < m.need; i0 += THREADS) {
			int i = i0 + threadIdx.x, n;
			bool is = i < a.teams && keys.at(i) == m.low;
			u32 at = taken + block_before(is, m.sums, n);
			if (is && at + 1 < m.need)
				atomicOr(&marks[i / 32], 1u << i % 32);
			taken += n;
		}
		if (threadIdx.x == 0)
			m.tau = from_order_bits(m.low);
	}
	__syncthreads();
	int at = 0, n;
	for (int w0 = 0; w0 < words; w0 += THREADS) {
		u32 bits = w0 + threadIdx.x < words ? marks[w0 + threadIdx.x] : 0;
		int place = at + block_before(__popc(bits), m.sums, n);
		for (; bits; bits &= bits - 1)
			m.drawn[place++].team = (w0 + threadIdx.x) * 32 + __ffs(bits) - 1;
		at += n;
	}
	__syncthreads();
	int rows = 0;
	for (int i0 = 0; i0 < at; i0 += THREADS) {
		int i = i0 + threadIdx.x, first = 0, last = 0;
		if (i < at) {
			int team = m.drawn[i].team;
			first = fresh(a.offsets + team), last = max(fresh(a.offsets + team + 1), first);
			m.drawn[i].key = keys.at(team);
		}
		int before = rows + block_before(last - first, m.sums, n);
		if (i < at)
			m.drawn[i].first = first, m.drawn[i].rows = last - first, m.before[i] = before, m.which[i] = i;
		rows += n;
	}
	if (threadIdx.x == 0)
		m.teams = at, m.rows = rows, m.sure = sure;
	__syncthreads();
	list_rows(m, 0, block);
}
