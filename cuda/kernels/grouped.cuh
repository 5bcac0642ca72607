#pragma once
// What a warp has of attention with grouped queries, at most 8 heads a key head, by mma.sync (decode.cuh): rows are the
// long side of the products, heads the short one. Lane 4g + c has rows g and g + 8 of a tile, the heads 2c and 2c + 1, and
// columns of the sums as mma leaves them.
#include "tensor.cuh"

#define HALVES (D / 64) // 64 columns
#define SUMS (D / 16)   // products that cover the columns

// The ELEMENTs, bf16 or half, in the halves of a word.
__device__ inline float low_half(u32 x) { return f32(ELEMENT{(u16)x}); }
__device__ inline float high_half(u32 x) { return f32(ELEMENT{(u16)(x >> 16)}); }

__device__ inline u32 word(const uint4 &x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

// The 8 × 8 matrix of ELEMENT of which every lane holds two neighbours, transposed.
__device__ inline u32 transposed(u32 x)
{
	u32 y;
	asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
	return y;
}

// Attention of a warp: the sums of the heads over the lane's rows, the columns of sum[i] as mma leaves them.
struct State {
	float acc[SUMS][4] = {};
	float top[2] = {-INF, -INF}, sum[2] = {};
};

// Brings the state to the largest logits that any lane has.
__device__ inline void raise(State &z, float (&top)[2])
{
#pragma unroll
	for (int step = 4; step < WARP; step *= 2)
#pragma unroll
		for (int h = 0; h < 2; h++)
			top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], step));
	if (__any_sync(~0u, top[0] != z.top[0] || top[1] != z.top[1])) {
		float shrink[2];
#pragma unroll
		for (int h = 0; h < 2; h++) {
			shrink[h] = power2(z.top[h] - reference(top[h]));
			z.sum[h] *= shrink[h];
			z.top[h] = top[h];
		}
#pragma unroll
		for (int i = 0; i < SUMS; i++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				z.acc[i][e] *= shrink[e % 2];
	}
}

// Adds up the lanes' sums of weights, and leaves a warp's for its block.
__device__ inline void leave_mass(State &z, float2 (*tops)[4], float2 (*sums)[4])
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
	for (int step = 4; step < WARP; step *= 2)
#pragma unroll
		for (int h = 0; h < 2; h++)
			z.sum[h] += __shfl_xor_sync(~0u, z.sum[h], step);
	if (g == 0) {
		tops[warp_id()][c] = make_float2(z.top[0], z.top[1]);
		sums[warp_id()][c] = make_float2(z.sum[0], z.sum[1]);
	}
}
