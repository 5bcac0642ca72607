#pragma once
// Draws at most 64 teams: ranks by counting.

#define LANES_OF_SET (THREADS / SETS)
#define RANKERS 4    // lanes that rank a candidate: 14 warps rank 112 side by side
#define PERTURBERS 2 // warps that find the candidates' noise while the others rank
#define ROW_BITS 24  // of rows that are counted; above them a rank below CANDIDATES

// The place of the first offset in shared memory: lines of 128 bytes lie alike on both sides, which copies are fastest by.
__device__ inline int first_offset(const Head &a) { return (u64)a.offsets / sizeof(int) % 32; }

// Ahead of the wait for the scores.
__device__ inline void prepare(Selection &m, const Head &a)
{
	if (threadIdx.x == 0)
		m.picks = m.n = m.teams = m.rows = 0, m.sure = true;
	if (threadIdx.x < CANDIDATES)
		m.counts[threadIdx.x] = 0;
#if QUADS
	// By 16 bytes.
	int skip = first_offset(a);
#pragma unroll 1
	for (int i = threadIdx.x * 4 - skip; i <= a.teams; i += THREADS * 4)
		if (i >= 0 && i + 3 <= a.teams) {
			copy16(&m.offsets[skip + i], a.offsets + i);
		} else {
			for (int j = max(i, 0); j <= min(i + 3, a.teams); j++)
				copy4(&m.offsets[skip + j], a.offsets + j);
		}
	copy_end();
#endif
}

// A set's largest score in the bits of `most`, so that no two sets have the same.
__device__ inline void tell_set(Selection &m, int set, u32 most) { m.set[set] = most & ~(SETS - 1u) | set; }

// A score that at least K + 1 teams reach: the (K+1)-th largest of what the sets have told. LANES_OF_SET threads count
// those before a set.
__device__ inline float find_least(Selection &m, const Head &a)
{
	__syncthreads();
	int part = threadIdx.x % LANES_OF_SET, rank = 0;
	u32 mine = m.set[threadIdx.x / LANES_OF_SET];
#pragma unroll
	for (int i = 0; i < SETS / 4 / LANES_OF_SET; i++) {
		uint4 x = ((const uint4 *)m.set)[i * LANES_OF_SET + part];
		rank += (x.x > mine) + (x.y > mine) + (x.z > mine) + (x.w > mine);
	}
#pragma unroll
	for (int step = 1; step < LANES_OF_SET; step *= 2)
		rank += __shfl_xor_sync(~0u, rank, step);
	if (part == 0 && rank == a.k)
		m.least = max(mine & ~(SETS - 1u), NOTHING + 1);
	copy_wait<DEPTH - 1>(); // the offsets, which may have come behind the slabs of teams_score
	__syncthreads();
	return from_order_bits(m.least);
}

__device__ inline void add_candidate(Selection &m, int at, Team t)
{
	m.few[at] = t;
	m.keys[at] = before_key(t), m.counts[at] = (1 << ROW_BITS) + t.rows;
}

#if QUADS
#define SCORES_EACH (QUADS > 2 ? 16 : 4 * QUADS) // of a thread, a power of two

// Tells the largest scores of a warp's sets from those of its teams. Neighbours, which are often alike, are of different
// sets: set i has the (i % 4)-th teams of quads, every other one of them where there are 8 sets a warp.
__device__ inline void tell_sets(Selection &m, const float4 (&y)[QUADS])
{
	const int sets = SETS / WARPS, halves = sets / 4;
	u32 mine = 0;
#pragma unroll
	for (int s = 0; s < sets; s++) {
		float best = -INF;
#pragma unroll
		for (int i = QUADS > 1 ? s / 4 : 0; i < QUADS; i += QUADS > 1 ? halves : 1)
			best = fmaxf(best, s % 4 == 0 ? y[i].x : s % 4 == 1 ? y[i].y : s % 4 == 2 ? y[i].z : y[i].w);
		bool is = QUADS > 1 || lane_id() * halves / WARP == s / 4;
		u32 most = __reduce_max_sync(~0u, is ? order_bits(best) : 0);
		mine = lane_id() == s ? most : mine;
	}
	if (lane_id() < sets)
		tell_set(m, warp_id() * sets + lane_id(), mine);
}

