#pragma once
#include "sample.cuh"

// Tokens that filters are tried on, and draws made from, one by one.
struct List {
	float x[LIST];
	int ids[LIST];
	u64 w[LIST]; // 0: dropped
	int n;

	// Calls each(i, slot) for the tokens of this thread.
	template <class Each> __device__ void mine(Each each) const
	{
#pragma unroll
		for (int slot = 0; slot < LIST / MANY; slot++)
			if (int i = slot * MANY + threadIdx.x; i < n)
				each(i, slot);
	}
	// The weights of tokens j for which is(j).
	template <class Is> __device__ u64 sum(Is is) const
	{
		u64 sum = 0;
#pragma unroll 8
		for (int j = 0; j < n; j++)
			sum += is(j) ? w[j] : 0;
		return sum;
	}
};

// Drops what top-k and then top-p drop. above is the mass of larger tokens than
// those of the list, total that of all, unless top-k leaves less.
__device__ void filter(List &l, Filters f, u64 above, u64 total, float top)
{
	__shared__ u64 shared[WARP];
	if (f.k) {
		u64 mine = 0;
		l.mine([&](int i, int) {
			int larger = 0;
#pragma unroll 8
			for (int j = 0; j < l.n; j++)
				larger += l.x[j] > l.x[i];
			l.w[i] = larger < f.k ? weight(l.x[i], top) : 0;
			mine += l.w[i];
		});
		total = block_sum(mine, shared);
	}
	u64 target = f.target(total);
	bool drop[LIST / MANY];
	l.mine([&](int i, int slot) {
		float x = l.x[i];
		bool by_mass = f.p < 1 && !f.keeps(above + l.sum([&](int j) { return l.x[j] > x; }), target);
		drop[slot] = by_mass || order_bits(x) < f.floor;
	});
	__syncthreads();
	l.mine([&](int i, int slot) { l.w[i] = drop[slot] ? 0 : l.w[i]; });
	__syncthreads();
}

// Draws from the list alone, in the order of ids.
__device__ void draw_listed(const Args &a, const List &l)
{
	__shared__ u64 shared[WARP];
	u64 mine = 0;
	l.mine([&](int i, int) { mine += l.w[i]; });
	u64 over = threshold(a, block_sum(mine, shared));
	l.mine([&](int i, int) {
		int id = l.ids[i];
		u64 before = l.sum([&](int j) { return l.ids[j] < id; });
		if (over >= before && over < before + l.w[i])
			*a.id = id;
	});
}

// Draws from the list, which is the last bin, and all before it.
__device__ void draw_border(const Args &a, const List &l, Filters f, float top, u64 *shared)
{
	__shared__ u32 border;
	shared[threadIdx.x] = load(&a.state->sums[threadIdx.x]);
	if (threadIdx.x == 0)
		border = ~0u;
	__syncthreads();
	l.mine([&](int i, int) {
		if (l.w[i]) {
			atomicAdd(&shared[l.ids[i] / a.chunk], l.w[i]);
			atomicMin(&border, order_bits(l.x[i]));
		}
	});
	__syncthreads();
	u64 sums[CHUNKS / MANY] = {shared[threadIdx.x]};
	// Where min-p leaves nothing of the bin, it alone decides.
	draw_chunk(a, top, border == ~0u ? f.floor : border, sums);
}
