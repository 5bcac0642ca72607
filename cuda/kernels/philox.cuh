#pragma once
// Philox4x32-10, the same integers as device.Philox.
// Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3 (2011).
#include "common.cuh"

struct Words { u32 at[4]; };

__device__ inline Words philox(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1)
{
	for (int round = 0; round < 10; round++) {
		u32 h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
		u32 h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
		c0 = h1 ^ c1 ^ k0, c1 = l1;
		c2 = h0 ^ c3 ^ k1, c3 = l0;
		k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
	}
	return {c0, c1, c2, c3};
}

// −ln(−ln(1 − v)), v = (x + ½)·2⁻³². Near 1 the difference 1 − v is taken from
// the integer, since float32 would round v to 1.
__device__ inline float gumbel(u32 x)
{
	float e = x < 0x80000000u ? -log1pf(-((float)x + 0.5f) * 0x1p-32f) : -logf(((float)~x + 0.5f) * 0x1p-32f);
	return -logf(e);
}
