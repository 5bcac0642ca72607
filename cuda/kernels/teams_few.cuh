#pragma once
// Draws at most 64 teams: ranks by counting, a lane to each of what is compared.

#define LANES_OF_SET (THREADS / SETS)
#define SETS_EACH (SETS / WARP)
#define ABREAST 4    // candidates that a warp ranks at a time
#define PERTURBERS 2 // warps that find the candidates' noise while the others rank

// Ahead of the wait for the scores.
__device__ inline void prepare(Selection &m, const Head &a)
{
	if (threadIdx.x == 0)
		m.picks = m.n = m.teams = m.rows = 0, m.sure = true;
#if DIRECT
#pragma unroll 1
	for (int i = threadIdx.x; i <= a.teams; i += THREADS)
		copy4(&m.offsets[i], a.offsets + i);
	copy_end();
#endif
}

// A key that at least K + 1 teams reach: the teams, or groups of them, are dealt out to SETS sets; it is the (K+1)-th
// largest of the sets' largest scores. best is the largest of a thread, LANES_OF_SET of which share a set.
__device__ inline float find_least(Selection &m, const Head &a, float best)
{
	int set = threadIdx.x / LANES_OF_SET;
#pragma unroll
	for (int step = 1; step < LANES_OF_SET; step *= 2)
		best = fmaxf(best, __shfl_xor_sync(~0u, best, step));
	if (threadIdx.x % LANES_OF_SET == 0)
		m.set[set] = order_bits(best) & ~(SETS - 1u) | set; // no two are equal
	__syncthreads();
	u32 key[SETS_EACH], mine[SETS / WARPS];
#pragma unroll
	for (int i = 0; i < SETS_EACH; i++)
		key[i] = m.set[i * WARP + lane_id()];
#pragma unroll
	for (int i = 0; i < SETS / WARPS; i++)
		mine[i] = m.set[warp_id() * (SETS / WARPS) + i];
#pragma unroll
	for (int i = 0; i < SETS / WARPS; i++) {
		int rank = 0;
#pragma unroll
		for (int j = 0; j < SETS_EACH; j++)
			rank += __popc(__ballot_sync(~0u, key[j] > mine[i]));
		if (rank == a.k)
			m.least = max(mine[i] & ~(SETS - 1u), NOTHING + 1);
	}
	__syncthreads();
	return from_order_bits(m.least);
}

// Adds those of four neighbouring teams that reach the border to the candidates. first(j) is the first row of the j-th
// of the teams, or the end.
template <class First> __device__ inline void add_candidates(Selection &m, float4 y4, float least, int team, First first)
{
	float y[4] = {y4.x, y4.y, y4.z, y4.w};
	int n = (y[0] >= least) + (y[1] >= least) + (y[2] >= least) + (y[3] >= least);
	if (!n)
		return;
	int at = take(&m.n, n);
#pragma unroll
	for (int j = 0; j < 4; j++)
		if (y[j] >= least && at < CANDIDATES)
			m.few[at++] = {order_bits(y[j]), team + j, first(j), max(first(j + 1) - first(j), 0)};
}

#if DIRECT

// Every thread has up to 16 teams.
template <class Start, class Keep> __device__ inline void collect(Selection &m, const Head &a, Start start, Keep keep)
{
	float4 y[4];
	float high[4];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int team = (i * THREADS + threadIdx.x) * 4;
		y[i] = team < a.teams ? fresh((const float4 *)(a.y + team)) : make_float4(-INF, -INF, -INF, -INF);
	}
	start();
#pragma unroll
	for (int i = 0; i < 4; i++)
		high[i] = fmaxf(fmaxf(y[i].x, y[i].y), fmaxf(y[i].z, y[i].w));
	float least = find_least(m, a, fmaxf(fmaxf(high[0], high[1]), fmaxf(high[2], high[3])));
	keep();
#pragma unroll
	for (int i = 0; i < 4; i++)
		if (high[i] >= least) {
			int team = (i * THREADS + threadIdx.x) * 4;
			add_candidates(m, y[i], least, team, [&](int j) { return m.offsets[min(team + j, a.teams)]; });
		}
	__syncthreads();
}

#else

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
	float least = find_least(m, a, best);
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
		add_candidates(m, y, least, team, [&](int j) { return offset[j]; });
	}
	__syncthreads();
}

#endif

// Writes the rows of a team into the list of the block that reads them: every CLUSTER-th row is its own. x is one of N
// threads.
template <int N> __device__ inline void list_place(Selection &m, int which, int first, int before, int rows, int block, int x)
{
#pragma unroll 1
	for (int i = x; i < rows; i += N) {
		int v = before + i, at = v / CLUSTER;
		if (v % CLUSTER == block && (u32)at < LISTED)
			m.list[at] = {first + i, which};
	}
}

// Places n candidates by counting those that come before, ABREAST to a warp at a time; lists the first LISTED rows of
// the block.
__device__ inline void rank(Selection &m, const Head &a, int n, int block)
{
	const int warps = WARPS - PERTURBERS;
	int lane = lane_id(), x = lane % (WARP / ABREAST);
	u64 key[2];
	int rows[2];
#pragma unroll
	for (int j = 0; j < 2; j++) {
		Team t = m.few[j * WARP + lane]; // beyond n: anything
		key[j] = j * WARP + lane < n ? before_key(t) : 0;
		rows[j] = t.rows;
	}
#pragma unroll 1
	for (int first = warp_id(); first < n; first += ABREAST * warps) {
		int rank = 0, before = 0; // of the lane's candidate
		u64 mine[ABREAST];
#pragma unroll
		for (int c = 0; c < ABREAST; c++)
			mine[c] = before_key(m.few[min(first + c * warps, n - 1)]);
#pragma unroll
		for (int c = 0; c < ABREAST; c++) {
			int r = __popc(__ballot_sync(~0u, key[0] > mine[c])) + __popc(__ballot_sync(~0u, key[1] > mine[c]));
			int b = (key[0] > mine[c] ? rows[0] : 0) + (key[1] > mine[c] ? rows[1] : 0);
#pragma unroll 1
			for (int j = 2 * WARP; j < n; j += WARP) {
				Team t = m.few[min(j + lane, n - 1)];
				bool is = j + lane < n && before_key(t) > mine[c];
				r += __popc(__ballot_sync(~0u, is));
				b += is ? t.rows : 0;
			}
			b = __reduce_add_sync(~0u, b);
			if (lane / (WARP / ABREAST) == c)
				rank = r, before = b;
		}
		int i = first + lane / (WARP / ABREAST) * warps;
		if (i >= n || rank > a.k)
			continue;
		Team t = m.few[i];
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
			list_place<WARP / ABREAST>(m, i, t.first, before, t.rows, block, x);
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
