#pragma once
// What matrix-vector products take, and the normalised rows beside them.
#include "early.cuh"

struct Part {
	const W *w;
	const BIAS *bias;
	i64 ld;
	int outs, column; // of the part; its first column in dst
	int block, pad;   // its first block
};

struct Args {
	Mat<DST> dst;
	Mat<const SRC> x;
	Part parts[4];
	Mat<H> h;
	Mat<DST> wide;
	const GAMMA *gamma;
	int in, add;
	float eps;
	int pad;
};

// The normalised rows, by a block of its own.
__device__ inline void store_normed(const Args &a)
{
	__shared__ float shared[WARP];
	for (int t = 0; t < TOKENS; t++) {
		const SRC *x = a.x.row(t);
		float squares = 0;
		for (int i = threadIdx.x; i < a.in; i += blockDim.x)
			squares += f32(x[i]) * f32(x[i]);
		float scale = 1 / sqrtf(block_sum(squares, shared) / a.in + a.eps);
		for (int i = threadIdx.x; i < a.in; i += blockDim.x)
			a.h.row(t)[i] = to<H>(f32(x[i]) * scale * f32(a.gamma[i]));
	}
}
