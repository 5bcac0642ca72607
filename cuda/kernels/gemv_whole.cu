// dst (+)= x·wᵀ + bias for one row whose weights all fit the multiprocessors' shared
// memory: a warp has the copy engine bring a block's ROWS rows of w while kernels ahead
// still work. With GATED x is normalised and w is gate and up, of which a block has ROWS
// rows each, as in gemv.cu.
// The tensor cores multiply: 16 rows of w as they lie by x as columns, one of bf16 or,
// where it is normalised, two that add up to it to 2⁻¹⁷. A warp takes every WARPS-th 32
// inputs of all rows.
// Grid: (blocks of ROWS outputs of all parts), GATED one more that stores h; WARPS + 1
// warps. Shared: a barrier a load in BARRIERS bytes, then the rows, PITCH bytes each.
// Sums in float32, in an order that depends on the shape and the card's size alone.
#include "gemv.cuh"
#include "hopper.cuh"
#include "mma.cuh"

#define ALL ((1 + GATED) * ROWS) // rows of a block
#define TILES ((ALL + 15) / 16)  // of 16 rows
#define CHAINS (TILES > 2 ? 1 : 2) // products of a tile that do not wait for each other
#define CHUNKS (IN / 8)          // of 16 bytes, in a row
#define PITCH (16 * (CHUNKS + (12 - CHUNKS % 8) % 8)) // neighbouring rows lie 4 chunks apart among 8: a quarter of a warp meets no bank twice
#define EACH ((IN / 32 + WARPS - 1) / WARPS) // times that a warp multiplies 32 inputs
#define PIECES ((EACH + 7) / 8)  // of 16 bytes of a warp's inputs, by a lane

#define LOAD 14336 // bytes of a load, about
#define GROUP (LOAD / (IN * 2) > 32 ? 32 : LOAD / (IN * 2) > 0 ? LOAD / (IN * 2) : 1) // its rows
#define LOADS ((ALL + GROUP - 1) / GROUP)
#define DEPTH 2 // loads on their way: with more, what kernels ahead read waits in line
#define BARRIERS 256
static_assert(LOADS <= BARRIERS / 8, "barriers");

