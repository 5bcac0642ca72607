// Exact attention of few tokens over a cache whose values are the first columns
// of its keys, at most 16 heads a key head, over the rows from ≤ j ≤ pos[t], on
// Hopper. Every row is read once. attend_merge puts the parts together.
// Grid: (PARTS, key heads, tokens), 288 threads; shared: struct Memory.
// q [tokens, heads, DK]; k [key heads, capacity, DK], BF16; DV 128, 256 or 512;
// parts: decode.cuh.
//
// The blocks of a key head share the rows, 32 at a time. A warp has the copy
// engine bring them, in panels of 64 columns, through a ring of STAGES tiles.
// Warps 2i and 2i + 1 of the others score the rows 8i … 8i + 7 of a tile, each
// over half of the columns, its queries in registers, and add up; then the eight
// share the weights and each multiplies them by DV/8 columns of the values.
// Weights go to BF16 for that, sums are float32.
#include "decode.cuh"
#include "hopper.cuh"

#define WARPS 8              // that compute
#define ROWS 32              // of a tile
#define PIECE 8              // rows that are copied at least
#define HEADS 16
#define PANELS ((DK + 63) / 64) // zero beyond DK
#define COLUMNS (DV / WARPS) // of a warp
#define EVERYONE 5           // named barrier of the warps that compute; 1 … 4: pairs

#define EARLY 1              // tiles asked for before the kernel ahead is over, at most

struct Args {
	TensorMap k, pieces; // boxes of ROWS and PIECE rows
	Cube<const bf16> q;
	float *out;
	Mass *mass;
	const int *from; // or null: 0
	const int *pos;
	int heads, group, capacity;
	float scale;
	int early; // rows before the last one attended are there already
};

struct Memory {
	bf16 rows[STAGES][PANELS][ROWS][64];
	bf16 queries[PANELS][HEADS][64];
	float4 products[WARPS][WARP];
	bf16 weights[HEADS][ROWS + 8];
	float top[HEADS][WARPS / 2], sum[HEADS][WARPS / 2];
	u64 full[STAGES], empty[STAGES];
	u64 again; // the tiles that were asked for in vain have come
	Limits early;
};

__device__ inline void load_matrices(u32 (&x)[4], u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}

__device__ inline void load_transposed(u32 (&x)[4], u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}

