// dst[t] += Σⱼ weights[t, j]·expert(ids[t, j])(x[t]) for many bf16 tokens by
// Hopper's tensor cores, without the host knowing who chose what. Choices are
// sorted by expert (token order within), their rows of x copied side by side;
// then two grouped products in tiles of 128 rows × 256 columns, and the sum of a
// token's choices in order. Six kernels in turn. Gate·up and every expert's
// output are rounded to bf16; sums are float32.
// x, dst [tokens, hidden]; ids, weights [tokens, k]; choices = tokens·k. All
// experts are width wide; hidden and width are multiples of 8.
// Scratch: counts [parts, experts], starts [experts], rank, order [choices],
// tiles [choices/128 + experts], firstTile [experts + 1]; rows [choices, hidden],
// first x then outputs; inner [choices, width]. The products are of the experts
// from ≤ e < to alone, whose weights may be there for the time being.
#include "hopper.cuh"
#include "tensor.cuh"
#include "expert.cuh"

#define PART 1024 // choices that a block counts
#define ROWS 128
#define COLUMNS 256
#define STAGES 4

struct Tile { int expert, first, rows, pad; }; // sorted choices first … first + rows − 1

struct Args {
	TensorMap rowBoxes, innerBoxes; // of 128 rows, 64 columns
	const TensorMap *weightBoxes;   // so too: gate, up, down of the experts from …
	Mat<DST> dst;
	Mat<const bf16> x;
	Mat<const int> ids;
	Mat<const float> weights;
	const Expert *table;
	int *counts, *starts, *rank, *order;
	Tile *tiles;
	int *firstTile; // of every expert, then the number of tiles
	bf16 *rows, *inner;
	int hidden, width, k, experts, choices, parts, from, to;
};

__device__ inline int chosen(const Args &a, int choice)
{
	int id = a.ids.row(choice / a.k)[choice % a.k];
	return (u32)id < (u32)a.experts ? id : -1;
}

// rank of a choice among those of its expert in the part; counts of the part.
// Grid: parts, PART threads; 32·experts ints of dynamic shared memory.
KERNEL count(PARAM)
{
	extern __shared__ int of_warp[]; // [32][experts]
	for (int i = threadIdx.x; i < PART / WARP * a.experts; i += PART)
		of_warp[i] = 0;
	__syncthreads();
	int choice = blockIdx.x * PART + threadIdx.x, id = choice < a.choices ? chosen(a, choice) : -1;
	u32 same = __match_any_sync(~0u, id);
	int before = __popc(same & ((1u << lane_id()) - 1));
	if (before == 0 && id >= 0)
		of_warp[warp_id() * a.experts + id] = __popc(same);
	__syncthreads();
	for (int e = threadIdx.x; e < a.experts; e += PART) {
		int sum = 0;
		for (int w = 0; w < PART / WARP; w++) {
			int n = of_warp[w * a.experts + e];
			of_warp[w * a.experts + e] = sum;
			sum += n;
		}
		a.counts[blockIdx.x * a.experts + e] = sum;
	}
	__syncthreads();
	if (id >= 0)
		a.rank[choice] = of_warp[warp_id() * a.experts + id] + before;
}

// Where every expert begins, and every part within it; the tiles. Grid: one
// block of 1,024 threads; 2·experts ints of dynamic shared memory.
KERNEL plan(PARAM)
{
	extern __shared__ int size[]; // [experts], then sizes in tiles
	for (int e = threadIdx.x; e < a.experts; e += blockDim.x) {
		int sum = 0;
		for (int p = 0; p < a.parts; p += 8) {
			int n[8];
#pragma unroll
			for (int i = 0; i < 8; i++) // loads first: stores could be to the same place
				n[i] = p + i < a.parts ? a.counts[(p + i) * a.experts + e] : 0;
#pragma unroll
			for (int i = 0; i < 8; i++) {
				if (p + i < a.parts)
					a.counts[(p + i) * a.experts + e] = sum;
				sum += n[i];
			}
		}
		size[e] = sum, size[a.experts + e] = (sum + ROWS - 1) / ROWS;
	}
	__syncthreads();
	for (int e = threadIdx.x; e < a.experts; e += blockDim.x) {
		int first = 0, tile = 0;
		for (int i = 0; i < e; i++)
			first += size[i], tile += size[a.experts + i];
		a.starts[e] = first;
		a.firstTile[e] = tile;
		for (int i = 0; i < size[e]; i += ROWS)
			a.tiles[tile++] = {e, first + i, min(ROWS, size[e] - i), 0};
		if (e == a.experts - 1)
			a.firstTile[a.experts] = tile;
	}
}