// Every thread has up to 4 · QUADS teams.
template <class Start, class Keep> __device__ inline void collect(Selection &m, const Head &a, Start start, Keep keep)
{
	float4 y[QUADS];
	float best = -INF;
#pragma unroll
	for (int i = 0; i < QUADS; i++) {
		int team = (i * THREADS + threadIdx.x) * 4;
		y[i] = team < a.teams ? fresh((const float4 *)(a.y + team)) : make_float4(-INF, -INF, -INF, -INF);
	}
	start();
	tell_sets(m, y);
#pragma unroll
	for (int i = 0; i < QUADS; i++)
		best = fmaxf(best, fmaxf(fmaxf(y[i].x, y[i].y), fmaxf(y[i].z, y[i].w)));
	float least = find_least(m, a);
	keep();
	if (best >= least) {
		u32 hits = 0;
#pragma unroll
		for (int i = 0; i < QUADS; i++)
			hits |= (y[i].x >= least ? 1 : 0) << 4 * i | (y[i].y >= least ? 2 : 0) << 4 * i | (y[i].z >= least ? 4 : 0) << 4 * i | (y[i].w >= least ? 8 : 0) << 4 * i;
		const int *offsets = &m.offsets[first_offset(a)];
		int at = take(&m.n, __popc(hits));
#pragma unroll 1
		for (; hits && at < CANDIDATES; hits &= hits - 1, at++) { // mostly one: a short loop is fetched sooner than code for each
			int bit = __ffs(hits) - 1, team = (bit / 4 * THREADS + threadIdx.x) * 4 + bit % 4, first = offsets[team];
			float own[SCORES_EACH];
#pragma unroll
			for (int i = 0; i < SCORES_EACH; i++) {
				float4 x = y[min(i / 4, QUADS - 1)];
				own[i] = i % 4 == 0 ? x.x : i % 4 == 1 ? x.y : i % 4 == 2 ? x.z : x.w;
			}
			add_candidate(m, at, {order_bits(choose(own, bit)), team, first, max(offsets[team + 1] - first, 0)});
		}
	}
	__syncthreads();
}

#else

// Adds those of four neighbouring teams that reach the border to the candidates. offset: the first rows of the four and
// of the team after them.
__device__ inline void add_candidates(Selection &m, float4 y4, float least, int team, const int (&offset)[5])
{
	float y[4] = {y4.x, y4.y, y4.z, y4.w};
	int n = (y[0] >= least) + (y[1] >= least) + (y[2] >= least) + (y[3] >= least);
	if (!n)
		return;
	int at = take(&m.n, n);
#pragma unroll
	for (int j = 0; j < 4; j++)
		if (y[j] >= least && at < CANDIDATES)
			add_candidate(m, at++, {order_bits(y[j]), team + j, offset[j], max(offset[j + 1] - offset[j], 0)});
}

// Only groups whose largest score reaches the border are looked at, by a few lanes each.
template <class Start, class Keep> __device__ inline void collect(Selection &m, const Head &a, Start start, Keep keep)
{
	int set = threadIdx.x / LANES_OF_SET, part = threadIdx.x % LANES_OF_SET;
	float top[TOPS_EACH], best = -INF;
#pragma unroll
	for (int j = 0; j < TOPS_EACH; j++) {
		int g = set + SETS * (part + LANES_OF_SET * j);
		top[j] = g < a.groups ? fresh(a.top + g) : -INF;
	}
	start();
#pragma unroll
	for (int j = 0; j < TOPS_EACH; j++)
		best = fmaxf(best, top[j]);
#pragma unroll
	for (int step = 1; step < LANES_OF_SET; step *= 2)
		best = fmaxf(best, __shfl_xor_sync(~0u, best, step));
	if (part == 0)
		tell_set(m, set, order_bits(best));
	float least = find_least(m, a);
	keep();
#pragma unroll
	for (int j = 0; j < TOPS_EACH; j++)
		if (top[j] >= least)
			m.pick[take(&m.picks, 1)] = set + SETS * (part + LANES_OF_SET * j);
	__syncthreads();
	int picks = m.picks;
#pragma unroll 1
	for (int p = threadIdx.x / PER_GROUP; p < picks; p += THREADS / PER_GROUP) {
		int team = m.pick[p] * GROUP + threadIdx.x % PER_GROUP * 4, offset[5];
		float4 y = fresh((const float4 *)(a.y + team));
#pragma unroll
		for (int j = 0; j < 5; j++)
			offset[j] = fresh(a.offsets + min(team + j, a.teams));
		add_candidates(m, y, least, team, offset);
	}
	__syncthreads();
}

