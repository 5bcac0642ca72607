#pragma once
// Instructions of Hopper and newer cards for the kernels of AttendTeams.
#include "early.cuh"
#include "hopper.cuh"

#define SHARED(name) extern __shared__ __align__(128) u8 name[] // sized at the launch

// Reads what another kernel of the same step wrote, past this multiprocessor's own cache.
template <class T> __device__ inline T fresh(const T *p) { return __ldcg(p); }

__device__ inline void prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// c[16, 8] += a[16, 16]·b[16, 8] by a warp, bf16 or half in, float32 out.
template <class T> __device__ inline void mma(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1);
template <> __device__ inline void mma<half>(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
template <> __device__ inline void mma<bf16>(float *c, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Four 8 × 8 matrices of 16-bit numbers in shared memory; lane i names row i % 8 of matrix i / 8.
__device__ inline void load_matrices(u32 (&x)[4], u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}
__device__ inline void load_transposed(u32 (&x)[4], u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}

// A barrier of some of a block's warps.
__device__ inline void part_sync(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// Powers of two and logarithms to base 2, off by at most 2⁻²² of the result or of 1.
__device__ inline float log2_fast(float x)
{
	float y;
	asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}
__device__ inline float exp2_fast(float x)
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

// Number i of N, a power of two, by halves: without a branch or an array in local memory.
template <int N> __device__ inline float choose(const float (&x)[N], int i)
{
	if constexpr (N == 1) {
		return x[0];
	} else {
		float half[N / 2];
#pragma unroll
		for (int j = 0; j < N / 2; j++)
			half[j] = i & N / 2 ? x[j + N / 2] : x[j];
		return choose(half, i);
	}
}

// Adds one to a number in shared memory, without a branch.
__device__ inline void count_if(bool is, u32 *p)
{
	asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; @p red.shared.add.u32 [%0], 1; }" ::"r"(shared_address(p)), "r"((u32)is) : "memory");
}

// Adds in shared memory and returns what was there, without the code that adds a warp's terms first.
__device__ inline int take(int *p, int n)
{
	int before;
	asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(before) : "r"(shared_address(p)), "r"(n) : "memory");
	return before;
}
