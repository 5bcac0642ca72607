#pragma once
// Finds the K largest of a head's perturbed scores and the next one, by one block of WARPS warps, and lists the rows of
// the teams that they belong to. What is here serves teams_few.cuh (K ≤ 64), teams_bins.cuh (more) and teams_any.cuh
// (whatever the scores are, in several times the time).
#include "teams.cuh"

#define LISTED (FEW_DRAWN ? 512 : MOST <= 256 ? 1024 : 2048) // rows of a block's list
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

// Lists the rows of a block, from number list · LISTED on, and finds the team of each: of the rows of all drawn teams,
// every CLUSTER-th is its own.
__device__ inline void list_rows(Selection &m, int list, int block)
{
	int n = min((m.rows - block + CLUSTER - 1) / CLUSTER - list * LISTED, LISTED);
#pragma unroll 1
	for (int i = threadIdx.x; i < n; i += 2 * THREADS) { // two rows of a thread side by side
		int row[2], team[2] = {};
#pragma unroll
		for (int j = 0; j < 2; j++)
			row[j] = (list * LISTED + i + j * THREADS) * CLUSTER + block;
#pragma unroll
		for (int step = MOST / 2; step > 0; step /= 2)
#pragma unroll
			for (int j = 0; j < 2; j++)
				if (team[j] + step < m.teams && m.before[team[j] + step] <= row[j])
					team[j] += step;
#pragma unroll
		for (int j = 0; j < 2; j++)
			if (i + j * THREADS < n)
				m.list[i + j * THREADS] = {m.drawn[team[j]].first + row[j] - m.before[team[j]], m.which[team[j]]};
	}
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
