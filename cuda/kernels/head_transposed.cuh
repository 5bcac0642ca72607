#pragma once
// dst[t, h, o] = Σᵢ x[t, h, i]·w[h, i, o] for few tokens: VEC outputs a load; the
// threads of a block share LANES·VEC outputs and take the inputs in turn.
// Grid: (blocks of outputs, heads, tokens), 256 threads. Sums in float32.
#include "int8.cuh"

struct HeadProduct {
	Cube<DST> dst;
	Cube<const SRC> x;
	Cube<const W> w;
	Mat<const float> scale; // of the rows of signed bytes; else null
	int in, outs;
};

#define ROWS (256 / LANES) // LANES: threads beside each other
#define DEEP (LANES / 2)   // loads under way: 128 inputs of a block

__device__ inline void multiply_transposed(const HeadProduct &a)
{
	__shared__ float parts[ROWS][LANES * VEC + 1];
	int h = blockIdx.y, t = blockIdx.z, lane = threadIdx.x % LANES, row = threadIdx.x / LANES;
	int first = blockIdx.x * LANES * VEC, o = first + lane * VEC;
	bool mine = o < a.outs;
	const W *w = a.w.row(h, 0) + o;
	const SRC *x = a.x.row(t, h);
	Loaded<W, VEC> v[DEEP] = {};
#pragma unroll
	for (int n = 0; n < DEEP; n++)
		if (int i = row + n * ROWS; mine && i < a.in)
			v[n] = stream<W, VEC>(w + i * a.w.s1);
	wait_for_previous();
	float sum[VEC] = {};
	for (int at = row; mine && at < a.in; at += DEEP * ROWS) {
		float y[DEEP]; // all on their way before the first is used
#pragma unroll
		for (int n = 0; n < DEEP; n++) {
			int i = min(at + n * ROWS, a.in - 1);
			y[n] = f32(x[i]);
			if (a.scale.p)
				y[n] *= a.scale.row(h)[i];
		}
#pragma unroll
		for (int n = 0; n < DEEP; n++) {
			int i = at + n * ROWS, next = i + DEEP * ROWS;
			if (i >= a.in)
				break;
			float z[VEC];
			widen<W>(v[n], z);
#pragma unroll
			for (int j = 0; j < VEC; j++)
				sum[j] += y[n] * z[j];
			if (next < a.in)
				v[n] = stream<W, VEC>(w + next * a.w.s1);
		}
	}
#pragma unroll
	for (int j = 0; j < VEC; j++)
		parts[row][lane * VEC + j] = sum[j];
	__syncthreads();
	for (int i = threadIdx.x; i < LANES * VEC && first + i < a.outs; i += 256) {
		float y = 0;
		for (int r = 0; r < ROWS; r++)
			y += parts[r][i];
		a.dst.row(t, h)[first + i] = to<DST>(y);
	}
}
