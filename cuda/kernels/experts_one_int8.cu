// dst += Σⱼ weights[j]·expert(ids[j])(x) for one token, weights of signed bytes, by
// int8_one.cuh. x, dst [hidden]; ids, weights [k]; inner [k, innerLD] of x's type.
// Hidden size and widths are multiples of 16, rows begin at multiples of 16 bytes.
// Choices are summed in order.
#include "int8_one.cuh"
#include "expert.cuh"

struct Args {
	DST *dst;
	const SRC *x;
	const int *ids;
	const float *weights;
	const Expert *table;
	SRC *inner;
	int innerLD, hidden, width, k, experts, pad; // width: of the widest
};

// An expert of the table; null for an id outside it. The router has ended, but
// what this processor has cached may be older.
__device__ inline const Expert *expert(const Args &a, int j)
{
	int id;
	asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(id) : "l"(a.ids + j));
	return (u32)id < (u32)a.experts ? a.table + id : nullptr;
}

#define GROUPS (WARPS / SPLIT)

// Brings the table near: its rows are read in the middle of a chain of loads.
__device__ inline void prefetch_table(const Args &a)
{
	for (int i = threadIdx.x * 128; i < a.experts * (int)sizeof(Expert); i += blockDim.x * 128)
		asm volatile("prefetch.global.L2 [%0];" ::"l"((const u8 *)a.table + i));
}

// inner = silu(gate·x)·(up·x). A block has WARPS warps: SPLIT of them share 8
// neighbouring outputs of gate and up. Grid: (groups of 8 outputs of all choices /
// GROUPS); 192 bytes of dynamic shared memory for every 64 of hidden.
extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS) gate_up(PARAM)
{
	extern __shared__ __align__(16) u8 planes[]; // [chunks][3][CHUNK]
	__shared__ float tops[WARPS], sums[2][WARPS][8];
	prefetch_table(a);
	wait_for_previous();
	let_next_start(); // not before: down reads ids early, which the kernel ahead has written
	int groups = (a.width + 7) / 8;
	int task = blockIdx.x * GROUPS + warp_id() / SPLIT, slice = warp_id() % SPLIT;
	int choice = task / groups, first = task % groups * 8;
	const Expert *e = choice < a.k ? expert(a, choice) : nullptr;
	int chunks = (a.hidden + CHUNK - 1) / CHUNK, size = (chunks + SPLIT - 1) / SPLIT;
	int from = min(chunks, slice * size), to = min(chunks, from + size);
	bool mine = e && first < e->width;
	Rows<DEPTH> gate, up;
	if (mine) {
		int row = min(first + lane_id() / 4, (int)e->width - 1);
		gate.begin(e->gate + row * e->gateLD, from, to, a.hidden);
		up.begin(e->up + row * e->upLD, from, to, a.hidden);
	}
	// The result that this thread will store: what it needs is on its way early.
	int owner = threadIdx.x / 8, of = blockIdx.x * GROUPS + owner, o = of % groups * 8 + threadIdx.x % 8;
	const Expert *last = owner < GROUPS && of / groups < a.k ? expert(a, of / groups) : nullptr;
	bool stores = last && o < last->width;
	float gateScale = stores ? last->gateScale[o] : 0, upScale = stores ? last->upScale[o] : 0;

	float x[8], top = 0;
	const int STEP = GROUPS * WARP * 8;
	int begin = from * CHUNK + (warp_id() / SPLIT * WARP + lane_id()) * 8;
#pragma unroll 1
	for (int i = begin; i < min(to * CHUNK, a.hidden); i += STEP) {
		load8(x, a.x + i);
#pragma unroll
		for (int j = 0; j < 8; j++)
			top = fmaxf(top, magnitude(x[j]));
	}
	top = warp_max(top);
	if (lane_id() == 0)
		tops[warp_id()] = top;
	__syncthreads();
	for (int g = 0; g < GROUPS; g++)
		top = fmaxf(top, tops[g * SPLIT + slice]);
	Fixed fixed = fixed_point(top);
#pragma unroll 1
	for (int i = begin; i < to * CHUNK; i += STEP) {
		if (i < a.hidden) {
			load8(x, a.x + i);
		} else {
#pragma unroll
			for (int j = 0; j < 8; j++)
				x[j] = 0;
		}
		put_planes(planes, i, x, fixed.up);
	}
	__syncthreads();

	if (mine) {
		for (int c = from; c < to; c += DEPTH)
#pragma unroll
			for (int n = 0; n < DEPTH; n++) {
				if (c + n >= to)
					break;
				uint4 bytes = plane_bytes(planes, c + n);
				gate.step(n, c + n, bytes);
				up.step(n, c + n, bytes);
			}
		float g[2], u[2];
		gate.result(g, fixed.back);
		up.result(u, fixed.back);
		if (lane_id() < 4)
#pragma unroll
			for (int i = 0; i < 2; i++)
				sums[0][warp_id()][2 * lane_id() + i] = g[i], sums[1][warp_id()][2 * lane_id() + i] = u[i];
	}
	__syncthreads();
	if (!stores)
		return;
	float yg = 0, yu = 0;
	for (int s = 0; s < SPLIT; s++)
		yg += sums[0][owner * SPLIT + s][threadIdx.x % 8], yu += sums[1][owner * SPLIT + s][threadIdx.x % 8];
	yg = yg * gateScale + bias_at(last->gateBias, o), yu = yu * upScale + bias_at(last->upBias, o);
	a.inner[of / groups * a.innerLD + o] = ::to<SRC>(silu(yg) * yu);
}

