// Scores teams for one token and perturbs the scores: y[h, g] = scale·q[h]·reps[kv, g] + bias[kv, g] + Gumbel noise,
// −Inf where the bias is: there is no team. The first half of AttendTeams; teams_attend is the second.
// Grid: (any number, key heads), 256 threads. The teams of a key head go in slabs of 32, slab after slab to the next
// strand of the next block; a strand is SPLIT warps, which share the products of a slab by columns. A slab passes
// through shared memory, SLOTS slabs ahead: SLOTS · 32 rows a strand, plus the parts of the sums where SPLIT > 1.
// q [1, heads, DK]; reps [key heads, teams, DK]; bias [key heads, teams]; offsets [key heads, teams + 1].
// y [heads, slabs · 32], top [heads, groups]: the largest y of GROUP teams; seen [key heads, words]: zeroed for
// teams_attend; phi, with REPORT, [1, heads, teams]: scores without noise; read, if there is one, grows by the teams
// there are. bf16 products by tensor cores, sums in float32 in an order that depends on DK alone.
#include "teams.cuh"

struct Args {
	Mat<float> y, top;
	u32 *seen;
	Cube<float> phi;
	Cube<const bf16> q, reps;
	Mat<const float> bias;
	Mat<const int> offsets;
	const u32 *seed;
	const int *pos;
	u64 *read;
	int teams, words;
	u32 layer;
	float scale;
	int early; // reps, bias, seed and pos are not written by the kernel before this one
};

#define REGS (DK > 256 ? 128 : 96)
#define WARPS 8
#define STRANDS (WARPS / SPLIT)
#define TILES ((HEADS + 7) / 8)        // of 8 query heads
#define OWN (SPLIT == 1 ? TILES : 1)   // tiles that a warp finishes
#define CHUNKS (DK / 8)                // 16 bytes each
#define BLOCKS (DK / 32)               // 64 bytes each: two steps of the tensor cores
#define MINE ((BLOCKS + SPLIT - 1) / SPLIT)
#define PITCH ((DK * 2 + 127) / 128 * 128)
static_assert(DK % 32 == 0 && WARPS % SPLIT == 0 && (SPLIT == 1 || SPLIT >= TILES), "shape");

struct Memory {
	float sums[SPLIT == 1 ? 1 : STRANDS][SPLIT][SPLIT == 1 ? 1 : TILES * 8][WARP];
	u32 routed; // teams, and in the upper byte warps that are through
};
static_assert(sizeof(Memory) <= ROOM && ROOM % 128 == 0, "room");

// A lane finishes teams 4g … 4g+3 of a slab for heads 2c and 2c+1 of each of its tiles; g = lane / 4, c = lane % 4.
struct Addends { float bias[4], noise[OWN][2][4]; };

__device__ inline void look_up(Addends &x, const Args &a, int kv, int slab, int tile, u32 pos, u32 seed0, u32 seed1)
{
	int quad = slab * 8 + lane_id() / 4;
	const float *bias = a.bias.row(kv) + quad * 4;
#pragma unroll
	for (int i = 0; i < 4; i++)
		x.bias[i] = quad * 4 + i < a.teams ? fresh(bias + i) : -INF;
#pragma unroll
	for (int n = 0; n < OWN; n++)
#pragma unroll
		for (int e = 0; e < 2; e++) {
			int h = (tile + n) * 8 + lane_id() % 4 * 2 + e;
			Words w = philox_short(quad, kv * HEADS + h, a.layer, pos, seed0, seed1);
#pragma unroll
			for (int i = 0; i < 4; i++)
				x.noise[n][e][i] = gumbel_fast(w.at[i]);
		}
}

