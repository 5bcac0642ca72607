#pragma once
// Finds the K largest of a head's perturbed scores and the next one, by one block of WARPS warps, and lists the rows of
// the teams that they belong to. What is here serves teams_few.cuh (K ≤ 64), teams_bins.cuh (more) and teams_any.cuh
// (whatever the scores are, in several times the time).
#include "teams.cuh"

#define LISTED (FEW_DRAWN ? 512 : 1024) // rows of a block's list
#define TOPS_EACH (TOPS / THREADS)
#define PER_GROUP (GROUP / 4)   // lanes that look at a group of teams, 4 teams each
#define BINS 1024
#define ANY_BINS 2048
#define BORDER 256
#define MIDDLE 128

// A team that is a candidate or drawn.
struct __align__(16) Team {
	u32 key; // order_bits of the perturbed score
	int team, first, rows;
};

#include "teams_memory.cuh"

struct Head {
	const float *y, *top;
	const int *offsets;
	int teams, groups, k;
	u32 head, layer, pos, seed0, seed1;
};

__device__ inline float from_order_bits(u32 u) { return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u); }

// Orders teams as they are drawn.
__device__ inline u64 before_key(const Team &t) { return (u64)t.key << 32 | (u32)~t.team; }

// A team's score before the noise.
__device__ inline float plain_score(const Head &a, const Team &t)
{
	Words w = philox_short(t.team / 4, a.head, a.layer, a.pos, a.seed0, a.seed1);
	u32 word = t.team & 2 ? t.team & 1 ? w.at[3] : w.at[2] : t.team & 1 ? w.at[1] : w.at[0];
	return from_order_bits(t.key) - gumbel_fast(word);
}

// Writes the rows of a team into the list of the block that reads them: every CLUSTER-th row is its own. list is the
// number of lists before this one, x one of N threads.
template <int N> __device__ inline void list_place(Selection &m, int which, int first, int before, int rows, int list, int block, int x)
{
#pragma unroll 1
	for (int i = x; i < rows; i += N) {
		int v = before + i, at = v / CLUSTER - list * LISTED;
		if (v % CLUSTER == block && (u32)at < LISTED)
			m.list[at] = {first + i, which};
	}
}

// Lists the rows of a block anew.
__device__ inline void list_rows(Selection &m, int list, int block)
{
#pragma unroll 1
	for (int i = threadIdx.x / 8; i < m.teams; i += THREADS / 8)
		list_place<8>(m, m.which[i], m.drawn[i].first, m.before[i], m.drawn[i].rows, list, block, threadIdx.x % 8);
	__syncthreads();
}

// ln c / ln 2 of a team from its score without noise.
__device__ inline float log2_chance(const Selection &m, float score) { return m.sure ? 0 : log2_inclusion(score - m.tau); }

// Finds what less has of the drawn teams.
__device__ inline void correct(Selection &m, const Head &a)
{
#pragma unroll 1
	for (int i = threadIdx.x; i < m.teams; i += THREADS)
		m.less[i] = PLAIN ? plain_score(a, m.drawn[i]) : log2_chance(m, plain_score(a, m.drawn[i]));
}
