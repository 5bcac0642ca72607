#pragma once
// What a lane of teams_score and of teams_score_wide does with the sums of its part of a slab: lane 4g + c has teams
// 4g … 4g + 3 for OWN of the HEADS query heads of a key head. Of the types, A is the kernel's struct Args and H its struct
// Heads: head_of(n) is the n-th of a lane's heads, which is not there from HEADS on.
#include "teams.cuh"

// The Gumbel noise of a lane's teams and heads.
template <class A, class H> __device__ inline void perturb(float (&noise)[OWN][4], const A &a, H head_of, int kv, int slab, u32 pos, u32 seed0, u32 seed1)
{
	u32 heads[OWN];
	Words w[OWN];
#pragma unroll
	for (int n = 0; n < OWN; n++)
		heads[n] = kv * HEADS + head_of(n);
	philox_abreast<OWN>(w, slab * (SLAB / 4) + lane_id() / 4, heads, a.layer, pos, seed0, seed1);
#pragma unroll
	for (int n = 0; n < OWN; n++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			noise[n][i] = gumbel_fast(w[n].at[i]);
}

// Makes and writes the perturbed scores y of a lane's teams for its head h, with REPORT those without noise, too; add is the
// bias. The largest y is returned.
template <class A> __device__ inline float write_scores(float (&y)[4], const A &a, const float (&sum)[4], float scale, const float (&add)[4],
	const float (&noise)[4], int kv, int slab, int h)
{
	int first = slab * SLAB + lane_id() / 4 * 4, head = kv * HEADS + h;
#pragma unroll
	for (int i = 0; i < 4; i++) // a maximum with −Inf is never NaN
		y[i] = fmaxf(scale * sum[i] + (add[i] + noise[i]), -INF);
	if (h < HEADS)
		*(float4 *)(a.y.row(head) + first) = make_float4(y[0], y[1], y[2], y[3]);
	float top = fmaxf(fmaxf(y[0], y[1]), fmaxf(y[2], y[3]));
	if (REPORT && h < HEADS)
		for (int i = 0; i < 4; i++)
			if (first + i < a.teams)
				a.phi.row(0, head)[first + i] = fmaxf(scale * sum[i] + add[i], -INF);
	return top;
}

// Writes the largest scores of the slab's groups of GROUP teams, if there are groups; top has those of a lane's teams.
template <class A, class H> __device__ inline void write_tops(const A &a, float (&top)[OWN], H head_of, int kv, int slab)
{
#if GROUP > 0
	int g = lane_id() / 4;
#pragma unroll
	for (int step = 4; step < GROUP; step *= 2)
#pragma unroll
		for (int n = 0; n < OWN; n++)
			top[n] = fmaxf(top[n], __shfl_xor_sync(~0u, top[n], step));
#pragma unroll
	for (int n = 0; n < OWN; n++)
		if (g % (GROUP / 4) == 0 && head_of(n) < HEADS)
			a.top.row(kv * HEADS + head_of(n))[slab * (SLAB / GROUP) + g / (GROUP / 4)] = top[n];
#endif
}

// Adds to read the teams that a block has found: the last of its WARPS to come here does. Warps with the same teams are its
// parts, of which the first tells. routed: teams so far, and in the upper byte warps that have come.
__device__ inline void add_teams(u64 *read, u32 &routed, u32 there, int part)
{
	there = part == 0 ? __reduce_add_sync(~0u, there) : 0;
	if (lane_id() == 0) {
		u32 before = atomicAdd(&routed, 1u << 24 | there);
		if (before >> 24 == WARPS - 1)
			atomicAdd(read, (u64)((before & 0xffffff) + there));
	}
}
