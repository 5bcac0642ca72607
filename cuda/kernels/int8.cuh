#pragma once
// Signed bytes as numbers, without the slow conversion of integers.
#include "early.cuh"

// The four bytes of a word. 2²³ + 128 + b is a float32 with b + 128 in its last
// byte.
__device__ inline void widen4(u32 word, float *y)
{
	word ^= 0x80808080;
#pragma unroll
	for (int i = 0; i < 4; i++)
		y[i] = __uint_as_float(__byte_perm(word, 0x4b000000, 0x7440 + i)) - 8388736.f;
}

// The numbers of a load.
template <class T, int N> __device__ inline void widen(const Packed<sizeof(T) * N> &v, float (&y)[N])
{
	if constexpr (sizeof(T) == 1 && N % 4 == 0) {
#pragma unroll
		for (int i = 0; i < N; i += 4)
			widen4(v.words[i / 4], y + i);
	} else {
#pragma unroll
		for (int i = 0; i < N; i++)
			y[i] = number<T>(v, i);
	}
}
