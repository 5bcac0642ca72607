#pragma once
// Instructions of Hopper and newer cards for the kernels of AttendTeams.
#include "early.cuh"
#include "hopper.cuh"
#include "tensor.cuh"

#define SHARED(name) extern __shared__ __align__(128) u8 name[] // sized at the launch

// Reads what another kernel of the same step wrote, past this multiprocessor's own cache.
template <class T> __device__ inline T fresh(const T *p) { return __ldcg(p); }

__device__ inline void prefetch(const void *p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// The logarithm to base 2, off by at most 2⁻²² of it or of 1.
__device__ inline float log2_fast(float x)
{
	float y;
	asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
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
