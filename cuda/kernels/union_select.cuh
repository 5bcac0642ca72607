#pragma once
// What the blocks of teams_union select: the border of a query head, the teams that any head draws, and a list of their rows.
#include "teams_head.cuh"

#define QUADS (THREADS / 8) // of neighbouring teams, that a block looks at in a pass
#define TEAMS (PASSES * QUADS * 4)
#define LISTED 1024

// What a block finds its border with.
struct Selection {
	union {
		struct {
			u32 bin[BINS], fine[BINS]; // of the largest of UNIT scores, and of the candidates
			u64 middle[MIDDLE];        // keys
		};
		struct {
			u32 any_bin[ANY_BINS];
			u64 border[BORDER];
		};
	};
	int picks, undecided;
	u32 low, high, need, found;
	int cross, above, in; // a bin, the keys in those above, and in it
	u32 tops[WARPS], bottoms[WARPS];
	int sums[WARP], totals[3][WARPS];
	u64 key; // of the first team that is not drawn
	bool sure;
};

#include "teams_histogram.cuh"
#include "teams_border.cuh"

// What a block attends to.
struct Listed {
	__align__(16) float less[TEAMS + 1][8]; // by head: −ln c / ln 2 of the block's teams, −Inf where it is not drawn; 0: of the suffix
	int2 list[LISTED]; // row, and 1 + its team of these
};

// The border is among the `in` keys of m.middle; `above` are larger.
__device__ inline void choose(Selection &m, int k, int above, int in)
{
	__syncthreads();
#pragma unroll 1
	for (int i = threadIdx.x; i < in; i += THREADS) {
		u64 mine = m.middle[i];
		int rank = rank_of(m.middle, in, mine, above);
		if (rank == k)
			m.key = mine;
	}
	__syncthreads();
}

// Puts the keys of a bin into m.middle.
__device__ inline void collect(Selection &m, const float (&y)[EACH], const int (&bin)[EACH], int which)
{
	u32 open = 0;
#pragma unroll
	for (int i = 0; i < EACH; i++)
		open |= (bin[i] == which) << i;
#pragma unroll 1
	for (; open; open &= open - 1) {
		int i = __ffs(open) - 1;
		float x = 0;
#pragma unroll
		for (int j = 0; j < EACH; j++)
			x = i == j ? y[j] : x;
		m.middle[take(&m.undecided, 1)] = before_key(order_bits(x), i / 4 * 4 * THREADS + threadIdx.x * 4 + i % 4);
	}
}

// Finds the border of a head; false where the scores lie too close together. As in teams_bins.cuh: a histogram of the
// largest of UNIT scores leaves few candidates, one of these the bin in which the border lies. Every thread has EACH scores.
__device__ inline bool border(Selection &m, const Head &a)
{
	float y[EACH], top[EACH / UNIT], high, low;
#pragma unroll
	for (int i = 0; i < EACH; i += 4) {
		int team = i * THREADS + threadIdx.x * 4;
		float4 x = team < a.teams ? fresh((const float4 *)(a.y + team)) : make_float4(-INF, -INF, -INF, -INF);
		y[i] = x.x, y[i + 1] = x.y, y[i + 2] = x.z, y[i + 3] = x.w;
	}
#pragma unroll
	for (int i = 0; i < EACH; i += UNIT)
		top[i / UNIT] = UNIT == 1 ? y[i] : fmaxf(fmaxf(y[i], y[i + 1]), fmaxf(y[i + 2], y[i + 3]));
	range(m, top, high, low);
	float by = fminf(0.9999f * BINS / (high - low), 1e30f);
	if (!(high - low < INF))
		return false;
#pragma unroll
	for (int i = 0; i < EACH / UNIT; i++) {
		float d = distance(top[i], high, by);
		count_if(d < BINS, &m.bin[min((int)d, BINS - 1)]);
	}
	__syncthreads();
	if (find_bin(m, m.bin, a.k + 1, m.totals[0]) <= a.k)
		return false; // more than one of UNIT teams may be needed
	float edge = m.cross + 1, by2 = by * (BINS / edge);
	int bin[EACH];
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		float d = high - y[i];
		int b = fminf(d * by2, BINS - 1);
		bin[i] = d * by < edge ? b : BINS;
		count_if(bin[i] < BINS, &m.fine[b]);
	}
	__syncthreads();
	find_bin(m, m.fine, a.k + 1, m.totals[1]); // there are that many
	int cross = m.cross, above = m.above, in = m.in;
	if (in > MIDDLE)
		return false;
	collect(m, y, bin, cross);
	choose(m, a.k, above, in);
	return true;
}

