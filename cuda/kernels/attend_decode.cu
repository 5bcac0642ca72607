// Exact attention of few tokens with grouped queries, at most 8 heads a key
// head, over the rows from ≤ j ≤ pos[t]. attend_merge puts the parts together.
// Grid: (PARTS, key heads, tokens), WARPS · 32 threads; shared: struct Memory.
// q [tokens, heads, D]; k, v [key heads, capacity, D], ELEMENT (bf16 or half), all
// rows on 16-byte boundaries; D 64 or 128; parts: decode.cuh.
//
// All warps of a key head's blocks share the rows, TILES tiles of 16 at a time:
// rows as the long side of the tensor cores' products, heads as the short
// one. Rows go from memory to the registers that multiply them: the columns of
// a product may be numbered as one likes, so a lane's 16 bytes of a key serve
// two products as they are, and values are paired by row with a byte permutation.
// The next tile is under way while one is worked on: 4 KB of keys and 4 KB of
// values a warp. Weights go to ELEMENT for the product with the values, sums are
// float32.
#include "attend_rows.cuh"

struct Args {
	float *out;
	Mass *mass;
	Cube<const ELEMENT> q, k, v;
	const int *from; // or null: 0
	const int *pos;
	int heads, group, capacity;
	float scale;
};

struct Memory {
	float4 sums[WARPS][SUMS][WARP];
	float out[8][D];
	float2 top[WARPS][4], sum[WARPS][4];
};

// Puts the warps' states together and writes the part.
__device__ inline void finish(const Args &a, Memory &m, State &z, int t, int kv, int part)
{
	int g = lane_id() / 4, c = lane_id() % 4;
	leave_mass(z, m.top, m.sum);
	__syncthreads();
	float top[2] = {-INF, -INF}, sum[2] = {};
#pragma unroll
	for (int w = 0; w < WARPS; w++) {
		top[0] = fmaxf(top[0], m.top[w][c].x);
		top[1] = fmaxf(top[1], m.top[w][c].y);
	}
#pragma unroll
	for (int w = 0; w < WARPS; w++) {
		sum[0] += m.sum[w][c].x * power2(m.top[w][c].x - reference(top[0]));
		sum[1] += m.sum[w][c].y * power2(m.top[w][c].y - reference(top[1]));
	}
	float shrink[2] = {power2(z.top[0] - reference(top[0])), power2(z.top[1] - reference(top[1]))};
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		m.sums[warp_id()][i][lane_id()] = make_float4(z.acc[i][0] * shrink[0], z.acc[i][1] * shrink[1], z.acc[i][2] * shrink[0], z.acc[i][3] * shrink[1]);
	__syncthreads();
	for (int i = warp_id(); i < SUMS; i += WARPS) {
		float4 y = m.sums[0][i][lane_id()];
#pragma unroll
		for (int w = 1; w < WARPS; w++) {
			float4 x = m.sums[w][i][lane_id()];
			y.x += x.x, y.y += x.y, y.z += x.z, y.w += x.w;
		}
		int column = i / 4 * 64 + g * 8 + i % 4 * 2;
		*(float2 *)&m.out[2 * c][column] = make_float2(y.x, y.z);
		*(float2 *)&m.out[2 * c + 1][column] = make_float2(y.y, y.w);
	}
	__syncthreads();
	i64 first = ((i64)t * a.heads + kv * a.group) * PARTS + part;
	for (int i = threadIdx.x; i < a.group * (D / 4); i += WARPS * WARP) {
		int h = i / (D / 4), column = i % (D / 4) * 4;
		*(float4 *)(a.out + (first + (i64)h * PARTS) * D + column) = *(float4 *)&m.out[h][column];
	}
	if (threadIdx.x < 4)
#pragma unroll
		for (int h = 0; h < 2; h++)
			if (2 * c + h < a.group)
				a.mass[first + (2 * c + h) * PARTS] = Mass{top[h], sum[h]};
}

extern "C" __global__ void __launch_bounds__(WARPS * WARP, 1) attend_decode(PARAM)
{
	extern __shared__ float4 raw[];
	int part = blockIdx.x, kv = blockIdx.y, t = blockIdx.z, g = lane_id() / 4, c = lane_id() % 4;
	// The limits are read before the kernel ahead is over, and once more after:
	// as a rule they are the same, and the first rows are under way by then.
	Limits limits(a.from, a.pos, t);
	wait_for_previous();
	let_next_start(); // all blocks are there: it takes nothing from them
	Limits now(a.from, a.pos, t);
	uint4 q[D / 32];
#pragma unroll
	for (int j = 0; j < D / 32; j++)
		q[j] = g < a.group ? *(const uint4 *)(a.q.row(t, kv * a.group + g) + 32 * j + 8 * c) : make_uint4(0, 0, 0, 0);
	u64 policy = evict_first();
	Mat<const ELEMENT> k = {a.k.row(kv, 0), a.k.s1}, v = {a.v.row(kv, 0), a.v.s1};
	Share<ROWS> share;
	Keys keys;
	Values values;
	int parts, tiles, row, last;
	while (true) {
		Range range(limits, a.capacity);
		parts = range.parts(PARTS, LEAST);
		share = Share<ROWS>(range, part * WARPS + warp_id(), parts * WARPS);
		tiles = part < parts ? share.tiles() : 0;
		row = share.begin(0), last = share.end(0);
		if (tiles > 0) {
			load(keys, k, row, last, policy);
			load(values, v, row, last, policy);
		}
		if (!(limits != now))
			break;
		limits = now;
	}
	if (part >= parts)
		return;
	State z;
	if (tiles > 0) {
		float scale = a.scale * LOG2E;
		for (int tile = 1;; tile++) {
			float s[TILES][4] = {};
			score(s, keys, q);
			int next = share.begin(tile), next_last = share.end(tile);
			if (tile < tiles)
				load(keys, k, next, next_last, policy);
			weigh(z, s, scale, row, last);
			add_values(z, values, s);
			if (tile == tiles)
				break;
			row = next, last = next_last;
			load(values, v, row, last, policy);
		}
	}
	finish(a, *(Memory *)raw, z, t, kv, part);
}
