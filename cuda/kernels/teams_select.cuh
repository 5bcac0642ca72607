#pragma once
// Finds the K largest of a head's perturbed scores and the next one, by one block of WARPS warps, and lists the rows of
// the teams that they belong to. What is here serves teams_few.cuh (K ≤ 64), teams_bins.cuh (more) and teams_any.cuh
// (whatever the scores are, in several times the time).
#include "teams_head.cuh"

#define LISTED (FEW_DRAWN ? 512 : MOST <= 256 ? 1024 : 2048) // rows of a block's list
#include "teams_memory.cuh"

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
