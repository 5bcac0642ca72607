#pragma once
// How the blocks of teams_attend read rows: LANES threads a row, GROUPS rows a round, DEPTH rounds under way.
#define LANES (DK <= 128 ? 8 : DK <= 192 ? 16 : 32)
#define GROUPS (THREADS / LANES) // rows at a time
#define K_CHUNKS ((DK / 8 + LANES - 1) / LANES)
#define V_CHUNKS ((DV / 8 + LANES - 1) / LANES)
#define CHUNKS (K_CHUNKS + (V_IN_K ? 0 : V_CHUNKS)) // of 16 bytes that a lane has of a row
#define SLOT (CHUNKS * THREADS * 16)                // bytes of a round of rows
#include "teams_select.cuh"

#define COLUMNS (V_CHUNKS * 8) // of the output that a lane has
#define LOW -3e38f
#define AT_ONCE (LANES == WARP ? 2 : 1) // rounds that are worked on side by side: a warp waits for its sums across lanes
static_assert(DK % 8 == 0 && DV % 8 == 0 && DV % CLUSTER == 0 && DV <= THREADS && DEPTH % AT_ONCE == 0, "shape");

// The groups of threads whose sums a block adds up, and how many threads share a column in that.
#define SUMS (GROUPS > 32 ? 32 : GROUPS)
#define PARTS (THREADS / DV > SUMS ? SUMS : THREADS / DV)
#define SHARE (DV / CLUSTER)

// A row's share of a lane in shared memory, which no other thread touches.
__device__ inline uint4 *lane_chunk(u8 *ring, int slot, int i) { return (uint4 *)ring + (slot * CHUNKS + i) * THREADS + threadIdx.x; }

// A weighted sum of values; weights are exp2(score − top).
struct Sum {
	float top, sum, at[COLUMNS];
	__device__ void shrink(float to)
	{
		float by = exp2_fast(top - to);
		top = to, sum *= by;
#pragma unroll
		for (int i = 0; i < COLUMNS; i++)
			at[i] *= by;
	}
};

// The ELEMENTs, bf16 or half, in the halves of a word.
__device__ inline float low_half(u32 x) { return f32(ELEMENT{(u16)x}); }
__device__ inline float high_half(u32 x) { return f32(ELEMENT{(u16)(x >> 16)}); }

__device__ inline float dot8(uint4 x, const float *q)
{
	u32 w[4] = {x.x, x.y, x.z, x.w};
	float sum = 0;
#pragma unroll
	for (int i = 0; i < 4; i++)
		sum += low_half(w[i]) * q[2 * i] + high_half(w[i]) * q[2 * i + 1];
	return sum;
}

__device__ inline void add8(float *at, uint4 x, float p)
{
	u32 w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
	for (int i = 0; i < 4; i++)
		at[2 * i] += p * low_half(w[i]), at[2 * i + 1] += p * high_half(w[i]);
}

// Whether a lane has an i-th chunk of a row of `width` elements.
template <int width> __device__ inline bool has(int i, int lane) { return width % (LANES * 8) == 0 || (i * LANES + lane) * 8 < width; }

// The rows that a block reads, GROUPS of them a round: those of the suffix, which can be on their way before the block
// selects, then those of the list.
struct Rows {
	const ELEMENT *k, *v; // the lane's first chunk of row 0
	int k_step, v_step;
	int suffix, first;  // how many of the suffix, and the first of these
	int listed;
	__device__ int rounds() const { return (suffix + listed + GROUPS - 1) / GROUPS; }
};

// ln c / ln 2 of a drawn team.
__device__ inline float less(const Selection &m, int which) { return PLAIN ? log2_chance(m, m.less[which]) : m.less[which]; }

