#pragma once
// New queries, keys and values before attention: rotary encoding of the queries
// and of the keys' last 2·half columns, in place; with gamma a norm of the keys'
// columns before those; keys and values are stored in the cache, at the slots of
// their positions.
// By one block a token, with 2·half floats of dynamic shared memory.
// q, turned [tokens, heads, 2·half]; k [tokens, kv, dk]; v [tokens, kv, dv] or
// null; keys, values [kv, capacity, d]; slots [kv, mapped], mapped 0 for none. A
// slot outside the cache is not written. VEC neighbouring pairs a thread; at most
// PIECES · blockDim · VEC columns are normalised.
#include "early.cuh"

#define PIECES 2

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
	__shared__ float shared[WARP];
	float *sines = cosines + a.half;
	auto turn = [&](int pos) {
		for (int i = threadIdx.x; i < a.half; i += blockDim.x)
			sincosf(__fmul_rn((float)pos, a.freq[i]), sines + i, cosines + i);
	};
	// The position is read before the kernel ahead is over, and once more after: as
	// a rule it is the same.
	int early = now(a.pos + t);
	turn(early);
	int pieces = a.half / VEC, before = a.dk - 2 * a.half;
	Vec<GAMMA, VEC> gamma[PIECES];
#pragma unroll
	for (int n = 0; n < PIECES; n++)
		if (int i = (n * blockDim.x + threadIdx.x) * VEC; a.gamma && i < before)
			gamma[n] = *(const Vec<GAMMA, VEC> *)(a.gamma + i);
	wait_for_previous();
	int pos = now(a.pos + t);
	if (pos != early)
		turn(pos);
	__syncthreads();
	auto slot_of = [&](int h) { return (u32)pos < (u32)a.mapped ? a.slots.row(h)[pos] : pos; };
	int queries = a.heads * pieces, keys = queries + a.kv * pieces, values = keys + (a.v.p ? a.kv * (a.dv / VEC) : 0);
	for (int i = blockDim.x - 1 - threadIdx.x; i < values; i += blockDim.x) { // the first threads have a norm to make
		if (i < keys) {
			bool key = i >= queries;
			int at = key ? i - queries : i, h = at / pieces, pair = at % pieces * VEC;
			int first = INTERLEAVED ? 2 * pair : pair, second = first + (INTERLEAVED ? VEC : a.half);
			DST *x = key ? a.k.row(t, h) + before : a.q.row(t, h);
			Vec<DST, VEC> v[2] = {*(Vec<DST, VEC> *)(x + first), *(Vec<DST, VEC> *)(x + second)};
#pragma unroll
			for (int j = 0; j < VEC; j++) {
				DST &p = INTERLEAVED ? v[2 * j / VEC].at[2 * j % VEC] : v[0].at[j];
				DST &q = INTERLEAVED ? v[(2 * j + 1) / VEC].at[(2 * j + 1) % VEC] : v[1].at[j];
				float u = f32(p), w = f32(q), c = cosines[pair + j], s = sines[pair + j];
				p = to<DST>(a.scale * (u * c - w * s));
				q = to<DST>(a.scale * (w * c + u * s));
			}
			*(Vec<DST, VEC> *)(x + first) = v[0], *(Vec<DST, VEC> *)(x + second) = v[1];
			DST *into = nullptr;
			if (key) {
				if (int slot = slot_of(h); (u32)slot < (u32)a.capacity)
					into = a.keys.row(h, slot) + before;
			} else if (a.turned.p) {
				into = a.turned.row(t, h);
			}
			if (into)
				*(Vec<DST, VEC> *)(into + first) = v[0], *(Vec<DST, VEC> *)(into + second) = v[1];
		} else {
			int at = i - keys, h = at / (a.dv / VEC), column = at % (a.dv / VEC) * VEC;
			if (int slot = slot_of(h); (u32)slot < (u32)a.capacity)
				*(Vec<DST, VEC> *)(a.values.row(h, slot) + column) = *(Vec<DST, VEC> *)(a.v.row(t, h) + column);
		}
	}
	for (int h = 0; before > 0 && h < a.kv; h++) {
		DST *x = a.k.row(t, h);
		Vec<DST, VEC> v[PIECES];
		float sum = 0, scale = 1;
#pragma unroll
		for (int n = 0; n < PIECES; n++)
			if (int i = (n * blockDim.x + threadIdx.x) * VEC; i < before) {
				v[n] = *(Vec<DST, VEC> *)(x + i);
				for (int j = 0; j < VEC; j++)
					sum += f32(v[n].at[j]) * f32(v[n].at[j]);
			}
		if (a.gamma)
			scale = 1 / sqrtf(block_sum(sum, shared) / before + a.eps);
		int slot = slot_of(h);
#pragma unroll
		for (int n = 0; n < PIECES; n++)
			if (int i = (n * blockDim.x + threadIdx.x) * VEC; i < before) {
				if (a.gamma)
					for (int j = 0; j < VEC; j++)
						v[n].at[j] = to<DST>(f32(v[n].at[j]) * scale * f32(gamma[n].at[j]));
				*(Vec<DST, VEC> *)(x + i) = v[n];
				if ((u32)slot < (u32)a.capacity)
					*(Vec<DST, VEC> *)(a.keys.row(h, slot) + i) = v[n];
			}
	}
}
