// dst[t, o] (+)= scale[o]·Σᵢ x[t, i]·w[o, i] + bias[o] for few tokens, w signed
// bytes: gemv.cu with half the bytes, so that arithmetic counts as well. Bytes
// become floats by two instructions each (int8.cuh).
// SPLIT warps share OUTS neighbouring outputs: each takes a slice of the inputs,
// VEC of them a load. AHEAD loads of every output are in flight all the time, the
// first of them before the kernel ahead has ended; with AHEAD 0 some go out
// together. A block of 256 threads owns 8/SPLIT groups of OUTS outputs of one part
// of the weight; grid: (groups of all parts).
// dst [TOKENS, out]; x [TOKENS, in]; w [out, in] in up to 4 parts. Sums in
// float32, in an order that depends on the shape alone.
#include "int8.cuh"
#include "read_rows.cuh"

struct Part {
	const i8 *w;
	const float *scale;
	const BIAS *bias;
	i64 ld;
	int outs, column; // of the part; its first column in dst
	int block, pad;   // its first block
};

struct Args {
	Mat<DST> dst;
	Mat<const SRC> x;
	Part parts[4];
	int in, add;
};

extern "C" __global__ void __launch_bounds__(256) gemv_int8(PARAM)
{
	let_next_start();
	int p = 0;
	while (p < 3 && blockIdx.x >= a.parts[p + 1].block)
		p++;
	const Part &part = a.parts[p];
	int group = warp_id() / SPLIT, slice = warp_id() % SPLIT;
	int first = ((blockIdx.x - part.block) * GROUPS + group) * OUTS;

	// The result that this thread will store: what it needs is on its way early.
	static_assert(GROUPS * OUTS * TOKENS <= 256, "a result a thread");
	int t = threadIdx.x % TOKENS, owner = threadIdx.x / TOKENS, out = (blockIdx.x - part.block) * GROUPS * OUTS + owner;
	bool mine = owner < GROUPS * OUTS && out < part.outs;
	float scale = mine ? part.scale[out] : 0, bias = mine && part.bias ? f32(part.bias[out]) : 0;

	const int stride = SPLIT * WARP * VEC;
	int at = (slice * WARP + lane_id()) * VEC;
	const i8 *w[OUTS];
#pragma unroll
	for (int o = 0; o < OUTS; o++) // outputs past the end read the last row again
		w[o] = part.w + min(first + o, part.outs - 1) * part.ld;
	float sum[OUTS][TOKENS] = {};
	auto multiply = [&](int i, const Loaded<i8, VEC> (&v)[OUTS]) {
		float y[OUTS][VEC];
#pragma unroll
		for (int o = 0; o < OUTS; o++)
			widen<i8>(v[o], y[o]);
#pragma unroll
		for (int t = 0; t < TOKENS; t++) {
			Vec<SRC, VEC> x = *(const Vec<SRC, VEC> *)(a.x.row(t) + i);
#pragma unroll
			for (int o = 0; o < OUTS; o++)
#pragma unroll
				for (int j = 0; j < VEC; j++)
					sum[o][t] += f32(x.at[j]) * y[o][j];
		}
	};
	read_rows(a, w, at, stride, [] {}, multiply);

	__shared__ float shared[8][OUTS][TOKENS];
#pragma unroll
	for (int o = 0; o < OUTS; o++)
#pragma unroll
		for (int t = 0; t < TOKENS; t++) {
			float s = warp_sum(sum[o][t]);
			if (lane_id() == 0)
				shared[warp_id()][o][t] = s;
		}
	__syncthreads();
	if (!mine)
		return;
	float y = 0;
	for (int s = 0; s < SPLIT; s++)
		y += shared[owner / OUTS * SPLIT + s][owner % OUTS][t];
	y = y * scale + bias;
	DST *dst = a.dst.row(t) + part.column + out;
	*dst = to<DST>(a.add ? f32(*dst) + y : y);
}
