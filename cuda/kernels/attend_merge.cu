// Puts the parts of decode attention together, in an order that depends on the
// number of rows alone.
// Grid: (heads, tokens, DV/64), 512 threads: a thread of 32 groups takes 4 columns
// of every 32nd part. out [tokens, heads, DV]; lse [tokens, heads] or null,
// natural log; parts: decode.cuh. read, if there is one, grows by keyHeads · rows
// of every token.
#include "decode.cuh"

#define THREADS 512
#define COLUMNS 64 // of a block
#define QUADS (COLUMNS / 4)
#define GROUPS (THREADS / QUADS)
#define WARPS (THREADS / WARP)
#define EACH ((PARTS + GROUPS - 1) / GROUPS) // parts of a group, and of a lane that weighs them
static_assert(GROUPS == WARP, "a lane weighs what a group adds");

struct Args {
	Cube<DST> out;
	Mat<float> lse;
	const float *parts;
	const Mass *mass;
	const int *from, *pos; // from or null: 0
	u64 *read;
	int heads, keyHeads, capacity;
};

extern "C" __global__ void __launch_bounds__(THREADS) attend_merge(PARAM)
{
	__shared__ float4 sums[WARPS][QUADS];
	int h = blockIdx.x, t = blockIdx.y, column = blockIdx.z * COLUMNS;
	int group = threadIdx.x / QUADS, quad = threadIdx.x % QUADS;
	let_next_start();
	wait_for_previous();
	// Everything is under way at once, parts that were not written too.
	i64 first = ((i64)t * a.heads + h) * PARTS;
	float4 x[EACH];
	Mass mass[EACH];
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		mass[i] = a.mass[first + min(i * GROUPS + lane_id(), PARTS - 1)];
		x[i] = *(const float4 *)(a.parts + (first + min(i * GROUPS + group, PARTS - 1)) * DV + column + 4 * quad);
	}
	Range range(Limits(a.from, a.pos, t), a.capacity);
	int n = range.parts();
	float top = -INF, sum = 0, weight[EACH];
#pragma unroll
	for (int i = 0; i < EACH; i++)
		if (i * GROUPS + lane_id() < n)
			top = fmaxf(top, mass[i].top);
	top = warp_max(top);
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		bool there = i * GROUPS + lane_id() < n;
		weight[i] = there ? power2(mass[i].top - reference(top)) : 0;
		sum += there ? weight[i] * mass[i].sum : 0;
	}
	sum = warp_sum(sum);
	float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		float w = __shfl_sync(~0u, weight[i], group);
		if (i * GROUPS + group < n)
			y.x += w * x[i].x, y.y += w * x[i].y, y.z += w * x[i].z, y.w += w * x[i].w;
	}
	y.x += __shfl_xor_sync(~0u, y.x, QUADS);
	y.y += __shfl_xor_sync(~0u, y.y, QUADS);
	y.z += __shfl_xor_sync(~0u, y.z, QUADS);
	y.w += __shfl_xor_sync(~0u, y.w, QUADS);
	if (lane_id() < QUADS)
		sums[warp_id()][lane_id()] = y;
	__syncthreads();
	if (threadIdx.x < COLUMNS) {
		float out = 0;
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			out += ((const float *)sums[w])[threadIdx.x];
		a.out.row(t, h)[column + threadIdx.x] = to<DST>(sum > 0 ? out / sum : 0);
	}
	if (threadIdx.x == 0 && blockIdx.z == 0) {
		if (a.lse.p)
			a.lse.row(t)[h] = sum > 0 ? (top + log2f(sum)) * LN2 : -INF;
		if (a.read && h == 0)
			atomicAdd(a.read, (u64)range.rows * a.keyHeads);
	}
}
