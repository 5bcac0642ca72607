// dst[t] += Σⱼ weights[t, j]·expert(ids[t, j])(x[t]) for many tokens: the
// choices are grouped by expert, and every expert multiplies its rows together
// in 64 × 64 tiles. Four kernels in turn; grids are for the worst case.
// x, dst [tokens, hidden]; ids, weights [tokens, k]; choices = tokens·k.
// Scratch: order [choices] = choices by expert, token order within;
// tiles [maxTiles]; inner float32 [choices, width] in grouped order; outer
// float32 [choices, hidden] by choice.
#include "expert.cuh"
#include "tile.cuh"

struct Tile { int expert, first, rows, pad; }; // rows order[first, first + rows)

struct Args {
	Mat<DST> dst;
	Mat<const SRC> x;
	Mat<const int> ids;
	Mat<const float> weights;
	const Expert *table;
	int *order;
	Tile *tiles;
	float *inner;
	i64 innerLD;
	float *outer;
	int hidden, k, experts, choices, maxTiles, pad;
};

__device__ int chosen(const Args &a, int choice) { return a.ids.row(choice / a.k)[choice % a.k]; }

// The warp counts the choices of an expert; with write it also lists them from
// order[first] on.
__device__ int scan(const Args &a, int expert, int first, bool write)
{
	int n = 0;
	for (int c0 = 0; c0 < a.choices; c0 += WARP) {
		int c = c0 + lane_id();
		bool mine = c < a.choices && chosen(a, c) == expert;
		u32 all = __ballot_sync(~0u, mine);
		if (write && mine)
			a.order[first + n + __popc(all & ((1u << lane_id()) - 1))] = c;
		n += __popc(all);
	}
	return n;
}

// Fills order and tiles. Grid: one block of 1,024 threads; dynamic shared
// memory: 2·experts ints.
KERNEL group(PARAM)
{
	extern __shared__ int count[];
	int *first = count + a.experts;
	for (int e = warp_id(); e < a.experts; e += blockDim.x / WARP) {
		int n = scan(a, e, 0, false);
		if (lane_id() == 0)
			count[e] = n;
	}
	__syncthreads();
	if (threadIdx.x == 0) {
		int at = 0, tile = 0;
		for (int e = 0; e < a.experts; e++) {
			first[e] = at;
			for (int i = 0; i < count[e]; i += TILE)
				a.tiles[tile++] = {e, at + i, min(TILE, count[e] - i), 0};
			at += count[e];
		}
		while (tile < a.maxTiles)
			a.tiles[tile++] = {0, 0, 0, 0};
	}
	__syncthreads();
	for (int e = warp_id(); e < a.experts; e += blockDim.x / WARP)
		scan(a, e, first[e], true);
}

// inner = silu(gate·x)·(up·x). Grid: (32 columns, tiles). Even columns of the
// tile are gate's, odd ones up's.
KERNEL gate_up(PARAM)
{
	__shared__ TileMemory memory;
	Tile tile = a.tiles[blockIdx.y];
	const Expert &e = a.table[tile.expert];
	int column = blockIdx.x * (TILE / 2);
	if (tile.rows == 0 || column >= e.width)
		return;
	auto left = [&](int i, int k) { return i < tile.rows ? f32(a.x.row(a.order[tile.first + i] / a.k)[k]) : 0.f; };
	auto right = [&](int i, int k) {
		int o = column + i / 2;
		if (o >= e.width)
			return 0.f;
		return f32(i % 2 ? e.up[o * e.upLD + k] : e.gate[o * e.gateLD + k]);
	};
	float sum[4][4];
	tile_product(sum, a.hidden, left, right, memory);
	for (int r = 0; r < 4; r++)
		for (int c = 0; c < 4; c += 2) {
			int i = threadIdx.x / 16 * 4 + r, o = column + (threadIdx.x % 16 * 4 + c) / 2;
			if (i < tile.rows && o < e.width)
				a.inner[(tile.first + i) * a.innerLD + o] =
					silu(sum[r][c] * scale_at(e.gateScale, o) + bias_at(e.gateBias, o)) *
					(sum[r][c + 1] * scale_at(e.upScale, o) + bias_at(e.upBias, o));
		}
}

// outer = down·inner. Grid: (64 columns, tiles).
KERNEL down(PARAM)
{
	__shared__ TileMemory memory;
	Tile tile = a.tiles[blockIdx.y];
	const Expert &e = a.table[tile.expert];
	int column = blockIdx.x * TILE;
	if (tile.rows == 0)
		return;
	auto left = [&](int i, int k) { return i < tile.rows ? a.inner[(tile.first + i) * a.innerLD + k] : 0.f; };
	auto right = [&](int i, int k) { return column + i < a.hidden ? f32(e.down[(column + i) * e.downLD + k]) : 0.f; };
	float sum[4][4];
	tile_product(sum, e.width, left, right, memory);
	for (int r = 0; r < 4; r++)
		for (int c = 0; c < 4; c++) {
			int i = threadIdx.x / 16 * 4 + r, o = column + threadIdx.x % 16 * 4 + c;
			if (i < tile.rows && o < a.hidden)
				a.outer[a.order[tile.first + i] * (i64)a.hidden + o] = sum[r][c] * scale_at(e.downScale, o) + bias_at(e.downBias, o);
		}
}

// dst += Σⱼ weights·outer, choices in order. Grid: (tokens, blocks of hidden).
KERNEL combine(PARAM)
{
	int t = blockIdx.x, o = blockIdx.y * blockDim.x + threadIdx.x;
	if (o >= a.hidden)
		return;
	float y = 0;
	for (int j = 0; j < a.k; j++)
		if ((u32)chosen(a, t * a.k + j) < (u32)a.experts)
			y += a.weights.row(t)[j] * a.outer[(t * a.k + j) * (i64)a.hidden + o];
	DST *dst = a.dst.row(t) + o;
	*dst = to<DST>(f32(*dst) + y);
}
