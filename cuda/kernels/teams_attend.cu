// The second half of AttendTeams for one token: draws K teams of every query head by the perturbed scores that
// teams_score left, corrects for the chance of each, and attends to their rows and to the exact suffix.
// Grid: (CLUSTER blocks a query head of a key head, key heads), 512 threads, in clusters. Every block of a cluster selects by itself; it reads
// every CLUSTER-th of the rows, LANES threads a row, DEPTH rounds of GROUPS rows in flight. The blocks send each other their parts; each
// finishes a share of the columns.
// Selection without sorting: at least K + 1 teams reach the (K+1)-th largest of the groups' largest scores, so only
// groups that reach a border below that are looked at, and the few teams there that reach it are ranked by counting
// (RANKED) or divided once more. Where too many reach it, a histogram over the bits of the scores finds the (K+1)-th.
// q [1, heads, DK]; k, v [key heads, capacity, DK or DV], V_IN_K: v is the first columns of k; offsets [key heads,
// teams + 1]; out [1, heads, DV]; teams, logc [1, heads, K], with REPORT; y, top, seen as teams_score leaves them;
// rows and suffix, if there are any, grow by the rows read: drawn ones once a key head.
// Sums in float32, in an order that depends on the drawn teams and the suffix alone.
// Source: SANTA++, Eq. 4, 7; Gumbel-top-k, Kool et al. (2019).
#define WARPS 16
#define DEPTH 2 // rounds of rows in flight
#define THREADS (WARPS * WARP)
#define RANKED (MOST == 64)
#define PER_WARP (MOST == 64 ? 16 : MOST == 256 ? 64 : 128) // candidates
#define REGS (DK > 256 ? 96 : 72)
#include "teams_select.cuh"

struct Args {
	Cube<DST> out;
	Cube<int> teams;
	Cube<float> logc;
	Cube<const bf16> q, k, v;
	Mat<const float> y, top;
	Mat<const int> offsets;
	const u32 *seed;
	const int *from, *pos;
	u32 *seen;
	u64 *rows, *suffix;
	int there, groups, drawn, group, capacity, words;
	u32 layer;
	float scale;
};

#define LANES (DK <= 128 ? 8 : DK <= 192 ? 16 : 32)
#define GROUPS (THREADS / LANES) // rows at a time
#define K_CHUNKS ((DK / 8 + LANES - 1) / LANES)
#define V_CHUNKS ((DV / 8 + LANES - 1) / LANES)
#define CHUNKS (K_CHUNKS + (V_IN_K ? 0 : V_CHUNKS)) // of 16 bytes that a lane has of a row
#define SLOT (CHUNKS * THREADS * 16)                // bytes of a round of rows
#define COLUMNS (V_CHUNKS * 8) // of the output that a lane has
#define LOW -3e38f
static_assert(DK % 8 == 0 && DV % 8 == 0 && DV % CLUSTER == 0 && DV <= THREADS, "shape");

// The groups of threads whose sums a block adds up, and how many threads share a column in that.
#define SUMS (GROUPS > 32 ? 32 : GROUPS)
#define PARTS (THREADS / DV > SUMS ? SUMS : THREADS / DV)
#define SHARE (DV / CLUSTER)

struct Memory {
	u64 inbox;
	float top[CLUSTER], sum[CLUSTER], part[CLUSTER][PARTS][SHARE]; // from the cluster's blocks
	float tops[SUMS], sums[SUMS];
	Selection selected;
};
static_assert(sizeof(Memory) <= ROOM && ROOM % 128 == 0, "room");

// A row's share of a lane in shared memory, which no other thread touches.
__device__ inline uint4 *lane_chunk(u8 *ring, int slot, int i) { return (uint4 *)ring + (slot * CHUNKS + i) * THREADS + threadIdx.x; }

// A weighted sum of values; weights are exp2(score − top).
struct Sum {
	float top, sum, at[COLUMNS];
	__device__ void shrink(float to)
	{
		float by = exp2_fast(top - to);
		top = to, sum *= by;
#pragma unroll
		for (int i = 0; i < COLUMNS; i++)
			at[i] *= by;
	}
};

