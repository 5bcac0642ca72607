// Rotary position encoding in place.
// Grid: one block a token; 2·half floats of dynamic shared memory. x [tokens,
// heads, 2·half]; pos [tokens]; freq [half]. A pair is (i, i + half), or
// (2i, 2i + 1) when INTERLEAVED. A thread turns VEC neighbouring pairs.
#include "early.cuh"

struct Args {
	Cube<DST> x;
	const int *pos;
	const float *freq;
	int heads, half;
	float scale;
};

KERNEL rotate(PARAM)
{
	let_next_start();
	wait_for_previous();
	extern __shared__ float cosines[];
	float *sines = cosines + a.half;
	float pos = (float)a.pos[blockIdx.x];
	for (int i = threadIdx.x; i < a.half; i += blockDim.x)
		sincosf(__fmul_rn(pos, a.freq[i]), sines + i, cosines + i);
	__syncthreads();
	int pieces = a.half / VEC;
	for (int i = threadIdx.x; i < a.heads * pieces; i += blockDim.x) {
		int pair = i % pieces * VEC;
		DST *x = a.x.row(blockIdx.x, i / pieces) + (INTERLEAVED ? 2 * pair : pair);
		Vec<DST, VEC> *at[2] = {(Vec<DST, VEC> *)x, (Vec<DST, VEC> *)(x + (INTERLEAVED ? VEC : a.half))};
		Vec<DST, VEC> v[2] = {*at[0], *at[1]};
#pragma unroll
		for (int j = 0; j < VEC; j++) {
			DST &p = INTERLEAVED ? v[2 * j / VEC].at[2 * j % VEC] : v[0].at[j];
			DST &q = INTERLEAVED ? v[(2 * j + 1) / VEC].at[(2 * j + 1) % VEC] : v[1].at[j];
			float u = f32(p), w = f32(q), c = cosines[pair + j], s = sines[pair + j];
			p = to<DST>(a.scale * (u * c - w * s));
			q = to<DST>(a.scale * (w * c + u * s));
		}
		*at[0] = v[0], *at[1] = v[1];
	}
}
