#pragma once
// Products of one row by weights that a block has in shared memory and registers before
// the row is known (sm_90), for layers small enough. Tensor cores multiply, outputs as
// the long side, the row as the short one: a float32 row is three of bf16, whose sum it
// is. A lane's 16 bytes serve two products as they are (attend_rows.cuh).
#include "decode.cuh"
#include "early.cuh"
#include "hopper.cuh"

#define THREADS 512
#define BLOCK_WARPS (THREADS / WARP)
#define GAP 64 // bytes between rows in shared memory, so that two in turn are in different banks

typedef bf16 W;

// Copies bytes, a multiple of 16, from one 16-byte boundary to another in shared memory; the barrier counts them.
__device__ inline void copy_bulk(void *shared, const void *global, int bytes, u64 *barrier)
{
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
		:: "r"(shared_address(shared)), "l"(global), "r"(bytes), "r"(shared_address(barrier)) : "memory");
}

// Brings bytes, a multiple of 16 from a 16-byte boundary on, to the L2 cache: of what comes from memory itself, a
// multiprocessor has little under way at once.
__device__ inline void bring(const void *p, int bytes)
{
	asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" :: "l"(p), "r"(bytes) : "memory");
}

// Copies pieces, a barrier each, of which copy(i, barrier) begins one. COPYING warps do, each AT_ONCE pieces at a time:
// what others ask the memory for meanwhile waits behind what is under way.
template <int COPYING, int AT_ONCE, int PIECES, class Copy> __device__ inline void copy_pieces(u64 (&barrier)[PIECES], Copy copy)
{
	if (lane_id() == 0 && warp_id() < COPYING) {
#pragma unroll 1
		for (int i = warp_id(); i < PIECES; i += COPYING)
			barrier_init(&barrier[i], 1);
		barriers_ready();
#pragma unroll 1
		for (int i = warp_id(); i < PIECES + AT_ONCE * COPYING; i += COPYING) {
			if (i >= AT_ONCE * COPYING)
				barrier_wait(&barrier[i - AT_ONCE * COPYING], 0);
			if (i < PIECES)
				copy(i, &barrier[i]);
		}
	}
	__syncthreads();
}

__device__ inline uint4 nothing() { return make_uint4(0, 0, 0, 0); }

// Eight neighbours that are read once.
__device__ inline uint4 stream8(const W *p)
{
	auto v = stream<W, 8>(p);
	return make_uint4(v.words[0], v.words[1], v.words[2], v.words[3]);
}

// Four numbers at 4i, or zeros.
template <class T> __device__ inline float4 four(const T *p, int i, bool is)
{
	if (!is)
		return make_float4(0, 0, 0, 0);
	Vec<T, 4> v = *(const Vec<T, 4> *)(p + 4 * i);
	return make_float4(f32(v.at[0]), f32(v.at[1]), f32(v.at[2]), f32(v.at[3]));
}

// h = x / √(mean(x²) + eps) · gamma of N columns, h without the factor in three parts.
template <int N> struct Normed {
	bf16 part[3][N + GAP / 2];
	__align__(16) float squares[BLOCK_WARPS];

	// Takes four columns of each thread, from column 4·thread on; then __syncthreads.
	__device__ void put(float4 x, float4 gamma)
	{
		float rest[4] = {x.x * gamma.x, x.y * gamma.y, x.z * gamma.z, x.w * gamma.w};
		if (4 * threadIdx.x < N)
#pragma unroll
			for (int k = 0; k < 3; k++) {
				uint2 p = make_uint2(pack<bf16>(rest[0], rest[1]), pack<bf16>(rest[2], rest[3]));
				*(uint2 *)&part[k][4 * threadIdx.x] = p;
				rest[0] -= __uint_as_float(p.x << 16), rest[1] -= __uint_as_float(p.x & 0xffff0000);
				rest[2] -= __uint_as_float(p.y << 16), rest[3] -= __uint_as_float(p.y & 0xffff0000);
			}
		float s = warp_sum(x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w);
		if (lane_id() == 0)
			squares[warp_id()] = s;
	}
	// The short side's columns 32·step ….
	__device__ uint4 columns(int step) const
	{
		int g = lane_id() / 4, c = lane_id() % 4;
		return g < 3 ? *(const uint4 *)&part[g][32 * step + 8 * c] : nothing();
	}
	__device__ float factor(float eps) const
	{
		float sum = 0;
#pragma unroll
		for (int w = 0; w < BLOCK_WARPS; w += 4) {
			float4 s = *(const float4 *)(squares + w);
			sum += s.x + s.y + (s.z + s.w);
		}
		return rsqrtf(sum / N + eps);
	}
	__device__ W at(int i, float factor) const { return to<W>((f32(part[0][i]) + f32(part[1][i]) + f32(part[2][i])) * factor); }
};

// What a warp has of 16 outputs: lane 4g + c those of rows g and g + 8, by the short side's columns 2c and 2c + 1.
struct Outputs {
	float even[4] = {}, odd[4] = {};

	// Adds 32 columns, of which the lane has 8 of either row.
	__device__ void add(const uint4 &low, const uint4 &high, const uint4 &x)
	{
		mma<W>(even, low.x, high.x, low.y, high.y, x.x, x.y);
		mma<W>(odd, low.z, high.z, low.w, high.w, x.z, x.w);
	}
	// Rows g and g + 8 by the sum of the row's three parts, for lanes with c = 0.
	__device__ float2 over_parts() const
	{
		int c = lane_id() % 4;
		float low = even[0] + odd[0], high = even[2] + odd[2];
		if (c == 0)
			low += even[1] + odd[1], high += even[3] + odd[3];
		if (c > 1)
			low = high = 0;
		return make_float2(low + __shfl_xor_sync(~0u, low, 1), high + __shfl_xor_sync(~0u, high, 1));
	}
};

// The row of 8 that a lane has of boxes as load_box brings them, so that lanes which read at once have different banks;
// where its 16 bytes number i lie in the row.
__device__ inline int box_row() { return lane_id() / 4 % 2 * 4 + lane_id() / 8; }
__device__ inline int box_place(int row, int i) { return row * 128 + (i ^ row % 8) * 16; }
