// Exact attention of many tokens over the rows from ≤ j ≤ pos[t], on the
// float32 units: tiles of QUERIES tokens against 32 rows with a running softmax.
// Grid: (query tiles, heads), 256 threads. A warp owns the queries warp, warp +
// 8, …; a lane owns one row of the tile, then every 32nd output column.
// q [tokens, heads, DK]; k [key heads, capacity, DK]; v [key heads, capacity,
// DV]; out [tokens, heads, DV]; lse [tokens, heads] or null; read or null.
// Source of the running softmax: Milakov and Gimelshein (2018), as in
// FlashAttention.
#include "common.cuh"

#define QUERIES (DK > 256 ? 16 : 32)
#define MINE (QUERIES / 8) // queries of a warp
#define COLUMNS ((DV + WARP - 1) / WARP)

struct Args {
	Cube<DST> out;
	Mat<float> lse;
	Cube<const Q> q;
	Cube<const K> k;
	Cube<const V> v;
	const int *from; // or null: 0
	const int *pos;
	u64 *read;
	int tokens, group, capacity;
	float scale;
};

struct Memory {
	float q[QUERIES][DK];
	float tile[WARP][WARP + 1]; // 32 rows × 32 columns of K or V
	float p[QUERIES][WARP];
	int last[QUERIES];
};

// tile = rows first … first + n − 1, columns column … of src; zero beyond.
template <class T> __device__ void load_tile(Memory &m, Mat<const T> src, int first, int n, int column, int width)
{
	__syncthreads();
	for (int r = warp_id(); r < WARP; r += 8) {
		int c = column + lane_id();
		m.tile[r][lane_id()] = r < n && c < width ? f32(src.row(first + r)[c]) : 0;
	}
	__syncthreads();
}

// The last row of every query of the block, and the last of all.
__device__ int load_limits(const Args &a, Memory &m, int t0, int first)
{
	int last = first - 1;
	if (threadIdx.x < QUERIES) {
		int t = t0 + threadIdx.x;
		m.last[threadIdx.x] = t < a.tokens ? min(a.pos[t], a.capacity - 1) : first - 1;
	}
	__syncthreads();
	u64 rows = 0;
	for (int i = 0; i < QUERIES; i++) {
		last = max(last, m.last[i]);
		rows += max(m.last[i] - first + 1, 0);
	}
	if (a.read && threadIdx.x == 0 && blockIdx.y % a.group == 0)
		atomicAdd(a.read, rows);
	return last;
}

KERNEL attend_many(PARAM)
{
	extern __shared__ float raw[];
	Memory &m = *(Memory *)raw;
	int t0 = blockIdx.x * QUERIES, h = blockIdx.y, kv = h / a.group;
	int first = a.from ? max(*a.from, 0) : 0;
	int last = load_limits(a, m, t0, first);
	for (int i = threadIdx.x; i < QUERIES * DK; i += blockDim.x)
		m.q[i / DK][i % DK] = t0 + i / DK < a.tokens ? f32(a.q.row(t0 + i / DK, h)[i % DK]) * a.scale : 0;
	Mat<const K> k = {a.k.row(kv, 0), a.k.s1};
	Mat<const V> v = {a.v.row(kv, 0), a.v.s1};

	float acc[MINE][COLUMNS] = {}, top[MINE], sum[MINE] = {};
	for (int e = 0; e < MINE; e++)
		top[e] = -INF;
	for (int j0 = first; j0 <= last; j0 += WARP) {
		int rows = min(WARP, last - j0 + 1);
		float s[MINE] = {};
		for (int d = 0; d < DK; d += WARP) {
			load_tile(m, k, j0, rows, d, DK);
			for (int i = 0; i < min(WARP, DK - d); i++)
				for (int e = 0; e < MINE; e++)
					s[e] += m.q[warp_id() + 8 * e][d + i] * m.tile[lane_id()][i];
		}
		for (int e = 0; e < MINE; e++) {
			int query = warp_id() + 8 * e;
			if (j0 + lane_id() > m.last[query])
				s[e] = -INF;
			float now = fmaxf(top[e], warp_max(s[e]));
			float p = expf(s[e] - reference(now));
			float shrink = now == -INF ? 1 : expf(top[e] - now);
			top[e] = now;
			sum[e] = sum[e] * shrink + warp_sum(p);
			m.p[query][lane_id()] = p;
#pragma unroll
			for (int c = 0; c < COLUMNS; c++)
				acc[e][c] *= shrink;
		}
#pragma unroll
		for (int c = 0; c < COLUMNS; c++) {
			load_tile(m, v, j0, rows, c * WARP, DV);
			for (int r = 0; r < WARP; r++)
				for (int e = 0; e < MINE; e++)
					acc[e][c] += m.p[warp_id() + 8 * e][r] * m.tile[r][lane_id()];
		}
	}
	for (int e = 0; e < MINE; e++) {
		int t = t0 + warp_id() + 8 * e;
		if (t >= a.tokens)
			continue;
#pragma unroll
		for (int c = 0; c < COLUMNS; c++)
			if (c * WARP + lane_id() < DV)
				a.out.row(t, h)[c * WARP + lane_id()] = to<DST>(sum[e] != 0 ? acc[e][c] / sum[e] : 0);
		if (lane_id() == 0 && a.lse.p)
			a.lse.row(t)[h] = sum[e] != 0 ? top[e] + logf(sum[e]) : -INF;
	}
}
