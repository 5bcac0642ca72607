#pragma once
// The choice among experts by a warp that has the scores in registers.
#include "common.cuh"

__device__ inline u32 largest(u32 x)
{
#if __CUDA_ARCH__ >= 800
	return __reduce_max_sync(~0u, x);
#else
	for (int step = WARP / 2; step > 0; step /= 2)
		x = max(x, __shfl_xor_sync(~0u, x, step));
	return x;
#endif
}

// Softmax over the experts and the k largest, the lower number first among equals,
// for k ≤ 32 of at most 32·N experts: logit j of a lane is that of expert
// 32·j + lane. Lane i < k gets choice i; its weight is divided by the sum of all
// where normalize says so, else times scale.
template <int N>
__device__ inline void choose_experts(const float (&logit)[N], int experts, int k, bool normalize, float scale, int &id, float &weight)
{
	float score[N], top = -INF, sum = 0;
#pragma unroll
	for (int j = 0; j < N; j++)
		if (j * WARP + lane_id() < experts)
			top = fmaxf(top, logit[j]);
	top = warp_max(top);
#pragma unroll
	for (int j = 0; j < N; j++) {
		score[j] = j * WARP + lane_id() < experts ? expf(logit[j] - top) : 0;
		sum += score[j];
	}
	sum = warp_sum(sum);
	u32 key[N]; // above 0 while the expert is free; order as scores do
#pragma unroll
	for (int j = 0; j < N; j++) {
		score[j] /= sum;
		key[j] = j * WARP + lane_id() < experts ? __float_as_uint(score[j]) + 1 : 0;
	}
	id = 0, weight = 0;
	float total = 0;
	for (int i = 0; i < k; i++) {
		u32 mine = 0;
#pragma unroll
		for (int j = 0; j < N; j++)
			mine = max(mine, key[j]);
		u32 best = largest(mine), first = 0;
#pragma unroll
		for (int j = N - 1; j >= 0; j--)
			if (key[j] == best)
				first = ~(u32)(j * WARP + lane_id());
		int e = ~largest(first);
		float value = __uint_as_float(best - 1);
		total += value;
		if (lane_id() == i)
			id = e, weight = value;
#pragma unroll
		for (int j = 0; j < N; j++)
			if (e == j * WARP + lane_id())
				key[j] = 0;
	}
	weight *= normalize && k > 1 ? 1 / total : scale;
}
