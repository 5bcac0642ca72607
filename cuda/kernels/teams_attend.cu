// The second half of AttendTeams for one token: draws K teams of every query head by the perturbed scores that
// teams_score or teams_score_wide left, corrects for the chance of each, and attends to their rows and to the exact suffix.
// Grid: (CLUSTER blocks a query head of a key head, key heads), 512 threads, in clusters. Every block of a cluster
// selects by itself and reads every CLUSTER-th of the rows (teams_rows.cuh). The blocks send each other their sums; each
// finishes a share of the columns. Shared: the rows under way, the last round of which lies in struct Memory, where a block
// selects before; the rest of that, ROOM bytes; a bit a team.
// Selection without sorting: K + 1 teams reach the (K+1)-th largest of the sets' or groups' largest scores, so that only
// the teams that do are looked at. Few drawn (SETS): 4 lanes rank a candidate by counting (teams_few.cuh); where
// teams are few (QUADS), every score is looked at, else those of groups that reach the border. More: histograms
// (teams_bins.cuh). Where either finds too many teams too close together: teams_any.cuh.
// q [1, heads, DK]; k, v [key heads, capacity, DK or DV], ELEMENT (bf16 or half); V_IN_K: v is the first columns of k;
// offsets [key heads, teams + 1]; out [1, heads, DV]; teams, logc [1, heads, K], with REPORT; y, top, seen as teams_score
// leaves them; rows and suffix, if there are any, grow by the rows read: drawn ones once a key head.
// Sums in float32, in an order that depends on the drawn teams and the suffix alone.
// Source: SANTA++, Eq. 4, 7; Gumbel-top-k, Kool et al. (2019).
#define WARPS 16
#define THREADS (WARPS * WARP)
#define FEW_DRAWN (SETS > 0)
#define PLAIN FEW_DRAWN
#define SCORES (FEW_DRAWN ? 256 : MOST)
#define CANDIDATES (FEW_DRAWN ? 256 : MOST <= 256 ? 1024 : 2048)
#define REGS (DK > 256 ? 112 : 72)
// The next kernel is let in at once: teams_score of a next layer asks for its slabs one by one, others for weights. With wider
// keys it would then hold up what this kernel waits for.
#define NEXT_AT_ONCE (DK <= 192)
#include "teams_rows.cuh"
#if FEW_DRAWN
#include "teams_few.cuh"
#else
#include "teams_bins.cuh"
#endif
#include "teams_any.cuh"

struct Args {
	Cube<DST> out;
	Cube<int> teams;
	Cube<float> logc;
	Cube<const ELEMENT> q, k, v;
	Mat<const float> y, top;
	Mat<const int> offsets;
	const u32 *seed;
	const int *from, *pos;
	u32 *seen;
	u64 *rows, *suffix;
	int there, groups, drawn, group, capacity, words;
	u32 layer;
	float scale;
	int early; // seed, from and pos are not written by the kernel before this one
};

struct Memory {
	Selection selected;
	u64 inbox;
	float top[CLUSTER], sum[CLUSTER], part[CLUSTER][PARTS][SHARE]; // from the cluster's blocks
	float tops[SUMS], sums[SUMS];
};
static_assert(sizeof(Memory) <= ROOM && ROOM % 128 == 0, "room");

// Adds up the sums of the block's warps, then of the cluster's blocks, and writes the block's columns.
__device__ inline void finish(const Args &a, Memory &m, Sum &x, float (*parts)[PITCH], int head, int block)
{
	leave(x, m.tops, m.sums, parts);
	__syncthreads();
	// Lane i weighs the i-th sum.
	float mine = lane_id() < SUMS ? m.tops[lane_id()] : LOW;
	float top = from_order_bits(__reduce_max_sync(~0u, order_bits(mine))), weight = power2(mine - top);
	float sum = lane_id() < SUMS ? weight * m.sums[lane_id()] : 0, part = 0;
	int column = threadIdx.x % DV, p = threadIdx.x / DV;
#pragma unroll 4
	for (int i = 0; i < SUMS / PARTS; i++)
		part += __shfl_sync(~0u, weight, p * (SUMS / PARTS) + i) * (p < PARTS ? parts[p * (SUMS / PARTS) + i][place_of(column)] : 0);
	if (p < PARTS)
		send(column / SHARE, &m.part[block][p][column % SHARE], part, &m.inbox);
	if (threadIdx.x < WARP)
		sum = warp_sum(sum);
	if (threadIdx.x < CLUSTER) {
		send(threadIdx.x, &m.top[block], top, &m.inbox);
		send(threadIdx.x, &m.sum[block], sum, &m.inbox);
	}
	if (threadIdx.x >= SHARE)
		return;
	inbox_wait(&m.inbox);
	top = LOW, sum = 0, part = 0;
#pragma unroll
	for (int b = 0; b < CLUSTER; b++)
		top = fmaxf(top, m.top[b]);
#pragma unroll
	for (int b = 0; b < CLUSTER; b++) {
		float w = power2(m.top[b] - top), y = 0;
#pragma unroll
		for (int i = 0; i < PARTS; i++)
			y += m.part[b][i][threadIdx.x];
		sum += w * m.sum[b];
		part += w * y;
	}
	a.out.row(0, head)[block * SHARE + threadIdx.x] = to<DST>(sum != 0 ? part / sum : 0);
}

