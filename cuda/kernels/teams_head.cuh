#pragma once
// What the kernels that draw teams know of them.
#include "teams.cuh"

#define TOPS_EACH (TOPS / THREADS)
#define PER_GROUP (GROUP / 4) // lanes that look at a group of teams, 4 teams each
#define BINS 1024
#define ANY_BINS 2048
#define BORDER 256
#define MIDDLE 128

// A team that is a candidate or drawn.
struct __align__(16) Team {
	u32 key; // order_bits of the perturbed score
	int team, first, rows;
};

struct Head {
	const float *y, *top;
	const int *offsets;
	int teams, groups, k;
	u32 head, layer, pos, seed0, seed1;
};

__device__ inline float from_order_bits(u32 u) { return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u); }

// Orders teams as they are drawn.
__device__ inline u64 before_key(u32 key, int team) { return (u64)key << 32 | (u32)~team; }
__device__ inline u64 before_key(const Team &t) { return before_key(t.key, t.team); }

// A team's score before the noise.
__device__ inline float plain_score(const Head &a, const Team &t)
{
	Words w = philox_short(t.team / 4, a.head, a.layer, a.pos, a.seed0, a.seed1);
	u32 word = t.team & 2 ? t.team & 1 ? w.at[3] : w.at[2] : t.team & 1 ? w.at[1] : w.at[0];
	return from_order_bits(t.key) - gumbel_fast(word);
}
