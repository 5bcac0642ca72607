#pragma once
// Radix selection by one block.
#include "common.cuh"

struct SelectMemory {
	u32 histogram[256];
	u64 prefix;
	u32 rank;
	int done;
};

// The smallest of the `rank` largest keys; key(i, k) gives the i-th of n keys
// or false. At least rank keys must be there, and they must differ (or the
// result have more than rank keys at or above it). 8 bits a round, from the top
// of a 64-bit key; bits below `low` are left out of the comparison.
template <class Key> __device__ inline u64 radix_select(int n, u32 rank, int low, Key key, SelectMemory &m)
{
	if (threadIdx.x == 0)
		m.prefix = 0, m.rank = rank, m.done = 0;
	for (int shift = 56; shift >= low; shift -= 8) {
		for (int i = threadIdx.x; i < 256; i += blockDim.x)
			m.histogram[i] = 0;
		__syncthreads();
		u64 prefix = m.prefix;
		for (int i = threadIdx.x; i < n; i += blockDim.x) {
			u64 k;
			if (key(i, k) && (shift == 56 || k >> (shift + 8) == prefix >> (shift + 8)))
				atomicAdd(&m.histogram[k >> shift & 255], 1u);
		}
		__syncthreads();
		if (threadIdx.x == 0) {
			int digit = 255;
			while (digit > 0 && m.histogram[digit] < m.rank)
				m.rank -= m.histogram[digit--];
			m.prefix |= (u64)digit << shift;
			m.done = m.histogram[digit] == m.rank; // all of them: lower bits do not matter
		}
		__syncthreads();
		if (m.done)
			break;
	}
	return m.prefix;
}
