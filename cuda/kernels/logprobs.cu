// The n most probable tokens with ln of their probabilities, and that of one
// token. Grid: one block of 1,024 threads; a pass over the logits for each.
// ids, logprobs [n]; chosen [1]; logits [vocab]; id [1].
#include "common.cuh"

struct Args {
	int *ids;
	float *logprobs, *chosen;
	const float *logits;
	const int *id;
	int n, vocab;
};

// Falling logits, lower ids first; NaN last.
__device__ u64 key(const Args &a, int i)
{
	float x = a.logits[i];
	return (u64)(x != x ? 0 : order_bits(x)) << 32 | (u32)~i;
}

KERNEL top_logprobs(PARAM)
{
	__shared__ float floats[WARP];
	__shared__ u64 keys[2][WARP];
	float top = -INF, sum = 0;
#pragma unroll 8
	for (int i = threadIdx.x; i < a.vocab; i += blockDim.x)
		top = fmaxf(top, a.logits[i]);
	top = block_max(top, floats);
#pragma unroll 8
	for (int i = threadIdx.x; i < a.vocab; i += blockDim.x)
		sum += expf(a.logits[i] - top);
	float whole = top + logf(block_sum(sum, floats));

	u64 last = ~0ull;
	for (int j = 0; j < a.n; j++) {
		u64 best = 0;
#pragma unroll 8
		for (int i = threadIdx.x; i < a.vocab; i += blockDim.x) {
			u64 k = key(a, i);
			best = k < last ? max(best, k) : best;
		}
		for (int step = WARP / 2; step > 0; step /= 2)
			best = max(best, __shfl_xor_sync(~0u, best, step));
		if (lane_id() == 0)
			keys[j % 2][warp_id()] = best;
		__syncthreads();
		for (int w = 0; w < WARP; w++)
			best = max(best, keys[j % 2][w]);
		last = best;
		if (threadIdx.x == 0) {
			a.ids[j] = ~(u32)best;
			a.logprobs[j] = a.logits[~(u32)best] - whole;
		}
	}
	if (threadIdx.x == 0)
		*a.chosen = (u32)*a.id < (u32)a.vocab ? a.logits[*a.id] - whole : INF - INF;
}
