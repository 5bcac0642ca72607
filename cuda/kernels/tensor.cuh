#pragma once
// What kernels on the tensor cores share: pairs of bf16 or half, fast powers of
// two, products, stores of their fragments, and how rows that are read once are loaded.
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

// 2^x, off by at most 2⁻²² of it; 0 for −Inf.
__device__ inline float power2(float x)
{
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

// d += a·b for a 16 × 16 and b 16 × 8, bf16 or half. Lane 4g + c holds the rows g and g + 8 of
// a at its columns 2c, 2c + 1, 2c + 8, 2c + 9; the column g of b at those rows;
// the rows g and g + 8 of d at the columns 2c and 2c + 1.
template <class T = bf16> __device__ inline void mma(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1);
template <> __device__ inline void mma<half>(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
template <> __device__ inline void mma<bf16>(float (&d)[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1)
{
	asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
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

// For rows that are read once: they leave the L2 cache first, not what is read again.
__device__ inline u64 evict_first()
{
	u64 policy;
	asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
	return policy;
}
