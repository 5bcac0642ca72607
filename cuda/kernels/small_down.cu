// x = x + Σ parts + w·y, for one row and a layer small enough (small.cuh).
// A block has 8 outputs, in shared memory. The tensor cores' long side has them twice:
// with the first half of their columns and with the second. Grid: (outs / 8); 512
// threads; dynamic shared memory: struct Memory.
// x [outs]; parts [PARTS, outs]; w [outs, COLUMNS]; y [COLUMNS]. Sums in float32, in an
// order that depends on the shape alone. No bias.
#include "small.cuh"

#define OUTS 8 // of a block
#define STRIDE (COLUMNS * 2 + GAP)
#define HALF (COLUMNS / 64) // steps of 32 columns, half of all
#define STEPS ((HALF + BLOCK_WARPS - 1) / BLOCK_WARPS)

struct Args {
	DST *x;
	const float *parts;
	const W *w, *y;
	i64 ld;
	int outs, pad;
};

struct Memory {
	u8 rows[OUTS * STRIDE];
	float sums[BLOCK_WARPS][OUTS];
	u64 barrier[2 * OUTS];
};
static_assert(COLUMNS % 64 == 0, "halves of whole steps");

static_assert(sizeof(Memory) <= SHARED, "as large as was asked for");

extern "C" __global__ void __launch_bounds__(THREADS, 2) small_down(PARAM)
{
	extern __shared__ __align__(1024) u8 memory[];
	Memory &m = *(Memory *)memory;
	let_next_start();
	int first = blockIdx.x * OUTS, t = threadIdx.x, g = lane_id() / 4, c = lane_id() % 4;
	copy_pieces<2, 1>(m.barrier, [&](int i, u64 *barrier) { // half a row
		barrier_expect(barrier, COLUMNS);
		copy_bulk(m.rows + i / 2 * STRIDE + i % 2 * COLUMNS, a.w + min(first + i / 2, a.outs - 1) * a.ld + i % 2 * (COLUMNS / 2), COLUMNS, barrier);
	});
	int from = HALF * warp_id() / BLOCK_WARPS, end = HALF * (warp_id() + 1) / BLOCK_WARPS;
	wait_for_previous();
	uint4 y[STEPS];
#pragma unroll
	for (int s = 0; s < STEPS; s++)
		y[s] = g < 2 && from + s < end ? *(const uint4 *)(a.y + g * (COLUMNS / 2) + 32 * (from + s) + 8 * c) : nothing();
	float x = 0;
	if (t < OUTS && first + t < a.outs) {
		x = f32(a.x[first + t]);
#pragma unroll
		for (int i = 0; i < PARTS; i++)
			x += a.parts[i * a.outs + first + t];
	}
	Outputs z;
	const u8 *at = m.rows + g * STRIDE + (32 * from + 8 * c) * 2;
#pragma unroll
	for (int s = 0; s < STEPS; s++)
		if (from + s < end)
			z.add(*(const uint4 *)(at + 64 * s), *(const uint4 *)(at + 64 * s + COLUMNS), y[s]);
	if (c == 0)
		m.sums[warp_id()][g] = z.even[0] + z.odd[0] + (z.even[3] + z.odd[3]);
	__syncthreads();
	if (t >= OUTS || first + t >= a.outs)
		return;
	float sum = 0;
#pragma unroll
	for (int w = 0; w < BLOCK_WARPS; w++)
		sum += m.sums[w][t];
	a.x[first + t] = to<DST>(x + sum);
}
