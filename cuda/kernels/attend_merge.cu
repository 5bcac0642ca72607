// Puts the parts of decode attention together, in an order that depends on the
// number of rows alone. With UP every head goes on through a matrix of its own, as
// HeadLinear does it: dst = w·out, in float32 in between.
// Grid: (DV/64, heads, tokens), 512 threads, with UP in clusters of DV/64: a thread
// of 32 groups takes 4 columns of every 32nd part. out [tokens, heads, DV]; lse
// [tokens, heads] or null, natural log; parts: decode.cuh. read, if there is one,
// grows by keyHeads · rows of every token. w [heads, outs, DV]: the blocks of a
// cluster send each other their columns, when all have said that their inboxes are open,
// and wait for no other blocks (one alone keeps them: nothing says that a block may send
// to itself); a warp does an output, whose weights are on their way before the kernel
// ahead has ended.
#include "shared.cuh"
#include "decode.cuh"

#define THREADS 512
#define COLUMNS 64 // of a block
#define CLUSTER (DV / COLUMNS)
#define QUADS (COLUMNS / 4)
#define GROUPS (THREADS / QUADS)
#define WARPS (THREADS / WARP)
#define EACH ((PARTS + GROUPS - 1) / GROUPS) // parts of a group
#define AHEAD 16 // outputs of a block whose weights come early

#ifndef UP
#define UP 0
#endif
#if UP
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

// Adds up what the warp's two groups have of the n parts: y, the values of a lane's columns,
// and all, the largest reference, which weights are relative to, with the sum of weights.
__device__ inline void add_parts(float4 &y, Mass &all, const float4 (&x)[EACH], const Mass (&mass)[EACH], int group, int n)
{
	y = make_float4(0, 0, 0, 0), all = Mass{-INF, 0};
#pragma unroll
	for (int i = 0; i < EACH; i++)
		if (i * GROUPS + group < n)
			all.top = fmaxf(all.top, mass[i].top);
	all.top = fmaxf(all.top, __shfl_xor_sync(~0u, all.top, QUADS));
#pragma unroll
	for (int i = 0; i < EACH; i++)
		if (i * GROUPS + group < n) {
			float w = power2(mass[i].top - reference(all.top));
			all.sum += w * mass[i].sum;
			y.x += w * x[i].x, y.y += w * x[i].y, y.z += w * x[i].z, y.w += w * x[i].w;
		}
	all.sum += __shfl_xor_sync(~0u, all.sum, QUADS);
	y.x += __shfl_xor_sync(~0u, y.x, QUADS);
	y.y += __shfl_xor_sync(~0u, y.y, QUADS);
	y.z += __shfl_xor_sync(~0u, y.z, QUADS);
	y.w += __shfl_xor_sync(~0u, y.w, QUADS);
}

// A column of the block's, divided by the sum of weights; all: of all parts.
__device__ inline float total(const float4 (*sums)[QUADS], const Mass *masses, int column, Mass &all)
{
	Mass mass[WARPS];
	all = Mass{-INF, 0};
#pragma unroll
	for (int w = 0; w < WARPS; w++)
		mass[w] = masses[w], all.top = fmaxf(all.top, mass[w].top);
	float out = 0;
#pragma unroll
	for (int w = 0; w < WARPS; w++) {
		float by = power2(mass[w].top - reference(all.top));
		all.sum += by * mass[w].sum;
		out += by * ((const float *)sums[w])[column];
	}
	return all.sum != 0 ? out / all.sum : 0;
}

// w·x, by a warp.
__device__ inline float product(const bf16 *w, const float *x)
{
	float y = 0;
#pragma unroll
	for (int c = 0; c < DV; c += 4 * WARP)
		if (int i = c + 4 * lane_id(); i < DV) {
			Vec<bf16, 4> v = *(const Vec<bf16, 4> *)(w + i);
			float4 z = *(const float4 *)(x + i);
			y += (z.x * f32(v.at[0]) + z.y * f32(v.at[1])) + (z.z * f32(v.at[2]) + z.w * f32(v.at[3]));
		}
	return warp_sum(y);
}

#if UP
// Gives a column of a head to all blocks of the cluster, and waits for theirs.
struct Columns {
	__align__(16) float all[DV];
	u64 inbox;

