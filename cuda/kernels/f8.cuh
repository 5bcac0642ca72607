#pragma once
// E4M3 floats: a sign, 4 bits of exponent, 3 of fraction; up to 448, no infinity.
#include "common.cuh"

struct f8 { u8 bits; };

template <> struct To<f8> {
	__device__ static f8 from(f8 x) { return x; }
};

__device__ inline float f32(f8 x)
{
	u32 sign = (u32)(x.bits & 0x80) << 24;
	float y = __uint_as_float((u32)(x.bits & 0x7f) << 20) * 0x1p120f; // a product normalises small numbers
	return __uint_as_float(sign | ((x.bits & 0x7f) == 0x7f ? 0x7fc00000 : __float_as_uint(y)));
}

// The nearest E4M3, ties to even, of a number that is, rounded, at most 448 in
// magnitude.
__device__ inline f8 to_f8(float x)
{
	u32 bits = __float_as_uint(x), sign = bits >> 24 & 0x80, y = bits & 0x7fffffff;
	if (__uint_as_float(y) < 0x1p-6f)
		return f8{(u8)(sign | (u32)rintf(__uint_as_float(y) * 0x1p9f))};
	y += (1 << 19) - 1 + (y >> 20 & 1);
	return f8{(u8)(sign | ((y >> 20) - ((127 - 7) << 3)))};
}
