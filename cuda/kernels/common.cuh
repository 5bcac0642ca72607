#pragma once
// What every kernel needs. A kernel file defines a struct Args, the only
// parameter of its kernels; its Go twin has the same fields in the same order,
// which the compilation checks. Element types come as macros (-DDST=bf16).

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define KERNEL extern "C" __global__ void
#define PARAM const __grid_constant__ Args a
#define INF __int_as_float(0x7f800000)
#define WARP 32

// The upper half of a float32.
struct bf16 { u16 bits; };
struct half { u16 bits; };

__device__ inline float f32(float x) { return x; }
__device__ inline float f32(i8 x) { return x; }
__device__ inline float f32(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ inline float f32(half x)
{
	float y;
	asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
	return y;
}

// to<T>(x) converts; bits pass unchanged within a type.
template <class T> struct To {};
template <> struct To<float> {
	template <class S> __device__ static float from(S x) { return f32(x); }
};
template <> struct To<bf16> {
	__device__ static bf16 from(bf16 x) { return x; }
	__device__ static bf16 from(float x)
	{
		bf16 y;
#if __CUDA_ARCH__ >= 800
		asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
#else
		u32 u = __float_as_uint(x);
		u32 even = u + 0x7fff + (u >> 16 & 1);
		y.bits = x != x ? 0x7fff : even >> 16;
#endif
		return y;
	}
	__device__ static bf16 from(half x) { return from(f32(x)); }
};
template <> struct To<half> {
	__device__ static half from(half x) { return x; }
	__device__ static half from(float x)
	{
		half y;
		asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
		return y;
	}
	__device__ static half from(bf16 x) { return from(f32(x)); }
};
template <> struct To<int> {
	__device__ static int from(int x) { return x; }
};
template <> struct To<u32> {
	__device__ static u32 from(u32 x) { return x; }
};
template <> struct To<i64> {
	__device__ static i64 from(i64 x) { return x; }
};
template <class T, class S> __device__ inline T to(S x) { return To<T>::from(x); }

// Views of tensors whose last dimension has no gaps.
template <class T> struct Mat {
	T *p;
	i64 ld; // elements from one row to the next
	__device__ T *row(i64 i) const { return p + i * ld; }
};
template <class T> struct Cube {
	T *p;
	i64 s0, s1; // elements from one index of dimension 0 and 1 to the next
	__device__ T *row(i64 i, i64 j) const { return p + i * s0 + j * s1; }
};

// N neighbouring elements in one load; aligned to N elements.
template <class T, int N> struct __align__(sizeof(T) * N) Vec { T at[N]; };

__device__ inline int warp_id() { return threadIdx.x / WARP; }
__device__ inline int lane_id() { return threadIdx.x % WARP; }

__device__ inline float warp_sum(float x)
{
	for (int step = WARP / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(~0u, x, step);
	return x;
}

__device__ inline float warp_max(float x)
{
	for (int step = WARP / 2; step > 0; step /= 2)
		x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
	return x;
}

// What is subtracted from logits of the given maximum, which forgets those that are not a number: also where it is −Inf,
// so that their weights are none, and those of −Inf zero.
__device__ inline float reference(float top) { return top == -INF ? 0 : top; }

// Sum over a block of at most 1,024 threads, the same bits in every thread.
// shared has one element a warp and may be reused after the next barrier.
template <class T> __device__ inline T block_sum(T x, T *shared)
{
	for (int step = WARP / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(~0u, x, step);
	__syncthreads();
	if (lane_id() == 0)
		shared[warp_id()] = x;
	__syncthreads();
	T sum = 0;
	for (int w = 0; w < blockDim.x / WARP; w++)
		sum += shared[w];
	return sum;
}

__device__ inline float block_max(float x, float *shared)
{
	x = warp_max(x);
	__syncthreads();
	if (lane_id() == 0)
		shared[warp_id()] = x;
	__syncthreads();
	float top = shared[0];
	for (int w = 1; w < blockDim.x / WARP; w++)
		top = fmaxf(top, shared[w]);
	return top;
}

// Bits that order as floats do; both zeros are equal.
__device__ inline u32 order_bits(float x)
{
	u32 u = __float_as_uint(x + 0.f);
	return u & 0x80000000u ? ~u : u | 0x80000000u;
}
