#pragma once
// One row of numbers times rows of signed bytes on the tensor cores, in whole
// numbers. The row is brought to fixed point, 22 bits and a sign of its largest
// magnitude: v = 65536·h + 256·m + l, three planes of signed bytes, which are three
// rows of one operand; 8 rows of weights are the columns of the other, as they lie
// in memory. So no weight is converted. Sums are exact (up to 2¹⁶ inputs), whatever
// their order; what is lost is half a unit of the last bit of x, 2⁻²³ of the power
// of two above the largest.
#include "early.cuh"

#define CHUNK 64 // inputs of a step: 16 bytes of each of 8 rows for every four lanes

// x·up is whole and below 2²² in magnitude when rounded; a sum times back is true.
struct Fixed { float up, back; };

// top: the largest magnitude, INF if one is no number.
__device__ inline Fixed fixed_point(float top)
{
	if (!(top < INF))
		return {0, __int_as_float(0x7fc00000)};
	int e = max((int)(__float_as_uint(top) >> 23) - 126, -100); // top < 2^e
	return {__uint_as_float((22 - e + 127) << 23), __uint_as_float((e - 22 + 127) << 23)};
}

// Magnitude; INF for what is no number.
__device__ inline float magnitude(float x)
{
	x = fabsf(x);
	return x < INF ? x : INF;
}

__device__ inline u32 low_bytes(const int *v)
{
	return __byte_perm(__byte_perm(v[0], v[1], 0x0040), __byte_perm(v[2], v[3], 0x0040), 0x5410);
}

// Stores 8 numbers, the first of them number i, in planes [chunks][3][CHUNK].
__device__ inline void put_planes(u8 *planes, int i, const float (&x)[8], float up)
{
	u8 *at = planes + i / CHUNK * (3 * CHUNK) + i % CHUNK;
#pragma unroll
	for (int h = 0; h < 8; h += 4) {
		int v[4];
#pragma unroll
		for (int j = 0; j < 4; j++)
			v[j] = __float2int_rn(x[h + j] * up);
#pragma unroll
		for (int p = 2; p >= 0; p--) {
			*(u32 *)(at + p * CHUNK + h) = low_bytes(v);
#pragma unroll
			for (int j = 0; j < 4; j++)
				v[j] = (v[j] + 128) >> 8;
		}
	}
}

template <class T> __device__ inline void load8(float (&x)[8], const T *from)
{
	Vec<T, 8> v = *(const Vec<T, 8> *)from;
#pragma unroll
	for (int j = 0; j < 8; j++)
		x[j] = f32(v.at[j]);
}

// sum += planes·weights over 32 inputs: lane l has bytes of plane l/4 and of row l/4.
__device__ inline void multiply(int (&sum)[4], u32 x0, u32 x1, u32 w0, u32 w1)
{
	asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %5}, {%7, %8}, {%0, %1, %2, %3};"
		: "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
		: "r"(x0), "r"(0), "r"(x1), "r"(w0), "r"(w1));
}

// A warp's way through chunks first … end − 1 of 8 rows, AHEAD loads ahead. Where
// there is nothing to load, registers keep what they had: it is multiplied by 0 or
// not at all. A value to choose instead would make the warp wait for every load.
template <int AHEAD> struct Rows {
	const i8 *w; // this lane's row and part of a chunk
	int end, in;
	uint4 v[AHEAD];
	int sum[4];

	__device__ inline void fetch(int slot, int c)
	{
		int at = c * CHUNK, there = c < end && at + lane_id() % 4 * 16 < in;
		asm volatile("{\n.reg .pred p;\nsetp.ne.s32 p, %5, 0;\n@p ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n}"
			: "+r"(v[slot].x), "+r"(v[slot].y), "+r"(v[slot].z), "+r"(v[slot].w) : "l"(w + at), "r"(there));
	}
	// row: of the matrix, for this lane.
	__device__ inline void begin(const i8 *row, int first, int end, int in)
	{
		w = row + lane_id() % 4 * 16, this->end = end, this->in = in;
#pragma unroll
		for (int i = 0; i < 4; i++)
			sum[i] = 0;
#pragma unroll
		for (int n = 0; n < AHEAD; n++) {
			v[n] = make_uint4(0, 0, 0, 0);
			fetch(n, first + n);
		}
	}
	__device__ inline void step(int slot, int c, uint4 x)
	{
		multiply(sum, x.x, x.y, v[slot].x, v[slot].y);
		multiply(sum, x.z, x.w, v[slot].z, v[slot].w);
		fetch(slot, c + AHEAD);
	}
	// The sums of rows 2l and 2l + 1 in lane l < 4.
	__device__ inline void result(float (&y)[2], float back)
	{
#pragma unroll
		for (int i = 0; i < 2; i++) {
			i64 m = __shfl_down_sync(~0u, sum[i], 4), l = __shfl_down_sync(~0u, sum[i], 8);
			y[i] = back * (float)(((i64)sum[i] << 16) + (m << 8) + l);
		}
	}
};

// The lane's bytes of planes [chunks][3][CHUNK] for chunk c.
__device__ inline uint4 plane_bytes(const u8 *planes, int c)
{
	if (lane_id() >= 12)
		return make_uint4(0, 0, 0, 0);
	return *(const uint4 *)(planes + c * (3 * CHUNK) + lane_id() * 16);
}