// Copies a token's row to the places of its choices. Grid: tokens / 8, 256
// threads, a warp a token.
KERNEL place(PARAM)
{
	__shared__ int places[8][WARP];
	int t = blockIdx.x * 8 + warp_id(), *place = places[warp_id()];
	if (t * a.k >= a.choices)
		return;
	for (int j0 = 0; j0 < a.k; j0 += WARP) {
		int n = min(WARP, a.k - j0), choice = t * a.k + j0 + lane_id(), id = lane_id() < n ? chosen(a, choice) : -1;
		int at = id < 0 ? -1 : a.starts[id] + a.counts[choice / PART * a.experts + id] + a.rank[choice];
		if (id >= 0)
			a.order[at] = choice;
		__syncwarp();
		place[lane_id()] = at;
		__syncwarp();
#pragma unroll 4
		for (int i = lane_id() * 8; i < a.hidden; i += WARP * 8) {
			uint4 x = *(const uint4 *)(a.x.row(t) + i);
			for (int j = 0; j < n; j++)
				if (place[j] >= 0)
					*(uint4 *)(a.rows + (i64)place[j] * a.hidden + i) = x;
		}
	}
}

struct Memory {
	bf16 left[STAGES][ROWS][64], right[STAGES][COLUMNS][64];
	u64 full[STAGES], empty[STAGES];
};
static_assert(sizeof(Memory) <= SHARED, "shared memory");

// A tile of a grouped product and the block's way through the tiles. columns:
// tiles side by side.
struct Walk {
	const Args &a;
	int columns, at, end;
	__device__ Walk(const Args &a, int columns) : a(a), columns(columns), at(a.firstTile[a.from] * columns + blockIdx.x), end(a.firstTile[a.to] * columns) {}
	__device__ bool more() const { return at < end; }
	__device__ void next() { at += gridDim.x; }
	__device__ Tile tile() const { return a.tiles[at / columns]; }
	__device__ int column() const { return at % columns; }
};

// One thread copies all tiles. right(stage, e, column, k) copies 256 columns.
template <class Right> __device__ void copy_tiles(Memory &m, Walk walk, const TensorMap *left, int depth, Right right)
{
	int n = 0;
	for (; walk.more(); walk.next()) {
		Tile t = walk.tile();
		for (int k = 0; k < depth; k += 64, n++) {
			int stage = n % STAGES;
			barrier_wait(&m.empty[stage], n / STAGES & 1 ^ 1);
			barrier_expect(&m.full[stage], (ROWS + COLUMNS) * 128);
			load_box(m.left[stage], left, &m.full[stage], k, t.first);
			right(stage, t.expert, walk.column(), k);
		}
	}
}

// A warpgroup's products. done(sum, tile, column) gets 64 rows × 256 columns; a
// warpgroup whose rows are beyond the tile's only lets the copies pass.
template <class Done> __device__ void multiply_tiles(Memory &m, Walk walk, int index, int depth, Done done)
{
	int n = 0;
	auto release = [&](int n) {
		if (lane_id() == 0)
			barrier_arrive(&m.empty[n % STAGES]);
	};
	for (; walk.more(); walk.next()) {
		Tile t = walk.tile();
		if (__all_sync(~0u, 64 * index >= t.rows)) { // a vote, so that ptxas knows that warps stay whole
			for (int k = 0; k < depth; k += 64, n++) {
				barrier_wait(&m.full[n % STAGES], n / STAGES & 1);
				release(n);
			}
			continue;
		}
		float sum[COLUMNS / 2];
		for (int k = 0; k < depth; k += 64, n++) {
			barrier_wait(&m.full[n % STAGES], n / STAGES & 1);
			u64 left = tile(m.left[n % STAGES][64 * index]), right = tile(m.right[n % STAGES]);
			hold(sum);
			products_begin();
#pragma unroll
			for (int i = 0; i < 4; i++)
				product<COLUMNS>(sum, left + 2 * i, right + 2 * i, k + i > 0);
			products_commit();
			products_wait<1>();
			if (k > 0) // the copies before these are read
				release(n - 1);
		}
		products_wait<0>();
		hold(sum);
		release(n - 1);
		done(sum, t, walk.column());
	}
}

// What a block of a grouped product does: 384 threads, SHARED bytes of dynamic
// shared memory, as many blocks as multiprocessors.
template <class Right, class Done> __device__ void grouped(Memory &m, Walk walk, const TensorMap *left, int depth, Right right, Done done)
{
	if (threadIdx.x == 0) {
		for (int i = 0; i < STAGES; i++) {
			barrier_init(&m.full[i], 1);
			barrier_init(&m.empty[i], 8);
		}
		barriers_ready();
	}
	__syncthreads();
	if (threadIdx.x < 128) {
		fewer_registers<24>();
		if (threadIdx.x == 0)
			copy_tiles(m, walk, left, depth, right);
	} else {
		more_registers<240>();
		multiply_tiles(m, walk, warp_id() / 4 - 1, depth, done);
	}
}

// Stores the columns 8i … 8i + 31 of a row; a thread has 2 of every 8 in part.
__device__ inline void store_pieces(bf16 *row, int column, int width, u32 (&part)[4], bool mine)
{
	quad_transpose(part);
	column += lane_id() % 4 * 8;
	if (mine && column < width)
		*(uint4 *)(row + column) = make_uint4(part[0], part[1], part[2], part[3]);
}

