// dst[o] (+)= scale[o]·Σᵢ x[i]·w[o, i] + bias[o] for one token, w signed bytes, by
// int8_one.cuh. A block has WARPS warps: SPLIT of them share 8 neighbouring outputs
// of one part of the weight, each with a slice of the inputs, DEPTH loads ahead,
// the first before the kernel ahead has ended. Grid: (groups of all parts); 192
// bytes of dynamic shared memory for every 64 inputs. x [in], in a multiple of 16;
// w [out, in], rows at multiples of 16 bytes. Each slice has a fixed point of its
// own; their sums are added in float32, in order.
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
	int in, add;
};

extern "C" __global__ void __launch_bounds__(WARPS * 32, BLOCKS) gemv_int8_one(PARAM)
{
	extern __shared__ __align__(16) u8 planes[]; // [chunks][3][CHUNK]
	__shared__ float tops[WARPS], sums[WARPS][8];
	let_next_start();
	int p = 0;
	while (p < 3 && blockIdx.x >= a.parts[p + 1].block)
		p++;
	const Part &part = a.parts[p];
	int group = warp_id() / SPLIT, slice = warp_id() % SPLIT;
	int first = ((blockIdx.x - part.block) * GROUPS + group) * 8;
	int chunks = (a.in + CHUNK - 1) / CHUNK, size = (chunks + SPLIT - 1) / SPLIT;
	int from = min(chunks, slice * size), to = min(chunks, from + size);
	Rows<DEPTH> rows;
	rows.begin(part.w + min(first + lane_id() / 4, part.outs - 1) * part.ld, from, first < part.outs ? to : from, a.in);

	wait_for_previous();
	// The warps of a slice share its inputs.
	float x[8], top = 0;
	const int STEP = GROUPS * WARP * 8;
	int begin = from * CHUNK + (group * WARP + lane_id()) * 8;
#pragma unroll 1
	for (int i = begin; i < min(to * CHUNK, a.in); i += STEP) {
		load8(x, a.x + i);
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
			load8(x, a.x + i);
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
	int g = threadIdx.x / 8, out = ((blockIdx.x - part.block) * GROUPS + g) * 8 + threadIdx.x % 8;
	if (g >= GROUPS || out >= part.outs)
		return;
	float sum = 0;
	for (int s = 0; s < SPLIT; s++)
		sum += sums[g * SPLIT + s][threadIdx.x % 8];
	sum = sum * part.scale[out] + (part.bias ? f32(part.bias[out]) : 0);
	DST *dst = a.dst + part.column + out;
	*dst = ::to<DST>(a.add ? f32(*dst) + sum : sum);
}
