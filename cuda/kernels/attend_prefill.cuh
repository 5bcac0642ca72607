#pragma once
// What the kernels of prefill attention share: which rows a tile of queries
// reads, the running softmax, and the end. A thread has rows of the tile as
// product fragments: two rows, in each pairs of neighbouring columns.
#include "tensor.cuh"

// The last row of every query of the tile.
template <int ROWS> struct Limits { int of[ROWS]; };

// Fills limits; queries beyond the last are like it.
template <int ROWS, class A> __device__ inline void load_limits(const A &a, Limits<ROWS> &limits, int t0)
{
	if (threadIdx.x < ROWS)
		limits.of[threadIdx.x] = min(a.pos[min(t0 + (int)threadIdx.x, a.tokens - 1)], a.capacity - 1);
}

// Largest and smallest limit of n neighbouring queries, for all lanes.
__device__ inline int largest(const int *limit, int n)
{
	int x = limit[lane_id()];
	for (int i = lane_id() + WARP; i < n; i += WARP)
		x = max(x, limit[i]);
	return __reduce_max_sync(~0u, x);
}
__device__ inline int smallest(const int *limit, int n)
{
	int x = limit[lane_id()];
	for (int i = lane_id() + WARP; i < n; i += WARP)
		x = min(x, limit[i]);
	return __reduce_min_sync(~0u, x);
}

// A warp adds the rows that the tile's queries read, once for a key head.
template <int ROWS, class A> __device__ inline void count_rows(const A &a, const Limits<ROWS> &limits, int t0, int first)
{
	int n = 0;
	for (int i = lane_id(); i < ROWS; i += WARP)
		if (t0 + i < a.tokens)
			n += max(limits.of[i] - first + 1, 0);
	u64 rows = __reduce_add_sync(~0u, n);
	if (lane_id() == 0)
		atomicAdd(a.read, rows);
}

// Running softmax of two rows a thread, in powers of two of c·s.
struct Softmax {
	float top[2] = {-INF, -INF}, sum[2] = {}; // of s; of this thread's columns

	// s becomes the weights of one more block, shrink what earlier ones count now.
	template <int N> __device__ void weigh(float (&s)[N], float c, float (&shrink)[2])
	{
#pragma unroll
		for (int r = 0; r < 2; r++) {
			float now = top[r];
#pragma unroll
			for (int i = 2 * r; i < N; i += 4)
				now = fmaxf(now, fmaxf(s[i], s[i + 1]));
			now = quad_max(now);
			float base = now == -INF ? 0 : now * c, part = 0;
			shrink[r] = power2(top[r] * c - base);
			top[r] = now;
#pragma unroll
			for (int i = 2 * r; i < N; i += 4) {
				s[i] = power2(s[i] * c - base);
				s[i + 1] = power2(s[i + 1] * c - base);
				part += s[i] + s[i + 1];
			}
			sum[r] = sum[r] * shrink[r] + part;
		}
	}
};

// Hides the columns of a block beyond the two rows' limits. column: of s[0].
template <int N> __device__ inline void mask(float (&s)[N], int column, const int (&limit)[2])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		if (column + i / 4 * 8 + i % 2 > limit[i / 2 % 2])
			s[i] = -INF;
}

template <int N> __device__ inline void scale_rows(float (&o)[N], const float (&by)[2])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		o[i] *= by[i / 2 % 2];
}

// Stores two rows, t and t + 8, of head h: o divided by the sum of weights.
template <int N, class A> __device__ inline void store_rows(const A &a, float (&o)[N], Softmax &soft, int t, int h)
{
	float by[2];
#pragma unroll
	for (int r = 0; r < 2; r++) {
		float sum = quad_sum(soft.sum[r]);
		by[r] = sum != 0 ? 1 / sum : 0;
		if (a.lse.p && lane_id() % 4 == 0 && t + 8 * r < a.tokens)
			a.lse.row(t + 8 * r)[h] = sum != 0 ? soft.top[r] * a.scale + logf(sum) : -INF;
	}
	scale_rows(o, by);
#pragma unroll
	for (int r = 0; r < 2; r++) {
		bool mine = t + 8 * r < a.tokens;
		DST *dst = a.out.row(t + 8 * r, h);
#pragma unroll
		for (int i = 0; i < N / 4; i += 4) {
			if constexpr (sizeof(DST) == 2) {
				u32 part[4];
#pragma unroll
				for (int j = 0; j < 4; j++)
					part[j] = pack(o[4 * (i + j) + 2 * r], o[4 * (i + j) + 2 * r + 1]);
				quad_transpose(part);
				if (mine)
					*(uint4 *)(dst + 8 * (i + lane_id() % 4)) = make_uint4(part[0], part[1], part[2], part[3]);
			} else {
#pragma unroll
				for (int j = i; j < i + 4; j++)
					if (mine)
						*(float2 *)(dst + 8 * j + lane_id() % 4 * 2) = make_float2(o[4 * j + 2 * r], o[4 * j + 2 * r + 1]);
			}
		}
	}
}
