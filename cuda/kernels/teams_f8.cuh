#pragma once
// Representatives in E4M3 (f8.cuh) for the tensor cores: as halves they are what they were, and the queries become halves.
#include "teams_ptx.cuh"
#include "tensor.cuh"

template <class T> constexpr bool IS_HALF = false;
template <> constexpr bool IS_HALF<half> = true;

// Turns the n-th tile of a warp's queries, of which a lane has parts of head g, into halves of up to 2¹⁵ by a power of
// two for each head: what is lost is 2⁻³⁹ of the largest. back undoes it in the sums of the heads 2c and 2c + 1.
template <class T, int J, int N> __device__ inline void to_halves(uint4 (&q)[J][N], int n, float (&back)[2])
{
	if (IS_HALF<T>) {
		back[0] = back[1] = 1;
		return;
	}
	u32 top = 0;
#pragma unroll
	for (int j = 0; j < J; j++) {
		u32 w[4] = {q[j][n].x, q[j][n].y, q[j][n].z, q[j][n].w};
#pragma unroll
		for (int i = 0; i < 4; i++)
			asm("max.u16x2 %0, %0, %1;" : "+r"(top) : "r"(w[i] & 0x7fff7fff));
	}
	top = max(top & 0xffff, top >> 16);
	top = max(top, __shfl_xor_sync(~0u, top, 1));
	top = max(top, __shfl_xor_sync(~0u, top, 2));
	int exponent = min(268 - (int)(top >> 7), 253); // that brings the largest to 2¹⁴ … 2¹⁵
	float by = __int_as_float(exponent << 23), undo = __int_as_float((254 - exponent) << 23);
#pragma unroll
	for (int j = 0; j < J; j++) {
		u32 w[4] = {q[j][n].x, q[j][n].y, q[j][n].z, q[j][n].w};
#pragma unroll
		for (int i = 0; i < 4; i++)
			w[i] = pack<half>(by * __uint_as_float(w[i] << 16), by * __uint_as_float(w[i] & 0xffff0000u));
		q[j][n] = make_uint4(w[0], w[1], w[2], w[3]);
	}
#pragma unroll
	for (int i = 0; i < 2; i++)
		back[i] = __shfl_sync(~0u, undo, (2 * (lane_id() % 4) + i) * 4);
}

// Four E4M3 as halves.
__device__ inline void widen(u32 x, u32 &low, u32 &high)
{
	asm("{ .reg .b16 a, b; mov.b32 {a, b}, %2; cvt.rn.f16x2.e4m3x2 %0, a; cvt.rn.f16x2.e4m3x2 %1, b; }" : "=r"(low), "=r"(high) : "r"(x));
}

// Adds the products of four rows' 16 bytes with the pieces first and first + 1 of the queries.
template <int J, int N> __device__ inline void multiply_f8(float (&sum)[N][2][4], const uint4 (&k)[4], const uint4 (&q)[J][N], int first)
{
#pragma unroll
	for (int w = 0; w < 4; w++) {
		u32 low[4], high[4];
#pragma unroll
		for (int i = 0; i < 4; i++)
			widen(w == 0 ? k[i].x : w == 1 ? k[i].y : w == 2 ? k[i].z : k[i].w, low[i], high[i]);
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int t = 0; t < 2; t++) {
				const uint4 &x = q[first + w / 2][n];
				mma<half>(sum[n][t], low[2 * t], low[2 * t + 1], high[2 * t], high[2 * t + 1], w % 2 ? x.z : x.x, w % 2 ? x.w : x.y);
			}
	}
}
