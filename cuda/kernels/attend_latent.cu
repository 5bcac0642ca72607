// Exact attention of few tokens over a cache whose values are the first columns
// of its keys, at most 16 heads a key head, over the rows from ≤ j ≤ pos[t], on
// Hopper. Every row is read once. attend_merge puts the parts together.
// Grid: (PARTS, key heads, tokens), 3 · GROUP threads; shared: struct Memory.
// q [tokens, heads, DK]; k [key heads, capacity, DK], BF16; DV 128, 256 or 512;
// parts: decode.cuh.
//
// The blocks of a key head share the rows, 32 at a time. One group of four warps
// has a thread that tells the copy engine to bring them, through a ring of STAGES
// tiles. One scores: a warp the rows 8i … 8i + 7, with all queries in registers.
// One multiplies weights by values, a warp DV/4 columns, while the next tile is
// scored. Weights go to BF16 for that, sums are float32.
//
// Weights are 2^(logit − r) of one r a head. It is the largest logit that there was
// when it was last set, and is set anew when one is above it by more than SLACK, so
// that as a rule the warps need not agree on it and sums stay as they are.
#include "latent_tiles.cuh"

#define COLUMNS (DV / WARPS)    // of a warp
#define SLACK 8.f

// Registers of a thread that copies and of one that scores, whose queries are 16 a
// panel.
#define COPIES 32
#define SCORES 216

// Named barriers: of the warps that score; of those that score and add, and the one that
// copies, when queries are there; and when a buffer has weights, and has room.
#define AGREED 1
#define READY 2
#define WRITTEN 3
#define TAKEN (WRITTEN + BUFFERS)

// Queries as the copy engine would bring them; zero where there are none.
__device__ inline void load_queries(const Args &a, Memory &m, const Work &w)
{
	const int pieces = PANELS * 8, each = (HEADS * pieces + 2 * GROUP - 1) / (2 * GROUP);
	uint4 x[each]; // all under way at once
#pragma unroll
	for (int n = 0; n < each; n++) {
		int i = n * 2 * GROUP + threadIdx.x, row = i / pieces, piece = i % pieces;
		x[n] = row < a.group && piece * 8 < DK ? __ldcg((const uint4 *)(a.q.row(w.t, w.kv * a.group + row) + piece * 8)) : make_uint4(0, 0, 0, 0);
	}
#pragma unroll
	for (int n = 0; n < each; n++) {
		int i = n * 2 * GROUP + threadIdx.x, row = i / pieces, piece = i % pieces;
		if (row < HEADS)
			*(uint4 *)((u8 *)m.queries[piece / 8] + place(row, piece % 8)) = x[n];
	}
	named_meet(READY, 2 * GROUP + WARP);
}

// Rows from n on, which may hold anything, become zero as far as they meet weights,
// which are zero too.
__device__ inline void clear_rows(Tile &tile, int n)
{
	u32 panel = lane_id() / 8;
	u8 *first = (u8 *)tile + panel * PANEL + lane_id() % 8 * 16;
#pragma unroll 1
	for (u32 row = n + warp_id(); row < (n + 15) / 16 * 16; row += WARPS) {
		u8 *at = first + row / PIECE * sizeof tile[0] + row % PIECE * 128;
#pragma unroll
		for (int p = 0; p < PANELS; p += WARP / 8)
			if (p + panel < PANELS)
				*(uint4 *)(at + p * PANEL) = make_uint4(0, 0, 0, 0);
	}
}

// What keys are multiplied by.
struct Queries {
	u32 at[PANELS][4][4];
	__device__ Queries(const Memory &m)
	{
#pragma unroll
		for (int i = 0; i < 4 * PANELS; i++) // 16 columns each
			load_matrices(at[i / 4][i % 4], shared_address(m.queries[i / 4]) + place(lane_id() % 16, i % 4 * 2 + lane_id() / 16));
	}
};