#endif

// Writes the rows of a team into the list of the block that reads them: every CLUSTER-th row is its own. x is one of
// RANKERS threads.
__device__ inline void list_place(Selection &m, int which, int first, int before, int rows, int block, int x)
{
#pragma unroll 1
	for (int i = (block - before) % (u32)CLUSTER + x * CLUSTER; i < rows; i += RANKERS * CLUSTER) {
		u32 at = (before + i) / (u32)CLUSTER;
		if (at < LISTED)
			m.list[at] = {first + i, which};
	}
}

// Places n candidates by counting those that come before, RANKERS lanes to one; lists the first LISTED rows of the block.
__device__ inline void rank(Selection &m, const Head &a, int n, int block)
{
	const int warps = WARPS - PERTURBERS, abreast = WARP / RANKERS;
	int x = threadIdx.x % RANKERS, own = lane_id() / RANKERS;
#pragma unroll 1
	for (int first = warp_id() * abreast; first < n; first += abreast * warps) {
		int i = first + own;
		Team t = m.few[min(i, n - 1)];
		u64 mine = before_key(t);
		u32 sum = 0;
#pragma unroll 1
		for (int j = 4 * x; j < n; j += 4 * RANKERS) { // past n the counts are 0
			ulonglong2 low = *(const ulonglong2 *)&m.keys[j], high = *(const ulonglong2 *)&m.keys[j + 2];
			uint4 count = *(const uint4 *)&m.counts[j];
			sum += low.x > mine ? count.x : 0;
			sum += low.y > mine ? count.y : 0;
			sum += high.x > mine ? count.z : 0;
			sum += high.y > mine ? count.w : 0;
		}
#pragma unroll
		for (int step = 1; step < RANKERS; step *= 2)
			sum += __shfl_xor_sync(~0u, sum, step);
		int rank = sum >> ROW_BITS, before = sum & (1 << ROW_BITS) - 1;
		if (i >= n || rank > a.k)
			continue;
		bool drawn = rank < a.k;
		if (x == 0) {
			if (drawn)
				m.drawn[rank] = t, m.before[rank] = before, m.which[rank] = i;
			if (!drawn || rank == n - 1) {
				m.teams = drawn ? n : rank;
				m.rows = before + (drawn ? t.rows : 0);
				m.sure = drawn, m.tau = from_order_bits(t.key);
			}
		}
		if (drawn)
			list_place(m, i, t.first, before, t.rows, block, x);
	}
}

// Selects, and lists the block's first LISTED rows; false where there are too many candidates. start is done while the
// scores are on their way, keep when they are there.
template <class Start, class Keep> __device__ inline bool draw(Selection &m, const Head &a, int block, Start start, Keep keep)
{
	collect(m, a, start, keep);
	int n = m.n;
	if (n > CANDIDATES)
		return false;
	if (warp_id() < WARPS - PERTURBERS)
		rank(m, a, n, block);
	else
		for (int i = threadIdx.x - (WARPS - PERTURBERS) * WARP; i < n; i += PERTURBERS * WARP)
			m.less[i] = plain_score(a, m.few[i]);
	__syncthreads();
	return true;
}
