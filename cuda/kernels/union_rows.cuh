#pragma once
// How the warps of teams_union read rows and attend to them for all heads of a key head: TILE rows at a time, DEPTH tiles
// under way, by mma.sync with rows as the long side and heads as the short one (grouped.cuh).
#include "union_select.cuh"
#include "grouped.cuh"

#define PIECES (D / 8) // of 16 bytes of a row
#define TILE 8         // rows that a warp multiplies at a time
#define TILE_BYTES (TILE * 2 * D) // of keys, or of values
#define RING (WARPS * DEPTH * 2 * TILE_BYTES)

// The rows of a block, a warp's from `row` to `end`: those of the suffix, then those of the list.
struct Rows {
	const ELEMENT *k, *v; // row 0
	int k_step, v_step, first, suffix, row, end;
};

__device__ inline int2 row_at(const Listed &m, const Rows &r, int i)
{
	return i < r.suffix ? make_int2(r.first + i * BLOCKS, 0) : m.list[i - r.suffix];
}

// Where a piece of a row of keys, or of values, lies in a tile, so that lanes that read together use different banks.
__device__ inline int key_place(int row, int piece) { return (row * PIECES + (piece ^ row % 2 * 4)) * 16; }
__device__ inline int value_place(int row, int piece) { return (row * PIECES + (piece ^ row / 2 % 4 * 2)) * 16; }

// The warp's next TILE rows; those past its end are zero.
__device__ inline void fetch(u8 *tile, const Listed &m, const Rows &r, int row)
{
	int piece = lane_id() % PIECES;
	if (row < r.end)
#pragma unroll 2
		for (int n = lane_id() / PIECES; n < TILE; n += WARP / PIECES) {
			uint4 *key = (uint4 *)(tile + key_place(n, piece)), *value = (uint4 *)(tile + TILE_BYTES + value_place(n, piece));
			if (row + n < r.end) {
				i64 at = row_at(m, r, row + n).x;
				copy16(key, r.k + at * r.k_step + piece * 8);
				copy16(value, r.v + at * r.v_step + piece * 8);
			} else {
				*key = *value = make_uint4(0, 0, 0, 0);
			}
		}
	copy_end();
}

// The logits of a tile, row g and heads 2c and 2c + 1, become weights; the state is brought to the new reference.
__device__ inline void weigh(State &z, float (&s)[2], float scale, const Listed &m, const Rows &r, int row)
{
	int g = lane_id() / 4, c = lane_id() % 4;
	float2 less = make_float2(-INF, -INF);
	if (row + g < r.end)
		less = *(const float2 *)&m.less[row_at(m, r, row + g).y][2 * c];
	s[0] = s[0] * scale + less.x, s[1] = s[1] * scale + less.y;
	float top[2] = {fmaxf(z.top[0], s[0]), fmaxf(z.top[1], s[1])};
	raise(z, top);
#pragma unroll
	for (int h = 0; h < 2; h++) {
		s[h] = power2(s[h] - reference(top[h]));
		z.sum[h] += s[h];
	}
}

// Adds the warp's rows to z; the first DEPTH tiles are under way.
__device__ inline void attend(State &z, const uint4 (&q)[D / 32], u8 *ring, const Listed &m, const Rows &r, float scale)
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll 1
	for (int row = r.row, slot = 0; row < r.end; row += TILE, slot = slot + 1 == DEPTH ? 0 : slot + 1) {
		u8 *tile = ring + slot * 2 * TILE_BYTES;
		copy_wait<DEPTH - 1>();
		__syncwarp();
		float even[4] = {}, odd[4] = {}; // the tensor cores' rows 8 to 15 are zero
#pragma unroll
		for (int j = 0; j < D / 32; j++) {
			uint4 x = *(uint4 *)(tile + key_place(g, 4 * j + c));
			mma<ELEMENT>(even, x.x, 0, x.y, 0, q[j].x, q[j].y);
			mma<ELEMENT>(odd, x.z, 0, x.w, 0, q[j].z, q[j].w);
		}
		float s[2] = {even[0] + odd[0], even[1] + odd[1]};
		weigh(z, s, scale, m, r, row);
		u32 x = pack<ELEMENT>(s[0], s[1]), p = transposed(x), rest = transposed(pack<ELEMENT>(s[0] - low_half(x), s[1] - high_half(x)));
#pragma unroll
		for (int h = 0; h < HALVES; h++) {
			uint4 v0 = *(uint4 *)(tile + TILE_BYTES + value_place(2 * c, g + 8 * h)), v1 = *(uint4 *)(tile + TILE_BYTES + value_place(2 * c + 1, g + 8 * h));
#pragma unroll
			for (int w = 0; w < 4; w++) {
				u32 low = __byte_perm(word(v0, w), word(v1, w), 0x5410), high = __byte_perm(word(v0, w), word(v1, w), 0x7632);
				mma<ELEMENT>(z.acc[4 * h + w], low, high, 0, 0, p, 0);
				mma<ELEMENT>(z.acc[4 * h + w], low, high, 0, 0, rest, 0);
			}
		}
		__syncwarp();
		fetch(tile, m, r, row + DEPTH * TILE);
	}
	copy_wait<0>();
}
