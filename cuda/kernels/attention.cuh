#pragma once
// Attention of H query heads of one token over listed rows, by a block
// of 256 threads. DK, DV: head sizes; K, V: element types; VEC: elements of a
// key in one load. Products and sums in float32.
#include "common.cuh"
#include "split.cuh"

#define THREADS 256
#define WARPS (THREADS / WARP)
#define CHUNKS ((DK + WARP * VEC - 1) / (WARP * VEC)) // loads a lane needs for a key
#define BATCH (CHUNKS * VEC > 8 ? 2 : 4)             // keys a warp loads at once

// Scores the rows 0 ≤ r < n, a warp a row: store(r, h, q[h]·row). place(r) is the
// row's address; a row that is null is not read and not stored.
template <int H, class Place, class Store>
__device__ inline void score_rows(int n, const float (*q)[DK], Place place, Store store)
{
	for (int r0 = warp_id(); r0 < n; r0 += WARPS * BATCH) {
		Vec<K, VEC> key[BATCH][CHUNKS];
		const K *row[BATCH];
		for (int b = 0; b < BATCH; b++) {
			int r = r0 + b * WARPS;
			row[b] = r < n ? place(r) : nullptr;
			for (int c = 0; c < CHUNKS; c++) {
				int i = (c * WARP + lane_id()) * VEC;
				if (row[b] && i < DK)
					key[b][c] = *(const Vec<K, VEC> *)(row[b] + i);
			}
		}
#pragma unroll
		for (int h = 0; h < H; h++) {
			float sum[BATCH] = {};
			for (int c = 0; c < CHUNKS; c++) {
				int i = (c * WARP + lane_id()) * VEC;
				if (i < DK)
					for (int b = 0; b < BATCH; b++)
						for (int j = 0; j < VEC; j++)
							sum[b] += q[h][i + j] * f32(key[b][c].at[j]);
			}
			for (int b = 0; b < BATCH; b++) {
				float s = warp_sum(sum[b]);
				if (row[b] && lane_id() == 0)
					store(r0 + b * WARPS, h, s);
			}
		}
	}
}

// Threads of a column block, column blocks, and groups of threads that share
// the rows between them.
#define LANES (DV > 128 ? 256 : DV > 64 ? 128 : DV > 32 ? 64 : 32)
#define COLUMNS ((DV + LANES - 1) / LANES)
#define GROUPS (THREADS / LANES)

template <int H> struct AttentionMemory {
	float q[H][DK];
	float p[ROWS][H];
	float top[H], sum[H], shrink[H];
	int row[ROWS];
	float bias[ROWS];
	float part[GROUPS > 1 ? GROUPS : 1][H][GROUPS > 1 ? LANES : 1];
};

// Softmax weights of one tile for head = warp: p becomes exp(s − top).
template <int H> __device__ inline void weigh(AttentionMemory<H> &m, int n)
{
	int h = warp_id();
	if (h >= H)
		return;
	float top = m.top[h], sum = 0;
	for (int r = lane_id(); r < n; r += WARP)
		top = fmaxf(top, m.p[r][h]);
	top = warp_max(top);
	for (int r = lane_id(); r < n; r += WARP) {
		float p = expf(m.p[r][h] - reference(top));
		m.p[r][h] = p;
		sum += p;
	}
	sum = warp_sum(sum);
	__syncwarp();
	if (lane_id() == 0) {
		m.shrink[h] = top == -INF ? 1 : expf(m.top[h] - top);
		m.sum[h] = m.sum[h] * m.shrink[h] + sum;
		m.top[h] = top;
	}
}

// The head's unnormalised output, largest logit and sum of exp(logit − it) over
// n rows go to out[h], out [heads, DV + 2] with the given stride. m.q is
// loaded. look(i, row, bias) names the i-th row and what is added to its logit.
template <int H, class Look>
__device__ inline void attend(int n, Look look, Mat<const K> k, Mat<const V> v, float scale, AttentionMemory<H> &m, float *out, i64 stride, int heads)
{
	int column = threadIdx.x % LANES, group = threadIdx.x / LANES;
	float acc[H][COLUMNS] = {};
	if (threadIdx.x < H)
		m.top[threadIdx.x] = -INF, m.sum[threadIdx.x] = 0;
	for (int first = 0; first < n; first += ROWS) {
		int rows = min(ROWS, n - first);
		__syncthreads();
		if (threadIdx.x < rows)
			look(first + threadIdx.x, m.row[threadIdx.x], m.bias[threadIdx.x]);
		__syncthreads();
		score_rows<H>(rows, m.q, [&](int r) { return k.row(m.row[r]); },
			[&](int r, int h, float s) { m.p[r][h] = scale * s + m.bias[r]; });
		__syncthreads();
		weigh(m, rows);
		__syncthreads();
#pragma unroll
		for (int h = 0; h < H; h++)
			for (int c = 0; c < COLUMNS; c++)
				acc[h][c] *= m.shrink[h];
#pragma unroll 4
		for (int r = group; r < rows; r += GROUPS)
			for (int c = 0; c < COLUMNS; c++) {
				int i = column + c * LANES;
				float x = i < DV ? f32(v.row(m.row[r])[i]) : 0;
#pragma unroll
				for (int h = 0; h < H; h++)
					acc[h][c] += m.p[r][h] * x;
			}
	}
	__syncthreads();
	if (GROUPS > 1) { // add the groups' parts in order
#pragma unroll
		for (int h = 0; h < H; h++)
			m.part[group][h][column] = acc[h][0];
		__syncthreads();
#pragma unroll
		for (int h = 0; h < H; h++) {
			acc[h][0] = 0;
			for (int g = 0; g < GROUPS; g++)
				acc[h][0] += m.part[g][h][column];
		}
	}
#pragma unroll
	for (int h = 0; h < H; h++) {
		if (h >= heads)
			continue;
		for (int c = 0; c < COLUMNS; c++) {
			int i = column + c * LANES;
			if (group == 0 && i < DV)
				out[h * stride + i] = acc[h][c];
		}
		if (threadIdx.x == 0) {
			out[h * stride + DV] = m.top[h];
			out[h * stride + DV + 1] = m.sum[h];
		}
	}
}

// Loads the queries of up to H heads; the others are zero.
template <int H> __device__ inline void load_queries(float (*q)[DK], const Q *first, i64 stride, int heads)
{
	for (int i = threadIdx.x; i < H * DK; i += blockDim.x)
		q[i / DK][i % DK] = i / DK < heads ? f32(first[i / DK * stride + i % DK]) : 0;
	__syncthreads();
}
