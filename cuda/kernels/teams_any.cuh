#pragma once
// Draws any number of teams by any scores. Several times slower than the others.
#include "teams_border.cuh"

// Selects in rising order of teams, and lists the block's first LISTED rows. ring has `room` floats, marks a bit for
// each team.
__device__ __noinline__ void draw_any(Selection &m, const Head &a, float *ring, int room, u32 *marks, int block)
{
	int words = (a.teams + 31) / 32;
	Keys keys{a.y, ring, min(a.teams, room)};
	border_any(m, a, ring, room);
	for (int i = threadIdx.x; i < words; i += THREADS)
		marks[i] = 0;
	__syncthreads();
	for (int i = threadIdx.x; i < a.teams; i += THREADS)
		if (before_key(keys.at(i), i) > m.key)
			atomicOr(&marks[i / 32], 1u << i % 32);
	__syncthreads();
	int at = 0, n;
	for (int w0 = 0; w0 < words; w0 += THREADS) {
		u32 bits = w0 + threadIdx.x < words ? marks[w0 + threadIdx.x] : 0;
		int place = at + block_before(__popc(bits), m.sums, n);
		for (; bits; bits &= bits - 1)
			m.drawn[place++].team = (w0 + threadIdx.x) * 32 + __ffs(bits) - 1;
		at += n;
	}
	__syncthreads();
	int rows = 0;
	for (int i0 = 0; i0 < at; i0 += THREADS) {
		int i = i0 + threadIdx.x, first = 0, last = 0;
		if (i < at) {
			int team = m.drawn[i].team;
			first = fresh(a.offsets + team), last = max(fresh(a.offsets + team + 1), first);
			m.drawn[i].key = keys.at(team);
		}
		int before = rows + block_before(last - first, m.sums, n);
		if (i < at)
			m.drawn[i].first = first, m.drawn[i].rows = last - first, m.before[i] = before, m.which[i] = i;
		rows += n;
	}
	if (threadIdx.x == 0)
		m.teams = at, m.rows = rows, m.tau = from_order_bits(m.key >> 32);
	__syncthreads();
	list_rows(m, 0, block);
}
