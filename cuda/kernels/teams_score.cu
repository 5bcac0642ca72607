// Scores teams for one token and perturbs the scores: y[h, g] = scale·q[h]·reps[kv, g] + bias[kv, g] + Gumbel noise,
// −Inf where the bias is: there is no team. The first half of AttendTeams; teams_attend or teams_union is the second.
// Grid: (any number, key heads), 256 threads. The teams of a key head go in slabs of 32, slab after slab to the next
// strand of the next block; a strand is SPLIT warps, which share the products of a slab by columns. The copy engine
// brings a slab, in panels of 64 columns, SLOTS slabs ahead, and threads its biases; shared: those of all strands, then
// struct Memory.
// q [1, heads, DK]; reps [key heads, teams, DK]; bias [key heads, teams]; offsets [key heads, teams + 1].
// y [heads, slabs · 32]; top [heads, groups], with GROUP: the largest y of GROUP teams; seen [key heads, words]: zeroed
// for the kernel behind; phi [1, heads, teams], with REPORT: scores without noise; read, if there is one, grows by the
// teams there are. q: ELEMENT (bf16 or half), reps the same, or with EIGHT f8 in multiples of factor[kv · step]. Products
// by tensor cores, sums in float32 in an order that depends on DK alone.
#include "hopper.cuh"
#include "teams_f8.cuh"

struct Args {
	TensorMap reps; // boxes of SLAB rows
	Mat<float> y, top;
	u32 *seen;
	Cube<float> phi;
	Cube<const ELEMENT> q;
	Mat<const float> bias;
	Mat<const int> offsets;
	const u32 *seed;
	const int *pos;
	u64 *read;
	const float *factor;
	i64 step;
	int teams, words;
	u32 layer;
	float scale;
	int early; // reps, bias, seed and pos are not written by the kernel before this one
};

#define REGS (DK > 256 ? 128 : 96)
#define WARPS 8
#define THREADS (WARPS * WARP)
#define STRANDS (WARPS / SPLIT)
#define TILES ((HEADS + 7) / 8)        // of 8 query heads
#define SHARES (2 * TILES)             // of a slab's sums: even or odd heads of a tile
#define OWN ((SHARES + SPLIT - 1) / SPLIT) // that a warp finishes
#define CHUNKS (DK / 8)                // 16 bytes each
#define ROW (EIGHT ? DK : 2 * DK)      // bytes
#define BLOCKS (ROW / 64)              // of 64 bytes: two steps of the tensor cores, four of f8
#define PIECES (EIGHT ? 2 : 1)         // of a query, 16 bytes each, that a lane multiplies with a block
#define MINE ((BLOCKS + SPLIT - 1) / SPLIT)
#define PANELS ((ROW + 127) / 128)
#define SLOT (PANELS * SLAB * 128)     // bytes
#define Q_PITCH (DK * 2 + 64) // rows g and g + 1 use different halves of the banks
static_assert(ROW % 64 == 0 && DK % 32 == 0 && WARPS % SPLIT == 0 && (SPLIT == 1 || SHARES % SPLIT == 0 || SHARES < SPLIT), "shape");
#include "teams_scores.cuh"

struct Memory {
	u64 full[STRANDS][SLOTS], query; // barriers: a slab is there; the query is
	__align__(16) u8 q[HEADS][Q_PITCH];
	__align__(16) float bias[STRANDS][SLOTS][SLAB];
	float sums[SPLIT == 1 ? 1 : STRANDS][SPLIT][SPLIT == 1 ? 1 : TILES * 8][WARP];
	int fed; // tickets for the first slabs
	u32 routed; // teams, and in the upper byte warps that are through
};
static_assert(sizeof(Memory) <= ROOM && ROOM % 16 == 0, "room");

// A lane's heads: one of each of the OWN shares that its warp finishes.
struct Heads {
	int part; // of the warps that share a slab
	__device__ int operator()(int n) const
	{
		int share = n * SPLIT + part;
		return share / 2 * 8 + lane_id() % 4 * 2 + share % 2;
	}
};