__device__ inline float low_half(u32 x) { return __uint_as_float(x << 16); }
__device__ inline float high_half(u32 x) { return __uint_as_float(x & 0xffff0000u); }

__device__ inline float dot8(uint4 x, const float *q)
{
	u32 w[4] = {x.x, x.y, x.z, x.w};
	float sum = 0;
#pragma unroll
	for (int i = 0; i < 4; i++)
		sum += low_half(w[i]) * q[2 * i] + high_half(w[i]) * q[2 * i + 1];
	return sum;
}

__device__ inline void add8(float *at, uint4 x, float p)
{
	u32 w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
	for (int i = 0; i < 4; i++)
		at[2 * i] += p * low_half(w[i]), at[2 * i + 1] += p * high_half(w[i]);
}

// Whether a lane has an i-th chunk of a row of `width` elements.
template <int width> __device__ inline bool has(int i, int lane) { return width % (LANES * 8) == 0 || (i * LANES + lane) * 8 < width; }

// The rows that a block reads, GROUPS of them a round: rounds of suffix rows, which can be on their way before the
// block selects, then rounds of listed rows.
struct Rows {
	const bf16 *k, *v; // the lane's first chunk of row 0
	int k_step, v_step;
	int suffix, first;  // how many of the suffix, and the first of these
	int early, listed;  // rounds of the suffix; rows in the list
	__device__ int rounds() const { return early + (listed + GROUPS - 1) / GROUPS; }
	// How many rows there are from that of a group of threads on, in a round; at: its place among the listed.
	__device__ int left(int round, int group, int &at) const
	{
		at = group + (round - early) * GROUPS;
		return round < early ? suffix - group - round * GROUPS : listed - at;
	}
};

// A round's row of this group of threads.
__device__ inline void fetch(u8 *ring, int slot, const Rows &r, const Selection &m, int round)
{
	int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, at;
	if (r.left(round, group, at) > 0) {
		int row = round < r.early ? r.first + (group + round * GROUPS) * CLUSTER : m.row[at];
		const bf16 *k = r.k + (i64)row * r.k_step, *v = r.v + (i64)row * r.v_step;
#pragma unroll
		for (int c = 0; c < K_CHUNKS; c++)
			if (has<DK>(c, lane))
				copy16(lane_chunk(ring, slot, c), k + c * LANES * 8);
		if (!V_IN_K)
#pragma unroll
			for (int c = 0; c < V_CHUNKS; c++)
				if (has<DV>(c, lane))
					copy16(lane_chunk(ring, slot, K_CHUNKS + c), v + c * LANES * 8);
	}
	copy_end();
}

// Adds the rows to x; the first DEPTH rounds are under way.
__device__ inline void attend(Sum &x, const float *q, u8 *ring, const Rows &r, const Selection &m)
{
	int lane = threadIdx.x % LANES, group = threadIdx.x / LANES, rounds = r.rounds();
#pragma unroll 1
	for (int round = 0, slot = 0; round < rounds; round++, slot = slot + 1 == DEPTH ? 0 : slot + 1) {
		int at, left = r.left(round, group / (WARP / LANES) * (WARP / LANES), at); // the warp's first row
		if (left > 0) {
			bool is = group % (WARP / LANES) < left;
			float score = is && round >= r.early ? -m.less[m.place[at + group % (WARP / LANES)]] : 0, part = 0;
			copy_wait<DEPTH - 1>();
			uint4 key[V_IN_K ? K_CHUNKS : 1];
#pragma unroll
			for (int c = 0; c < K_CHUNKS; c++)
				if (is && has<DK>(c, lane)) {
					uint4 chunk = *lane_chunk(ring, slot, c);
					if (V_IN_K)
						key[c] = chunk;
					part += dot8(chunk, q + c * 8);
				}
#pragma unroll
			for (int step = LANES / 2; step > 0; step /= 2)
				part += __shfl_xor_sync(~0u, part, step);
			score = is ? score + part : LOW;
			if (__any_sync(~0u, score > x.top))
				x.shrink(fmaxf(x.top, score));
			float p = exp2_fast(score - x.top);
			if (is) {
				x.sum += p;
#pragma unroll
				for (int c = 0; c < V_CHUNKS; c++)
					if (has<DV>(c, lane))
						add8(x.at + c * 8, V_IN_K ? key[V_IN_K ? c : 0] : *lane_chunk(ring, slot, K_CHUNKS + c), p);
			}
		}
		fetch(ring, slot, r, m, round + DEPTH);
	}
	copy_wait<0>();
}

