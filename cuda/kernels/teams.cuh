#pragma once
// What the kernels of AttendTeams share. They run once a layer and step, so that fetching instructions is a good
// part of their time: loops stay rolled and functions short where that costs little.
#include "philox.cuh"
#include "teams_ptx.cuh"

#define SLAB 32 // teams that a warp scores together
#define NOTHING 0x007fffffu // order_bits(−INF)
#define LN2 0.693147181f

// −ln(−ln(1 − v)), v = (x + ½)·2⁻³²; within 3·10⁻⁷·(1 + the result) of it. Up to ¼ by a polynomial, since 1 − v would lose
// the digits of small v, which are the winners'; the coefficients fit −ln(1 − v)/v within 2·10⁻⁸.
__device__ inline float gumbel_fast(u32 x)
{
	float v = ((float)x + 0.5f) * 0x1p-32f, u = ((float)~x + 0.5f) * 0x1p-32f;
	float p = 0.316124622f;
	p = p * v + 0.103509123f;
	p = p * v + 0.210077488f;
	p = p * v + 0.249273859f;
	p = p * v + 0.333352074f;
	p = p * v + 0.5f;
	p = p * v + 1.f;
	float e = v < 0.25f ? p * v : -LN2 * log2_fast(u);
	return -LN2 * log2_fast(e);
}

// ln(1 − exp(−exp(delta))) / ln 2. Up to exp(delta) = 1 by a polynomial for (1 − exp(−z))/z.
__device__ inline float log2_inclusion(float delta)
{
	float z = power2(LOG2E * delta);
	float p = 0.000133027162f;
	p = p * z + -0.00131318744f;
	p = p * z + 0.00829029662f;
	p = p * z + -0.0416551023f;
	p = p * z + 0.166665528f;
	p = p * z - 0.5f;
	p = p * z + 1.f;
	return z < 1 ? LOG2E * delta + log2_fast(p) : log2_fast(1 - power2(-LOG2E * z));
}

// Philox of N counters that differ in one word, side by side, with its rounds in a loop.
template <int N> __device__ inline void philox_abreast(Words (&w)[N], u32 c0, const u32 (&c1)[N], u32 c2, u32 c3, u32 k0, u32 k1)
{
#pragma unroll
	for (int n = 0; n < N; n++)
		w[n] = {c0, c1[n], c2, c3};
#pragma unroll 2
	for (int round = 0; round < 10; round++) {
#pragma unroll
		for (int n = 0; n < N; n++) {
			u64 x = (u64)0xD2511F53u * w[n].at[0], y = (u64)0xCD9E8D57u * w[n].at[2];
			w[n] = {(u32)(y >> 32) ^ w[n].at[1] ^ k0, (u32)y, (u32)(x >> 32) ^ w[n].at[3] ^ k1, (u32)x};
		}
		k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
	}
}
__device__ inline Words philox_short(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1)
{
	Words w[1];
	u32 c[1] = {c1};
	philox_abreast<1>(w, c0, c, c2, c3, k0, k1);
	return w[0];
}
