// dst[t, o] (+)= Σᵢ x[t, i]·w[o, i] + bias[o] for few tokens: every weight is
// read once, so its bytes set the time. With NORM x is normalised, h = x /
// √(mean(x²) + eps) · gamma: every warp adds up the squares of what it reads
// anyway, and a block more stores h. With GATED the parts are gate and up: wide =
// gate·x ‖ up·x and dst = silu(gate·x)·(up·x).
// SPLIT warps share OUTS neighbouring outputs (GATED: OUTS/2 of both parts): each
// takes a slice of the inputs, VEC of them a load. AHEAD loads of every output are
// in flight all the time, the first of them before the kernel ahead has ended;
// with AHEAD 0 some go out together, which takes fewer registers and so holds more
// blocks. A block of 256 threads owns 8/SPLIT groups of outputs of one part of the
// weight; grid: (groups of all parts).
// dst [TOKENS, out]; x [TOKENS, in]; w [out, in] in up to 4 parts; gamma [in]; h
// [TOKENS, in]; wide [TOKENS, 2·out]. Sums in float32, in an order that depends on
// the shape alone.
#include "read_rows.cuh"

#define LINE 128 // bytes of the L2 cache
#define EVERY (GATED ? (OUTS + 1) / 2 : OUTS) // outputs of a group

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

// Has gamma near when the other blocks read it, after the wait. That they bring it, too, costs
// more than it gains.
__device__ inline void bring_gamma(const Args &a)
{
	for (int i = threadIdx.x * LINE; i < a.in * (int)sizeof(GAMMA); i += 256 * LINE)
		asm volatile("prefetch.global.L2 [%0];" :: "l"((const u8 *)a.gamma + i));
}

// The normalised rows, by a block of its own.
__device__ inline void store_normed(const Args &a)
{
	__shared__ float shared[WARP];
	for (int t = 0; t < TOKENS; t++) {
		const SRC *x = a.x.row(t);
		float squares = 0;
		for (int i = threadIdx.x; i < a.in; i += 256)
			squares += f32(x[i]) * f32(x[i]);
		float scale = 1 / sqrtf(block_sum(squares, shared) / a.in + a.eps);
		for (int i = threadIdx.x; i < a.in; i += 256)
			a.h.row(t)[i] = to<H>(f32(x[i]) * scale * f32(a.gamma[i]));
	}
}

extern "C" __global__ void __launch_bounds__(256) gemv(PARAM)
{
	let_next_start();
#if NORM
	if (blockIdx.x == gridDim.x - 1) {
		bring_gamma(a);
		wait_for_previous();
		store_normed(a);
		return;
	}
#endif
	int p = 0;
	while (p < 3 && blockIdx.x >= a.parts[p + 1].block)
		p++;
	const Part &part = a.parts[p];
	int group = warp_id() / SPLIT, slice = warp_id() % SPLIT;
	int first = ((blockIdx.x - part.block) * GROUPS + group) * EVERY;

	const int stride = SPLIT * WARP * VEC;
	int at = (slice * WARP + lane_id()) * VEC;
	const W *w[OUTS];
#pragma unroll
	for (int o = 0; o < OUTS; o++) // outputs past the end read the last row again
		w[o] = a.parts[GATED ? o / EVERY : p].w + min(first + (GATED ? o % EVERY : o), part.outs - 1) * part.ld;
	float sum[OUTS][TOKENS] = {}, squares[TOKENS] = {};
	auto multiply = [&](int i, const Loaded<W, VEC> (&v)[OUTS]) {
#pragma unroll
		for (int t = 0; t < TOKENS; t++) {
			Vec<SRC, VEC> x = *(const Vec<SRC, VEC> *)(a.x.row(t) + i);
			float y[VEC];
#if NORM
			Vec<GAMMA, VEC> gamma = *(const Vec<GAMMA, VEC> *)(a.gamma + i);
#endif
#pragma unroll
			for (int j = 0; j < VEC; j++) {
				y[j] = f32(x.at[j]);
#if NORM
				squares[t] += y[j] * y[j];
				y[j] *= f32(gamma.at[j]);
#endif
			}
#pragma unroll
			for (int o = 0; o < OUTS; o++)
#pragma unroll
				for (int j = 0; j < VEC; j++)
					sum[o][t] += y[j] * number<W>(v[o], j);
		}
	};
	// What a thread's result is added to is on its way meanwhile; with more tokens it would
	// take registers that hold blocks.
	float before = 0;
	auto begin = [&] {
#if !GATED && TOKENS == 1
		static_assert(GROUPS * EVERY <= 256, "a result a thread");
		int i = threadIdx.x, out = (blockIdx.x - part.block) * GROUPS * EVERY + i;
		if (a.add && i < GROUPS * EVERY && out < part.outs)
			before = f32(a.dst.row(0)[part.column + out]);
#endif
	};
	read_rows(a, w, at, stride, begin, multiply);

	__shared__ float shared[8][OUTS + NORM][TOKENS];
#pragma unroll
	for (int t = 0; t < TOKENS; t++) {
#pragma unroll
		for (int o = 0; o < OUTS; o++) {
			float s = warp_sum(sum[o][t]);
			if (lane_id() == 0)
				shared[warp_id()][o][t] = s;
		}
		if (NORM) {
			float s = warp_sum(squares[t]);
			if (lane_id() == 0)
				shared[warp_id()][OUTS + NORM - 1][t] = s;
		}
	}
	__syncthreads();
	for (int i = threadIdx.x; i < GROUPS * EVERY * TOKENS; i += blockDim.x) {
		int t = i % TOKENS, o = i / TOKENS % EVERY, g = i / (TOKENS * EVERY);
		int out = ((blockIdx.x - part.block) * GROUPS + g) * EVERY + o;
		if (out >= part.outs)
			continue;
		float scale = 1;
		if (NORM) {
			float squares = 0;
			for (int s = 0; s < SPLIT; s++)
				squares += shared[g * SPLIT + s][OUTS + NORM - 1][t];
			scale = 1 / sqrtf(squares / a.in + a.eps);
		}
		auto result = [&](int p, int o) {
			float y = 0;
			for (int s = 0; s < SPLIT; s++)
				y += shared[g * SPLIT + s][o][t];
			return scale * y + (a.parts[p].bias ? f32(a.parts[p].bias[out]) : 0);
		};
#if GATED
		float gate = result(0, o), up = result(1, o + EVERY);
		a.wide.row(t)[out] = to<DST>(gate);
		a.wide.row(t)[part.outs + out] = to<DST>(up);
		a.dst.row(t)[out] = to<DST>(gate / (1 + expf(-gate)) * up);
#else
		DST *dst = a.dst.row(t) + part.column + out;
		float y = result(p, o);
		*dst = to<DST>(a.add ? (TOKENS == 1 ? before : f32(*dst)) + y : y);
#endif
	}
}