// Tells what was drawn.
__device__ inline void report(const Args &a, const Selection &m, int head)
{
	for (int i = threadIdx.x; i < a.drawn; i += THREADS) {
		a.teams.row(0, head)[i] = i < m.teams ? m.drawn[i].team : -1;
		a.logc.row(0, head)[i] = i < m.teams ? less(m, m.which[i]) * LN2 : 0;
	}
}

// Counts rows that no other head of the key head has counted. What was seen before is asked for by mark, from the last
// warp on, and comes while the block attends.
struct Marks { u32 seen[(MOST + THREADS - 1) / THREADS]; };

__device__ inline void mark(Marks &x, const Args &a, const Selection &m, int kv)
{
#pragma unroll
	for (int c = 0; c < sizeof(x.seen) / 4; c++) {
		int place = c * THREADS + THREADS - 1 - threadIdx.x;
		if (place < m.teams)
			x.seen[c] = atomicOr(&a.seen[kv * a.words + m.drawn[place].team / 32], 1u << m.drawn[place].team % 32);
	}
}

__device__ inline void count(const Marks &x, const Args &a, const Selection &m)
{
	int rows = 0;
#pragma unroll
	for (int c = 0; c < sizeof(x.seen) / 4; c++) {
		int place = c * THREADS + THREADS - 1 - threadIdx.x;
		if (place < m.teams && !(x.seen[c] >> m.drawn[place].team % 32 & 1))
			rows += m.drawn[place].rows;
	}
	rows = __reduce_add_sync(~0u, rows);
	if (lane_id() == 0 && rows)
		atomicAdd(a.rows, (u64)rows);
}

KERNEL __maxnreg__(REGS) teams_attend(PARAM)
{
	SHARED(shared);
	u8 *ring = shared;
	Memory &m = *(Memory *)(ring + (DEPTH - 1) * SLOT);
	Selection &s = m.selected;
	u32 *marks = (u32 *)((u8 *)&m + ROOM);
	int kv = blockIdx.y, head = kv * a.group + blockIdx.x / CLUSTER, block = blockIdx.x % CLUSTER, lane = threadIdx.x % LANES;
	if (NEXT_AT_ONCE)
		let_next_start();
	if (threadIdx.x == 0)
		inbox_open(&m.inbox, CLUSTER * (PARTS * SHARE + 2) * 4);
	cluster_arrive();
	Rows r{(const u8 *)a.k.row(kv, 0) + lane * 16, V_IN_K ? nullptr : (const u8 *)a.v.row(kv, 0) + lane * 16, 2 * (u32)a.k.s1, 2 * (u32)a.v.s1};
	settle(r.k);
	if (!V_IN_K)
		settle(r.v);
	if (!a.early)
		wait_for_previous();
	Head h{a.y.row(head), a.top.row(head), a.offsets.row(kv), a.there, a.groups, a.drawn, (u32)head, a.layer, (u32)fresh(a.pos), fresh(a.seed), fresh(a.seed + 1)};
	settle(h.y);
	settle(h.top);
	settle(h.offsets);
	prepare(s, h);
	int first = fresh(a.from), suffix, soon;
	cluster_wait(); // the other blocks' inboxes are open; here it costs nothing
	if (a.early)
		wait_for_previous();
	uint4 query = make_uint4(0, 0, 0, 0);
	auto keep = [&] {
		if (threadIdx.x < DK / 8)
			s.q[threadIdx.x] = query;
	};
	auto start = [&] {
		if (threadIdx.x < DK / 8)
			query = fresh((const uint4 *)a.q.row(0, head) + threadIdx.x);
		first = max(first, 0), suffix = max(min((int)h.pos, a.capacity - 1) - first + 1, 0);
		r.suffix = (suffix - block + CLUSTER - 1) / CLUSTER, r.first = first + block;
		r.listed = 0;
		soon = min(r.rounds(), DEPTH - 1); // rounds of the suffix: the last slot serves the selection
#pragma unroll 1
		for (int i = 0; i < DEPTH - 1; i++)
			if (i >= soon || !fetch(ring, i, r, s, i, true, false))
				copy_end(); // what prepare asked for is DEPTH − 1 groups ago
	};
	bool drawn = draw(s, h, block, start, keep);
	if (!drawn)
		draw_any(s, h, s.spare, SPARE, marks, block);
	if (!NEXT_AT_ONCE)
		let_next_start();
	int mine = (u32)(s.rows + CLUSTER - 1 - block) / CLUSTER;
	auto ask = [&] { // for the first rounds
#pragma unroll 1
		for (int i = 0; i < DEPTH; i++)
			fetch(ring, i, r, s, i, i >= soon, true);
	};
	r.listed = min(mine, LISTED);
	ask();
	Marks seen;
	if (block == 0 && a.rows)
		mark(seen, a, s, kv);
	Query q;
	load_query(q, s.q, a.scale * LOG2E);
	if (!PLAIN || !drawn) {
		correct(s, h);
		__syncthreads();
	}
	if (REPORT && block == 0)
		report(a, s, head);
	Sum x = {LOW};
#pragma unroll 1
	for (int done = LISTED;; done += LISTED) { // a list at a time
		attend(x, q, ring, r, s);
		if (done >= mine)
			break;
		__syncthreads();
		list_rows(s, done / LISTED, block);
		r.suffix = soon = 0, r.listed = min(mine - done, LISTED);
		ask();
	}
	__syncthreads(); // the ring is free
	finish(a, m, x, (float (*)[PITCH])ring, head, block);
	if (a.suffix && blockIdx.x == 0 && threadIdx.x == 0)
		atomicAdd(a.suffix, (u64)suffix);
	if (block == 0 && a.rows)
		count(seen, a, s);
}