// Has the copy engine read a description before it is needed.
__device__ inline void announce(const TensorMap *map) { asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory"); }

// load_box of rows that are read once.
__device__ inline void load_rows(void *dst, const TensorMap *map, u64 *barrier, int column, int row, int kv, u64 policy)
{
	asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;"
		:: "r"(shared_address(dst)), "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(row), "r"(kv), "l"(policy) : "memory");
}

// Where the 16-byte piece of a row lies in a panel, in bytes.
__device__ inline int place(int row, int piece) { return row * 128 + ((piece ^ row % 8) << 4); }

// What a block takes of the rows. The tiles of it are brought in turn to the
// stages of the ring; used says how many stages brought others before.
struct Work {
	Share<ROWS> share;
	int t, kv, part, parts, tiles, used;
	__device__ Work(const Args &a, const Limits &limits, int used) : t(blockIdx.z), kv(blockIdx.y), part(blockIdx.x), used(used)
	{
		Range range(limits, a.capacity);
		parts = range.parts(PARTS);
		share = Share<ROWS>(range, part, parts);
		tiles = part < parts ? share.tiles() : 0;
	}
	// Tiles under way before any was worked on.
	__device__ int ahead() const { return min(tiles, STAGES); }
	__device__ u32 parity(int tile) const { return (tile / STAGES + (tile % STAGES < used)) & 1; }
	__device__ int rows(int tile) const { return share.end(tile) - share.begin(tile) + 1; }
};

__device__ inline void copy_tile(const Args &a, Memory &m, const Work &w, int tile, u64 policy)
{
	int stage = tile % STAGES, row = w.share.begin(tile), n = w.rows(tile);
	u64 *full = &m.full[stage];
	if (n == ROWS) {
		barrier_expect(full, PANELS * ROWS * 128);
		for (int p = 0; p < PANELS; p++)
			load_rows(m.rows[stage][p], &a.k, full, 64 * p, row, w.kv, policy);
	} else {
		barrier_expect(full, PANELS * ((n + PIECE - 1) / PIECE) * PIECE * 128);
		for (int r = 0; r < n; r += PIECE)
			for (int p = 0; p < PANELS; p++)
				load_rows(m.rows[stage][p][r], &a.pieces, full, 64 * p, row + r, w.kv, policy);
	}
}

// Asks for the first tiles before the kernel ahead is over, as far as it does not
// write their rows; returns how many.
__device__ inline int copy_early(const Args &a, Memory &m, const Work &w, const Limits &limits)
{
	int n = 0;
	while (n < min(EARLY, w.ahead()) && w.share.end(n) < limits.pos)
		copy_tile(a, m, w, n++, evict_first());
	return n;
}

// One thread brings all tiles, of which some are asked for already: at first those
// that the limits ask for as they were before the kernel ahead was over. As a rule
// they are the same after it, now; else it begins again.
__device__ inline void copy_all(const Args &a, Memory &m, Work w, const Limits &limits, const Limits &now, int asked)
{
	u64 policy = evict_first();
	for (int i = asked; i < w.ahead(); i++)
		copy_tile(a, m, w, i, policy);
	int next = w.ahead();
	if (limits != now) {
		for (int i = 0; i < next; i++)
			barrier_wait(&m.full[i], 0);
		barrier_arrive(&m.again);
		w = Work(a, now, next);
		next = 0;
	}
	for (int i = next; i < w.tiles; i++) {
		barrier_wait(&m.empty[i % STAGES], i / STAGES & 1 ^ 1);
		copy_tile(a, m, w, i, policy);
	}
}

// Queries as the copy engine would bring them; zero where there are none.
__device__ inline void load_queries(const Args &a, Memory &m, const Work &w)
{
	const int pieces = PANELS * 8, each = (HEADS * pieces + WARPS * WARP - 1) / (WARPS * WARP);
	uint4 x[each]; // all under way at once
#pragma unroll
	for (int n = 0; n < each; n++) {
		int i = n * WARPS * WARP + threadIdx.x, row = i / pieces, piece = i % pieces;
		x[n] = row < a.group && piece * 8 < DK ? __ldcg((const uint4 *)(a.q.row(w.t, w.kv * a.group + row) + piece * 8)) : make_uint4(0, 0, 0, 0);
	}
#pragma unroll
	for (int n = 0; n < each; n++) {
		int i = n * WARPS * WARP + threadIdx.x, row = i / pieces, piece = i % pieces;
		if (row < HEADS)
			*(uint4 *)((u8 *)m.queries[piece / 8] + place(row, piece % 8)) = x[n];
	}
	named_wait(EVERYONE, WARPS * WARP);
}

// Rows that were not asked for become zero as far as they meet weights, which
// are zero too.
__device__ inline void clear_rows(bf16 (*tile)[ROWS][64], int n)
{
	int count = (n + 15) / 16 * 16 - n;
	for (int i = threadIdx.x; i < PANELS * count * 8; i += WARPS * WARP)
		*(uint4 *)&tile[i / 8 / count][n + i / 8 % count][i % 8 * 8] = make_uint4(0, 0, 0, 0);
	named_wait(EVERYONE, WARPS * WARP);
}

// Sums of the heads g and g + 8: acc[i] over all rows so far as mma leaves the
// warp's columns, sum over the warp's rows.
struct State {
	float acc[COLUMNS / 8][4] = {};
	float top[2] = {-INF, -INF}, sum[2] = {};
};

// What a warp multiplies by keys: half of the queries' columns.
struct Queries {
	u32 at[PANELS][2][4];
	__device__ Queries(const Memory &m)
	{
		u32 base = shared_address(m.queries);
		int half = warp_id() % 2, lane = lane_id();
#pragma unroll
		for (int i = 0; i < 2 * PANELS; i++) {
			int step = half * 2 * PANELS + i; // of 16 columns
			load_matrices(at[i / 2][i % 2], base + step / 4 * HEADS * 128 + place(lane % 16, step % 4 * 2 + lane / 16));
		}
	}
};

// Products of queries and the rows 8i … 8i + 7 of the tile: heads g and g + 8,
// rows 2c and 2c + 1.
__device__ inline void score(Memory &m, float (&s)[4], const Queries &q, const bf16 (*tile)[ROWS][64])
{
	int half = warp_id() % 2, pair = warp_id() / 2, lane = lane_id();
	// 32 columns at a time; the half begins within a panel where their number is odd.
	int first = half * PANELS, row = 8 * pair + lane % 8;
	u32 even = shared_address(tile) + first / 2 * ROWS * 128 + place(row, first % 2 * 4 + lane / 8);
	u32 odd = shared_address(tile) + (first + 1) / 2 * ROWS * 128 + place(row, (first + 1) % 2 * 4 + lane / 8);
	float part[4][4] = {};
#pragma unroll
	for (int i = 0; i < PANELS; i++) {
		u32 x[4];
		load_matrices(x, (i % 2 ? odd : even) + i / 2 * ROWS * 128);
#pragma unroll
		for (int j = 0; j < 2; j++) {
			const u32 (&a)[4] = q.at[i][j];
			mma(part[i % 2 * 2 + j], a[0], a[1], a[2], a[3], x[2 * j], x[2 * j + 1]);
		}
	}
#pragma unroll
	for (int e = 0; e < 4; e++)
		s[e] = (part[0][e] + part[1][e]) + (part[2][e] + part[3][e]);
	m.products[warp_id()][lane] = make_float4(s[0], s[1], s[2], s[3]);
	named_wait(1 + pair, 2 * WARP);
	float4 y = m.products[warp_id() ^ 1][lane];
	s[0] += y.x, s[1] += y.y, s[2] += y.z, s[3] += y.w;
}

// Logits become weights in shared memory, one head of two by each warp of a pair;
// the state is brought to the new reference. n rows of the tile are there.
__device__ inline void weigh(Memory &m, State &z, float (&s)[4], float scale, int n)
{
	int half = warp_id() % 2, pair = warp_id() / 2, g = lane_id() / 4, c = lane_id() % 4, row = 8 * pair + 2 * c;
#pragma unroll
	for (int e = 0; e < 4; e++)
		s[e] = row + e % 2 < n ? s[e] * scale : -INF;
	float x = half ? s[2] : s[0], y = half ? s[3] : s[1], top = quad_max(fmaxf(x, y));
	if (c == 0)
		m.top[g + 8 * half][pair] = top;
	named_wait(EVERYONE, WARPS * WARP);
	float shrink[2];
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float4 tops = *(float4 *)m.top[g + 8 * h];
		float now = fmaxf(fmaxf(fmaxf(tops.x, tops.y), fmaxf(tops.z, tops.w)), z.top[h]);
		shrink[h] = power2(z.top[h] - reference(now));
		z.top[h] = now;
		z.sum[h] *= shrink[h];
	}
	float now = reference(half ? z.top[1] : z.top[0]);
	x = power2(x - now), y = power2(y - now);
	z.sum[0] += half ? 0 : x + y;
	z.sum[1] += half ? x + y : 0;
	*(u32 *)&m.weights[g + 8 * half][row] = pack(x, y);
	named_wait(EVERYONE, WARPS * WARP);
	if (__any_sync(~0u, shrink[0] != 1 || shrink[1] != 1))
#pragma unroll
		for (int i = 0; i < COLUMNS / 8; i++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				z.acc[i][e] *= shrink[e / 2];
}

// acc += weights · the warp's columns of the tile, of which n rows are there.
__device__ inline void add_values(Memory &m, State &z, const bf16 (*tile)[ROWS][64], int n)
{
	int lane = lane_id(), first = warp_id() * COLUMNS;
	u32 panel = shared_address(tile[first / 64]);
#pragma unroll
	for (int k = 0; k < ROWS; k += 16) {
		if (k >= n)
			break;
		u32 p[4];
		load_matrices(p, shared_address(&m.weights[lane % 16][k + lane / 16 * 8]));
#pragma unroll
		for (int i = 0; i < COLUMNS / 16; i++) {
			u32 x[4];
			load_transposed(x, panel + place(k + lane % 16, first % 64 / 8 + 2 * i + lane / 16));
			mma(z.acc[2 * i], p[0], p[1], p[2], p[3], x[0], x[1]);
			mma(z.acc[2 * i + 1], p[0], p[1], p[2], p[3], x[2], x[3]);
		}
	}
}

// A warp's sums go through a tile that nobody reads any more, so that whole lines are
// written.
__device__ inline void finish(const Args &a, Memory &m, State &z, const Work &w)
{
	int lane = lane_id(), g = lane / 4, c = lane % 4, half = warp_id() % 2;
	i64 first = ((i64)w.t * a.heads + w.kv * a.group) * PARTS + w.part;
	float *sums = (float *)m.rows[w.tiles % STAGES] + warp_id() * HEADS * COLUMNS;
	auto at = [&](int head, int column) { return sums + head * COLUMNS + (column ^ head % (COLUMNS / 8) * 8); }; // no two in a bank
#pragma unroll
	for (int i = 0; i < COLUMNS / 8; i++)
#pragma unroll
		for (int h = 0; h < 2; h++)
			*(float2 *)at(g + 8 * h, 8 * i + 2 * c) = make_float2(z.acc[i][2 * h], z.acc[i][2 * h + 1]);
	__syncwarp();
	float *out = a.out + first * DV + warp_id() * COLUMNS;
#pragma unroll
	for (int i = lane * 4; i < HEADS * COLUMNS; i += WARP * 4)
		if (int head = i / COLUMNS; head < a.group)
			*(float4 *)(out + (i64)head * PARTS * DV + i % COLUMNS) = *(const float4 *)at(head, i % COLUMNS);
	float sum = quad_sum(half ? z.sum[1] : z.sum[0]);
	if (c == 0)
		m.sum[g + 8 * half][warp_id() / 2] = sum;
	named_wait(EVERYONE, WARPS * WARP);
	if (warp_id() < 2 && c == 0 && g + 8 * half < a.group) {
		float4 x = *(float4 *)m.sum[g + 8 * half];
		a.mass[first + (i64)(g + 8 * half) * PARTS] = Mass{half ? z.top[1] : z.top[0], (x.x + x.y) + (x.z + x.w)};
	}
}

__device__ inline void compute(const Args &a, Memory &m, const Work &w)
{
	load_queries(a, m, w);
	if (w.used > 0) // before that, a stage's second load cannot be told from none
		barrier_wait(&m.again, 0);
	Queries q(m);
	State z;
	for (int i = 0; i < w.tiles; i++) {
		int stage = i % STAGES, n = w.rows(i);
		const bf16 (*tile)[ROWS][64] = m.rows[stage];
		barrier_wait(&m.full[stage], w.parity(i));
		if (n < ROWS)
			clear_rows(m.rows[stage], n);
		float s[4];
		score(m, s, q, tile);
		weigh(m, z, s, a.scale * LOG2E, n);
		add_values(m, z, tile, n);
		__syncwarp();
		if (lane_id() == 0)
			barrier_arrive(&m.empty[stage]);
	}
	finish(a, m, z, w);
}

extern "C" __global__ void __launch_bounds__((WARPS + 1) * WARP, 1) attend_latent(PARAM)
{
	extern __shared__ __align__(1024) u8 raw[];
	Memory &m = *(Memory *)raw;
	if (threadIdx.x == 0) {
		// Read once for the block: the kernel ahead may be changing them.
		m.early = Limits(a.from, a.pos, blockIdx.z);
		barrier_init(&m.again, 1);
		for (int i = 0; i < STAGES; i++) {
			barrier_init(&m.full[i], 1);
			barrier_init(&m.empty[i], WARPS);
		}
		barriers_ready();
		announce(&a.k);
		announce(&a.pieces);
	}
	__syncthreads();
	Limits limits = m.early;
	Work early(a, limits, 0);
	bool copies = threadIdx.x == WARPS * WARP;
	int asked = a.early && copies ? copy_early(a, m, early, limits) : 0;
	wait_for_previous();
	let_next_start(); // all blocks are there: it takes nothing from them
	Limits now(a.from, a.pos, blockIdx.z);
	if (copies)
		copy_all(a, m, early, limits, now, asked);
	if (warp_id() == WARPS)
		return;
	Work w(a, now, limits != now ? early.ahead() : 0);
	if (w.tiles > 0)
		compute(a, m, w);
}
