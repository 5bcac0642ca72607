// dst[o] = scale[o]·Σᵢ h[i]·w[o, i] + bias[o] for one token, h = x / √(mean(x²) +
// eps)·gamma, w signed bytes, by int8_one.cuh. A block has WARPS warps: SPLIT of
// them share 8 neighbouring outputs of one part of the weight, each with a slice of
// the inputs, DEPTH loads ahead, the first before the kernel ahead has ended. Every
// block normalises x for itself; the first stores h. Grid: (groups of all parts);
// dynamic shared memory: 192 bytes for every 64 inputs, then h.
// x, gamma, h [in], in a multiple of 16; w [out, in], rows at multiples of 16 bytes.
// Each slice has a fixed point of its own; their sums are added in float32, in
// order.
// SWIGLU: parts 0 and 1, of equal size, are gate and up, and neighbouring groups of
// warps have 8 outputs of each. What would be dst goes to out, and dst =
// silu(gate)·up.
#include "int8_one.cuh"

#define GROUPS (WARPS / SPLIT)

struct Part {
	const i8 *w;
	const float *scale;
	const BIAS *bias;
	i64 ld;
	int outs, column; // of the part; its first column in dst
	int block, pad;   // its first block
};

struct Args {
	DST *dst;
	const SRC *x;
	Part parts[4];
	const GAMMA *gamma;
	H *h;
	OUT *out; // SWIGLU
	int in;
	float eps;
};

// An output that a thread makes from the sums of a group of warps.
struct Result {
	float scale = 0, bias = 0;
	__device__ inline Result(const Part &part, int out, bool wanted)
	{
		if (wanted)
			scale = part.scale[out], bias = part.bias ? f32(part.bias[out]) : 0;
	}
	__device__ inline float of(const float (&sums)[WARPS][8], int group) const
	{
		float sum = 0;
		for (int s = 0; s < SPLIT; s++)
			sum += sums[group * SPLIT + s][threadIdx.x % 8];
		return sum * scale + bias;
	}
};

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS) gemv_int8_one(PARAM)
{
	extern __shared__ __align__(16) u8 planes[]; // [chunks][3][CHUNK]
	__shared__ float tops[WARPS], sums[WARPS][8];
	let_next_start();
	int group = warp_id() / SPLIT, slice = warp_id() % SPLIT;
#if SWIGLU
	const Part &part = a.parts[group % 2];
	int first = (blockIdx.x * GROUPS + group) / 2 * 8;
#else
	int p = 0;
	while (p < 3 && blockIdx.x >= a.parts[p + 1].block)
		p++;
	const Part &part = a.parts[p];
	int first = ((blockIdx.x - part.block) * GROUPS + group) * 8;
#endif
	// The result that this thread will store: what it needs is on its way early.
	int owner = threadIdx.x / 8;
#if SWIGLU
	int out = (blockIdx.x * (GROUPS / 2) + owner) * 8 + threadIdx.x % 8;
	bool mine = owner < GROUPS / 2 && out < a.parts[0].outs;
	Result gate(a.parts[0], out, mine), up(a.parts[1], out, mine);
#else
	int out = ((blockIdx.x - part.block) * GROUPS + owner) * 8 + threadIdx.x % 8;
	bool mine = owner < GROUPS && out < part.outs;
	Result result(part, out, mine);
#endif
	int chunks = (a.in + CHUNK - 1) / CHUNK, size = (chunks + SPLIT - 1) / SPLIT;
	int from = min(chunks, slice * size), to = min(chunks, from + size);
	Rows<DEPTH> rows;
	rows.begin(part.w + min(first + lane_id() / 4, part.outs - 1) * part.ld, from, first < part.outs ? to : from, a.in);

	wait_for_previous();
	float x[8], top = 0;
#pragma unroll 2
	for (int i = threadIdx.x * 8; i < a.in; i += WARPS * WARP * 8) {
		load8(x, a.x + i);
#pragma unroll
		for (int j = 0; j < 8; j++)
			top += x[j] * x[j];
	}
	float root = 1 / sqrtf(block_sum(top, tops) / a.in + a.eps);
	top = 0;
	__syncthreads(); // tops is used again
	H *inputs = (H *)(planes + chunks * (3 * CHUNK));
	// The warps of a slice share its inputs.
	const int STEP = GROUPS * WARP * 8;
	int begin = from * CHUNK + (group * WARP + lane_id()) * 8;
#pragma unroll 1
	for (int i = begin; i < min(to * CHUNK, a.in); i += STEP) {
		load8(x, a.x + i);
		Vec<GAMMA, 8> gamma = *(const Vec<GAMMA, 8> *)(a.gamma + i);
		Vec<H, 8> h;
#pragma unroll
		for (int j = 0; j < 8; j++) {
			h.at[j] = ::to<H>(x[j] * root * f32(gamma.at[j]));
			x[j] = f32(h.at[j]);
		}
		*(Vec<H, 8> *)(inputs + i) = h;
		if (blockIdx.x == 0)
			*(Vec<H, 8> *)(a.h + i) = h;
#pragma unroll
		for (int j = 0; j < 8; j++)
			top = fmaxf(top, magnitude(x[j]));
	}
	top = warp_max(top);
	if (lane_id() == 0)
		tops[warp_id()] = top;
	__syncthreads();
	for (int g = 0; g < GROUPS; g++)
		top = fmaxf(top, tops[g * SPLIT + slice]);
	Fixed fixed = fixed_point(top);
#pragma unroll 1
	for (int i = begin; i < to * CHUNK; i += STEP) {
		if (i < a.in) {
			load8(x, inputs + i);
		} else {
#pragma unroll
			for (int j = 0; j < 8; j++)
				x[j] = 0;
		}
		put_planes(planes, i, x, fixed.up);
	}
	__syncthreads();

	if (first < part.outs) {
		for (int c = from; c < to; c += DEPTH)
#pragma unroll
			for (int n = 0; n < DEPTH; n++) {
				if (c + n >= to)
					break;
				rows.step(n, c + n, plane_bytes(planes, c + n));
			}
	}
	float y[2];
	rows.result(y, fixed.back);
	if (lane_id() < 4)
		sums[warp_id()][2 * lane_id()] = y[0], sums[warp_id()][2 * lane_id() + 1] = y[1];
	__syncthreads();
	if (!mine)
		return;
#if SWIGLU
	OUT g = ::to<OUT>(gate.of(sums, 2 * owner)), u = ::to<OUT>(up.of(sums, 2 * owner + 1));
	a.out[out] = g, a.out[a.parts[0].outs + out] = u;
	a.dst[out] = ::to<DST>(f32(g) / (1 + expf(-f32(g))) * f32(u));
#else
	a.dst[part.column + out] = ::to<DST>(result.of(sums, owner));
#endif
}