// Products of queries and the rows 8w … 8w + 7 of the tile: heads g and g + 8,
// rows 2c and 2c + 1.
__device__ inline void score(float (&s)[4], const Queries &q, const Tile &tile)
{
	int lane = lane_id();
	u32 low = shared_address(tile[warp_id()]) + place(lane % 8, lane / 8), high = low ^ 64; // halves of a panel
	float part[4][4] = {};
#pragma unroll
	for (int i = 0; i < 2 * PANELS; i++) {
		u32 x[4];
		load_matrices(x, (i % 2 ? high : low) + i / 2 * PANEL);
#pragma unroll
		for (int j = 0; j < 2; j++) {
			const u32 (&a)[4] = q.at[i / 2][i % 2 * 2 + j];
			mma(part[i % 2 * 2 + j], a[0], a[1], a[2], a[3], x[2 * j], x[2 * j + 1]);
		}
	}
#pragma unroll
	for (int e = 0; e < 4; e++)
		s[e] = (part[0][e] + part[1][e]) + (part[2][e] + part[3][e]);
}

// Waits for the warps that score; whether any of them says so.
__device__ inline bool any_says(bool x)
{
	int y;
	asm volatile("{ .reg .pred p, q; setp.ne.b32 p, %1, 0; barrier.cta.red.or.pred q, %2, %3, p; selp.b32 %0, 1, 0, q; }"
		: "=r"(y) : "r"((int)x), "n"(AGREED), "n"(GROUP) : "memory");
	return y;
}

// References of the heads g and g + 8, and sums of the warp's weights.
struct Scale {
	float at[2] = {-INF, -INF}, sum[2] = {};

	// Raises the references to the tops of all warps.
	__device__ void raise(Memory &m, const float (&top)[2], int buffer)
	{
		int g = lane_id() / 4, c = lane_id() % 4;
		if (c == 0)
			m.top[g][warp_id()] = top[0], m.top[g + 8][warp_id()] = top[1];
		named_wait(AGREED, GROUP);
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float4 tops = *(float4 *)m.top[g + 8 * h];
			float now = fmaxf(fmaxf(fmaxf(tops.x, tops.y), fmaxf(tops.z, tops.w)), at[h]);
			float shrink = power2(at[h] - reference(now));
			at[h] = now;
			sum[h] *= shrink;
			if (warp_id() == 0 && c == 0)
				m.shrink[buffer][g + 8 * h] = shrink;
		}
	}
};

__device__ inline void score_all(const Args &a, Memory &m, const Work &w)
{
	Queries q(m);
	Scale z;
	Turn<STAGES> stage;
	Turn<BUFFERS> buffer;
	int warp = warp_id(), g = lane_id() / 4, c = lane_id() % 4, row = 8 * warp + 2 * c;
	for (int i = 0; i < w.tiles; i++) {
		int n = w.rows(i);
		barrier_wait(&m.full[stage.at], stage.parity);
		float s[4], p[4];
		score(s, q, m.tiles[stage.at]);
#pragma unroll
		for (int e = 0; e < 4; e++)
			s[e] = row + e % 2 < n ? s[e] * (a.scale * LOG2E) : -INF;
		float top[2] = {quad_max(fmaxf(s[0], s[1])), quad_max(fmaxf(s[2], s[3]))};
		auto weigh = [&] {
#pragma unroll
			for (int e = 0; e < 4; e++)
				p[e] = power2(s[e] - reference(z.at[e / 2]));
		};
		weigh(); // while the others are waited for
		bool moves = i == 0 || any_says(top[0] > z.at[0] + SLACK || top[1] > z.at[1] + SLACK);
		if (i >= BUFFERS)
			named_wait(TAKEN + buffer.at, 2 * GROUP);
		if (moves) {
			z.raise(m, top, buffer.at);
			weigh();
		}
		if (n < ROWS)
			clear_rows(m.tiles[stage.at], n); // no warp reads it for scores any more: all have agreed
		if (threadIdx.x == 0)
			m.moved[buffer.at] = i > 0 && moves;
		z.sum[0] += p[0] + p[1], z.sum[1] += p[2] + p[3];
		*(u32 *)&m.weights[buffer.at][g][row] = pack(p[0], p[1]);
		*(u32 *)&m.weights[buffer.at][g + 8][row] = pack(p[2], p[3]);
		named_arrive(WRITTEN + buffer.at, 2 * GROUP);
		stage.next(), buffer.next();
	}
	float sum[2] = {quad_sum(z.sum[0]), quad_sum(z.sum[1])};
	if (c == 0)
		m.sum[g][warp] = sum[0], m.sum[g + 8][warp] = sum[1];
	named_wait(AGREED, GROUP);
	if (int head = g + 8 * c; warp == 0 && c < 2 && head < a.group) {
		float4 x = *(float4 *)m.sum[head];
		a.mass[((i64)w.t * a.heads + w.kv * a.group + head) * PARTS + w.part] = Mass{c ? z.at[1] : z.at[0], (x.x + x.y) + (x.z + x.w)};
	}
}

