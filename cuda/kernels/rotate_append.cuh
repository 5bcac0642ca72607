#pragma once
// New queries, keys and values before attention: rotary encoding of the queries
// and of the keys' last 2·half columns, in place; with gamma a norm of the keys'
// columns before those; keys and values are stored in the cache, at the slots of
// their positions.
// By one block a token, with 2·half floats of dynamic shared memory; a warp makes the
// norm of a key.
// q, turned [tokens, heads, 2·half]; k [tokens, kv, dk]; v [tokens, kv, dv] or
// null; keys, values [kv, capacity, d]; slots [kv, mapped], mapped 0 for none. A
// slot outside the cache is not written. VEC neighbouring pairs a thread; at most
// PIECES · 32 · VEC columns are normalised.
#include "early.cuh"

struct Place {
	Cube<DST> q, k, v, turned;
	Cube<DST> keys, values;
	const GAMMA *gamma; // [dk − 2·half] or null
	const int *pos;
	const float *freq;
	Mat<const int> slots;
	int heads, kv, half, dk, dv, mapped, capacity;
	float scale, eps;
	int pad;
};

// Read anew every time.
__device__ inline int now(const int *p)
{
	int x;
	asm volatile("ld.global.cg.s32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
	return x;
}

__device__ inline void place_token(const Place &a, int t)
{
	extern __shared__ float cosines[];
	__shared__ int seen;
	float *sines = cosines + a.half;
	auto turn = [&](int pos) {
		for (int i = threadIdx.x; i < a.half; i += blockDim.x)
			sincosf(__fmul_rn((float)pos, a.freq[i]), sines + i, cosines + i);
		__syncthreads();
	};
	// The position is read before the kernel ahead is over, and once more after: as
	// a rule it is the same.
	if (threadIdx.x == 0)
		seen = now(a.pos + t);
	__syncthreads();
	turn(seen);
	int pieces = a.half / VEC, before = a.dk - 2 * a.half;
	Vec<GAMMA, VEC> gamma[PIECES];
#pragma unroll
	for (int n = 0; n < PIECES; n++)
		if (int i = (n * WARP + lane_id()) * VEC; a.gamma && i < before)
			gamma[n] = *(const Vec<GAMMA, VEC> *)(a.gamma + i);
	int queries = a.heads * pieces, keys = queries + a.kv * pieces, values = keys + (a.v.p ? a.kv * (a.dv / VEC) : 0);
	// What is turned, of the queries, then of the keys: two pieces of a row, the second
	// so far behind the first.
	const int second = INTERLEAVED ? VEC : a.half;
	auto first_of = [&](int i) { return i % pieces * VEC * (INTERLEAVED ? 2 : 1); };
	auto pair_of = [&](int i) { return (i < queries ? a.q.row(t, i / pieces) : a.k.row(t, (i - queries) / pieces) + before) + first_of(i); };
	Vec<DST, VEC> v[2], normed[PIECES];
	auto load_pair = [&](const DST *x) { v[0] = *(const Vec<DST, VEC> *)x, v[1] = *(const Vec<DST, VEC> *)(x + second); };
	auto load_row = [&](int h) {
#pragma unroll
		for (int n = 0; n < PIECES; n++)
			if (int i = (n * WARP + lane_id()) * VEC; h < a.kv && i < before)
				normed[n] = *(const Vec<DST, VEC> *)(a.k.row(t, h) + i);
	};
	int mine = blockDim.x - 1 - threadIdx.x; // the first warps have a norm to make
	DST *pair = mine < keys ? pair_of(mine) : nullptr;
	settle(pair);
	wait_for_previous();
	// Rows are on their way while the position is looked at.
	if (pair)
		load_pair(pair);
	load_row(warp_id());
	int pos = now(a.pos + t);
	if (pos != seen)
		turn(pos);
	auto slot_of = [&](int h) { return (u32)pos < (u32)a.mapped ? a.slots.row(h)[pos] : pos; };
	for (int h = warp_id(); before > 0 && h < a.kv; h += blockDim.x / WARP) {
		if (h != warp_id())
			load_row(h);
		float sum = 0, scale = 1;
#pragma unroll
		for (int n = 0; n < PIECES; n++)
			if (int i = (n * WARP + lane_id()) * VEC; i < before)
				for (int j = 0; j < VEC; j++)
					sum += f32(normed[n].at[j]) * f32(normed[n].at[j]);
		if (a.gamma)
			scale = 1 / sqrtf(warp_sum(sum) / before + a.eps);
		int slot = slot_of(h);
#pragma unroll
		for (int n = 0; n < PIECES; n++)
			if (int i = (n * WARP + lane_id()) * VEC; i < before) {
				if (a.gamma)
					for (int j = 0; j < VEC; j++)
						normed[n].at[j] = to<DST>(f32(normed[n].at[j]) * scale * f32(gamma[n].at[j]));
				*(Vec<DST, VEC> *)(a.k.row(t, h) + i) = normed[n];
				if ((u32)slot < (u32)a.capacity)
					*(Vec<DST, VEC> *)(a.keys.row(h, slot) + i) = normed[n];
			}
	}
	for (int i = mine; i < values; i += blockDim.x) {
		if (i < keys) {
			if (i != mine) {
				pair = pair_of(i);
				load_pair(pair);
			}
			int first = i % pieces * VEC;
#pragma unroll
			for (int j = 0; j < VEC; j++) {
				DST &p = INTERLEAVED ? v[2 * j / VEC].at[2 * j % VEC] : v[0].at[j];
				DST &q = INTERLEAVED ? v[(2 * j + 1) / VEC].at[(2 * j + 1) % VEC] : v[1].at[j];
				float u = f32(p), w = f32(q), c = cosines[first + j], s = sines[first + j];
				p = to<DST>(a.scale * (u * c - w * s));
				q = to<DST>(a.scale * (w * c + u * s));
			}
			*(Vec<DST, VEC> *)pair = v[0], *(Vec<DST, VEC> *)(pair + second) = v[1];
			DST *into = nullptr;
			if (i >= queries) {
				int h = (i - queries) / pieces;
				if (int slot = slot_of(h); (u32)slot < (u32)a.capacity)
					into = a.keys.row(h, slot) + before;
			} else if (a.turned.p) {
				into = a.turned.row(t, i / pieces);
			}
			if (into) {
				into += first_of(i);
				*(Vec<DST, VEC> *)into = v[0], *(Vec<DST, VEC> *)(into + second) = v[1];
			}
		} else {
			int at = i - keys, h = at / (a.dv / VEC), column = at % (a.dv / VEC) * VEC;
			if (int slot = slot_of(h); (u32)slot < (u32)a.capacity)
				*(Vec<DST, VEC> *)(a.values.row(h, slot) + column) = *(Vec<DST, VEC> *)(a.v.row(t, h) + column);
		}
	}
}
