// The second half of AttendTeams for one token where many teams are drawn: rows are read once for all query heads of a key
// head, 2 to 8 of them.
// Grid: (BLOCKS = PARTS · HEADS, key heads), 512 threads, one block a multiprocessor.
//
// 1. Block `part · HEADS + own` finds the border of the head `own`: the key of its (K+1)-th largest perturbed score. The
//    PARTS blocks of a head find the same.
// 2. It tells the HEADS blocks of its part by told[block], which 0 means is not there yet, and waits for theirs.
// 3. It looks at every BLOCKS-th quad of neighbouring teams, for all heads, lists the rows of those that any head draws
//    (union_select.cuh), and attends to them and to every BLOCKS-th row of the suffix (union_rows.cuh).
// 4. It leaves its sums in parts, counts itself in told[BLOCKS], and waits until all BLOCKS of the key head have; then it
//    adds up D / PARTS columns of one head (union_merge.cuh).
//
// Blocks wait for each other in loops. These end since all blocks are on the card at once: there are no more of them than
// multiprocessors (planUnion), each of which has room for one (512 threads of 128 registers, ROOM and the tiles); blocks of
// teams_score end by themselves, and those of the next kernel begin when all of these have called let_next_start. The card
// must give a program all its multiprocessors. told is zeroed by teams_score, so that a launch finds nothing of the last.
//
// Shared: struct Memory in ROOM bytes, DEPTH tiles of rows a warp.
// q [1, heads, D]; k, v [key heads, capacity, D], ELEMENT (bf16 or half); offsets [key heads, teams + 1]; out [1, heads, D];
// teams, logc [1, heads, K], with REPORT; y as teams_score leaves it, EACH a thread; told [key heads, BLOCKS + 1];
// parts [key heads, BLOCKS, HEADS, D + 2]; rows and suffix, if there are any, grow by the rows read.
// Scores and sums in float32, weights as two ELEMENTs; the order depends on the drawn teams, the suffix and PARTS alone.
// Source: SANTA++, Eq. 4, 7; Gumbel-top-k, Kool et al. (2019).
#define WARPS 16
#define THREADS (WARPS * WARP)
#define BLOCKS (PARTS * HEADS) // of a key head
#include "union_merge.cuh"

struct Args {
	Cube<DST> out;
	Cube<int> teams;
	Cube<float> logc;
	Cube<const ELEMENT> q, k, v;
	Mat<const float> y;
	Mat<const int> offsets;
	float *parts;
	u64 *told;
	const u32 *seed;
	const int *from, *pos;
	u64 *rows, *suffix;
	int there, drawn, capacity;
	u32 layer;
	float scale;
	int early; // offsets, seed, from and pos are not written by the kernel before this one
};

struct Memory {
	u64 border[HEADS];
	Joined joined;
	Listed listed;
	Selection selected;
};
static_assert(sizeof(Memory) <= ROOM && ROOM % 128 == 0 && WARPS * SUMS * WARP * 16 <= RING, "room");

// Finds what m.listed.less has, of one head a thread of 8.
__device__ inline void correct(Memory &m, const Mine &x, const Head &a, u64 key, int block)
{
	float tau = from_order_bits(key >> 32);
	bool sure = key >> 32 == NOTHING;
#pragma unroll
	for (int p = 0; p < PASSES; p++) {
		float less[4] = {-INF, -INF, -INF, -INF};
		if (x.drawn[p] & 0xffff) {
			Words w = philox_short(quad_of(p, block), a.head, a.layer, a.pos, a.seed0, a.seed1);
#pragma unroll
			for (int i = 0; i < 4; i++)
				if (x.drawn[p] >> i & 1)
					less[i] = sure ? 0 : -log2_inclusion(x.y[p][i] - gumbel_fast(w.at[i]) - tau);
		}
#pragma unroll
		for (int i = 0; i < 4; i++)
			m.listed.less[1 + (p * QUADS + threadIdx.x / 8) * 4 + i][threadIdx.x % 8] = less[i];
	}
	if (threadIdx.x < 8)
		m.listed.less[0][threadIdx.x] = threadIdx.x < HEADS ? 0 : -INF;
}

// The lane's part of the queries of all heads.
__device__ inline void load_query(uint4 (&q)[D / 32], const Args &a, const ELEMENT *query)
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
	for (int j = 0; j < D / 32; j++)
		q[j] = g < HEADS ? fresh((const uint4 *)(query + g * a.q.s1 + 32 * j + 8 * c)) : make_uint4(0, 0, 0, 0);
}

