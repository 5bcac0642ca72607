#pragma once
// How a warp attends to rows with grouped queries, at most 8 heads a key head: TILES
// tiles of 16 rows at a time, rows as the long side of the tensor cores' products,
// heads as the short one. Rows go from memory to the registers that multiply them:
// the columns of a product may be numbered as one likes, so a lane's 16 bytes of a key
// serve two products as they are, and values are paired by row with a byte
// permutation. Weights go to ELEMENT (bf16 or half) for the product with the values,
// sums are float32. D is 64 or 128.
#include "decode.cuh"
#include "grouped.cuh"

#ifndef TILES
#define TILES (128 / D) // of 16 rows, at a time
#endif
#define ROWS (16 * TILES)

struct Keys { uint4 at[TILES][2][D / 32]; };       // rows g and g + 8, every 4th 16 bytes from c on
struct Values { uint4 at[TILES][4][HALVES]; };     // rows 2c, 2c + 1, 2c + 8, 2c + 9; every 8th 16 bytes from g on

__device__ inline uint4 load_once(const ELEMENT *p, u64 policy)
{
	uint4 x;
	asm volatile("ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
		: "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "l"(p), "l"(policy));
	return x;
}

// Rows past the last are the last once more.
__device__ inline void load(Keys &k, Mat<const ELEMENT> src, int row, int last, u64 policy)
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
	for (int i = 0; i < TILES; i++)
#pragma unroll
		for (int second = 0; second < 2; second++) {
			const ELEMENT *p = src.row(min(row + 16 * i + 8 * second + g, last)) + 8 * c;
#pragma unroll
			for (int j = 0; j < D / 32; j++)
				k.at[i][second][j] = load_once(p + 32 * j, policy);
		}
}

__device__ inline void load(Values &v, Mat<const ELEMENT> src, int row, int last, u64 policy)
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
	for (int i = 0; i < TILES; i++)
#pragma unroll
		for (int r = 0; r < 4; r++) {
			const ELEMENT *p = src.row(min(row + 16 * i + 2 * c + (r & 1) + (r & 2) * 4, last)) + 8 * g;
#pragma unroll
			for (int h = 0; h < HALVES; h++)
				v.at[i][r][h] = load_once(p + 64 * h, policy);
		}
}

// The logits of a tile become weights; the state is brought to the new reference.
__device__ inline void weigh(State &z, float (&s)[TILES][4], float scale, int row, int last)
{
	int g = lane_id() / 4;
	float top[2] = {z.top[0], z.top[1]};
#pragma unroll
	for (int i = 0; i < TILES; i++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			s[i][e] = row + 16 * i + e / 2 * 8 + g <= last ? s[i][e] * scale : -INF;
			top[e % 2] = fmaxf(top[e % 2], s[i][e]);
		}
	raise(z, top);
#pragma unroll
	for (int i = 0; i < TILES; i++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			s[i][e] = power2(s[i][e] - reference(top[e % 2]));
			z.sum[e % 2] += s[i][e];
		}
}

// The logits of a tile, unscaled.
__device__ inline void score(float (&s)[TILES][4], const Keys &keys, const uint4 (&q)[D / 32])
{
	float odd[TILES][4] = {};
#pragma unroll
	for (int i = 0; i < TILES; i++)
#pragma unroll
		for (int j = 0; j < D / 32; j++) {
			uint4 x = keys.at[i][0][j], y = keys.at[i][1][j];
			mma<ELEMENT>(s[i], x.x, y.x, x.y, y.y, q[j].x, q[j].y);
			mma<ELEMENT>(odd[i], x.z, y.z, x.w, y.w, q[j].z, q[j].w);
		}
#pragma unroll
	for (int i = 0; i < TILES; i++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			s[i][e] += odd[i][e];
}

// Adds the values of a tile by their weights.
__device__ inline void add_values(State &z, const Values &values, const float (&s)[TILES][4])
{
#pragma unroll
	for (int i = 0; i < TILES; i++) {
		u32 p0 = transposed(pack<ELEMENT>(s[i][0], s[i][1])), p1 = transposed(pack<ELEMENT>(s[i][2], s[i][3]));
#pragma unroll
		for (int h = 0; h < HALVES; h++)
#pragma unroll
			for (int w = 0; w < 4; w++) {
				u32 r0 = word(values.at[i][0][h], w), r1 = word(values.at[i][1][h], w);
				u32 r2 = word(values.at[i][2][h], w), r3 = word(values.at[i][3][h], w);
				mma<ELEMENT>(z.acc[4 * h + w], __byte_perm(r0, r1, 0x5410), __byte_perm(r0, r1, 0x7632),
					__byte_perm(r2, r3, 0x5410), __byte_perm(r2, r3, 0x7632), p0, p1);
			}
	}
}
