// dst[b, t, o] (+)= Σᵢ x[b, t, i]·w[b, o, i] + bias[o] for any types, strides
// and alignment: what cuBLASLt cannot do.
// Grid: (output tiles, row tiles, batch), 256 threads. w has a stride for
// outputs (ld) and one for inputs (step), so that it may be transposed.
#include "tile.cuh"

struct Args {
	Cube<DST> dst;
	Cube<const SRC> x;
	Cube<const W> w;
	i64 step;
	const BIAS *bias;
	int rows, outs, in, add;
};

KERNEL matmul(PARAM)
{
	__shared__ TileMemory memory;
	int b = blockIdx.z, row = blockIdx.y * TILE, out = blockIdx.x * TILE;
	auto left = [&](int i, int k) { return row + i < a.rows ? f32(a.x.row(b, row + i)[k]) : 0.f; };
	auto right = [&](int i, int k) { return out + i < a.outs ? f32(a.w.row(b, out + i)[k * a.step]) : 0.f; };
	float sum[4][4];
	tile_product(sum, a.in, left, right, memory);
	for (int r = 0; r < 4; r++)
		for (int c = 0; c < 4; c++) {
			int t = row + threadIdx.x / 16 * 4 + r, o = out + threadIdx.x % 16 * 4 + c;
			if (t >= a.rows || o >= a.outs)
				continue;
			DST *dst = a.dst.row(b, t) + o;
			float y = sum[r][c] + (a.bias ? f32(a.bias[o]) : 0);
			*dst = to<DST>(a.add ? f32(*dst) + y : y);
		}
}