// A round's row of this group of threads, if it is of the suffix or of the list, as asked; tells whether it was.
__device__ inline bool fetch(u8 *ring, int slot, const Rows &r, const Selection &m, int round, bool suffix, bool list)
{
	int lane = threadIdx.x % LANES, at = round * GROUPS + threadIdx.x / LANES - r.suffix; // in the list
	if (!(at < 0 ? suffix : list))
		return false;
	if (at < r.listed) {
		int row = at < 0 ? r.first + (at + r.suffix) * CLUSTER : m.list[at].row;
		const ELEMENT *k = r.k + (i64)row * r.k_step, *v = r.v + (i64)row * r.v_step;
#pragma unroll
		for (int c = 0; c < K_CHUNKS; c++)
			if (has<DK>(c, lane))
				copy16(lane_chunk(ring, slot, c), k + c * LANES * 8);
		if (!V_IN_K)
#pragma unroll
			for (int c = 0; c < V_CHUNKS; c++)
				if (has<DV>(c, lane))
					copy16(lane_chunk(ring, slot, K_CHUNKS + c), v + c * LANES * 8);
	}
	copy_end();
	return true;
}

// Adds the rows to x; the first DEPTH rounds are under way. AT_ONCE rounds are worked on side by side.
__device__ inline void attend(Sum &x, const float *q, u8 *ring, const Rows &r, const Selection &m)
{
	int lane = threadIdx.x % LANES, rounds = r.rounds(), at = threadIdx.x / LANES - r.suffix;
#pragma unroll 1
	for (int round = 0, slot = 0; round < rounds; round += AT_ONCE, slot = slot + AT_ONCE == DEPTH ? 0 : slot + AT_ONCE, at += AT_ONCE * GROUPS) {
		if (__any_sync(~0u, at < r.listed)) {
			float score[AT_ONCE], part[AT_ONCE];
			uint4 key[AT_ONCE][V_IN_K ? K_CHUNKS : 1];
			bool is[AT_ONCE];
#pragma unroll
			for (int n = 0; n < AT_ONCE; n++) {
				int i = at + n * GROUPS;
				is[n] = i < r.listed;
				score[n] = is[n] && i >= 0 ? -less(m, m.list[i].which) : 0;
			}
			copy_wait<DEPTH - AT_ONCE>();
#pragma unroll
			for (int n = 0; n < AT_ONCE; n++) {
				part[n] = 0;
#pragma unroll
				for (int c = 0; c < K_CHUNKS; c++)
					if (is[n] && has<DK>(c, lane)) {
						uint4 chunk = *lane_chunk(ring, slot + n, c);
						if (V_IN_K)
							key[n][c] = chunk;
						part[n] += dot8(chunk, q + c * 8);
					}
			}
#pragma unroll
			for (int step = LANES / 2; step > 0; step /= 2)
#pragma unroll
				for (int n = 0; n < AT_ONCE; n++)
					part[n] += __shfl_xor_sync(~0u, part[n], step);
			float high = LOW;
#pragma unroll
			for (int n = 0; n < AT_ONCE; n++) {
				score[n] = is[n] ? score[n] + part[n] : LOW;
				high = fmaxf(high, score[n]);
			}
			if (__any_sync(~0u, high > x.top)) // one maximum for the warp
				x.shrink(fmaxf(x.top, from_order_bits(__reduce_max_sync(~0u, order_bits(high)))));
#pragma unroll
			for (int n = 0; n < AT_ONCE; n++)
				if (is[n]) {
					float p = exp2_fast(score[n] - x.top);
					x.sum += p;
#pragma unroll
					for (int c = 0; c < V_CHUNKS; c++)
						if (has<DV>(c, lane))
							add8(x.at + c * 8, V_IN_K ? key[n][V_IN_K ? c : 0] : *lane_chunk(ring, slot + n, K_CHUNKS + c), p);
				}
		}
#pragma unroll
		for (int n = 0; n < AT_ONCE; n++)
			fetch(ring, slot + n, r, m, round + n + DEPTH, true, true);
	}
	copy_wait<0>();
}

// A lane's part of the query, scaled for exp2.
__device__ inline void load_query(float *q, const uint4 *query, float by)
{
	int lane = threadIdx.x % LANES;
#pragma unroll
	for (int c = 0; c < K_CHUNKS; c++)
		if (has<DK>(c, lane)) {
			uint4 x = query[c * LANES + lane];
			u32 w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
			for (int i = 0; i < 4; i++)
				q[c * 8 + 2 * i] = low_half(w[i]) * by, q[c * 8 + 2 * i + 1] = high_half(w[i]) * by;
		}
}