extern "C" __global__ void __launch_bounds__((WARPS + 1) * WARP) gemv_whole(PARAM)
{
	extern __shared__ __align__(128) u8 memory[];
	__shared__ float sums[WARPS][TILES * 16], squares[WARPS];
	u64 *full = (u64 *)memory;
	u8 *rows = memory + BARRIERS;
	let_next_start();
#if GATED
	if (blockIdx.x == gridDim.x - 1) {
		wait_for_previous();
		store_normed(a);
		return;
	}
#endif
	int p = 0;
	while (p < 3 && blockIdx.x >= a.parts[p + 1].block)
		p++;
	const Part &part = a.parts[p];
	int first = (blockIdx.x - part.block) * ROWS, g = lane_id() / 4, c = lane_id() % 4;
	if (warp_id() == WARPS) {
		if (lane_id() < LOADS) {
			barrier_init(full + lane_id(), 1);
			barriers_ready();
			barrier_expect(full + lane_id(), min(GROUP, ALL - GROUP * lane_id()) * IN * 2);
		}
		__syncwarp();
	}
	__syncthreads();
	if (warp_id() == WARPS) {
		for (int n = 0; n < LOADS; n++) {
			if (n >= DEPTH)
				barrier_wait(full + n - DEPTH, 0);
			if (int r = n * GROUP + lane_id(); lane_id() < GROUP && r < ALL) { // rows past the end are the last once more
				const Part &of = a.parts[GATED ? r / ROWS : p];
				load_bytes(rows + r * PITCH, of.w + min(first + r % ROWS, of.outs - 1) * of.ld, IN * 2, full + n);
			}
		}
		__syncthreads();
		return;
	}
	int own = threadIdx.x / 4, out = first + own; // what four threads finish
	bool ends = own < ROWS && out < part.outs;
	float bias[1 + GATED] = {};
	if (ends)
#pragma unroll
		for (int i = 0; i < 1 + GATED; i++)
			if (const BIAS *b = a.parts[GATED ? i : p].bias)
				bias[i] = f32(b[out]);
#if GATED
	Vec<GAMMA, 8> gamma[EACH];
#pragma unroll
	for (int s = 0; s < EACH; s++)
		if (int step = warp_id() + s * WARPS; step < IN / 32)
			gamma[s] = *(const Vec<GAMMA, 8> *)(a.gamma + 32 * step + 8 * c);
#endif
	wait_for_previous();
	DST *dst = a.dst.row(0) + part.column + out;
	float before = ends && !GATED && a.add ? f32(*dst) : 0;
	float square = 0;
#if GATED
	uint4 x[EACH]; // columns 0 and 1 at the inputs 8c … of every 32
	Vec<SRC, 8> wide[EACH];
#pragma unroll
	for (int s = 0; s < EACH; s++)
		if (int step = warp_id() + s * WARPS; step < IN / 32)
			wide[s] = *(const Vec<SRC, 8> *)(a.x.row(0) + 32 * step + 8 * c);
#pragma unroll
	for (int s = 0; s < EACH; s++) {
		if (warp_id() + s * WARPS >= IN / 32)
			break;
		u32 pair[4];
#pragma unroll
		for (int j = 0; j < 4; j++) {
			float y0 = f32(wide[s].at[2 * j]), y1 = f32(wide[s].at[2 * j + 1]);
			square += y0 * y0, square += y1 * y1;
			y0 *= f32(gamma[s].at[2 * j]), y1 *= f32(gamma[s].at[2 * j + 1]);
			u32 upper = pack(y0, y1);
			u32 lower = pack(y0 - __uint_as_float(upper << 16), y1 - __uint_as_float(upper & 0xffff0000));
			pair[j] = g == 0 ? upper : g == 1 ? lower : 0;
		}
		x[s] = make_uint4(pair[0], pair[1], pair[2], pair[3]);
	}
#else
	// A warp's inputs go through shared memory of its own.
	__shared__ uint4 inputs[WARPS][EACH][4];
	uint4 piece[PIECES];
#pragma unroll
	for (int n = 0; n < PIECES; n++)
		if (int s = 8 * n + g, step = warp_id() + s * WARPS; s < EACH && step < IN / 32)
			piece[n] = *(const uint4 *)(a.x.row(0) + 32 * step + 8 * c);
#pragma unroll
	for (int n = 0; n < PIECES; n++)
		if (8 * n + g < EACH)
			inputs[warp_id()][8 * n + g][c] = piece[n];
	__syncwarp();
#endif
#pragma unroll
	for (int n = 0; n < LOADS; n++)
		barrier_wait(full + n, 0);
	float d[TILES][CHAINS][4] = {};
#pragma unroll
	for (int s = 0; s < EACH; s++) {
		int step = warp_id() + s * WARPS;
		if (step >= IN / 32)
			break;
#if GATED
		uint4 b = x[s];
#else
		uint4 b = make_uint4(0, 0, 0, 0);
		if (g == 0)
			b = inputs[warp_id()][s][c];
#endif
#pragma unroll
		for (int t = 0; t < TILES; t++) {
			const u8 *w = rows + 16 * c + 64 * step;
			uint4 u = *(const uint4 *)(w + min(16 * t + g, ALL - 1) * PITCH), v = make_uint4(0, 0, 0, 0);
			if (ALL - 16 * t > 8) // not rows g alone
				v = *(const uint4 *)(w + min(16 * t + g + 8, ALL - 1) * PITCH);
			mma<bf16>(d[t][0], u.x, v.x, u.y, v.y, b.x, b.y);
			mma<bf16>(d[t][CHAINS - 1], u.z, v.z, u.w, v.w, b.z, b.w);
		}
	}
#pragma unroll
	for (int t = 0; t < TILES; t++) {
#pragma unroll
		for (int e = 0; e < 4; e++)
			d[t][0][e] += CHAINS > 1 ? d[t][CHAINS - 1][e] : 0;
		if (c == 0) // it has columns 0 and 1
			sums[warp_id()][16 * t + g] = d[t][0][0] + d[t][0][1], sums[warp_id()][16 * t + g + 8] = d[t][0][2] + d[t][0][3];
	}
	if (GATED) {
		square = quad_sum(square);
		if (lane_id() == 0)
			squares[warp_id()] = square;
	}
	__syncthreads();
	if (warp_id() * (WARP / 4) >= ROWS)
		return;
	auto total = [&](const float *part, int stride) { // of all warps, by four threads
		float y = 0;
#pragma unroll
		for (int w = 0; w < WARPS; w += 4)
			y += w + c < WARPS ? part[(w + c) * stride] : 0;
		return quad_sum(y);
	};
	float scale = GATED ? 1 / sqrtf(total(squares, 1) / IN + a.eps) : 1;
	auto result = [&](int i) { return scale * total(sums[0] + i * ROWS + min(own, ROWS - 1), TILES * 16) + bias[i]; };
#if GATED
	float gate = result(0), up = result(1);
	if (!ends || c > 0)
		return;
	a.wide.row(0)[out] = to<DST>(gate);
	a.wide.row(0)[part.outs + out] = to<DST>(up);
	a.dst.row(0)[out] = to<DST>(gate / (1 + expf(-gate)) * up);
#else
	float y = before + result(0);
	if (ends && c == 0)
		*dst = to<DST>(y);
#endif
}