// dst += Σⱼ weights·(down·inner). A block owns 8 outputs; DOWN_SPLIT warps share
// those of a choice, each with a slice of its inner values. Grid: (hidden / 8),
// threads: 32·DOWN_SPLIT·k, up to 1,024; dynamic shared memory: for every such
// warp the planes of its slice, then 8 floats.
extern "C" __global__ void down(PARAM)
{
	extern __shared__ __align__(16) u8 planes[];
	let_next_start();
	int warps = blockDim.x / WARP, tasks = a.k * DOWN_SPLIT, first = blockIdx.x * 8, row = min(first + lane_id() / 4, a.hidden - 1);
	int most = ((a.width + CHUNK - 1) / CHUNK + DOWN_SPLIT - 1) / DOWN_SPLIT; // chunks of a slice
	u8 *mine = planes + warp_id() * most * (3 * CHUNK);
	float *sums = (float *)(planes + warps * most * (3 * CHUNK)); // [tasks][8]
	bool waited = false;
	for (int task = warp_id(); task < tasks; task += warps) {
		int j = task / DOWN_SPLIT, slice = task % DOWN_SPLIT;
		const Expert *e = expert(a, j);
		int width = e ? e->width : 0, chunks = (width + CHUNK - 1) / CHUNK;
		int from = min(chunks, slice * most), to = min(chunks, from + most);
		Rows<DOWN_DEPTH> rows;
		rows.begin(e ? e->down + row * e->downLD : nullptr, from, to, width);
		float scale = e && lane_id() < 8 ? e->downScale[min(first + lane_id(), a.hidden - 1)] : 0;
		if (!waited)
			wait_for_previous();
		waited = true;

		const SRC *inner = a.inner + j * a.innerLD;
		float x[8], top = 0;
		int begin = from * CHUNK + lane_id() * 8;
#pragma unroll 1
		for (int i = begin; i < min(to * CHUNK, width); i += WARP * 8) {
			load8(x, inner + i);
#pragma unroll
			for (int n = 0; n < 8; n++)
				top = fmaxf(top, magnitude(x[n]));
		}
		Fixed fixed = fixed_point(warp_max(top));
		__syncwarp();
#pragma unroll 1
		for (int i = begin; i < to * CHUNK; i += WARP * 8) {
			if (i < width) {
				load8(x, inner + i);
			} else {
#pragma unroll
				for (int n = 0; n < 8; n++)
					x[n] = 0;
			}
			put_planes(mine, i - from * CHUNK, x, fixed.up);
		}
		__syncwarp();
		for (int c = from; c < to; c += DOWN_DEPTH)
#pragma unroll
			for (int n = 0; n < DOWN_DEPTH; n++) {
				if (c + n >= to)
					break;
				rows.step(n, c + n, plane_bytes(mine, c + n - from));
			}
		float y[2], s0 = __shfl_sync(~0u, scale, 2 * lane_id()), s1 = __shfl_sync(~0u, scale, 2 * lane_id() + 1);
		rows.result(y, fixed.back);
		if (lane_id() < 4)
			sums[task * 8 + 2 * lane_id()] = y[0] * s0, sums[task * 8 + 2 * lane_id() + 1] = y[1] * s1;
	}
	if (!waited)
		wait_for_previous();
	__syncthreads();
	int o = first + threadIdx.x;
	if (threadIdx.x >= 8 || o >= a.hidden)
		return;
	float y = 0;
	for (int j = 0; j < a.k; j++)
		if (const Expert *e = expert(a, j)) {
			float s = 0;
			for (int i = 0; i < DOWN_SPLIT; i++)
				s += sums[(j * DOWN_SPLIT + i) * 8 + threadIdx.x];
			y += a.weights[j] * (s + bias_at(e->downBias, o));
		}
	DST *dst = a.dst + o;
	*dst = ::to<DST>(f32(*dst) + y);
}
