#pragma once
// How the blocks of teams_attend read rows: LANES threads a row, GROUPS rows a round, DEPTH rounds under way. Rows of 64 or
// 128 columns, keys and values apart, and wide ones of a latent, are multiplied by the tensor cores (TILED, teams_tiles.cuh),
// others by the threads that read them (teams_lanes.cuh).
#define LANES (DK <= 128 ? 8 : DK <= 192 ? 16 : 32)
#define GROUPS (THREADS / LANES) // rows at a time
#define K_CHUNKS ((DK / 8 + LANES - 1) / LANES)
#define V_CHUNKS ((DV / 8 + LANES - 1) / LANES)
#define CHUNKS (K_CHUNKS + (V_IN_K ? 0 : V_CHUNKS)) // of 16 bytes that a lane has of a row
#define WIDE (V_IN_K && LANES == WARP && DK % 64 == 0 && DV % 128 == 0) // a row lies in one piece
#define TILED (WIDE || !V_IN_K && (DK == 64 || DK == 128) && (DV == 64 || DV == 128))
#define CHUNK_STEP ((WIDE ? WARP : THREADS) * 16) // bytes from one of a lane's chunks to the next
#define SLOT (WIDE ? GROUPS * DK * 2 : CHUNKS * THREADS * 16) // bytes of a round of rows
#define HELD (LANES == WARP ? 4 : 1) // rounds whose rows a warp multiplies together, if TILED
#include "teams_select.cuh"

#define LOW -3e38f
static_assert(DK % 8 == 0 && DV % 8 == 0 && DV % CLUSTER == 0 && DV <= THREADS, "shape");

// The sums that a block adds up, and how many threads share a column in that.
#define SUMS (TILED ? WARPS : GROUPS > 32 ? 32 : GROUPS)
#define PARTS (THREADS / DV > SUMS ? SUMS : THREADS / DV)
#define SHARE (DV / CLUSTER)

// Row j of the 4 that a warp multiplies has its 16-byte pieces in other places, so that the 8 that an instruction reads lie in
// different banks.
__device__ inline int turn(int j) { return j % 2 + j / 2 % 2 * 4; }

// Where the i-th chunk of a lane's share of a row lies, in a slot of the ring; if not TILED, no other thread touches it. WIDE:
// of the 4 rows that a warp multiplies, the slot has one; else it has all.
__device__ inline uint4 *lane_chunk(u8 *ring, int slot, int i)
{
	int row = WIDE ? slot : threadIdx.x / LANES, at = threadIdx.x ^ (TILED ? turn(row) : 0);
	if (WIDE)
		return (uint4 *)ring + (slot * GROUPS + warp_id()) * (DK / 8) + i * WARP + at % WARP;
	return (uint4 *)ring + (slot * CHUNKS + i) * THREADS + at;
}

// The ELEMENTs, bf16 or half, in the halves of a word.
__device__ inline float low_half(u32 x) { return f32(ELEMENT{(u16)x}); }
__device__ inline float high_half(u32 x) { return f32(ELEMENT{(u16)(x >> 16)}); }

// Whether a lane has an i-th chunk of a row of `width` elements.
template <int width> __device__ inline bool has(int i, int lane) { return width % (LANES * 8) == 0 || (i * LANES + lane) * 8 < width; }

// The rows that a block reads, GROUPS of them a round: those of the suffix, which can be on their way before the block
// selects, then those of the list.
struct Rows {
	const u8 *k, *v;    // the lane's first chunk of row 0
	u32 k_step, v_step; // bytes from one row to the next
	int suffix, first;  // how many of the suffix, and the first of these
	int listed;
	__device__ int rounds() const { return (suffix + listed + GROUPS - 1) / GROUPS; }
};

// ln c / ln 2 of a drawn team.
__device__ inline float less(const Selection &m, int which) { return PLAIN ? log2_chance(m, m.less[which]) : m.less[which]; }

// Asks for a round's row of this group of threads, if it is of the suffix or of the list, as asked; tells whether it was. Where
// a warp has any of the rows that it multiplies together, values of those that are not there are zero for the tensor cores: no
// weight undoes NaN.
__device__ inline bool fetch(u8 *ring, int slot, const Rows &r, const Selection &m, int round, bool suffix, bool list)
{
	int lane = threadIdx.x % LANES, at = round * GROUPS + threadIdx.x / LANES - r.suffix; // in the list
	if (!(at < 0 ? suffix : list))
		return false;
	if (at < r.listed) {
		u32 row = at < 0 ? r.first + (at + r.suffix) * CLUSTER : m.list[at].row, to = shared_address(lane_chunk(ring, slot, 0));
		const u8 *k = r.k + (u64)row * r.k_step, *v = r.v + (u64)row * r.v_step;
#pragma unroll
		for (int c = 0; c < K_CHUNKS; c++)
			if (has<DK>(c, lane))
				copy16(to + c * CHUNK_STEP, k + c * LANES * 16);
		if (!V_IN_K)
#pragma unroll
			for (int c = 0; c < V_CHUNKS; c++)
				if (has<DV>(c, lane))
					copy16(to + (K_CHUNKS + c) * THREADS * 16, v + c * LANES * 16);
	} else if (TILED && at - lane_id() / LANES - slot % HELD * GROUPS < r.listed) {
#pragma unroll
		for (int c = 0; c < V_CHUNKS; c++)
			if (has<DV>(c, lane))
				*lane_chunk(ring, slot, (V_IN_K ? 0 : K_CHUNKS) + c) = make_uint4(0, 0, 0, 0);
	}
	copy_end();
	return true;
}

// Either has PITCH, Sum, Query, load_query, attend, leave and place_of.
#if TILED
#include "teams_tiles.cuh"
#else
#include "teams_lanes.cuh"
#endif