// Sums of the heads g and g + 8, over all rows so far, as mma leaves the warp's
// columns.
typedef float Sums[COLUMNS / 8][4];

// Has x computed here, not for every tile anew.
__device__ inline void keep(u32 &x) { asm volatile("" : "+r"(x)); }

// Where a lane finds weights and values of the first buffer and stage: 16 columns
// each, of a panel, as the next ones have theirs.
struct Places {
	u32 weights, values[4];
	__device__ Places(const Memory &m)
	{
		int lane = lane_id(), first = warp_id() % WARPS * COLUMNS;
		weights = shared_address(&m.weights[0][lane % 16][lane / 16 * 8]);
		keep(weights);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			values[i] = shared_address(m.tiles[0][lane % 16 / 8][first / 64]) + place(lane % 8, (first % 64 / 8 + 2 * i + lane / 16) % 8);
			keep(values[i]);
		}
	}
};

// acc += weights · the warp's columns of the tile, of which n rows are there.
__device__ inline void add_values(const Memory &m, Sums &acc, const Places &at, int stage, int buffer, int n)
{
	int moved = m.moved[buffer];
#pragma unroll
	for (int k = 0; k < ROWS; k += 16) {
		if (k >= n)
			break;
		u32 p[4], x[COLUMNS / 16][4];
		load_matrices(p, at.weights + buffer * (u32)sizeof m.weights[0] + k * 2);
#pragma unroll
		for (int i = 0; i < COLUMNS / 16; i++)
			load_transposed(x[i], at.values[i % 4] + stage * (u32)sizeof(Tile) + (k / PIECE * PANELS + i / 4) * PANEL);
		if (k == 0 && moved) {
			float shrink[2] = {m.shrink[buffer][lane_id() / 4], m.shrink[buffer][lane_id() / 4 + 8]};
#pragma unroll
			for (int i = 0; i < COLUMNS / 8; i++)
#pragma unroll
				for (int e = 0; e < 4; e++)
					acc[i][e] *= shrink[e / 2];
		}
#pragma unroll
		for (int i = 0; i < COLUMNS / 16; i++) {
			mma(acc[2 * i], p[0], p[1], p[2], p[3], x[i][0], x[i][1]);
			mma(acc[2 * i + 1], p[0], p[1], p[2], p[3], x[i][2], x[i][3]);
		}
	}
}

// A warp's sums go through a tile that nobody reads any more, so that whole lines are
// written.
__device__ inline void finish(const Args &a, Memory &m, const Sums &acc, const Work &w)
{
	int lane = lane_id(), g = lane / 4, c = lane % 4, warp = warp_id() % WARPS;
	i64 first = ((i64)w.t * a.heads + w.kv * a.group) * PARTS + w.part;
	float *sums = (float *)m.tiles[w.tiles % STAGES] + warp * HEADS * COLUMNS;
	auto at = [&](int head, int column) { return sums + head * COLUMNS + (column ^ head % (COLUMNS / 8) * 8); }; // no two in a bank
#pragma unroll
	for (int i = 0; i < COLUMNS / 8; i++)
#pragma unroll
		for (int h = 0; h < 2; h++)
			*(float2 *)at(g + 8 * h, 8 * i + 2 * c) = make_float2(acc[i][2 * h], acc[i][2 * h + 1]);
	__syncwarp();
	float *out = a.out + first * DV + warp * COLUMNS;
#pragma unroll
	for (int i = lane * 4; i < HEADS * COLUMNS; i += WARP * 4)
		if (int head = i / COLUMNS; head < a.group)
			*(float4 *)(out + (i64)head * PARTS * DV + i % COLUMNS) = *(const float4 *)at(head, i % COLUMNS);
}

