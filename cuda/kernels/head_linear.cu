// dst[t, h, o] = Σᵢ x[t, h, i]·w[h, o, i] for few tokens, w transposed or not.
// Grid: (blocks of outputs, heads, tokens), 256 threads. x [tokens, heads, in];
// dst [tokens, heads, outs]; w [heads, outs, in] (direct: a warp an output, VEC
// inputs a load) or [heads, in, outs] (transposed: VEC outputs a load; the
// threads of a block share LANES·VEC outputs and take the inputs in turn).
// Sums in float32.
#include "early.cuh"
#include "int8.cuh"

struct Args {
	Cube<DST> dst;
	Cube<const SRC> x;
	Cube<const W> w;
	Mat<const float> scale; // of the rows of signed bytes; else null
	int in, outs;
};

#define AHEAD 4

extern "C" __global__ void __launch_bounds__(256) direct(PARAM)
{
	let_next_start();
	int h = blockIdx.y, t = blockIdx.z, o = blockIdx.x * (256 / WARP) + warp_id();
	if (o >= a.outs)
		return;
	const W *w = a.w.row(h, o);
	const SRC *x = a.x.row(t, h);
	Vec<W, VEC> v[AHEAD];
#pragma unroll
	for (int n = 0; n < AHEAD; n++)
		if (int i = (n * WARP + lane_id()) * VEC; i < a.in)
			v[n] = stream<W, VEC>(w + i);
	wait_for_previous();
	float sum = 0;
	for (int at = lane_id() * VEC; at < a.in; at += AHEAD * WARP * VEC)
#pragma unroll
		for (int n = 0; n < AHEAD; n++) {
			int i = at + n * WARP * VEC, next = i + AHEAD * WARP * VEC;
			if (i >= a.in)
				break;
			Vec<SRC, VEC> y = *(const Vec<SRC, VEC> *)(x + i);
			float z[VEC];
			widen(v[n], z);
#pragma unroll
			for (int j = 0; j < VEC; j++)
				sum += f32(y.at[j]) * z[j];
			if (next < a.in)
				v[n] = stream<W, VEC>(w + next);
		}
	sum = warp_sum(sum);
	if (lane_id() == 0)
		a.dst.row(t, h)[o] = to<DST>(a.scale.p ? a.scale.row(h)[o] * sum : sum);
}

#define LANES 16 // threads beside each other
#define ROWS (256 / LANES)
#define DEEP 8

extern "C" __global__ void __launch_bounds__(256) transposed(PARAM)
{
	__shared__ float parts[ROWS][LANES * VEC + 1];
	let_next_start();
	int h = blockIdx.y, t = blockIdx.z, lane = threadIdx.x % LANES, row = threadIdx.x / LANES;
	int first = blockIdx.x * LANES * VEC, o = first + lane * VEC;
	bool mine = o < a.outs;
	const W *w = a.w.row(h, 0) + o;
	const SRC *x = a.x.row(t, h);
	Vec<W, VEC> v[DEEP];
#pragma unroll
	for (int n = 0; n < DEEP; n++)
		if (int i = row + n * ROWS; mine && i < a.in)
			v[n] = stream<W, VEC>(w + i * a.w.s1);
	wait_for_previous();
	float sum[VEC] = {};
	for (int at = row; mine && at < a.in; at += DEEP * ROWS)
#pragma unroll
		for (int n = 0; n < DEEP; n++) {
			int i = at + n * ROWS, next = i + DEEP * ROWS;
			if (i >= a.in)
				break;
			float y = f32(x[i]), z[VEC];
			if (a.scale.p)
				y *= a.scale.row(h)[i];
			widen(v[n], z);
#pragma unroll
			for (int j = 0; j < VEC; j++)
				sum[j] += y * z[j];
			if (next < a.in)
				v[n] = stream<W, VEC>(w + next * a.w.s1);
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
