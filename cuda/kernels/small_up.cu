// x' = x + Σ parts; h = x' / √(mean(x'²) + eps) · gamma; wide = gate·h ‖ up·h;
// dst = silu(gate·h)·(up·h), for one row and a layer small enough (small.cuh).
// A block has PAIRS neighbouring outputs of both: tiles of 8 pairs, 0 … 3 in
// shared memory, of which a warp multiplies a quarter, 4 and 5 in registers, an eighth a
// warp. Grid: (outs / PAIRS); 512 threads; dynamic shared memory: struct Memory.
// x [HIDDEN]; parts [PARTS, HIDDEN]; dst [outs]; wide [2·outs]; h, gamma [HIDDEN]. Sums
// in float32, in an order that depends on the shape alone. No biases.
#include "small.cuh"

#define MOST 48 // pairs of a block
#define TILES ((PAIRS + 7) / 8)
#define STEPS (HIDDEN / 128)   // of 32 columns, a quarter of all
#define KEPT ((STEPS + 1) / 2) // an eighth

struct Args {
	TensorMap gate, up; // boxes of 32 rows
	const W *gateRows, *upRows;
	i64 gateLD, upLD;
	DST *dst, *wide;
	W *h;
	const SRC *x;
	const float *parts;
	const W *gamma;
	int outs;
	float eps;
};

struct Memory {
	u8 rows[2][HIDDEN / 64][32 * 128]; // of gate and up
	Normed<HIDDEN> x;
	float2 sums[8][MOST];
	u64 barrier[HIDDEN / 32];
};
static_assert(PAIRS <= MOST && HIDDEN <= 4 * THREADS && HIDDEN % 128 == 0, "room");

static_assert(sizeof(Memory) <= SHARED, "as large as was asked for");

extern "C" __global__ void __launch_bounds__(THREADS, 2) small_up(PARAM)
{
	extern __shared__ __align__(1024) u8 memory[];
	Memory &m = *(Memory *)memory;
	let_next_start();
	int first = blockIdx.x * PAIRS, t = threadIdx.x, c = lane_id() % 4, tile = warp_id() / 4, quarter = warp_id() % 4;
	copy_pieces<2, 3>(m.barrier, [&](int i, u64 *barrier) {
		barrier_expect(barrier, 32 * 128);
		load_box(m.rows[i % 2][i / 2], i % 2 ? &a.up : &a.gate, barrier, i / 2 * 64, first);
	});
	// Asked for last: all at once they hold up others.
	int held = 4 + tile / 2, step = quarter * STEPS + tile % 2 * KEPT, row = min(first + 8 * held + lane_id() / 4, a.outs - 1);
	uint4 gate[KEPT], up[KEPT];
#pragma unroll
	for (int s = 0; s < KEPT; s++)
		if (tile % 2 * KEPT + s < STEPS) {
			gate[s] = stream8(a.gateRows + row * a.gateLD + 32 * (step + s) + 8 * c);
			up[s] = stream8(a.upRows + row * a.upLD + 32 * (step + s) + 8 * c);
		}
	wait_for_previous();
	bool some = 4 * t < HIDDEN;
	float4 x = four(a.x, t, some), part[PARTS];
#pragma unroll
	for (int i = 0; i < PARTS; i++)
		part[i] = four(a.parts + i * HIDDEN, t, some);
#pragma unroll
	for (int i = 0; i < PARTS; i++)
		x.x += part[i].x, x.y += part[i].y, x.z += part[i].z, x.w += part[i].w;
	m.x.put(x, four(a.gamma, t, some));
	__syncthreads();
	float factor = m.x.factor(a.eps);
	Outputs y;
	int r = box_row(), at = 8 * tile * 128 + box_place(r, quarter % 2 * 4 + c);
#pragma unroll
	for (int s = 0; s < STEPS; s++)
		y.add(*(const uint4 *)(m.rows[0][2 * s + quarter / 2] + at), *(const uint4 *)(m.rows[1][2 * s + quarter / 2] + at), m.x.columns(4 * s + quarter));
	if (blockIdx.x == gridDim.x - 1)
		for (int i = t; i < HIDDEN; i += THREADS)
			a.h[i] = m.x.at(i, factor);
	float2 sum = y.over_parts();
	if (c == 0)
		m.sums[quarter][8 * tile + r] = sum;
	if (held < TILES) {
		Outputs y;
#pragma unroll
		for (int s = 0; s < KEPT; s++)
			if (tile % 2 * KEPT + s < STEPS)
				y.add(gate[s], up[s], m.x.columns(step + s));
		sum = y.over_parts();
		if (c == 0)
			m.sums[2 * quarter + tile % 2][8 * held + lane_id() / 4] = sum;
	}
	__syncthreads();
	int out = first + t;
	if (t >= PAIRS || out >= a.outs)
		return;
	float g = 0, u = 0;
#pragma unroll
	for (int i = 0; i < 8; i++)
		if (i < 4 || t >= 32)
			g += m.sums[i][t].x, u += m.sums[i][t].y;
	g *= factor, u *= factor;
	a.wide[out] = to<DST>(g);
	a.wide[a.outs + out] = to<DST>(u);
	a.dst[out] = to<DST>(__fdividef(g, 1 + __expf(-g)) * u);
}
