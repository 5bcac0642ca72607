#pragma once
// What the kernels of decode attention share: how rows are split, and the
// instructions of tensor cores and memory (sm_80 or newer). Logits are to base
// 2. Parts, float32: out [tokens, heads, PARTS, columns], unnormalised; mass
// [tokens, heads, PARTS]: the reference r and Σ 2^(logit − r).
#include "early.cuh"
#include "tensor.cuh"

#define LN2 0.6931471805599453f

struct __align__(8) Mass { float top, sum; };

// The rows from ≤ j ≤ pos[t] as they are in memory.
struct Limits {
	int from, pos;
	Limits() = default;
	// from or null: 0. Read anew every time.
	__device__ Limits(const int *from, const int *pos, int t) : from(0)
	{
		asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(this->pos) : "l"(pos + t) : "memory");
		if (from)
			asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(this->from) : "l"(from) : "memory");
	}
	__device__ bool operator!=(const Limits &b) const { return from != b.from || pos != b.pos; }
};

struct Range {
	int first, rows;
	__device__ Range(const Limits &limits, int capacity)
	{
		first = max(limits.from, 0);
		rows = max(min(limits.pos, capacity - 1) - first + 1, 0);
	}
	// Parts of at least so many rows, where there are so many. The split depends on the
	// number of rows alone, so that neither the cache's capacity nor the grid changes a
	// result.
	__device__ int parts(int most, int least) const { return min(most, (rows + least - 1) / least); }
};

// What one of several workers takes of a range: in every round the workers have
// neighbouring tiles of ROWS rows, which keeps memory's pages open; in the last
// one they divide what is left.
template <int ROWS> struct Share {
	int first, next; // row of the first tile; rows from one tile to the next
	int rounds;      // full tiles
	int rest, last;  // the tile after them, from row rest to row last; or none
	__device__ Share() {}
	__device__ Share(const Range &range, int worker, int workers)
	{
		first = range.first + worker * ROWS;
		next = workers * ROWS;
		rounds = range.rows / max(next, 1);
		int done = rounds * next, left = range.rows - done;
		rest = range.first + done + left * worker / max(workers, 1);
		last = range.first + done + left * (worker + 1) / max(workers, 1) - 1;
	}
	__device__ int tiles() const { return rounds + (rest <= last); }
	__device__ int begin(int tile) const { return tile < rounds ? first + tile * next : rest; }
	__device__ int end(int tile) const { return tile < rounds ? first + tile * next + ROWS - 1 : last; } // its last row
};