	__device__ void open()
	{
		if (CLUSTER == 1)
			return;
		if (threadIdx.x == 0)
			inbox_open(&inbox, DV * 4);
		cluster_arrive();
	}
	__device__ void others_are_open()
	{
		if (CLUSTER > 1)
			cluster_wait();
	}
	__device__ void give(int column, float x)
	{
		if (CLUSTER == 1)
			all[column] = x;
		else
#pragma unroll
			for (int b = 0; b < CLUSTER; b++)
				send(b, &all[column], x, &inbox);
	}
	__device__ void wait()
	{
		if (CLUSTER == 1)
			__syncthreads();
		else
			inbox_wait(&inbox);
	}
};

// The block's outputs of a head, a warp each.
__device__ inline void multiply(const Args &a, const bf16 (*weights)[DV], const float *head, int t, int h, int first_out, int outs)
{
	for (int o = warp_id(); o < outs; o += WARPS) {
		float y = product(o < AHEAD ? weights[o] : a.w.row(h, first_out + o), head);
		if (lane_id() == 0)
			a.dst.row(t, h)[first_out + o] = to<UP_DST>(y);
	}
}
#endif

extern "C" __global__ void __launch_bounds__(THREADS, 2) attend_merge(PARAM)
{
	__shared__ float4 sums[WARPS][QUADS];
	__shared__ Mass masses[WARPS];
	int h = blockIdx.y, t = blockIdx.z, column = blockIdx.x * COLUMNS;
	int group = threadIdx.x / QUADS, quad = threadIdx.x % QUADS;
#if UP
	__shared__ Columns head;
	__shared__ __align__(128) bf16 weights[AHEAD][DV];
	head.open();
	int share = (a.outs + CLUSTER - 1) / CLUSTER, first_out = blockIdx.x * share, outs = min(share, a.outs - first_out);
	for (int i = threadIdx.x * 8; i < min(outs, AHEAD) * DV; i += THREADS * 8)
		copy16(&weights[0][0] + i, a.w.row(h, first_out + i / DV) + i % DV);
	copy_end();
#endif
	// Where more waits for the result, how many parts there are is seen before the kernel
	// ahead is over, and anew after it.
	int likely = UP ? Range(Limits(a.from, a.pos, t), a.capacity).parts(PARTS, LEAST) : PARTS;
	let_next_start();
	wait_for_previous();
	// Everything is under way at once, some of it in vain.
	i64 first = ((i64)t * a.heads + h) * PARTS;
	float4 x[EACH];
	Mass mass[EACH];
	auto load = [&](int n) {
#pragma unroll
		for (int i = 0; i < EACH; i++)
			if (i * GROUPS < n) {
				i64 part = first + min(i * GROUPS + group, PARTS - 1);
				mass[i] = a.mass[part];
				x[i] = *(const float4 *)(a.parts + part * DV + column + 4 * quad);
			}
	};
	load(likely);
	Range range(Limits(a.from, a.pos, t), a.capacity);
	int n = range.parts(PARTS, LEAST);
	if (n > likely)
		load(n);
	float4 y;
	Mass all;
	add_parts(y, all, x, mass, group, n);
	if (lane_id() < QUADS)
		sums[warp_id()][lane_id()] = y;
	if (lane_id() == 0)
		masses[warp_id()] = all;
#if UP
	copy_wait<0>();
	__syncthreads();
	head.others_are_open();
	if (threadIdx.x < COLUMNS) {
		float out = total(sums, masses, threadIdx.x, all);
		a.out.row(t, h)[column + threadIdx.x] = to<DST>(out);
		head.give(column + threadIdx.x, out);
	}
	head.wait();
	multiply(a, weights, head.all, t, h, first_out, outs);
#else
	__syncthreads();
	if (threadIdx.x < COLUMNS)
		a.out.row(t, h)[column + threadIdx.x] = to<DST>(total(sums, masses, threadIdx.x, all));
#endif
	if (threadIdx.x == 0 && blockIdx.x == 0) {
		if (a.lse.p)
			a.lse.row(t)[h] = all.sum != 0 ? (all.top + log2f(all.sum)) * LN2 : -INF;
		if (a.read && h == 0)
			atomicAdd(a.read, (u64)range.rows * a.keyHeads);
	}
}
