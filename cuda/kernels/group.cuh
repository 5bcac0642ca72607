#pragma once
// Sorts rows by their label, within a label by row: a counting sort by one
// block. Integers alone are added atomically.
#include "common.cuh"

// order = the rows with label 0 ≤ label < labels, start [labels+1] where each
// label's begin. cursor [labels] is memory to work in, shared or global.
__device__ inline void group_rows(const int *label, int n, int labels, int *order, int *start, volatile int *cursor)
{
	__shared__ int sums[1024];
	for (int i = threadIdx.x; i < labels; i += blockDim.x)
		cursor[i] = 0;
	__syncthreads();
	for (int i = threadIdx.x; i < n; i += blockDim.x)
		if ((u32)label[i] < (u32)labels)
			atomicAdd((int *)cursor + label[i], 1);
	__syncthreads();
	int each = (labels + blockDim.x - 1) / blockDim.x, from = min(labels, (int)threadIdx.x * each), to = min(labels, from + each);
	int sum = 0;
	for (int i = from; i < to; i++)
		sum += cursor[i];
	sums[threadIdx.x] = sum;
	__syncthreads();
	for (int step = 1; step < blockDim.x; step *= 2) {
		int before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
		__syncthreads();
		sums[threadIdx.x] += before;
		__syncthreads();
	}
	int at = sums[threadIdx.x] - sum;
	for (int i = from; i < to; i++) {
		int count = cursor[i];
		start[i] = cursor[i] = at;
		at += count;
	}
	if (threadIdx.x == 0)
		start[labels] = sums[blockDim.x - 1];
	__syncthreads();
	const int ahead = 8; // labels that a lane has under way
	if (threadIdx.x < WARP)
		for (int from = 0; from < n; from += ahead * WARP) {
			int own[ahead];
			for (int j = 0; j < ahead; j++) {
				int i = from + j * WARP + lane_id();
				own[j] = i < n ? label[i] : -1;
			}
			for (int j = 0; j < ahead; j++) {
				int g = own[j];
				bool there = (u32)g < (u32)labels;
				u32 same = __match_any_sync(~0u, g);
				int rank = __popc(same & ((1u << lane_id()) - 1)), place = there ? cursor[g] + rank : 0;
				__syncwarp();
				if (there) {
					order[place] = from + j * WARP + lane_id();
					if (rank == 0)
						cursor[g] = place + __popc(same);
				}
				__syncwarp();
			}
		}
	__syncthreads();
}
