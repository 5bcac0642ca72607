// teams_score for keys of more than 192 columns and up to 16 query heads on Hopper, where its warps would wait for each
// other's sums: a warpgroup multiplies 64 teams with all heads by wgmma, which reads both in shared memory.
// Grid: (any number, key heads), 160 · WARPGROUPS + 32 threads. A block's runs of 64 teams go to its warpgroups in turn. Each
// has a warp that copies them, in panels of 64 columns, to a ring of STAGES: a panel is asked for when the one STAGES before
// it has been multiplied. Another warp brings the query, which would wait behind what these have asked for: so up to then no
// more than PACE panels of a ring are under way. Shared: the rings, then struct Memory.
// Arguments and results are those of teams_score, but that reps are of the type of q, never f8. Sums in float32 in an order
// that depends on DK alone.
#include "hopper.cuh"

struct Args {
	TensorMap reps, query; // boxes of TALL teams; of 16 heads
	Mat<float> y, top;
	u32 *seen;
	Cube<float> phi;
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

#define TALL 64                            // teams that a warpgroup multiplies
#define PANELS (DK / 64)                   // of such a run, and of the query
#define TOGETHER (PANELS % 3 == 0 ? 3 : 2) // that are multiplied, and then given back
#define PANEL (TALL * 128)                 // bytes
#define WARPS (4 * WARPGROUPS)             // that multiply
#define THREADS (WARPS * WARP)
#define ALL (THREADS + (WARPGROUPS + 1) * WARP)
#define OWN 2                              // heads whose scores a lane writes
static_assert(DK % 64 == 0 && HEADS <= 16 && STAGES >= 2 * TOGETHER, "shape");
#include "teams_scores.cuh"

struct Memory {
	u8 query[PANELS][16 * 128];
	__align__(16) float sums[WARPS / 2][16][SLAB + 4]; // of pairs of warps; lanes that write use different banks
	u64 full[WARPGROUPS][STAGES], empty[WARPGROUPS][STAGES];
	u64 told[WARPGROUPS]; // over when a warpgroup has seen the query: its copying warp cannot look at asked, which another sets up
	u64 asked;            // over when the query is there
	u32 routed;           // teams, and in the upper byte warps that are through
};
static_assert(sizeof(Memory) <= ROOM && ROOM % 16 == 0, "room");

// A lane's heads: the other warp of a pair, which has the same teams, has the heads between.
struct Heads {
	__device__ int operator()(int n) const { return n * 8 + lane_id() % 4 * 2 + warp_id() % 2; }
};

// d [64, 16] of a warpgroup, lane 4g + c of a warp as in hopper.cuh. b [16, 16] lies as a does.
template <class T> __device__ inline void product16(float (&d)[8], u64 a, u64 b, int add);
#define PRODUCT16(type, name) \
	template <> __device__ inline void product16<type>(float (&d)[8], u64 a, u64 b, int add) \
	{ \
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n" \
			"wgmma.mma_async.sync.aligned.m64n16k16.f32." name "." name " {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;\n}" \
			: D8(0) : "l"(a), "l"(b), "r"(add)); \
	}
PRODUCT16(bf16, "bf16")
PRODUCT16(half, "f16")

__device__ inline bool barrier_over(u64 *b, u32 parity)
{
	u32 over;
	asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
		: "=r"(over) : "r"(shared_address(b)), "r"(parity) : "memory");
	return over;
}

// The warp that brings the query.
__device__ inline void bring(const Args &a, Memory &m, int kv)
{
	if (lane_id() == 0) {
		m.routed = 0;
		barrier_init(&m.asked, 1);
		barriers_ready();
	}
	__syncwarp();
	named_arrive(1, ALL);
	if (lane_id() != 0)
		return;
	wait_for_previous();
	barrier_expect(&m.asked, sizeof(m.query));
#pragma unroll 1
	for (int p = 0; p < PANELS; p++)
		load_box(m.query[p], &a.query, &m.asked, 64 * p, kv * HEADS, 0);
}

// The n-th run of the block.
__device__ inline int run_of(int n) { return n * gridDim.x + blockIdx.x; }

// The warp that copies a warpgroup's runs.
__device__ inline void copy(const Args &a, Memory &m, u8 *ring, int group, int kv, int runs)
{
	u64 *full = m.full[group], *empty = m.empty[group];
#pragma unroll
	for (int g = 0; g < WARPGROUPS; g++) // at places that the compiler knows, which is faster
		if (g == group && lane_id() == 0) {
#pragma unroll
			for (int i = 0; i < STAGES; i++)
				barrier_init(&m.full[g][i], 1), barrier_init(&m.empty[g][i], 4);
			barrier_init(&m.told[g], 4);
		}
	barriers_ready();
	__syncwarp();
	named_arrive(1, ALL);
	if (lane_id() != 0)
		return;
	if (!a.early)
		wait_for_previous();
	u64 policy = evict_first();
	u32 slot = 0, parity = 1, panel = 0;
#pragma unroll 1
	for (int n = group; run_of(n) < runs; n += WARPGROUPS) {
		int first = run_of(n) * TALL;
		prefetch(a.offsets.row(kv) + first), prefetch(a.offsets.row(kv) + min(first + SLAB, a.teams));
#pragma unroll 1
		for (int p = 0; p < PANELS; p++, panel++) {
			if (panel >= PACE && panel < STAGES)
				while (!barrier_over(&m.told[group], 0) && !barrier_over(&full[panel - PACE], 0))
					;
			barrier_wait(&empty[slot], parity);
			barrier_expect(&full[slot], PANEL);
			load_box(ring + slot * PANEL, &a.reps, &full[slot], 64 * p, first, kv, policy);
			if (++slot == STAGES)
				slot = 0, parity ^= 1;
		}
	}
}

// Where a warpgroup is in its ring.
struct Place {
	u64 *full, *empty;
	u8 *ring;
	u32 slot, parity; // of the next panel
	u32 done;         // the place that is given back next
};

// Lets the copying warp have the next n places.
__device__ inline void release(Place &x, int n)
{
	u32 slot = x.done + lane_id();
	if (lane_id() < n)
		barrier_arrive(&x.empty[slot < STAGES ? slot : slot - STAGES]);
	x.done = x.done + n < STAGES ? x.done + n : x.done + n - STAGES;
}

// The products of a run.
__device__ inline void multiply(float (&sum)[8], Place &x, Memory &m)
{
#pragma unroll
	for (int p = 0; p < PANELS; p += TOGETHER) {
		u32 slots[TOGETHER];
#pragma unroll
		for (int j = 0; j < TOGETHER; j++)
			if (p + j < PANELS) {
				barrier_wait(&x.full[x.slot], x.parity);
				slots[j] = x.slot;
				if (++x.slot == STAGES)
					x.slot = 0, x.parity ^= 1;
			}
		products_begin();
#pragma unroll
		for (int j = 0; j < TOGETHER; j++)
			if (p + j < PANELS) {
				u64 rows = tile(x.ring + slots[j] * PANEL), query = tile(m.query[p + j]);
#pragma unroll
				for (int i = 0; i < 4; i++) // 32 bytes each
					product16<ELEMENT>(sum, rows + 2 * i, query + 2 * i, p + j + i);
			}
		products_commit();
		if (p > 0) {
			products_wait<1>();
			release(x, TOGETHER);
		}
	}
	products_wait<0>();
	hold(sum);
	release(x, (PANELS - 1) % TOGETHER + 1);
}

// The biases of a lane's teams of a slab; −Inf past the last team.
__device__ inline float4 look_up(const Args &a, int kv, int slab)
{
	int team = slab * SLAB + lane_id() / 4 * 4;
	const float *bias = a.bias.row(kv) + team;
	float x[4];
#pragma unroll
	for (int i = 0; i < 4; i++)
		x[i] = team + i < a.teams ? fresh(bias + i) : -INF;
	return make_float4(x[0], x[1], x[2], x[3]);
}

// Writes the scores of a slab, of which sums has those without bias and noise.
__device__ inline void finish(const Args &a, const float (*sums)[SLAB + 4], const float (&noise)[OWN][4], const float (&add)[4],
	int kv, int slab)
{
	float y[4], top[OWN];
#pragma unroll
	for (int n = 0; n < OWN; n++) {
		int h = Heads{}(n);
		float4 sum4 = *(const float4 *)&sums[h][lane_id() / 4 * 4];
		float sum[4] = {sum4.x, sum4.y, sum4.z, sum4.w};
		top[n] = write_scores(y, a, sum, a.scale, add, noise[n], kv, slab, h);
	}
	write_tops(a, top, Heads{}, kv, slab);
}

KERNEL __maxnreg__(96) teams_score_wide(PARAM)
{
	extern __shared__ __align__(1024) u8 ring[];
	Memory &m = *(Memory *)(ring + WARPGROUPS * STAGES * PANEL);
	int kv = blockIdx.y, slabs = (a.teams + SLAB - 1) / SLAB, runs = (a.teams + TALL - 1) / TALL;
	let_next_start();
	if (warp_id() == ALL / WARP - 1)
		return bring(a, m, kv);
	if (warp_id() >= WARPS)
		return copy(a, m, ring + (warp_id() - WARPS) * STAGES * PANEL, warp_id() - WARPS, kv, runs);
	if (!a.early)
		wait_for_previous();
	int g = lane_id() / 4, c = lane_id() % 4, group = warp_id() / 4, pair = warp_id() / 2, half = warp_id() % 2;
	Place place{m.full[group], m.empty[group], ring + group * STAGES * PANEL, 0, 0, 0};
	u32 pos = fresh(a.pos), seed0 = fresh(a.seed), seed1 = fresh(a.seed + 1), there = 0;
	bool begun = false;
	float4 bias = look_up(a, kv, 2 * run_of(group) + pair % 2);
#pragma unroll 1
	for (int n = group;; n += WARPGROUPS) {
		bool more = run_of(n) < runs;
		int slab = 2 * run_of(n) + pair % 2;
		float noise[OWN][4], add[4] = {bias.x, bias.y, bias.z, bias.w}, sum[8];
		if (more) {
			bias = look_up(a, kv, 2 * run_of(n + WARPGROUPS) + pair % 2);
			perturb(noise, a, Heads{}, kv, slab, pos, seed0, seed1);
		}
		if (!begun) { // by a warp without teams, too
			wait_for_previous();
			named_wait(1, ALL);
			barrier_wait(&m.asked, 0);
			if (lane_id() == 0)
				barrier_arrive(&m.told[group]);
			begun = true;
		}
		if (!more)
			break;
		multiply(sum, place, m);
		named_wait(2 + pair, 2 * WARP); // the sums of the slab before have been read
#pragma unroll
		for (int i = 0; i < 8; i++)
			m.sums[pair][i / 4 * 8 + c * 2 + i % 2][half * 16 + i / 2 % 2 * 8 + g] = sum[i];
		named_wait(2 + pair, 2 * WARP);
		if (slab >= slabs)
			break;
		finish(a, m.sums[pair], noise, add, kv, slab);
#pragma unroll
		for (int i = 0; i < 4; i++)
			there += add[i] != -INF && c == 0;
	}
#pragma unroll 1
	for (int i = blockIdx.x * THREADS + threadIdx.x; i < a.words; i += gridDim.x * THREADS)
		a.seen[kv * a.words + i] = 0;
	if (a.read)
		add_teams(a.read, m.routed, there, half);
}
