// Rotary position encoding in place.
// Grid: one block a token. x [tokens, heads, 2·half]; pos [tokens]; freq
// [half]. A pair is (i, i + half), or
// (2i, 2i + 1) when interleaved.
#include "common.cuh"

struct Args {
	Cube<DST> x;
	const int *pos;
	const float *freq;
	int heads, half, interleaved;
	float scale;
};

KERNEL rotate(PARAM)
{
	float pos = (float)a.pos[blockIdx.x];
	for (int i = threadIdx.x; i < a.heads * a.half; i += blockDim.x) {
		int pair = i % a.half;
		DST *x = a.x.row(blockIdx.x, i / a.half) + (a.interleaved ? 2 * pair : pair);
		DST *y = x + (a.interleaved ? 1 : a.half);
		float sin, cos;
		sincosf(__fmul_rn(pos, a.freq[pair]), &sin, &cos);
		float u = f32(*x), v = f32(*y);
		*x = to<DST>(a.scale * (u * cos - v * sin));
		*y = to<DST>(a.scale * (v * cos + u * sin));
	}
}