KERNEL __maxnreg__(REGS) teams_score(PARAM)
{
	extern __shared__ __align__(1024) u8 shared[];
	Memory &m = *(Memory *)(shared + STRANDS * SLOTS * SLOT);
	int lane = lane_id(), g = lane / 4, c = lane % 4;
	int strand = warp_id() / SPLIT, part = warp_id() % SPLIT;
	int kv = blockIdx.y, slabs = (a.teams + SLAB - 1) / SLAB;
	int slab = strand * gridDim.x + blockIdx.x, stride = STRANDS * gridDim.x;
	Heads head_of{part};
	bool feeds = warp_id() == WARPS - 1;
	u8 *ring = shared + strand * SLOTS * SLOT;
	u64 *full = m.full[strand];
	let_next_start();
	if (threadIdx.x == 0) {
#pragma unroll
		for (int i = 0; i < STRANDS * SLOTS; i++)
			barrier_init(&m.full[0][i], 1 + WARP);
		barrier_init(&m.query, THREADS - WARP);
		barriers_ready();
		m.fed = m.routed = 0;
	}
	if (!a.early)
		wait_for_previous();

	u64 policy = evict_first();
	auto fetch = [&](int s, int strand, int slot) { // by a warp
		if (s >= slabs)
			return;
		u64 *full = &m.full[strand][slot];
		int team = s * SLAB + lane;
		if (team < a.teams)
			copy4(&m.bias[strand][slot][lane], a.bias.row(kv) + team);
		arrive_after_copies(full);
		if (lane == 0) {
			prefetch(a.offsets.row(kv) + s * SLAB);
			barrier_expect(full, SLOT);
#pragma unroll 1
			for (int p = 0; p < PANELS; p++)
				load_box(shared + (strand * SLOTS + slot) * SLOT + p * SLAB * 128, &a.reps, full, 64 * p, s * SLAB, kv, policy);
		}
	};
	// Small things first: they would wait behind the slabs.
	u32 pos = fresh(a.pos), seed0 = fresh(a.seed), seed1 = fresh(a.seed + 1);
	__syncthreads(); // barriers are open
	// One warp asks for the first slabs, one after the other: all at once would hold up what the kernel ahead of this one
	// still reads. When that has ended, all warps ask for what is left.
	auto feed = [&] {
#pragma unroll 1
		for (;;) {
			int i = __shfl_sync(~0u, lane == 0 ? take(&m.fed, 1) : 0, 0);
			if (i >= STRANDS * SLOTS)
				break;
			fetch((i % STRANDS) * gridDim.x + blockIdx.x + i / STRANDS * stride, i % STRANDS, i / STRANDS);
		}
	};
	if (feeds)
		feed();
	bool finishes = SHARES >= SPLIT || part < SHARES;
	// Brings the query, which is there when the kernel before this one is over.
	auto begin = [&] {
		if (a.early)
			wait_for_previous();
		if (!feeds) {
			int at = threadIdx.x;
			uint4 piece;
			auto load = [&] {
				if (at < HEADS * CHUNKS)
					piece = fresh((const uint4 *)(a.q.row(0, kv * HEADS + at / CHUNKS) + at % CHUNKS * 8));
			};
			load();
			feed();
#pragma unroll 1
			for (; at < HEADS * CHUNKS; load()) {
				*(uint4 *)&m.q[at / CHUNKS][at % CHUNKS * 16] = piece;
				at += THREADS - WARP;
			}
			barrier_arrive(&m.query);
		}
		barrier_wait(&m.query, 0);
	};

	uint4 q[MINE * PIECES][TILES];
	float back[TILES][2]; // what a lane's sums are multiplied by
	float scale = EIGHT ? a.scale * fresh(a.factor + kv * a.step) : a.scale;
	u32 there = 0, phase = 0;
	bool begun = false;
	// The lane's rows are 4g … 4g + 3; piece c of a block of 64 bytes of row 4g + i lies at c ^ i, of the other half of a
	// panel's row where g is odd.
	u8 *mine = ring + 4 * g * 128;
#pragma unroll 1
	for (int slot = 0; slab < slabs; slab += stride) {
		float noise[OWN][4];
		if (finishes)
			perturb(noise, a, head_of, kv, slab, pos, seed0, seed1);
		if (!begun) {
			begin();
			begun = true;
#pragma unroll
			for (int j = 0; j < MINE * PIECES; j++)
#pragma unroll
				for (int n = 0; n < TILES; n++) {
					int h = n * 8 + g, b = j / PIECES * SPLIT + part;
					q[j][n] = make_uint4(0, 0, 0, 0);
					if (h < HEADS && b < BLOCKS)
						q[j][n] = *(const uint4 *)&m.q[h][((b * 4 + c) * PIECES + j % PIECES) * 16];
				}
#if EIGHT
#pragma unroll
			for (int n = 0; n < TILES; n++)
				to_halves<ELEMENT>(q, n, back[n]);
#endif
		}
		barrier_wait(&full[slot], phase);
		float sum[TILES][2][4] = {}; // rows 4g + 2t and 4g + 2t + 1 are rows g and g + 8 of the tensor cores
		u8 *rows = mine + slot * SLOT;
#pragma unroll
		for (int j = 0; j < MINE; j++) {
			int b = j * SPLIT + part;
			if (b >= BLOCKS)
				break;
			u8 *block = rows + b / 2 * SLAB * 128 + ((b ^ g) & 1) * 64;
			uint4 k[4];
#pragma unroll
			for (int i = 0; i < 4; i++)
				k[i] = *(uint4 *)(block + i * 128 + (c ^ i) * 16);
#if EIGHT
			multiply_f8(sum, k, q, 2 * j);
#else
#pragma unroll
			for (int n = 0; n < TILES; n++)
#pragma unroll
				for (int t = 0; t < 2; t++) {
					mma<ELEMENT>(sum[n][t], k[2 * t].x, k[2 * t + 1].x, k[2 * t].y, k[2 * t + 1].y, q[j][n].x, q[j][n].y);
					mma<ELEMENT>(sum[n][t], k[2 * t].z, k[2 * t + 1].z, k[2 * t].w, k[2 * t + 1].w, q[j][n].z, q[j][n].w);
				}
#endif
		}
		if (EIGHT)
#pragma unroll
			for (int n = 0; n < TILES; n++)
#pragma unroll
				for (int t = 0; t < 2; t++)
#pragma unroll
					for (int i = 0; i < 4; i++)
						sum[n][t][i] *= back[n][i % 2];
		float own[OWN][4];
		float4 bias = *(const float4 *)&m.bias[strand][slot][4 * g];
		float add[4] = {bias.x, bias.y, bias.z, bias.w};
		if ((slab + 1) * SLAB > a.teams)
#pragma unroll
			for (int i = 0; i < 4; i++)
				add[i] = slab * SLAB + 4 * g + i < a.teams ? add[i] : -INF;
		if (SPLIT > 1) {
			named_wait(1 + strand, SPLIT * WARP); // the sums of the slab before have been read
#pragma unroll
			for (int i = 0; i < TILES * 8; i++)
				m.sums[SPLIT == 1 ? 0 : strand][part][SPLIT == 1 ? 0 : i][lane] = sum[i / 8][i / 4 % 2][i % 4];
			named_wait(1 + strand, SPLIT * WARP);
		} else {
			__syncwarp();
		}
		if (part == 0)
			fetch(slab + SLOTS * stride, strand, slot);
		if (++slot == SLOTS)
			slot = 0, phase ^= 1;
		if (!finishes)
			continue;
		if (SPLIT > 1) {
#pragma unroll
			for (int n = 0; n < OWN; n++) {
				int share = n * SPLIT + part;
#pragma unroll
				for (int i = 0; i < 4; i++) {
					own[n][i] = 0;
#pragma unroll
					for (int s = 0; s < SPLIT; s++)
						own[n][i] += m.sums[SPLIT == 1 ? 0 : strand][s][SPLIT == 1 ? 0 : share / 2 * 8 + i * 2 + share % 2][lane];
				}
			}
		} else {
#pragma unroll
			for (int n = 0; n < OWN; n++)
#pragma unroll
				for (int i = 0; i < 4; i++)
					own[n][i] = sum[n / 2][i / 2][i % 2 * 2 + n % 2];
		}
		float y[OWN][4], top[OWN];
#pragma unroll
		for (int n = 0; n < OWN; n++)
			top[n] = write_scores(y[n], a, own[n], scale, add, noise[n], kv, slab, head_of(n));
		write_tops(a, top, head_of, kv, slab);
#pragma unroll
		for (int i = 0; i < 4; i++)
			there += add[i] != -INF && c == 0;
	}
	if (!begun)
		begin(); // a warp without a slab takes part
	copy_wait_all(); // biases for other strands
#pragma unroll 1
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.words; i += gridDim.x * blockDim.x)
		a.seen[kv * a.words + i] = 0;
	if (a.read)
		add_teams(a.read, m.routed, there, part);
}
