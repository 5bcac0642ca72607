#pragma once
// How the blocks of teams_union put their sums together.
#include "union_rows.cuh"

#define SHARE (D / PARTS) // columns that a block adds up
#define GROUPS (THREADS / SHARE)
#define PART (D + 2) // numbers that a block has of a head: the largest logit, the sum of weights, weighted values

struct Joined {
	float weight[BLOCKS], column[GROUPS][SHARE]; // of the blocks; of the block
	float2 tops[WARPS][4], sums[WARPS][4];       // of the warps
};

// Puts the warps' states together and leaves the block's part.
__device__ inline void hand_on(State &z, Joined &m, float4 (*sums)[SUMS][WARP], float *parts)
{
	int g = lane_id() / 4, c = lane_id() % 4;
	leave_mass(z, m.tops, m.sums);
	__syncthreads(); // and the ring is free
	float top[2] = {-INF, -INF};
#pragma unroll 4
	for (int w = 0; w < WARPS; w++) {
		float2 t = m.tops[w][c];
		top[0] = fmaxf(top[0], t.x), top[1] = fmaxf(top[1], t.y);
	}
	float shrink[2] = {power2(z.top[0] - reference(top[0])), power2(z.top[1] - reference(top[1]))};
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		sums[warp_id()][i][lane_id()] = make_float4(z.acc[i][0] * shrink[0], z.acc[i][1] * shrink[1], z.acc[i][2] * shrink[0], z.acc[i][3] * shrink[1]);
	__syncthreads();
	for (int i = threadIdx.x; i < SUMS * WARP * 2; i += THREADS) {
		int sum = i / (WARP * 2), lane = i / 2 % WARP, odd = i % 2, column = sum / 4 * 64 + lane / 4 * 8 + sum % 4 * 2 + odd, h = lane % 4 * 2;
		float2 y = make_float2(0, 0);
#pragma unroll 4
		for (int w = 0; w < WARPS; w++) {
			float2 x = ((float2 *)&sums[w][sum][lane])[odd];
			y.x += x.x, y.y += x.y;
		}
		if (h < HEADS)
			parts[h * PART + 2 + column] = y.x;
		if (h + 1 < HEADS)
			parts[(h + 1) * PART + 2 + column] = y.y;
	}
	if (threadIdx.x < 4) {
		float sum[2] = {};
#pragma unroll 4
		for (int w = 0; w < WARPS; w++) {
			float2 t = m.tops[w][c], x = m.sums[w][c];
			sum[0] += x.x * power2(t.x - reference(top[0])), sum[1] += x.y * power2(t.y - reference(top[1]));
		}
#pragma unroll
		for (int h = 0; h < 2; h++)
			if (2 * c + h < HEADS)
				*(float2 *)&parts[(2 * c + h) * PART] = make_float2(top[h], sum[h]);
	}
}

// Waits until all blocks of the key head have left their sums.
__device__ inline void meet(u32 *arrived)
{
	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence();
		atomicAdd(arrived, 1u);
		while (*(volatile u32 *)arrived < BLOCKS) {
		}
		__threadfence();
	}
	__syncthreads();
}

// Adds up the block's columns of a head.
__device__ inline void finish(const Cube<DST> &out, Joined &m, const float *parts, int head, int first)
{
	int column = threadIdx.x % SHARE, group = threadIdx.x / SHARE;
	float x[(BLOCKS + GROUPS - 1) / GROUPS], top = -INF, sum = 0;
	float2 mass[(BLOCKS + WARP - 1) / WARP];
#pragma unroll
	for (int i = 0; i < sizeof(x) / 4; i++) {
		int b = i * GROUPS + group;
		x[i] = b < BLOCKS ? fresh(parts + b * HEADS * PART + 2 + first + column) : 0;
	}
#pragma unroll
	for (int i = 0; i < sizeof(mass) / 8; i++) {
		int b = i * WARP + lane_id();
		mass[i] = b < BLOCKS ? fresh((const float2 *)(parts + b * HEADS * PART)) : make_float2(-INF, 0);
		top = fmaxf(top, mass[i].x);
	}
	top = warp_max(top);
#pragma unroll
	for (int i = 0; i < sizeof(mass) / 8; i++) {
		float w = power2(mass[i].x - reference(top));
		sum += w * mass[i].y;
		if (warp_id() == 0 && i * WARP + lane_id() < BLOCKS)
			m.weight[i * WARP + lane_id()] = w;
	}
	sum = warp_sum(sum);
	__syncthreads();
	float y = 0;
#pragma unroll
	for (int i = 0; i < sizeof(x) / 4; i++)
		y += i * GROUPS + group < BLOCKS ? m.weight[i * GROUPS + group] * x[i] : 0;
	m.column[group][column] = y;
	__syncthreads();
	if (threadIdx.x >= SHARE)
		return;
	y = 0;
#pragma unroll 4
	for (int i = 0; i < GROUPS; i++)
		y += m.column[i][column];
	out.row(0, head)[first + column] = to<DST>(sum != 0 ? y / sum : 0);
}
