#pragma once
// Draws up to 1,024 teams: two histograms leave few teams undecided, which are ranked by counting.
#include "teams_histogram.cuh"

#define MOST_QUADS 4 // of teams that a thread looks at, at most
#define EACH (CANDIDATES / THREADS)

// Ahead of the wait for the scores.
__device__ inline void prepare(Selection &m, const Head &a)
{
#pragma unroll 1
	for (int i = threadIdx.x; i < BINS; i += THREADS)
		m.bin[i] = m.fine[i] = 0;
#pragma unroll 1
	for (int i = threadIdx.x; i < CANDIDATES / 4; i += THREADS)
		((u32 *)m.won)[i] = 0;
	if (threadIdx.x == 0)
		m.undecided = m.teams = m.rows = 0, m.sure = true;
	__syncthreads();
}

// Decides the `in` teams of the crossing bin, of which K − above are drawn and the next one gives τ.
__device__ inline void decide(Selection &m, int k, int above, int in)
{
#pragma unroll 1
	for (int i = threadIdx.x; i < in; i += THREADS) {
		u64 mine = m.middle[i];
		int rank = rank_of(m.middle, in, mine, above);
		if (rank < k)
			m.won[m.middle_at[i]] = 1;
		if (rank == k)
			m.tau = from_order_bits(mine >> 32);
	}
	__syncthreads();
}

// Looks at the picked groups and collects the teams no farther from the top than `edge`, in the order of picks, counted
// by bins of by2; returns how many, or more than CANDIDATES.
__device__ inline int collect(Selection &m, const Head &a, int picks, float high, float by, float edge, float by2)
{
	int quads = picks * PER_GROUP, each = (quads + THREADS - 1) / THREADS, first = threadIdx.x * each, n = 0, all;
	if (each > MOST_QUADS)
		return CANDIDATES + 1;
	float y[MOST_QUADS][4];
	int team[MOST_QUADS] = {};
#pragma unroll
	for (int p = 0; p < MOST_QUADS; p++) {
		float4 x = make_float4(-INF, -INF, -INF, -INF);
		if (p < each && first + p < quads) {
			team[p] = m.pick[(first + p) / PER_GROUP] * GROUP + (first + p) % PER_GROUP * 4;
			x = fresh((const float4 *)(a.y + team[p]));
		}
		y[p][0] = x.x, y[p][1] = x.y, y[p][2] = x.z, y[p][3] = x.w;
	}
#pragma unroll
	for (int p = 0; p < MOST_QUADS; p++)
#pragma unroll
		for (int j = 0; j < 4; j++)
			n += distance(y[p][j], high, by) < edge;
	int at = scan(n, m.totals[0], all);
	if (all <= CANDIDATES) {
#pragma unroll
		for (int p = 0; p < MOST_QUADS; p++)
#pragma unroll
			for (int j = 0; j < 4; j++)
				if (distance(y[p][j], high, by) < edge) {
					m.few[at++] = (u64)order_bits(y[p][j]) << 32 | (u32)~(team[p] + j);
					atomicAdd(&m.fine[min((int)((high - y[p][j]) * by2), BINS - 1)], 1u);
				}
	}
	__syncthreads();
	return all;
}

// Selects, and lists the block's first LISTED rows; false where the scores lie too close for it. start is done while the
// scores are on their way, keep when they are there.
template <class Start, class Keep> __device__ inline bool draw(Selection &m, const Head &a, int block, Start start, Keep keep)
{
	float top[TOPS_EACH], high, low;
#pragma unroll
	for (int j = 0; j < TOPS_EACH; j++) {
		int g = j * THREADS + threadIdx.x;
		top[j] = g < a.groups ? fresh(a.top + g) : -INF;
	}
	start();
	range(m, top, high, low);
	keep();
	float by = fminf(0.9999f * BINS / (high - low), 1e30f);
	if (!(high - low < INF))
		return false;
	int own[TOPS_EACH];
#pragma unroll
	for (int j = 0; j < TOPS_EACH; j++) {
		own[j] = distance(top[j], high, by);
		if (own[j] < BINS)
			atomicAdd(&m.bin[own[j]], 1u);
	}
	__syncthreads();
	int all = find_bin(m, m.bin, a.k + 1, m.totals[1]), cross = m.cross, n = 0, picks;
	if (all <= a.k)
		return false; // more than one team of a group may be needed
#pragma unroll
	for (int j = 0; j < TOPS_EACH; j++)
		n += own[j] <= cross;
	int at = scan(n, m.totals[2], picks);
#pragma unroll
	for (int j = 0; j < TOPS_EACH; j++)
		if (own[j] <= cross)
			m.pick[at++] = j * THREADS + threadIdx.x;
	__syncthreads();
	float edge = cross + 1, by2 = by * (BINS / edge);
	n = collect(m, a, picks, high, by, edge, by2);
	if (n > CANDIDATES)
		return false;

	// Candidates threadIdx.x, threadIdx.x + THREADS, … are this thread's.
	Team own_team[EACH];
#pragma unroll
	for (int c = 0; c < EACH; c++) {
		int i = c * THREADS + threadIdx.x;
		u64 x = i < n ? m.few[i] : ~0u;
		own_team[c] = {(u32)(x >> 32), (int)~(u32)x, 0, 0};
		if (i < n) {
			own_team[c].first = fresh(a.offsets + own_team[c].team);
			own_team[c].rows = fresh(a.offsets + own_team[c].team + 1);
		}
	}
	find_bin(m, m.fine, a.k + 1, m.totals[1]); // there are that many
	cross = m.cross;
	int in = m.in, above = m.above, bin[EACH];
	if (in > MIDDLE)
		return false;
#pragma unroll
	for (int c = 0; c < EACH; c++) {
		bin[c] = c * THREADS + threadIdx.x < n ? min((int)((high - from_order_bits(own_team[c].key)) * by2), BINS - 1) : BINS;
		if (bin[c] == cross) {
			int at = take(&m.undecided, 1);
			m.middle[at] = (u64)own_team[c].key << 32 | (u32)~own_team[c].team;
			m.middle_at[at] = c * THREADS + threadIdx.x;
		}
	}
	__syncthreads();
	decide(m, a.k, above, in);
	int teams = 0, rows = 0;
	bool drawn[EACH];
#pragma unroll
	for (int c = 0; c < EACH; c++) {
		drawn[c] = bin[c] < cross || bin[c] == cross && m.won[c * THREADS + threadIdx.x];
		own_team[c].rows = max(own_team[c].rows - own_team[c].first, 0);
		teams += drawn[c], rows += drawn[c] ? own_team[c].rows : 0;
	}
	int place = scan(teams, m.totals[0], all), before = scan(rows, m.totals[3], all);
#pragma unroll
	for (int c = 0; c < EACH; c++)
		if (drawn[c]) {
			m.drawn[place] = own_team[c], m.before[place] = before, m.which[place] = place;
			place++, before += own_team[c].rows;
		}
	if (threadIdx.x == 0)
		m.teams = a.k, m.rows = all, m.sure = false;
	__syncthreads();
	list_rows(m, 0, block);
	return true;
}
