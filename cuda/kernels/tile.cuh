#pragma once
// A 64 × 64 tile of a matrix product on the float32 units, for any element
// types: 256 threads, 4 × 4 results each.
#include "common.cuh"

#define TILE 64
#define DEPTH 16

struct TileMemory {
	float x[DEPTH][TILE + 4], y[DEPTH][TILE + 4];
};

// sum[r][c] = Σₖ left(row, k)·right(column, k) for this thread's rows
// 4·(thread / 16) + r and columns 4·(thread % 16) + c. The functors return 0
// outside the matrices and are called with k < depth only.
template <class Left, class Right>
__device__ inline void tile_product(float sum[4][4], int depth, Left left, Right right, TileMemory &m)
{
	int tr = threadIdx.x / 16 * 4, tc = threadIdx.x % 16 * 4;
	for (int r = 0; r < 4; r++)
		for (int c = 0; c < 4; c++)
			sum[r][c] = 0;
	for (int k0 = 0; k0 < depth; k0 += DEPTH) {
		int k = threadIdx.x % DEPTH;
		for (int i = threadIdx.x / DEPTH; i < TILE; i += 256 / DEPTH) {
			m.x[k][i] = k0 + k < depth ? left(i, k0 + k) : 0;
			m.y[k][i] = k0 + k < depth ? right(i, k0 + k) : 0;
		}
		__syncthreads();
		for (int k = 0; k < DEPTH; k++) {
			float x[4], y[4];
			for (int i = 0; i < 4; i++)
				x[i] = m.x[k][tr + i], y[i] = m.y[k][tc + i];
			for (int r = 0; r < 4; r++)
				for (int c = 0; c < 4; c++)
					sum[r][c] += x[r] * y[c];
		}
		__syncthreads();
	}
}