// Adds up the sums of the block's groups of threads, then of the cluster's blocks, and writes the block's columns.
__device__ inline void finish(const Args &a, Memory &m, Sum &x, float (*parts)[DV], int head, int block)
{
	int lane = threadIdx.x % LANES, sum_at = threadIdx.x * SUMS / THREADS;
#pragma unroll
	for (int step = LANES; step < THREADS / SUMS; step *= 2) {
		x.shrink(fmaxf(x.top, __shfl_xor_sync(~0u, x.top, step)));
		x.sum += __shfl_xor_sync(~0u, x.sum, step);
#pragma unroll
		for (int i = 0; i < COLUMNS; i++)
			x.at[i] += __shfl_xor_sync(~0u, x.at[i], step);
	}
	if (threadIdx.x % (THREADS / SUMS) < LANES) {
		if (lane == 0)
			m.tops[sum_at] = x.top, m.sums[sum_at] = x.sum;
#pragma unroll
		for (int c = 0; c < V_CHUNKS; c++)
			if (has<DV>(c, lane))
#pragma unroll
				for (int i = 0; i < 8; i += 4)
					*(float4 *)&parts[sum_at][(c * LANES + lane) * 8 + i] =
						make_float4(x.at[c * 8 + i], x.at[c * 8 + i + 1], x.at[c * 8 + i + 2], x.at[c * 8 + i + 3]);
	}
	__syncthreads();
	// Lane i weighs the i-th sum.
	float mine = lane_id() < SUMS ? m.tops[lane_id()] : LOW;
	float top = from_order_bits(__reduce_max_sync(~0u, order_bits(mine))), weight = exp2_fast(mine - top);
	float sum = lane_id() < SUMS ? weight * m.sums[lane_id()] : 0, part = 0;
	int column = threadIdx.x % DV, p = threadIdx.x / DV;
#pragma unroll 4
	for (int i = 0; i < SUMS / PARTS; i++)
		part += __shfl_sync(~0u, weight, p * (SUMS / PARTS) + i) * (p < PARTS ? parts[p * (SUMS / PARTS) + i][column] : 0);
	cluster_wait();
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
		float w = exp2_fast(m.top[b] - top), column = 0;
#pragma unroll
		for (int i = 0; i < PARTS; i++)
			column += m.part[b][i][threadIdx.x];
		sum += w * m.sum[b];
		part += w * column;
	}
	a.out.row(0, head)[block * SHARE + threadIdx.x] = to<DST>(sum > 0 ? part / sum : 0);
}

// ln c / ln 2 of the drawn teams, from the scores that they were drawn by.
__device__ inline void correct(const Args &a, Selection &m, int head, u32 pos, u32 seed0, u32 seed1)
{
#pragma unroll 1
	for (int i = threadIdx.x; i < m.teams; i += THREADS) {
		int team = m.drawn[i].team;
		Words w = philox_short(team / 4, head, a.layer, pos, seed0, seed1);
		u32 word = team & 2 ? team & 1 ? w.at[3] : w.at[2] : team & 1 ? w.at[1] : w.at[0];
		m.less[i] = m.sure ? 0 : log2_inclusion(from_order_bits(m.drawn[i].key) - gumbel_fast(word) - m.tau);
	}
}

// Tells what was drawn.
__device__ inline void report(const Args &a, const Selection &m, int head)
{
	for (int i = threadIdx.x; i < a.drawn; i += THREADS) {
		a.teams.row(0, head)[i] = i < m.teams ? m.drawn[i].team : -1;
		a.logc.row(0, head)[i] = i < m.teams ? m.less[i] * LN2 : 0;
	}
}

