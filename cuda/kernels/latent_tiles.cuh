#pragma once
// The rows of a shared latent as attend_latent.cu reads them: what a block has of them,
// and how the copy engine brings them, tile after tile, through a ring of STAGES.
#include "decode.cuh"
#include "hopper.cuh"

#define WARPS 4  // of a group
#define GROUP (WARPS * WARP)
#define ROWS 32  // of a tile
#define PIECE 8  // rows that are copied at least
#define PANEL 1024 // bytes of a piece's 64 columns
#define HEADS 16
#define PANELS ((DK + 63) / 64) // zero beyond DK
#define BUFFERS 2               // weights of so many tiles
#define FEW 2 // tiles asked for before the kernel ahead is over, where a block has no more; else 1

struct Args {
	TensorMap tiles, pieces; // boxes of ROWS and PIECE rows; without whole panels of columns, of a panel of pieces alone
	Cube<const bf16> q;
	float *out;
	Mass *mass;
	const int *from; // or null: 0
	const int *pos;
	int heads, group, capacity;
	float scale;
	int early; // limits, and rows before the last one attended, are there already
};

typedef bf16 Tile[ROWS / PIECE][PANELS][PIECE][64];

struct Memory {
	Tile tiles[STAGES];
	bf16 queries[PANELS][HEADS][64];
	bf16 weights[BUFFERS][HEADS][ROWS + 8];
	float shrink[BUFFERS][HEADS]; // of sums before, where the reference moved
	float top[HEADS][WARPS], sum[HEADS][WARPS];
	u64 full[STAGES], empty[STAGES];
	int moved[BUFFERS];
	Limits early;
};

// Has the copy engine read a description before it is needed.
__device__ inline void announce(const TensorMap *map) { asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory"); }

// Bring all columns of rows that are read once, of a tile and of a piece.
__device__ inline void load_tile(void *dst, const TensorMap *map, u64 *barrier, int row, int kv, u64 policy)
{
	asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %3, %3, %5}], [%2], %6;"
		:: "r"(shared_address(dst)), "l"(map), "r"(shared_address(barrier)), "r"(0), "r"(row), "r"(kv), "l"(policy) : "memory");
}
__device__ inline void load_piece(void *dst, const TensorMap *map, u64 *barrier, int row, int kv, u64 policy)
{
#if DK % 64
	for (int p = 0; p < PANELS; p++)
		asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;"
			:: "r"(shared_address(dst) + PANEL * p), "l"(map), "r"(shared_address(barrier)), "r"(64 * p), "r"(row), "r"(kv), "l"(policy) : "memory");
#else
	asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %3, %5}], [%2], %6;"
		:: "r"(shared_address(dst)), "l"(map), "r"(shared_address(barrier)), "r"(0), "r"(row), "r"(kv), "l"(policy) : "memory");
#endif
}

// Where the 16-byte piece of a row lies in a panel, in bytes.
__device__ inline int place(int row, int piece) { return row * 128 + ((piece ^ row % 8) << 4); }

// What a block takes of the rows. The tiles of it are brought in turn to the
// stages of the ring.
struct Work {
	Share<ROWS> share;
	int t, kv, part, tiles;
	__device__ Work() {}
	__device__ Work(const Args &a, const Limits &limits) : t(blockIdx.z), kv(blockIdx.y), part(blockIdx.x)
	{
		Range range(limits, a.capacity);
		int parts = range.parts(PARTS, LEAST);
		share = Share<ROWS>(range, part, parts);
		tiles = part < parts ? share.tiles() : 0;
	}
	__device__ int rows(int tile) const { return share.end(tile) - share.begin(tile) + 1; }
};

// The stage or buffer of N that is next, and the parity of its turn.
template <int N> struct Turn {
	int at = 0;
	u32 parity = 0;
	__device__ void next()
	{
		if (++at == N)
			at = 0, parity ^= 1;
	}
};

__device__ inline void copy_tile(const Args &a, Memory &m, const Work &w, int tile, u64 policy)
{
	int stage = tile % STAGES, row = w.share.begin(tile), n = w.rows(tile);
	u64 *full = &m.full[stage];
	barrier_expect(full, (n + PIECE - 1) / PIECE * PANELS * PANEL);
	if (DK % 64 == 0 && n == ROWS)
		load_tile(m.tiles[stage], &a.tiles, full, row, w.kv, policy);
	else
		for (int r = 0; r < n; r += PIECE)
			load_piece(m.tiles[stage][r / PIECE], &a.pieces, full, row + r, w.kv, policy);
}

// Asks for the first tiles before the kernel ahead is over, as far as it does not
// write their rows; returns how many.
__device__ inline int copy_early(const Args &a, Memory &m, const Work &w, const Limits &limits)
{
	int n = 0, most = w.tiles <= min(FEW, STAGES) ? w.tiles : 1;
	while (n < most && w.share.end(n) < limits.pos)
		copy_tile(a, m, w, n++, evict_first());
	return n;
}

// Asks for the tiles from ≤ i < to.
__device__ inline void copy_tiles(const Args &a, Memory &m, const Work &w, int from, int to)
{
	u64 policy = evict_first();
	for (int i = from; i < to; i++) {
		if (i >= STAGES)
			barrier_wait(&m.empty[i % STAGES], i / STAGES & 1 ^ 1);
		copy_tile(a, m, w, i, policy);
	}
}
