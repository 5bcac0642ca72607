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
#define MINE ((PARTS + WARP - 1) / WARP) // parts that a lane weighs

struct Args {
	Cube<DST> out;
	Mat<float> lse;
	const float *parts;
	const Mass *mass;
	const int *from, *pos; // from or null: 0
	u64 *read;
	int heads, keyHeads, capacity;
};

struct Memory {
	float parts[PARTS][COLUMNS];
	float4 sums[WARPS][QUADS];
	u64 full; // barrier
};

__device__ inline u32 address(const void *p) { return __cvta_generic_to_shared(p); }

// Brings n parts, the same way for the whole block: by the copy engine, which the
// little cache that attend_latent leaves does not slow down. phase counts calls.
struct Copy {
#if __CUDA_ARCH__ >= 900
	__device__ Copy(Memory &m)
	{
		if (threadIdx.x == 0) {
			asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(address(&m.full)) : "memory");
			asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
		}
		__syncthreads();
	}
	__device__ void start(Memory &m, const float *from, int n)
	{
		if (threadIdx.x > 0)
			return;
		u32 bytes = n * COLUMNS * 4;
		asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(address(&m.full)), "r"(bytes) : "memory");
		if (bytes > 0)
			asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
				:: "r"(address(m.parts)), "l"(from), "r"(bytes), "r"(address(&m.full)) : "memory");
	}
	__device__ void wait(Memory &m, u32 phase)
	{
		u32 done;
		do {
			asm volatile("{\n.reg .pred p;\n"
				"mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
				"selp.u32 %0, 1, 0, p;\n}" : "=r"(done) : "r"(address(&m.full)), "r"(phase) : "memory");
		} while (!done);
	}
#else
	__device__ Copy(Memory &) {}
	__device__ void start(Memory &m, const float *from, int n)
	{
		for (int i = threadIdx.x; i < n * QUADS; i += THREADS)
			asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(address((float4 *)m.parts + i)), "l"((const float4 *)from + i) : "memory");
	}
	__device__ void wait(Memory &, u32)
	{
		asm volatile("cp.async.wait_all;" ::: "memory");
		__syncthreads();
	}
#endif
};

extern "C" __global__ void __launch_bounds__(THREADS) attend_merge(PARAM)
{
	__shared__ __align__(128) Memory m;
	int h = blockIdx.x, t = blockIdx.y, column = blockIdx.z * COLUMNS;
	int group = threadIdx.x / QUADS, quad = threadIdx.x % QUADS;
	i64 head = (i64)t * a.heads + h;
	const float *from = a.parts + (head * gridDim.z + blockIdx.z) * PARTS * COLUMNS;
	// As in attend_decode, the limits are read before and after the wait.
	Limits limits(a.from, a.pos, t);
	Copy copy(m);
	wait_for_previous();
	let_next_start();
	copy.start(m, from, Range(limits, a.capacity).parts());
	Limits now(a.from, a.pos, t);
	Mass mass[MINE];
#pragma unroll
	for (int i = 0; i < MINE; i++)
		mass[i] = a.mass[head * PARTS + min(i * WARP + lane_id(), PARTS - 1)];
	Range range(now, a.capacity);
	int n = range.parts();
	float top = -INF, sum = 0, weight[MINE];
#pragma unroll
	for (int i = 0; i < MINE; i++)
		if (i * WARP + lane_id() < n)
			top = fmaxf(top, mass[i].top);
	top = warp_max(top);
#pragma unroll
	for (int i = 0; i < MINE; i++) {
		bool there = i * WARP + lane_id() < n;
		weight[i] = there ? power2(mass[i].top - reference(top)) : 0;
		sum += there ? weight[i] * mass[i].sum : 0;
	}
	sum = warp_sum(sum);
	copy.wait(m, 0);
	if (limits != now) {
		__syncthreads();
		copy.start(m, from, n);
		copy.wait(m, 1);
	}
	float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
	for (int i = 0; i < MINE; i++) {
		float w = __shfl_sync(~0u, weight[i], group); // GROUPS is WARP
		if (i * GROUPS + group < n) {
			float4 x = *(float4 *)&m.parts[i * GROUPS + group][4 * quad];
			y.x += w * x.x, y.y += w * x.y, y.z += w * x.z, y.w += w * x.w;
		}
	}
	y.x += __shfl_xor_sync(~0u, y.x, QUADS);
	y.y += __shfl_xor_sync(~0u, y.y, QUADS);
	y.z += __shfl_xor_sync(~0u, y.z, QUADS);
	y.w += __shfl_xor_sync(~0u, y.w, QUADS);
	if (lane_id() < QUADS)
		m.sums[warp_id()][lane_id()] = y;
	__syncthreads();
	if (threadIdx.x < COLUMNS) {
		float out = 0;
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			out += ((const float *)m.sums[w])[threadIdx.x];
		a.out.row(t, h)[column + threadIdx.x] = to<DST>(sum > 0 ? out / sum : 0);
	}
	if (threadIdx.x == 0 && blockIdx.z == 0) {
		if (a.lse.p)
			a.lse.row(t)[h] = sum > 0 ? (top + log2f(sum)) * LN2 : -INF;
		if (a.read && h == 0)
			atomicAdd(a.read, (u64)range.rows * a.keyHeads);
	}
}