// Counts rows that no other head of the key head has counted, from the last warp on: the first ones have other work.
__device__ inline void count(const Args &a, const Selection &m, int kv)
{
	int rows = 0;
#pragma unroll 1
	for (int i = THREADS - 1 - threadIdx.x; i < m.teams; i += THREADS) {
		u32 team = m.drawn[i].team, bit = 1u << team % 32;
		if (!(atomicOr(&a.seen[kv * a.words + team / 32], bit) & bit))
			rows += m.drawn[i].rows;
	}
	rows = __reduce_add_sync(~0u, rows);
	if (lane_id() == 0 && rows)
		atomicAdd(a.rows, (u64)rows);
}

// A lane's part of the query, scaled for exp2.
__device__ inline void load_query(float *q, const Args &a, int head)
{
	int lane = threadIdx.x % LANES;
	float by = a.scale * LOG2E;
#pragma unroll
	for (int c = 0; c < K_CHUNKS; c++)
		if (has<DK>(c, lane)) {
			uint4 x = fresh((const uint4 *)(a.q.row(0, head) + (c * LANES + lane) * 8));
			u32 w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
			for (int i = 0; i < 4; i++)
				q[c * 8 + 2 * i] = low_half(w[i]) * by, q[c * 8 + 2 * i + 1] = high_half(w[i]) * by;
		}
}

KERNEL __maxnreg__(REGS) teams_attend(PARAM)
{
	SHARED(shared);
	Memory &m = *(Memory *)shared;
	Selection &s = m.selected;
	u8 *ring = shared + ROOM;
	u32 *marks = (u32 *)(ring + DEPTH * SLOT);
	int kv = blockIdx.y, head = kv * a.group + blockIdx.x / CLUSTER, block = blockIdx.x % CLUSTER, lane = threadIdx.x % LANES;
	if (threadIdx.x == 0)
		inbox_open(&m.inbox, CLUSTER * (PARTS * SHARE + 2) * 4);
	cluster_arrive();
	Rows r{a.k.row(kv, 0) + lane * 8, V_IN_K ? nullptr : a.v.row(kv, 0) + lane * 8, (int)a.k.s1, (int)a.v.s1};
	settle(r.k);
	if (!V_IN_K)
		settle(r.v);
	Head h{a.y.row(head), a.top.row(head), a.offsets.row(kv), a.there, a.groups, a.drawn
	};
	settle(h.y);
	settle(h.top);
	settle(h.offsets);
	wait_for_previous();

	u32 pos = fresh(a.pos), seed0 = fresh(a.seed), seed1 = fresh(a.seed + 1);
	int first = max(fresh(a.from), 0), suffix = max(min((int)pos, a.capacity - 1) - first + 1, 0);
	r.suffix = (suffix - block + CLUSTER - 1) / CLUSTER, r.first = first + block;
	r.early = (r.suffix + GROUPS - 1) / GROUPS, r.listed = 0;
	int soon = min(r.early, DEPTH - 1); // rounds of the suffix that leave a slot for other use
#pragma unroll 1
	for (int i = 0; i < soon; i++)
		fetch(ring, i, r, s, i);
	u8 *spare = ring + soon * SLOT;
	select(s, h, block, (float *)spare, (DEPTH - soon) * SLOT / 4, marks);
	int mine = (s.rows - block + CLUSTER - 1) / CLUSTER;
	Sum x = {LOW};
	float q[K_CHUNKS * 8];
#pragma unroll 1
	for (int done = 0; done == 0 || done < mine; done += LISTED) { // a list at a time
		if (done > 0) {
			__syncthreads();
			list_rows(s, done / LISTED, block);
			r.early = soon = 0;
		}
		r.listed = min(mine - done, LISTED);
#pragma unroll 1
		for (int i = soon; i < DEPTH; i++)
			fetch(ring, i, r, s, i);
		if (done == 0) { // while the first rows are under way
			if (mine <= LISTED)
				let_next_start();
			if (block == 0 && a.rows)
				count(a, s, kv);
			load_query(q, a, head);
			correct(a, s, head, pos, seed0, seed1);
			__syncthreads();
			if (REPORT && block == 0)
				report(a, s, head);
		}
		attend(x, q, ring, r, s);
	}
	if (a.suffix && blockIdx.x == 0 && threadIdx.x == 0)
		atomicAdd(a.suffix, (u64)suffix);
	__syncthreads(); // the ring is free
	finish(a, m, x, (float (*)[DV])ring, head, block);
}
