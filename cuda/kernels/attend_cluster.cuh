#pragma once
// How the blocks of a cluster attend to the rows of a key head for one token (sm_90):
// what a new row is before it is stored, and how WARPS warps of each of CLUSTER blocks
// join their sums. Each block finishes D / CLUSTER columns of all heads.
#include "attend_rows.cuh"
#include "shared.cuh"

#define SHARE (D / CLUSTER) // columns of a block

struct Angles { __align__(16) float cosines[D / 2], sines[D / 2]; };

// The sums of a block's warps, and what all blocks send this one.
struct Exchange {
	float4 sums[WARPS][SUMS][WARP];
	float2 tops[WARPS][4], masses[WARPS][4];
	__align__(16) float top[CLUSTER][8], sum[CLUSTER][8], part[CLUSTER][8][SHARE];
	u64 inbox;
};

#define EXCHANGED (CLUSTER * 8 * (SHARE + 2) * 4) // bytes for the inbox

// The angles of a position, by some threads: first … of count.
__device__ inline void find_angles(Angles &angles, const float *freq, int pos, int first, int count)
{
	for (int i = first; i < D / 2; i += count)
		sincosf(__fmul_rn((float)pos, freq[i]), angles.sines + i, angles.cosines + i);
}

// Rotates a row of which the lane has the columns 8c … of every 32.
__device__ inline void rotate(uint4 (&x)[D / 32], const Angles &angles, float scale)
{
#pragma unroll
	for (int j = 0; j < D / 64; j++) {
		const float *cosines = angles.cosines + 32 * j + lane_id() % 4 * 8, *sines = angles.sines + 32 * j + lane_id() % 4 * 8;
		u32 u[4] = {x[j].x, x[j].y, x[j].z, x[j].w}, w[4] = {x[j + D / 64].x, x[j + D / 64].y, x[j + D / 64].z, x[j + D / 64].w};
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float2 c = *(const float2 *)(cosines + 2 * i), s = *(const float2 *)(sines + 2 * i);
			float u0 = low_half(u[i]), u1 = high_half(u[i]), w0 = low_half(w[i]), w1 = high_half(w[i]);
			u[i] = pack<ELEMENT>(scale * (u0 * c.x - w0 * s.x), scale * (u1 * c.y - w1 * s.y));
			w[i] = pack<ELEMENT>(scale * (w0 * c.x + u0 * s.x), scale * (w1 * c.y + u1 * s.y));
		}
		x[j] = make_uint4(u[0], u[1], u[2], u[3]), x[j + D / 64] = make_uint4(w[0], w[1], w[2], w[3]);
	}
}

// Puts the new row, the last one, where a tile should have it.
__device__ inline void put_new(Keys &keys, Values &values, const uint4 (&key)[D / 32], const uint4 (&value)[HALVES], int row, int last)
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
	for (int i = 0; i < TILES; i++) {
#pragma unroll
		for (int second = 0; second < 2; second++)
			if (row + 16 * i + 8 * second + g >= last)
#pragma unroll
				for (int j = 0; j < D / 32; j++)
					keys.at[i][second][j] = key[j];
#pragma unroll
		for (int r = 0; r < 4; r++)
			if (row + 16 * i + 2 * c + (r & 1) + (r & 2) * 4 >= last)
#pragma unroll
				for (int h = 0; h < HALVES; h++)
					values.at[i][r][h] = value[h];
	}
}

// Stores a key, of which lanes with g = 0 have all; a value, by lanes with c = 0.
__device__ inline void store_key(ELEMENT *to, const uint4 (&key)[D / 32])
{
	if (lane_id() < 4)
#pragma unroll
		for (int j = 0; j < D / 32; j++)
			*(uint4 *)(to + 32 * j + 8 * lane_id()) = key[j];
}
__device__ inline void store_value(ELEMENT *to, const uint4 (&value)[HALVES])
{
	if (lane_id() % 4 == 0)
#pragma unroll
		for (int h = 0; h < HALVES; h++)
			*(uint4 *)(to + 64 * h + 2 * lane_id()) = value[h];
}

// Sends what the block's warps have to the blocks of the cluster that finish it, once
// ready() says that their inboxes are open. All threads call it, warps past WARPS without
// sums.
template <class Ready> __device__ inline void send_sums(Exchange &m, State &z, int block, Ready ready)
{
	int warp = warp_id(), g = lane_id() / 4, c = lane_id() % 4, i = threadIdx.x;
	if (warp < WARPS) {
		leave_mass(z, m.tops, m.masses);
#pragma unroll
		for (int i = 0; i < SUMS; i++)
			m.sums[warp][i][lane_id()] = make_float4(z.acc[i][0], z.acc[i][1], z.acc[i][2], z.acc[i][3]);
	}
	__syncthreads();
	ready();
	if (i < SUMS * WARP) {
		float top[2] = {-INF, -INF};
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			top[0] = fmaxf(top[0], m.tops[w][c].x), top[1] = fmaxf(top[1], m.tops[w][c].y);
		float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
		for (int w = 0; w < WARPS; w++) {
			float4 x = m.sums[w][i / WARP][lane_id()];
			float w0 = power2(m.tops[w][c].x - reference(top[0])), w1 = power2(m.tops[w][c].y - reference(top[1]));
			y.x += w0 * x.x, y.y += w1 * x.y, y.z += w0 * x.z, y.w += w1 * x.w;
		}
		int column = i / WARP / 4 * 64 + g * 8 + i / WARP % 4 * 2, to = column / SHARE;
		float *even = &m.part[block][2 * c][column % SHARE], *odd = &m.part[block][2 * c + 1][column % SHARE];
		send(to, even, y.x, y.z, &m.inbox);
		send(to, odd, y.y, y.w, &m.inbox);
	} else if (i -= SUMS * WARP; i < 8 * CLUSTER) {
		int h = i % 8, to = i / 8;
		float top = -INF, sum = 0;
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			top = fmaxf(top, ((const float *)m.tops[w])[h]);
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			sum += power2(((const float *)m.tops[w])[h] - reference(top)) * ((const float *)m.masses[w])[h];
		send(to, &m.top[block][h], top, &m.inbox);
		send(to, &m.sum[block][h], sum, &m.inbox);
	}
}

// A column of a head.
struct Column {
	float top, sum, value;
	__device__ float mean() const { return sum != 0 ? value / sum : 0; }
};

template <int N> __device__ inline Column together(const Column (&x)[N])
{
	Column y = {-INF, 0, 0};
#pragma unroll
	for (int i = 0; i < N; i++)
		y.top = fmaxf(y.top, x[i].top);
#pragma unroll
	for (int i = 0; i < N; i++) {
		float w = power2(x[i].top - reference(y.top));
		y.sum += w * x[i].sum, y.value += w * x[i].value;
	}
	return y;
}

// A column of this block, of head h, joined when all have sent theirs.
__device__ inline Column receive(Exchange &m, int h, int column)
{
	inbox_wait(&m.inbox);
	Column x[CLUSTER];
#pragma unroll
	for (int b = 0; b < CLUSTER; b++)
		x[b] = Column{m.top[b][h], m.sum[b][h], m.part[b][h][column]};
	return together(x);
}