// Tells what was drawn by a head.
__device__ inline void report(const Args &a, Selection &m, const Head &h, u64 key)
{
	int *teams = a.teams.row(0, h.head);
	float *logc = a.logc.row(0, h.head);
	int at = 0, n;
	for (int i0 = 0; i0 < a.there; i0 += THREADS) {
		Team t = {NOTHING, i0 + (int)threadIdx.x, 0, 0};
		if (t.team < a.there)
			t.key = order_bits(fresh(h.y + t.team));
		bool drawn = before_key(t) > key;
		int place = at + block_before(drawn, m.sums, n);
		if (drawn) {
			teams[place] = t.team;
			logc[place] = key >> 32 == NOTHING ? 0 : LN2 * log2_inclusion(plain_score(h, t) - from_order_bits(key >> 32));
		}
		at += n;
	}
	for (int i = at + threadIdx.x; i < a.drawn; i += THREADS)
		teams[i] = -1, logc[i] = 0;
}

KERNEL __maxnreg__(128) teams_union(PARAM)
{
	SHARED(shared);
	Memory &m = *(Memory *)shared;
	Selection &s = m.selected;
	u8 *ring = shared + ROOM, *tiles = ring + warp_id() * DEPTH * 2 * TILE_BYTES;
	int kv = blockIdx.y, block = blockIdx.x, own = block % HEADS, part = block / HEADS, of = threadIdx.x % 8;
#pragma unroll 1
	for (int i = threadIdx.x; i < BINS; i += THREADS)
		s.bin[i] = s.fine[i] = 0;
	if (threadIdx.x == 0)
		s.undecided = 0;
	Rows r{a.k.row(kv, 0), a.v.row(kv, 0), (int)a.k.s1, (int)a.v.s1};
	u64 *told = a.told + kv * (BLOCKS + 1);
	float *parts = a.parts + kv * BLOCKS * HEADS * PART;
	const ELEMENT *query = a.q.row(0, kv * HEADS);
	settle(r.k);
	settle(r.v);
	settle(told);
	settle(parts);
	settle(query);
	if (!a.early)
		wait_for_previous();
	Head h{a.y.row(kv * HEADS + own), nullptr, a.offsets.row(kv), a.there, 0, a.drawn, (u32)(kv * HEADS + own), a.layer, (u32)fresh(a.pos), fresh(a.seed), fresh(a.seed + 1)};
	settle(h.y);
	int from = fresh(a.from);
	Mine x;
	load_offsets(x, h, of, block);
	__syncthreads();
	if (a.early)
		wait_for_previous();
	let_next_start();
	const float *y = h.y + (min(of, HEADS - 1) - own) * a.y.ld;
	load_scores(x, y, a.there, block);
	if (!border(s, h))
		border_any(s, h, (float *)ring, RING / 4);
	exchange(m.border, s.key, told, block);
	u64 key = of < HEADS ? m.border[of] : ~(u64)0;
	int rows = look(x, s, key, block), first = max(from, 0), suffix = max(min((int)h.pos, a.capacity - 1) - first + 1, 0);
	r.first = first + block, r.suffix = (suffix - block + BLOCKS - 1) / BLOCKS;
	uint4 q[D / 32];
	State z = {};
#pragma unroll 1
	for (int done = 0; done == 0 || done < rows; done += LISTED) { // a list at a time
		if (done > 0) {
			__syncthreads();
			r.suffix = 0;
		}
		list(m.listed, x, done);
		int n = r.suffix + min(rows - done, LISTED);
		r.row = n * warp_id() / WARPS, r.end = n * (warp_id() + 1) / WARPS;
#pragma unroll 1
		for (int i = 0; i < DEPTH; i++)
			fetch(tiles + i * 2 * TILE_BYTES, m.listed, r, r.row + i * TILE);
		if (done == 0) { // while the first rows are under way
			load_query(q, a, query);
			Head by = h;
			by.head += of - own;
			correct(m, x, by, key, block);
			__syncthreads();
		}
		attend(z, q, tiles, m.listed, r, a.scale * LOG2E);
	}
	hand_on(z, m.joined, (float4 (*)[SUMS][WARP])ring, parts + block * HEADS * PART);
	if (threadIdx.x == THREADS - 1) {
		if (a.rows)
			atomicAdd(a.rows, (u64)rows);
		if (a.suffix && block == 0)
			atomicAdd(a.suffix, (u64)suffix);
	}
	if (REPORT && part == 0)
		report(a, s, h, m.border[own]);
	meet((u32 *)&told[BLOCKS]);
	finish(a.out, m.joined, parts + block / PARTS * PART, kv * HEADS + block / PARTS, block % PARTS * SHARE);
}
