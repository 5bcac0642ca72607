#pragma once
// The loop of matrix-vector products: how a lane reads OUTS rows of a weight, VEC
// numbers of type T a load, AHEAD loads of every row in flight all the time, the
// first of them before the kernel ahead has ended. With AHEAD 0 some go out together,
// which takes fewer registers and so holds more blocks.
#include "early.cuh"

#define GROUPS (8 / SPLIT) // groups of warps in a block, which share outputs

// When the kernel ahead is over, calls begin(), then multiply(i, v) with the numbers at i
// of every row, for i = at, at + stride, … below a.in.
template <class T, class Args, class Begin, class Multiply>
__device__ inline void read_rows(const Args &a, const T *(&w)[OUTS], int at, const int stride, Begin begin, Multiply multiply)
{
#if AHEAD > 0
	Loaded<T, VEC> v[AHEAD][OUTS] = {};
	auto fetch = [&](int slot, int i) {
#pragma unroll
		for (int o = 0; o < OUTS; o++)
			if (i < a.in)
				v[slot][o] = stream<T, VEC>(w[o] + i);
	};
#pragma unroll
	for (int s = 0; s < AHEAD; s++)
		fetch(s, at + s * stride);
	wait_for_previous();
	begin();
	for (; at < a.in; at += AHEAD * stride) {
#pragma unroll
		for (int s = 0; s < AHEAD; s++) {
			int i = at + s * stride;
			if (i >= a.in)
				break;
			multiply(i, v[s]);
			fetch(s, i + AHEAD * stride);
		}
	}
#else
	wait_for_previous();
	begin();
#pragma unroll 4 / OUTS
	for (; at < a.in; at += stride) {
		Loaded<T, VEC> v[OUTS];
#pragma unroll
		for (int o = 0; o < OUTS; o++)
			v[o] = *(const Loaded<T, VEC> *)(w[o] + at);
		multiply(at, v);
	}
#endif
}