__device__ inline float swiglu(float gate, float up) { return __fdividef(gate, 1 + power2(-LOG2E * gate)) * up; }

// inner = silu(gate·x)·(up·x): 128 columns of gate beside the same of up.
extern "C" __global__ void __launch_bounds__(384, 1) gate_up(PARAM)
{
	extern __shared__ __align__(1024) u8 raw[];
	Memory &m = *(Memory *)raw;
	auto right = [&](int stage, int e, int column, int k) {
		for (int i = 0; i < 2; i++)
			load_box(m.right[stage][128 * i], a.weightBoxes + 3 * (e - a.from) + i, &m.full[stage], k, 128 * column);
	};
	auto done = [&](float (&sum)[128], Tile t, int column) {
		const Expert &e = a.table[t.expert];
		int row = (warp_id() - 4) * 16 + lane_id() / 4;
		if (e.gateBias) {
#pragma unroll
			for (int i = 0; i < 64; i++) {
				int o = min(128 * column + i / 4 * 8 + lane_id() % 4 * 2 + i % 2, a.width - 1);
				sum[i] += f32(e.gateBias[o]);
				sum[i + 64] += f32(e.upBias[o]);
			}
		}
#pragma unroll
		for (int r = 0; r < 2; r++) {
			bool mine = row + 8 * r < t.rows;
			bf16 *dst = a.inner + (i64)(t.first + row + 8 * r) * a.width;
#pragma unroll
			for (int i = 0; i < 16; i += 4) {
				u32 part[4];
#pragma unroll
				for (int j = 0; j < 4; j++) {
					int s = 4 * (i + j) + 2 * r;
					part[j] = pack(swiglu(sum[s], sum[64 + s]), swiglu(sum[s + 1], sum[64 + s + 1]));
				}
				store_pieces(dst, 128 * column + 8 * i, a.width, part, mine);
			}
		}
	};
	grouped(m, Walk(a, (a.width + 127) / 128), &a.rowBoxes, a.hidden, right, done);
}

// rows = down·inner, by choice.
extern "C" __global__ void __launch_bounds__(384, 1) down(PARAM)
{
	extern __shared__ __align__(1024) u8 raw[];
	Memory &m = *(Memory *)raw;
	auto right = [&](int stage, int e, int column, int k) {
		for (int i = 0; i < 2; i++)
			load_box(m.right[stage][128 * i], a.weightBoxes + 3 * (e - a.from) + 2, &m.full[stage], k, COLUMNS * column + 128 * i);
	};
	auto done = [&](float (&sum)[128], Tile t, int column) {
		const Expert &e = a.table[t.expert];
		int row = (warp_id() - 4) * 16 + lane_id() / 4;
		if (e.downBias) {
#pragma unroll
			for (int i = 0; i < 128; i++)
				sum[i] += f32(e.downBias[min(COLUMNS * column + i / 4 * 8 + lane_id() % 4 * 2 + i % 2, a.hidden - 1)]);
		}
#pragma unroll
		for (int r = 0; r < 2; r++) {
			bool mine = row + 8 * r < t.rows;
			bf16 *dst = a.rows + (i64)(mine ? a.order[t.first + row + 8 * r] : 0) * a.hidden;
#pragma unroll
			for (int i = 0; i < 32; i += 4) {
				u32 part[4];
#pragma unroll
				for (int j = 0; j < 4; j++)
					part[j] = pack(sum[4 * (i + j) + 2 * r], sum[4 * (i + j) + 2 * r + 1]);
				store_pieces(dst, COLUMNS * column + 8 * i, a.hidden, part, mine);
			}
		}
	};
	grouped(m, Walk(a, (a.hidden + COLUMNS - 1) / COLUMNS), &a.innerBoxes, a.width, right, done);
}

// dst += Σⱼ weights·rows, choices in order. Grid: (tokens, hidden / 2,048), 256
// threads, 8 columns each.
KERNEL combine(PARAM)
{
	int t = blockIdx.x, o = (blockIdx.y * blockDim.x + threadIdx.x) * 8;
	if (o >= a.hidden)
		return;
	float y[8] = {};
#pragma unroll 6
	for (int j = 0; j < a.k; j++) {
		if (chosen(a, t * a.k + j) < 0)
			continue;
		Vec<bf16, 8> x = *(const Vec<bf16, 8> *)(a.rows + (t * a.k + j) * (i64)a.hidden + o);
		float w = a.weights.row(t)[j];
		for (int i = 0; i < 8; i++)
			y[i] += w * f32(x.at[i]);
	}
	Vec<DST, 4> *dst = (Vec<DST, 4> *)(a.dst.row(t) + o);
	for (int h = 0; h < 2; h++) {
		Vec<DST, 4> d = dst[h];
		for (int i = 0; i < 4; i++)
			d.at[i] = to<DST>(f32(d.at[i]) + y[4 * h + i]);
		dst[h] = d;
	}
}
