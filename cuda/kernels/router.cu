// The experts of every token, from the products with their gates: softmax over
// all in float32, the k largest, with groups > 1 only from the topGroups groups
// whose best expert is largest; the lower number first among equals.
// Grid: one block a token; dynamic shared memory: experts + groups floats. choose, for
// at most 32·EACH experts without groups, has 32 threads and needs none.
// ids, weights [tokens, k]; logits [tokens, experts].
// Source: DeepSeek-V2 modeling_deepseek.py, MoEGate.forward.
#include "choose.cuh"
#include "early.cuh"

struct Args {
	Mat<int> ids;
	Mat<float> weights;
	Mat<const float> logits;
	int experts, k, groups, topGroups, normalize;
	float scale;
};

#define TAKEN -1.f // below every probability

// The largest of n values, found by one warp; it is marked as taken.
__device__ int take_largest(float *values, int n, float *value)
{
	float best = TAKEN;
	int at = 0x7fffffff;
	for (int i = lane_id(); i < n; i += WARP)
		if (values[i] > best)
			best = values[i], at = i;
	for (int step = WARP / 2; step > 0; step /= 2) {
		float v = __shfl_xor_sync(~0u, best, step);
		int i = __shfl_xor_sync(~0u, at, step);
		if (v > best || v == best && i < at)
			best = v, at = i;
	}
	at = at < n ? at : 0; // all taken or NaN
	*value = best;
	__syncwarp();
	if (lane_id() == 0)
		values[at] = TAKEN;
	__syncwarp();
	return at;
}

__device__ void softmax(float *scores, int n)
{
	__shared__ float shared[WARP];
	float top = -INF, sum = 0;
	for (int e = threadIdx.x; e < n; e += blockDim.x)
		top = fmaxf(top, scores[e]);
	top = block_max(top, shared);
	for (int e = threadIdx.x; e < n; e += blockDim.x)
		sum += expf(scores[e] - top);
	sum = block_sum(sum, shared);
	for (int e = threadIdx.x; e < n; e += blockDim.x)
		scores[e] = expf(scores[e] - top) / sum;
	__syncthreads();
}

// Takes all experts out whose group is not among the best. One warp.
__device__ void keep_groups(const Args &a, float *scores, float *best)
{
	int size = a.experts / a.groups;
	for (int g = lane_id(); g < a.groups; g += WARP) {
		best[g] = 0;
		for (int e = 0; e < size; e++)
			best[g] = fmaxf(best[g], scores[g * size + e]);
	}
	__syncwarp();
	float score;
	for (int i = 0; i < a.topGroups; i++)
		take_largest(best, a.groups, &score);
	for (int e = lane_id(); e < a.experts; e += WARP)
		if (best[e / size] != TAKEN)
			scores[e] = TAKEN;
	__syncwarp();
}

#if EACH > 0
// router without groups, for at most 32 choices.
KERNEL choose(PARAM)
{
	let_next_start();
	wait_for_previous();
	float logit[EACH], weight;
	int id;
#pragma unroll
	for (int j = 0; j < EACH; j++) {
		int e = j * WARP + lane_id();
		logit[j] = e < a.experts ? a.logits.row(blockIdx.x)[e] : -INF;
	}
	choose_experts(logit, a.experts, a.k, a.normalize, a.scale, id, weight);
	if (lane_id() < a.k) {
		a.ids.row(blockIdx.x)[lane_id()] = id;
		a.weights.row(blockIdx.x)[lane_id()] = weight;
	}
}
#endif

KERNEL router(PARAM)
{
	extern __shared__ float scores[];
	let_next_start();
	wait_for_previous();
	for (int e = threadIdx.x; e < a.experts; e += blockDim.x)
		scores[e] = a.logits.row(blockIdx.x)[e];
	__syncthreads();
	softmax(scores, a.experts);
	if (warp_id() > 0)
		return;
	if (a.groups > 1)
		keep_groups(a, scores, scores + a.experts);
	float sum = 0;
	for (int j = 0; j < a.k; j++) {
		float score;
		int e = take_largest(scores, a.experts, &score);
		sum += score;
		if (lane_id() == 0) {
			a.ids.row(blockIdx.x)[j] = e;
			a.weights.row(blockIdx.x)[j] = score;
		}
	}
	float scale = a.normalize && a.k > 1 ? 1 / sum : a.scale;
	if (lane_id() == 0)
		for (int j = 0; j < a.k; j++)
			a.weights.row(blockIdx.x)[j] *= scale;
}