KERNEL __maxnreg__(REGS) teams_score(PARAM)
{
	SHARED(shared);
	Memory &m = *(Memory *)shared;
	int lane = lane_id(), g = lane / 4, c = lane % 4, half = g % 2;
	int strand = warp_id() / SPLIT, part = warp_id() % SPLIT, tile = SPLIT == 1 ? 0 : part;
	int kv = blockIdx.y, slabs = (a.teams + SLAB - 1) / SLAB;
	int slab = strand * gridDim.x + blockIdx.x, stride = STRANDS * gridDim.x;
	u8 *ring = shared + ROOM + strand * SLOTS * SLAB * PITCH;
	let_next_start();
	if (!a.early)
		wait_for_previous();

	// A row's 16-byte chunk p lies at p ^ (row & 4): rows 4 apart use different halves of the banks.
	auto fetch = [&](int s, int slot) {
		int rows = min(a.teams - s * SLAB, SLAB);
		if (rows > 0) {
			const bf16 *first = a.reps.row(kv, (i64)s * SLAB);
#pragma unroll 4
			for (int i = 0; i < SLAB * CHUNKS / (SPLIT * WARP); i++) {
				int at = i * SPLIT * WARP + part * WARP + lane, row = at / CHUNKS, p = at % CHUNKS;
				if (row < rows)
					copy16(ring + slot * SLAB * PITCH + row * PITCH + (p ^ (row & 4)) * 16, first + row * (int)a.reps.s1 + p * 8);
			}
			if (part == 0 && lane < 2)
				prefetch(a.offsets.row(kv) + s * SLAB + lane * rows);
		}
		copy_end();
	};
#pragma unroll 1
	for (int i = 0; i < SLOTS; i++)
		fetch(slab + i * stride, i);
	if (threadIdx.x == 0)
		m.routed = 0;
	u32 pos = fresh(a.pos), seed0 = fresh(a.seed), seed1 = fresh(a.seed + 1);
	bool finishes = SPLIT == 1 || part < TILES;
	__syncthreads();

	uint4 q[MINE][TILES];
	u32 there = 0;
	u8 *mine = ring + 4 * g * PITCH + c * 16; // the lane's first row; blocks of 64 bytes change places in every other g
#pragma unroll 1
	for (int slot = 0, i = 0; slab < slabs; slab += stride, slot = slot + 1 == SLOTS ? 0 : slot + 1, i++) {
		Addends x;
		if (finishes)
			look_up(x, a, kv, slab, tile, pos, seed0, seed1);
		if (i == 0) { // the query is there when the kernel before this one is over
			if (a.early)
				wait_for_previous();
#pragma unroll
			for (int j = 0; j < MINE; j++)
#pragma unroll
				for (int n = 0; n < TILES; n++) {
					int h = n * 8 + g, b = j * SPLIT + part;
					q[j][n] = make_uint4(0, 0, 0, 0);
					if (h < HEADS && b < BLOCKS)
						q[j][n] = fresh((const uint4 *)(a.q.row(0, kv * HEADS + h) + b * 32 + c * 8));
				}
		}
		copy_wait<SLOTS - 1>();
		SPLIT == 1 ? __syncwarp() : part_sync(1 + strand, SPLIT * WARP);
		float sum[TILES][2][4] = {}; // rows 4g + 2t and 4g + 2t + 1 are rows g and g + 8 of the tensor cores
		u8 *rows = mine + slot * SLAB * PITCH;
#pragma unroll
		for (int j = 0; j < MINE; j++) {
			int b = j * SPLIT + part;
			if (b >= BLOCKS)
				break;
			u8 *block = rows + (b & ~1) * 64 + (half ^ (b & 1)) * 64;
			uint4 k[4];
#pragma unroll
			for (int i = 0; i < 4; i++)
				k[i] = *(uint4 *)(block + i * PITCH);
#pragma unroll
			for (int n = 0; n < TILES; n++)
#pragma unroll
				for (int t = 0; t < 2; t++) {
					mma(sum[n][t], k[2 * t].x, k[2 * t + 1].x, k[2 * t].y, k[2 * t + 1].y, q[j][n].x, q[j][n].y);
					mma(sum[n][t], k[2 * t].z, k[2 * t + 1].z, k[2 * t].w, k[2 * t + 1].w, q[j][n].z, q[j][n].w);
				}
		}
		if (SPLIT > 1) {
#pragma unroll
			for (int i = 0; i < TILES * 8; i++)
				m.sums[SPLIT == 1 ? 0 : strand][part][SPLIT == 1 ? 0 : i][lane] = sum[i / 8][i / 4 % 2][i % 4];
		}
		SPLIT == 1 ? __syncwarp() : part_sync(1 + strand, SPLIT * WARP);
		fetch(slab + SLOTS * stride, slot);
		if (!finishes)
			continue;
#pragma unroll
		for (int n = 0; n < OWN; n++) {
			if (SPLIT > 1)
#pragma unroll
				for (int i = 0; i < 8; i++) {
					sum[0][i / 4][i % 4] = 0;
#pragma unroll
					for (int s = 0; s < SPLIT; s++)
						sum[0][i / 4][i % 4] += m.sums[SPLIT == 1 ? 0 : strand][s][SPLIT == 1 ? 0 : tile * 8 + i][lane];
				}
#pragma unroll
			for (int e = 0; e < 2; e++) {
				int h = (tile + n) * 8 + 2 * c + e, head = kv * HEADS + h;
				float y[4], top = -INF;
#pragma unroll
				for (int i = 0; i < 4; i++) { // a maximum with −Inf is never NaN
					y[i] = fmaxf(a.scale * sum[n][i / 2][i % 2 * 2 + e] + (x.bias[i] + x.noise[n][e][i]), -INF);
					top = fmaxf(top, y[i]);
				}
#pragma unroll
				for (int step = 4; step < GROUP; step *= 2)
					top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
				if (h >= HEADS)
					continue;
				*(float4 *)(a.y.row(head) + slab * SLAB + 4 * g) = make_float4(y[0], y[1], y[2], y[3]);
				if (g % (GROUP / 4) == 0)
					a.top.row(head)[slab * (SLAB / GROUP) + g / (GROUP / 4)] = top;
				if (REPORT)
					for (int i = 0; i < 4; i++)
						if (slab * SLAB + 4 * g + i < a.teams)
							a.phi.row(0, head)[slab * SLAB + 4 * g + i] = fmaxf(a.scale * sum[n][i / 2][i % 2 * 2 + e] + x.bias[i], -INF);
			}
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
			there += x.bias[i] != -INF && c == 0;
	}
	if (strand * gridDim.x + blockIdx.x >= slabs)
		wait_for_previous(); // a warp without a slab has not done so
#pragma unroll 1
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < a.words; i += gridDim.x * blockDim.x)
		a.seen[kv * a.words + i] = 0;
	if (!a.read)
		return;
	there = part == 0 ? __reduce_add_sync(~0u, there) : 0;
	if (lane == 0) { // the last warp adds the block's
		u32 before = atomicAdd(&m.routed, 1u << 24 | there);
		if (before >> 24 == WARPS - 1)
			atomicAdd(a.read, (u64)((before & 0xffffff) + there));
	}
}
