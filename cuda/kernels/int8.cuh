#pragma once
// Signed bytes as numbers, without the slow conversion of integers.
#include "common.cuh"

// The four bytes of a word. 2²³ + 128 + b is a float32 with b + 128 in its last
// byte.
__device__ inline void widen4(u32 word, float *y)
{
	word ^= 0x80808080;
#pragma unroll
	for (int i = 0; i < 4; i++)
		y[i] = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + i)) - 8388736.f;
}

template <class T, int N> __device__ inline void widen(const Vec<T, N> &v, float (&y)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		y[i] = f32(v.at[i]);
}

template <int N> __device__ inline void widen(const Vec<i8, N> &v, float (&y)[N])
{
	if constexpr (N % 4 == 0) {
#pragma unroll
		for (int i = 0; i < N; i += 4)
			widen4(*(const u32 *)(v.at + i), y + i);
	} else {
		for (int i = 0; i < N; i++)
			y[i] = v.at[i];
	}
}