// Tells the HEADS blocks of the part this block's border, and waits for theirs. told: 0 until a key is there, which is none.
__device__ inline void exchange(u64 *borders, u64 mine, u64 *told, int block)
{
	if (threadIdx.x == 0)
		*(volatile u64 *)&told[block] = mine;
	if (threadIdx.x < HEADS) {
		u64 key;
		do
			key = *(volatile u64 *)&told[block / HEADS * HEADS + threadIdx.x];
		while (key == 0);
		borders[threadIdx.x] = key;
	}
	__syncthreads();
}

// The block's teams that are drawn by any head, a quad of neighbours for 8 threads. Head: threadIdx.x % 8.
struct Mine {
	float y[PASSES][4]; // of the head
	int offset[PASSES]; // of the thread's team in the quad, or the end
	u32 drawn[PASSES];  // a bit a team: by the head, in the upper half by any
	int before[PASSES]; // rows
};

__device__ inline int quad_of(int pass, int block) { return (pass * QUADS + threadIdx.x / 8) * BLOCKS + block; }

// Asks for the offsets of the block's teams, of a quad its five; of: threadIdx.x % 8.
__device__ inline void load_offsets(Mine &x, const Head &a, int of, int block)
{
#pragma unroll
	for (int p = 0; p < PASSES; p++)
		x.offset[p] = fresh(a.offsets + min(quad_of(p, block) * 4 + min(of, 4), a.teams));
}

// Asks for their scores of the head that y is of.
__device__ inline void load_scores(Mine &x, const float *y, int teams, int block)
{
#pragma unroll
	for (int p = 0; p < PASSES; p++) {
		int team = quad_of(p, block) * 4;
		float4 t = make_float4(-INF, -INF, -INF, -INF);
		if (team < teams)
			t = fresh((const float4 *)(y + team));
		x.y[p][0] = t.x, x.y[p][1] = t.y, x.y[p][2] = t.z, x.y[p][3] = t.w;
	}
}

// Rows of the i-th team of a quad, and the first.
__device__ inline int rows_of(const Mine &x, int p, int i, int &first)
{
	first = __shfl_sync(~0u, x.offset[p], i, 8);
	int next = __shfl_sync(~0u, x.offset[p], i + 1, 8);
	return x.drawn[p] >> (16 + i) & 1 ? max(next - first, 0) : 0;
}

// Finds out what is drawn; returns the rows of all of it.
__device__ inline int look(Mine &x, Selection &m, u64 key, int block)
{
	int rows = 0, all;
#pragma unroll
	for (int p = 0; p < PASSES; p++) {
		u32 own = 0;
#pragma unroll
		for (int i = 0; i < 4; i++)
			own |= (before_key(order_bits(x.y[p][i]), quad_of(p, block) * 4 + i) > key) << i;
		u32 any = own;
#pragma unroll
		for (int step = 1; step < 8; step *= 2)
			any |= __shfl_xor_sync(~0u, any, step);
		x.drawn[p] = own | any << 16;
		x.before[p] = rows;
		int first;
#pragma unroll
		for (int i = 0; i < 4; i++)
			rows += rows_of(x, p, i, first);
	}
	int before = scan(threadIdx.x % 8 ? 0 : rows, m.totals[2], all);
	before = __shfl_sync(~0u, before, 0, 8);
#pragma unroll
	for (int p = 0; p < PASSES; p++)
		x.before[p] += before;
	return all;
}

// Lists LISTED rows from number `from` on.
__device__ inline void list(Listed &m, const Mine &x, int from)
{
#pragma unroll
	for (int p = 0; p < PASSES; p++) {
		int at = x.before[p] - from, first;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int n = rows_of(x, p, i, first);
#pragma unroll 1
			for (int j = threadIdx.x % 8; j < n; j += 8)
				if ((u32)(at + j) < LISTED)
					m.list[at + j] = make_int2(first + j, 1 + (p * QUADS + threadIdx.x / 8) * 4 + i);
			at += n;
		}
	}
	__syncthreads();
}
