#pragma once
// Attention by the tensor cores. The 4 rows that a warp has of HELD rounds fill products of 16: of every 64 columns of row
// j, the quarters are their rows j, 4 + j, 8 + j and 12 + j. Of products with the query's quarters those of like quarters
// count. Of a product, lane 4g + t of a warp has the numbers (g, 2t), (g, 2t + 1), (g + 8, 2t) and (g + 8, 2t + 1).
#include "tensor.cuh"

#define STEPS (DK / 64)                         // products with keys
#define TILES (DV / 64)                         // products with values
#define CHAINS (STEPS > 2 ? 3 : 1)              // of products with keys, each of which waits for the one before
#define APART (WIDE ? 128 : THREADS * 16)       // bytes from 64 columns of a row to the next
#define OF_ROUND (WARP / LANES)                 // rows that a warp has of a round
#define ACCUMULATORS (WIDE ? TILES / 2 : TILES) // for products with values, see Sum
#define PITCH (DV / 4 * 5)                      // numbers of a sum in shared memory, see place_of
static_assert(OF_ROUND * HELD == 4 && DEPTH % HELD == 0 && SUMS == WARPS && SUMS * PITCH * 4 <= (DEPTH - 1) * SLOT, "shape");

// A weighted sum of values; weights are exp2(score − top), and sum is of those of rows g % 4. A weight is two numbers of
// 16 bits. Narrow: there are two of each column, to be added up: at[i] has columns g and g + 8 of the i-th quarters
// 2 (t % 2) and 2 (t % 2) + 1, for t < 2 by the upper parts of weights, else by the lower ones. Wide: both are added up, and
// at[i] has those of 64 columns 2i for t < 2, else of 2i + 1.
struct Sum {
	float top, sum, at[ACCUMULATORS][4];
	__device__ void shrink(float to)
	{
		float by = power2(top - to);
		top = to, sum *= by;
#pragma unroll
		for (int i = 0; i < ACCUMULATORS; i++)
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
			q.at[i][j] = ((const u32 *)query)[i * 32 + g % 4 * 8 + j * 4 + t];
}

// Where 16 bytes lie, of the first 64 columns of the warp's row j.
__device__ inline u32 piece_at(u8 *ring, int j, int piece)
{
	int row = WIDE ? (j * GROUPS + warp_id()) * (DK / 8) : (warp_id() * 4 + j) * 8;
	return shared_address(ring) + (row + (piece ^ turn(j))) * 16;
}

// Adds the rows to x; the first DEPTH rounds are under way.
__device__ inline void attend(Sum &x, const Query &q, u8 *ring, const Rows &r, const Selection &m)
{
	int lane = lane_id(), g = lane / 4, t = lane % 4, rounds = r.rounds(), first = warp_id() * OF_ROUND - r.suffix; // in the list
	// The 16 bytes that the lane names of the first products: of row t and a quarter, 8 of the 16 columns.
	u32 keys = piece_at(ring, t, (g % 2 + lane / 8 % 2 * 2) * 2 + lane / 16);
	u32 values = piece_at(ring, t, (g % 2 + lane / 16 * 2) * 2 + lane / 8 % 2) + (V_IN_K ? 0 : K_CHUNKS * APART);
	float more = 0;
#pragma unroll 1
	for (int round = 0, slot = 0; round < rounds; round += HELD, slot = slot + HELD == DEPTH ? 0 : slot + HELD) {
		if (round % (8 * HELD) == 0) { // what is added to the score of row g % 4, 2t + g / 4 products from here; −Inf: no row
			int at = (round + (2 * t + g / 4) * HELD + g % 4 / OF_ROUND) * GROUPS + first + g % 4 % OF_ROUND;
			more = at >= r.listed ? -INF : at >= 0 ? -less(m, m.list[at].which) : 0;
		}
		if (first + round * GROUPS < r.listed) {
			copy_wait<DEPTH - HELD>();
			__syncwarp();
			float part[CHAINS][4] = {};
#pragma unroll
			for (int i = 0; i < STEPS; i++) {
				u32 k[4];
				load_matrices(k, keys + i * APART + slot * SLOT);
				mma<ELEMENT>(part[i % CHAINS], k[0], k[1], k[2], k[3], q.at[i][0], q.at[i][1]);
			}
#pragma unroll
			for (int i = 1; i < CHAINS; i++)
#pragma unroll
				for (int j = 0; j < 4; j++)
					part[0][j] += part[i][j];
			// Of row g % 4: a quarter, then all.
			float score = t % 2 == 0 ? g < 4 ? part[0][0] : part[0][1] : g < 4 ? part[0][2] : part[0][3];
			score += __shfl_xor_sync(~0u, score, 1);
			score += __shfl_xor_sync(~0u, score, 16);
			float add = __shfl_sync(~0u, more, round / HELD % 2 * 16 + g % 4 * 4 + round / HELD % 8 / 2);
			score = add != -INF ? q.scale * score + add : -INF;
			if (__any_sync(~0u, score > x.top)) // one maximum for the warp
				x.shrink(fmaxf(x.top, from_order_bits(__reduce_max_sync(~0u, order_bits(score)))));
			float weight = power2(score - x.top);
			x.sum += weight;
			// Rows 2 (t % 2) and the next.
			float even = __shfl_sync(~0u, weight, t % 2 * 8 + t), odd = __shfl_sync(~0u, weight, t % 2 * 8 + 4 + t);
			u32 upper = pack<ELEMENT>(even, odd), lower = pack<ELEMENT>(even - low_half(upper), odd - high_half(upper));
			// Only those of quarter g % 4 count.
			bool low = g % 4 == t / 2, high = g % 4 == 2 + t / 2;
#if WIDE
			u32 p[2][4]; // of even and odd 64 columns
#pragma unroll
			for (int i = 0; i < 2; i++) {
				bool own = g / 4 == i;
				p[i][0] = own && low ? upper : 0, p[i][1] = own && high ? upper : 0;
				p[i][2] = own && low ? lower : 0, p[i][3] = own && high ? lower : 0;
			}
#else
			u32 weights = g < 4 ? upper : lower, p0 = low ? weights : 0, p1 = high ? weights : 0;
#endif
#pragma unroll
			for (int i = 0; i < TILES; i++) {
				u32 v[4];
				load_transposed(v, values + i * APART + slot * SLOT);
#if WIDE
				mma<ELEMENT>(x.at[i / 2], v[0], v[1], v[2], v[3], p[i % 2][0], p[i % 2][1]);
				mma<ELEMENT>(x.at[i / 2], v[0], v[1], v[2], v[3], p[i % 2][2], p[i % 2][3]);
#else
				mma<ELEMENT>(x.at[i], v[0], v[1], v[2], v[3], p0, p1);
#endif
			}
			__syncwarp();
		}
		// Rounds that are not there are groups of copies, too, where copy_wait counts on them.
#pragma unroll 1
		for (int i = 0; i < HELD && (DEPTH > HELD || round + DEPTH < rounds); i++)
			fetch(ring, slot + i, r, m, round + i + DEPTH, true, true);
	}
	copy_wait<0>();
}

// Where a column lies in a sum: lanes use different banks.
__device__ inline int place_of(int column) { return column + column / 32 * 8; }

// Leaves the sum of a warp.
__device__ inline void leave(Sum &x, float *tops, float *sums, float (*parts)[PITCH])
{
	int g = lane_id() / 4, t = lane_id() % 4;
	x.sum += __shfl_xor_sync(~0u, x.sum, 4);
	x.sum += __shfl_xor_sync(~0u, x.sum, 8);
	if (lane_id() == 0)
		tops[warp_id()] = x.top, sums[warp_id()] = x.sum;
#pragma unroll
	for (int i = 0; i < ACCUMULATORS; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) {
			float *to = parts[warp_id()] + place_of((t % 2 * 2 + j % 2) * 16 + j / 2 * 8 + g);
#if WIDE
			to[place_of(64 * (2 * i + t / 2))] = x.at[i][j];
#else
			float sum = x.at[i][j] + __shfl_xor_sync(~0u, x.at[i][j], 2);
			if (t < 2)
				to[place_of(64 * i)] = sum;
#endif
		}
}
