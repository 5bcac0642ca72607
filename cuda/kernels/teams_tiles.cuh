#pragma once
// Attention by the tensor cores. The 4 rows that a warp has of a round fill products of 16: quarter i of the columns of row
// j is their row 4i + j. Of products with the query's quarters those of like quarters count. Of a product, lane 4g + t of a
// warp has the numbers (g, 2t), (g, 2t + 1), (g + 8, 2t) and (g + 8, 2t + 1).
#include "tensor.cuh"

#define STEPS (DK / 64) // products with keys, each of 16 columns of every quarter
#define TILES (DV / 64) // products with values, the same
#define GAP 4           // numbers between the quarters of a sum in shared memory, so that lanes use different banks
#define PITCH (DV + 4 * GAP)
static_assert(LANES == 8 && SUMS == 2 * WARPS && SUMS * PITCH * 4 <= (DEPTH - 1) * SLOT, "shape");

// A weighted sum of values; weights are exp2(score − top), and sum is of those of rows g % 4. A weight is two numbers of 16
// bits, so there are two of each column, to be added up: at[i] has columns 16i + g and 16i + g + 8 of the quarters
// 2 (t % 2) and 2 (t % 2) + 1, for t < 2 by the upper parts of weights, else by the lower ones.
struct Sum {
	float top, sum, at[TILES][4];
	__device__ void shrink(float to)
	{
		float by = power2(top - to);
		top = to, sum *= by;
#pragma unroll
		for (int i = 0; i < TILES; i++)
#pragma unroll
			for (int j = 0; j < 4; j++)
				at[i][j] *= by;
	}
};

// The query as the products take it, quarter g % 4 in their column g, and what scores are scaled by for exp2.
struct Query {
	u32 at[STEPS][2];
	float scale;
};

__device__ inline void load_query(Query &q, const uint4 *query, float by)
{
	int g = lane_id() / 4, t = lane_id() % 4;
	q.scale = by;
#pragma unroll
	for (int i = 0; i < STEPS; i++)
#pragma unroll
		for (int j = 0; j < 2; j++)
			q.at[i][j] = ((const u32 *)query)[g % 4 * (DK / 8) + i * 8 + j * 4 + t];
}

// Where 16 bytes of a row lie in a slot.
__device__ inline u32 piece_at(u8 *ring, int row, int piece)
{
	return shared_address(ring) + piece / 8 * (THREADS * 16) + row * 128 + (piece % 8 ^ row % 8) * 16;
}

// Adds the rows to x; the first DEPTH rounds are under way.
__device__ inline void attend(Sum &x, const Query &q, u8 *ring, const Rows &r, const Selection &m)
{
	int lane = lane_id(), g = lane / 4, t = lane % 4, rounds = r.rounds(), first = warp_id() * 4 - r.suffix; // in the list
	// The 16 bytes that the lane names of the first products: of row t and a quarter, 8 of the 16 columns. The next products' are
	// 32 bytes on.
	u32 keys = piece_at(ring, warp_id() * 4 + t, (g % 2 + lane / 8 % 2 * 2) * (DK / 32) + lane / 16);
	u32 values = piece_at(ring, warp_id() * 4 + t, K_CHUNKS * 8 + (g % 2 + lane / 16 * 2) * (DV / 32) + lane / 8 % 2);
	float more = 0;
#pragma unroll 1
	for (int round = 0, slot = 0; round < rounds; round++, slot = slot + 1 == DEPTH ? 0 : slot + 1) {
		if (round % 8 == 0) { // what is added to the score of row g % 4, 2t + g / 4 rounds from here; −Inf: no row
			int at = (round + 2 * t + g / 4) * GROUPS + first + g % 4;
			more = at >= r.listed ? -INF : at >= 0 ? -less(m, m.list[at].which) : 0;
		}
		if (first + round * GROUPS < r.listed) {
			copy_wait<DEPTH - 1>();
			__syncwarp();
			float part[4] = {};
#pragma unroll
			for (int i = 0; i < STEPS; i++) {
				u32 k[4];
				load_matrices(k, (keys ^ i * 32) + slot * SLOT);
				mma<ELEMENT>(part, k[0], k[1], k[2], k[3], q.at[i][0], q.at[i][1]);
			}
			// Of row g % 4: a quarter, then all.
			float score = t % 2 == 0 ? g < 4 ? part[0] : part[1] : g < 4 ? part[2] : part[3];
			score += __shfl_xor_sync(~0u, score, 1);
			score += __shfl_xor_sync(~0u, score, 16);
			float add = __shfl_sync(~0u, more, round % 2 * 16 + g % 4 * 4 + round % 8 / 2);
			score = add != -INF ? q.scale * score + add : -INF;
			if (__any_sync(~0u, score > x.top)) // one maximum for the warp
				x.shrink(fmaxf(x.top, from_order_bits(__reduce_max_sync(~0u, order_bits(score)))));
			float p = power2(score - x.top);
			x.sum += p;
			// Rows 2 (t % 2) and the next.
			float even = __shfl_sync(~0u, p, t % 2 * 8 + t), odd = __shfl_sync(~0u, p, t % 2 * 8 + 4 + t);
			u32 upper = pack<ELEMENT>(even, odd), lower = pack<ELEMENT>(even - low_half(upper), odd - high_half(upper));
			u32 weights = g < 4 ? upper : lower; // only those of quarter g % 4 count
			u32 p0 = g % 4 == t / 2 ? weights : 0, p1 = g % 4 == 2 + t / 2 ? weights : 0;
#pragma unroll
			for (int i = 0; i < TILES; i++) {
				u32 v[4];
				load_transposed(v, (values ^ i * 32) + slot * SLOT);
				mma<ELEMENT>(x.at[i], v[0], v[1], v[2], v[3], p0, p1);
			}
			__syncwarp();
		}
		fetch(ring, slot, r, m, round + DEPTH, true, true);
	}
	copy_wait<0>();
}

// Leaves the two sums of a warp; that of weights is shared between them.
__device__ inline void leave(Sum &x, float *tops, float *sums, float (*parts)[PITCH])
{
	int g = lane_id() / 4, t = lane_id() % 4;
	x.sum += __shfl_xor_sync(~0u, x.sum, 4);
	if (t == 0 && (g == 0 || g == 2))
		tops[2 * warp_id() + g / 2] = x.top, sums[2 * warp_id() + g / 2] = x.sum;
#pragma unroll
	for (int i = 0; i < TILES; i++)
#pragma unroll
		for (int j = 0; j < 4; j++)
			parts[2 * warp_id() + t / 2][(t % 2 * 2 + j % 2) * (DV / 4 + GAP) + 16 * i + j / 2 * 8 + g] = x.at[i][j];
}

// Where a column lies in a sum.
__device__ inline int place_of(int column) { return column + column / (DV / 4) * GAP; }
