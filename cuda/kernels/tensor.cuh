#pragma once
// What kernels on the tensor cores share: pairs of bf16 or half, fast powers of
// two, stores of product fragments.
#include "common.cuh"

#define LOG2E 1.44269504f

// Two numbers as bf16 or half, the first in the low half.
template <class T = bf16> __device__ inline u32 pack(float low, float high);
template <> __device__ inline u32 pack<half>(float low, float high)
{
	u32 y;
	asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
	return y;
}
template <> __device__ inline u32 pack<bf16>(float low, float high)
{
	u32 y;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
	return y;
}

// 2^x; 0 for −Inf.
__device__ inline float power2(float x)
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

__device__ inline float quad_sum(float x)
{
	x += __shfl_xor_sync(~0u, x, 1);
	return x + __shfl_xor_sync(~0u, x, 2);
}
__device__ inline float quad_max(float x)
{
	x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
	return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

// Lane t of four has part t of the pieces 0 … 3; afterwards the parts 0 … 3 of
// piece t, which it can store at once.
__device__ inline void quad_transpose(u32 (&r)[4])
{
	bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
#pragma unroll
	for (int i = 0; i < 4; i += 2) {
		u32 got = __shfl_xor_sync(~0u, odd ? r[i] : r[i + 1], 1);
		r[i] = odd ? got : r[i];
		r[i + 1] = odd ? r[i + 1] : got;
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
		u32 got = __shfl_xor_sync(~0u, upper ? r[i] : r[i + 2], 2);
		r[i] = upper ? got : r[i];
		r[i + 2] = upper ? r[i + 2] : got;
	}
}
