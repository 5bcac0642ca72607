// Puts the parts of decode attention together, in an order that depends on the
// number of rows alone. With UP every head goes on through a matrix of its own, as
// HeadLinear does it: dst = w·out, in float32 in between.
// Grid: (DV/64, heads, tokens), 512 threads, with UP in clusters of DV/64: a thread
// of 32 groups takes 4 columns of every 32nd part. out [tokens, heads, DV]; lse
// [tokens, heads] or null, natural log; parts: decode.cuh. read, if there is one,
// grows by keyHeads · rows of every token. w [heads, outs, DV]: the blocks of a
// cluster send each other their columns, and a warp does an output, whose weights
// are on their way before the kernel ahead has ended.
#include "cluster.cuh"
#include "decode.cuh"

#define THREADS 512
#define COLUMNS 64 // of a block
#define CLUSTER (DV / COLUMNS)
#define QUADS (COLUMNS / 4)
#define GROUPS (THREADS / QUADS)
#define WARPS (THREADS / WARP)
#define EACH ((PARTS + GROUPS - 1) / GROUPS) // parts of a group, and of a lane that weighs them
static_assert(GROUPS == WARP, "a lane weighs what a group adds");

#if UP
#define VEC 8
#define LOADS ((DV + WARP * VEC - 1) / (WARP * VEC)) // of a lane, for an output
#define UP_TYPE UP_DST
#else
#define UP_TYPE DST
#endif

struct Args {
	Cube<DST> out;
	Mat<float> lse;
	const float *parts;
	const Mass *mass;
	const int *from, *pos; // from or null: 0
	u64 *read;
	Cube<UP_TYPE> dst;
	Cube<const bf16> w;
	int heads, keyHeads, capacity, outs;
};

#if UP
struct Output {
	Loaded<bf16, VEC> w[LOADS];
	__device__ void load(const Args &a, int h, int o)
	{
#pragma unroll
		for (int n = 0; n < LOADS; n++)
			if (int i = (n * WARP + lane_id()) * VEC; i < DV)
				w[n] = stream<bf16, VEC>(a.w.row(h, o) + i);
	}
	__device__ float times(const float *x) const
	{
		float sum = 0;
#pragma unroll
		for (int n = 0; n < LOADS; n++)
			if (int i = (n * WARP + lane_id()) * VEC; i < DV)
#pragma unroll
				for (int j = 0; j < VEC; j++)
					sum += x[i + j] * number<bf16>(w[n], j);
		return warp_sum(sum);
	}
};
#endif

// A column of the block's, divided by the sum of weights.
__device__ inline float total(const float4 (*sums)[QUADS], int column, float sum)
{
	float out = 0;
#pragma unroll
	for (int w = 0; w < WARPS; w++)
		out += ((const float *)sums[w])[column];
	return sum > 0 ? out / sum : 0;
}

extern "C" __global__ void __launch_bounds__(THREADS) attend_merge(PARAM)
{
	__shared__ float4 sums[WARPS][QUADS];
	int h = blockIdx.y, t = blockIdx.z, column = blockIdx.x * COLUMNS;
	int group = threadIdx.x / QUADS, quad = threadIdx.x % QUADS;
#if UP
	__shared__ float head[DV];
	__shared__ u64 inbox;
	if (threadIdx.x == 0)
		inbox_open(&inbox, DV * 4);
	cluster_arrive();
	int share = (a.outs + CLUSTER - 1) / CLUSTER, o = blockIdx.x * share + warp_id(), end = min((blockIdx.x + 1) * share, a.outs);
	Output output;
	if (o < end)
		output.load(a, h, o);
#endif
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
#if UP
	// Every thread of a column has a block to send it to.
	float out = total(sums, threadIdx.x % COLUMNS, sum);
	if (threadIdx.x < COLUMNS)
		a.out.row(t, h)[column + threadIdx.x] = to<DST>(out);
	cluster_wait();
	if (int to = threadIdx.x / COLUMNS; to < CLUSTER)
		send(to, &head[column + threadIdx.x % COLUMNS], out, &inbox);
	inbox_wait(&inbox);
	while (o < end) {
		float y = output.times(head);
		if (lane_id() == 0)
			a.dst.row(t, h)[o] = to<UP_DST>(y);
		if ((o += WARPS) < end)
			output.load(a, h, o);
	}
#else
	if (threadIdx.x < COLUMNS)
		a.out.row(t, h)[column + threadIdx.x] = to<DST>(total(sums, threadIdx.x, sum));
#endif
	if (threadIdx.x == 0 && blockIdx.x == 0) {
		if (a.lse.p)
			a.lse.row(t)[h] = sum > 0 ? (top + log2f(sum)) * LN2 : -INF;
		if (a.read && h == 0)
			atomicAdd(a.read, (u64)range.rows * a.keyHeads);
	}
}
