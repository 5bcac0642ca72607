#pragma once
// Radix selection by one block.
#include "common.cuh"

#define ABREAST 8 // elements that a thread loads before it looks at one

struct SelectMemory {
	u32 histogram[256];
	u64 prefix;
	u32 rank;
	int done;
};

// histogram[digit]++ for a warp; digit 256 counts nothing. Lanes of one digit
// add once: keys share their leading bits, and atomics on one word queue.
__device__ inline void count(u32 *histogram, u32 digit)
{
	u32 same = __match_any_sync(~0u, digit);
	if (digit < 256 && lane_id() == __ffs(same) - 1)
		atomicAdd(&histogram[digit], (u32)__popc(same));
}

// A border below which all but the `rank` largest keys lie, and equals of the
// smallest of these; key(i, k) gives the i-th of n keys or false. At least rank
// keys must be there. 8 bits a round, from the top of a 64-bit key; bits below
// `low` are left out of the comparison.
template <class Key> __device__ inline u64 radix_select(int n, u32 rank, int low, Key key, SelectMemory &m)
{
	if (threadIdx.x == 0)
		m.prefix = 0, m.rank = rank, m.done = 0;
	for (int shift = 56; shift >= low; shift -= 8) {
		for (int i = threadIdx.x; i < 256; i += blockDim.x)
			m.histogram[i] = 0;
		__syncthreads();
		u64 prefix = m.prefix;
		for (int i0 = threadIdx.x; i0 - threadIdx.x < n; i0 += ABREAST * blockDim.x) {
			u64 k[ABREAST];
			bool in[ABREAST];
#pragma unroll
			for (int j = 0; j < ABREAST; j++)
				in[j] = i0 + j * blockDim.x < n && key(i0 + j * blockDim.x, k[j]);
#pragma unroll
			for (int j = 0; j < ABREAST; j++) {
				in[j] = in[j] && (shift == 56 || k[j] >> (shift + 8) == prefix >> (shift + 8));
				count(m.histogram, in[j] ? k[j] >> shift & 255 : 256);
			}
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