__device__ inline void add_all(const Args &a, Memory &m, const Work &w)
{
	Sums acc = {};
	Places at(m);
	Turn<STAGES> stage;
	Turn<BUFFERS> buffer;
	for (int i = 0; i < w.tiles; i++) {
		barrier_wait(&m.full[stage.at], stage.parity);
		named_wait(WRITTEN + buffer.at, 2 * GROUP);
		add_values(m, acc, at, stage.at, buffer.at, w.rows(i));
		if (i + BUFFERS < w.tiles)
			named_arrive(TAKEN + buffer.at, 2 * GROUP);
		__syncwarp();
		if (lane_id() == 0)
			barrier_arrive(&m.empty[stage.at]);
		stage.next(), buffer.next();
	}
	finish(a, m, acc, w);
}

// Waits for the kernel ahead and says whether the block has rows. If it is known early that
// it has none, it need not wait; if it has, early(w) is called before.
template <class Early> __device__ inline bool begin(const Args &a, const Memory &m, Work &w, Early early)
{
	if (a.early) {
		w = Work(a, m.early);
		if (w.tiles == 0 && blockIdx.x > 0) // the first waits for the kernel ahead, and so does who waits for this one
			return false;
		early(w);
	}
	wait_for_previous();
	if (!a.early)
		w = Work(a, Limits(a.from, a.pos, blockIdx.z));
	return w.tiles > 0;
}

// By one warp. Queries come late behind many tiles: until they are there, one is asked for.
__device__ inline void copy_all(const Args &a, Memory &m)
{
	bool copies = lane_id() == 0;
	int asked = 0;
	Work w;
	bool any = begin(a, m, w, [&](const Work &w) {
		if (copies)
			asked = copy_early(a, m, w, m.early);
	});
	if (!any)
		return;
	int one = min(asked + 1, w.tiles);
	if (copies)
		copy_tiles(a, m, w, asked, one);
	__syncwarp();
	named_meet(READY, 2 * GROUP + WARP);
	if (copies)
		copy_tiles(a, m, w, one, w.tiles);
}

// Each group has a way of its own from the start, with as many registers as it needs: they
// move while the kernel ahead is waited for.
extern "C" __global__ void __launch_bounds__(3 * GROUP, 1) attend_latent(PARAM)
{
	extern __shared__ __align__(1024) u8 raw[];
	Memory &m = *(Memory *)raw;
	if (threadIdx.x == 2 * GROUP) {
		if (a.early)
			m.early = Limits(a.from, a.pos, blockIdx.z);
		for (int i = 0; i < STAGES; i++) {
			barrier_init(&m.full[i], 1);
			barrier_init(&m.empty[i], WARPS);
		}
		barriers_ready();
		if (DK % 64 == 0)
			announce(&a.tiles);
		announce(&a.pieces);
	}
	__syncthreads();
	let_next_start(); // when all blocks are there: it takes nothing from them
	auto nothing = [](const Work &) {};
	Work w;
	if (warp_id() >= 2 * WARPS) {
		fewer_registers<COPIES>(); // by the same instruction in all warps of the group
		if (warp_id() == 2 * WARPS)
			copy_all(a, m);
	} else if (warp_id() < WARPS) {
		more_registers<SCORES>();
		if (!begin(a, m, w, nothing))
			return;
		load_queries(a, m, w);
		score_all(a, m, w);
	} else if (begin(a, m, w, nothing)) {
		load_queries(a, m, w);
		add_all(a, m, w);
	}
}
