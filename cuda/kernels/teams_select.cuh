#pragma once
// Finds the K largest of a head's perturbed scores and the next one, by one block of WARPS warps. See teams_attend.cu.
#include "teams.cuh"

#define PIVOTS (WARP / WARPS)   // of a warp
#define PER_GROUP (GROUP / 4)   // lanes that look at a group of teams, 4 teams each
#define AT_ONCE (WARP / PER_GROUP)
#define TOPS_ABREAST (TOPS > 1024 ? 4 : 2)
#define ABREAST_GROUPS (AT_ONCE < WARP ? 2 : 1) // loads of a lane
#define FEW (WARPS * PER_WARP)  // candidates at most
#define MIDDLE 128
#define BINS 2048
#define BORDER 256
#define LISTED 1024             // rows of a block's list

// A team that is a candidate or drawn.
struct __align__(16) Team {
	u32 key; // order_bits of the perturbed score
	int team, first, rows;
};

// What a block selects with and what it finds. A drawn team has a place from 0 on; its rows come after those of the
// places before it.
struct Selection {
	union {
		struct {
			float tops[TOPS];
			Team few[FEW];
		};
		u32 bin[BINS];
	};
	u32 pivot[WARP];
	int above[WARP], above_few[WARP];
	int pick[WARPS][WARP];
	int n, middle; // candidates, and those that the second pivots leave undecided
	Team undecided[MIDDLE];
	u32 won[FEW / 32];
	u32 low, high, need, found;
	u64 border[BORDER];
	int sums[WARP], more[WARP];
	// drawn teams
	Team drawn[MOST];
	int before[MOST];
	float less[MOST]; // ln c / ln 2
	float tau;
	int teams, rows; // how many are drawn, and the rows of all of them
	bool sure;       // all teams there are
	// rows of this block
	int row[LISTED];
	u16 place[LISTED];
};

struct Head {
	const float *y, *top;
	const int *offsets;
	int teams, groups, k;
};

__device__ inline float from_order_bits(u32 u) { return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u); }

// A key that at least K + 1 teams reach, or NOTHING: K + 1 groups have a largest score that reaches it. Each warp has
// `per` groups from first on and offers a few of their largest scores as pivots; each lane counts for one pivot how many
// of its warp's groups reach it; the highest that enough reach is the border.
__device__ inline u32 border(Selection &m, const Head &a, int per, int first)
{
	int lane = lane_id();
	u32 mine[2]; // the warp's largest of these are its pivots
#pragma unroll
	for (int j = 0; j < 2; j++)
		mine[j] = NOTHING;
#pragma unroll 1
	for (int i0 = lane; i0 < per; i0 += TOPS_ABREAST * WARP) {
		float top[TOPS_ABREAST];
#pragma unroll
		for (int j = 0; j < TOPS_ABREAST; j++) {
			int i = first + i0 + j * WARP;
			top[j] = i0 + j * WARP < per && i < a.groups ? fresh(a.top + i) : -INF;
		}
#pragma unroll
		for (int j = 0; j < TOPS_ABREAST; j++) {
			if (i0 + j * WARP < per)
				m.tops[first + i0 + j * WARP] = top[j];
			u32 key = order_bits(top[j]), least = min(mine[0], key);
			mine[0] = max(mine[0], key), mine[1] = max(mine[1], least);
		}
	}
	if (threadIdx.x < WARP)
		m.above[threadIdx.x] = m.above_few[threadIdx.x] = 0;
	if (threadIdx.x == 0)
		m.n = m.middle = m.teams = m.rows = 0, m.sure = true;
	if (RANKED) { // the next pivots are those of about the rank that is looked for
		int skip = a.k / WARPS;
#pragma unroll 1
		for (int j = 0; j < skip + PIVOTS; j++) {
			u32 top = __reduce_max_sync(~0u, mine[0]);
			if (mine[0] == top)
				mine[0] = mine[1], mine[1] = NOTHING;
			if (j >= skip && lane == 0)
				m.pivot[warp_id() * PIVOTS + j - skip] = top;
		}
	} else {
		__syncwarp();
		if (lane < PIVOTS)
			m.pivot[warp_id() * PIVOTS + lane] = order_bits(m.tops[first + per * (lane + 1) / (PIVOTS + 1)]);
	}
	__syncthreads();
	u32 key = m.pivot[lane];
	float pivot = from_order_bits(key);
	int reach = 0;
#pragma unroll 1
	for (int i = first; i < first + per; i += 8) {
		float4 t = *(float4 *)&m.tops[i], u = *(float4 *)&m.tops[i + 4];
		reach += (t.x >= pivot) + (t.y >= pivot) + (t.z >= pivot) + (t.w >= pivot);
		reach += (u.x >= pivot) + (u.y >= pivot) + (u.z >= pivot) + (u.w >= pivot);
	}
	atomicAdd(&m.above[lane], reach);
	__syncthreads();
	return __reduce_max_sync(~0u, m.above[lane] > a.k ? key : NOTHING);
}

// Collects the teams that reach the border, in the warp's part of few, in the order of teams; RANKED: in few, in any
// order. A few lanes look at a group, 4 teams each. Returns how many the warp has found.
__device__ inline int collect(Selection &m, const Head &a, u32 border, int per, int first)
{
	int lane = lane_id(), *pick = m.pick[warp_id()], found = 0;
	float least = border == NOTHING ? -3.4e38f : from_order_bits(border);
	Team *few = RANKED ? m.few : m.few + warp_id() * PER_WARP;
#pragma unroll 1
	for (int i = 0; i < per; i += WARP) {
		bool is = i + lane < per && m.tops[first + i + lane] >= least;
		u32 groups = __ballot_sync(~0u, is);
		if (is)
			pick[__popc(groups & (1u << lane) - 1)] = first + i + lane;
		__syncwarp();
		int n = __popc(groups);
#pragma unroll 1
		for (int r = 0; r < n; r += ABREAST_GROUPS * AT_ONCE) {
			int team[ABREAST_GROUPS], offset[ABREAST_GROUPS][5];
			float y[ABREAST_GROUPS][4];
#pragma unroll
			for (int g = 0; g < ABREAST_GROUPS; g++) {
				int at = r + g * AT_ONCE + lane / PER_GROUP;
				float4 y4 = make_float4(-INF, -INF, -INF, -INF);
				if (at < n) {
					team[g] = pick[at] * GROUP + lane % PER_GROUP * 4;
					y4 = fresh((const float4 *)(a.y + team[g]));
#pragma unroll
					for (int j = 0; j < 5; j++)
						offset[g][j] = fresh(a.offsets + min(team[g] + j, a.teams));
				}
				y[g][0] = y4.x, y[g][1] = y4.y, y[g][2] = y4.z, y[g][3] = y4.w;
			}
#pragma unroll
			for (int g = 0; g < ABREAST_GROUPS; g++) {
				int before = 0, all = 0;
#pragma unroll
				for (int j = 0; j < 4; j++) {
					u32 in = __ballot_sync(~0u, y[g][j] >= least);
					before += __popc(in & (1u << lane) - 1);
					all += __popc(in);
				}
				if (!all)
					continue;
				int base = found;
				if (RANKED) {
					if (lane == 0)
						base = take(&m.n, all);
					base = __shfl_sync(~0u, base, 0);
				}
				found += all;
#pragma unroll
				for (int j = 0; j < 4; j++)
					if (y[g][j] >= least) {
						if (base + before < (RANKED ? FEW : PER_WARP))
							few[base + before] = {order_bits(y[g][j]), team[g] + j, offset[g][j], max(offset[g][j + 1] - offset[g][j], 0)};
						before++;
					}
			}
		}
		__syncwarp();
	}
	return found;
}

// Writes the rows of a place into the list of the block that reads them: every CLUSTER-th row is its own. list is the
// number of lists before this one, x one of 8 threads.
__device__ inline void list_place(Selection &m, int place, int first, int before, int rows, int list, int block, int x)
{
#pragma unroll 1
	for (int i = x; i < rows; i += 8) {
		int v = before + i, at = v / CLUSTER - list * LISTED;
		if (v % CLUSTER == block && (u32)at < LISTED)
			m.row[at] = first + i, m.place[at] = place;
	}
}

// Lists the rows of a block anew.
__device__ inline void list_rows(Selection &m, int list, int block)
{
#pragma unroll 1
	for (int i = threadIdx.x / 8; i < m.teams; i += THREADS / 8)
		list_place(m, i, m.drawn[i].first, m.before[i], m.drawn[i].rows, list, block, threadIdx.x % 8);
	__syncthreads();
}

// Counts the teams of a list of n that come before t, by 8 threads, and their rows.
__device__ inline int rank_of(const Team &t, const Team *list, int n, int &before)
{
	int rank = 0;
	before = 0;
#pragma unroll 2
	for (int j = threadIdx.x % 8; j < n; j += 8) {
		Team o = list[j];
		if (o.key > t.key || o.key == t.key && o.team < t.team)
			rank++, before += o.rows;
	}
#pragma unroll
	for (int step = 4; step > 0; step /= 2) {
		rank += __shfl_xor_sync(~0u, rank, step);
		before += __shfl_xor_sync(~0u, before, step);
	}
	return rank;
}

// Places n ≤ FEW candidates by counting those that come before; lists the first LISTED rows of the block.
__device__ inline void rank_few(Selection &m, const Head &a, int n, int block)
{
	int x = threadIdx.x % 8;
#pragma unroll 1
	for (int i0 = threadIdx.x / WARP * 4; i0 < n; i0 += THREADS / 8) {
		int i = i0 + lane_id() / 8, before;
		Team t = m.few[min(i, n - 1)];
		int rank = rank_of(t, m.few, n, before);
		if (i >= n || rank > a.k)
			continue;
		bool drawn = rank < a.k;
		if (x == 0) {
			if (drawn)
				m.drawn[rank] = t, m.before[rank] = before;
			if (!drawn || rank == n - 1) {
				m.teams = drawn ? n : rank;
				m.rows = before + (drawn ? t.rows : 0);
				m.sure = drawn, m.tau = from_order_bits(t.key);
			}
		}
		if (drawn)
			list_place(m, rank, t.first, before, t.rows, 0, block, x);
	}
	__syncthreads();
}

// Places the candidates, `mine` of them the warp's, in the order of teams: second pivots leave few undecided, and
// these are ranked. Returns false where there are too many for that.
__device__ inline bool place_in_order(Selection &m, const Head &a, int mine, int block)
{
	int lane = lane_id(), w = warp_id();
	const Team *few = m.few + w * PER_WARP;
	if (lane == 0)
		m.sums[w] = mine;
	if (lane < PER_WARP / 32)
		m.won[w * (PER_WARP / 32) + lane] = 0;
	__syncthreads();
	int theirs = lane < WARPS ? m.sums[lane] : 0, n = __reduce_add_sync(~0u, theirs);
	if (__reduce_max_sync(~0u, (u32)theirs) > PER_WARP)
		return false;
	u32 high = 0;
	if (n > a.k) {
		int of = __shfl_sync(~0u, theirs, lane % WARPS);
		u32 pivot = of ? m.few[lane % WARPS * PER_WARP + of * (lane / WARPS + 1) / (PIVOTS + 1)].key : NOTHING;
		int reach = 0;
#pragma unroll 4
		for (int i = 0; i < mine; i++)
			reach += few[i].key >= pivot;
		atomicAdd(&m.above_few[lane], reach);
		__syncthreads();
		int above = m.above_few[lane];
		u32 low = __reduce_max_sync(~0u, above > a.k ? pivot : NOTHING);
		high = ~__reduce_max_sync(~0u, above > a.k ? 0 : ~pivot); // none: all ones
		u32 same = __ballot_sync(~0u, above <= a.k && pivot == high);
		int sure = same ? __shfl_sync(~0u, above, __ffs(same) - 1) : 0;
#pragma unroll 1
		for (int i = lane; i < mine; i += WARP)
			if (few[i].key >= low && few[i].key < high) {
				int at = take(&m.middle, 1);
				if (at < MIDDLE)
					m.undecided[at] = {few[i].key, few[i].team, w * PER_WARP + i, 0};
			}
		__syncthreads();
		int middle = m.middle;
		if (middle > MIDDLE)
			return false;
#pragma unroll 1
		for (int i0 = w * 4; i0 < middle; i0 += THREADS / 8) {
			int i = i0 + lane / 8, unused;
			Team t = m.undecided[min(i, middle - 1)];
			int rank = sure + rank_of(t, m.undecided, middle, unused);
			if (i < middle && lane % 8 == 0 && rank < a.k)
				atomicOr(&m.won[t.first / 32], 1u << t.first % 32);
			if (i < middle && lane % 8 == 0 && rank == a.k)
				m.tau = from_order_bits(t.key);
		}
	}
	__syncthreads();
	int teams = 0, rows = 0;
#pragma unroll 1
	for (int i = lane; i < mine; i += WARP)
		if (few[i].key >= high || m.won[w * (PER_WARP / 32) + i / 32] >> i % 32 & 1)
			teams++, rows += few[i].rows;
	teams = __reduce_add_sync(~0u, teams), rows = __reduce_add_sync(~0u, rows);
	if (lane == 0)
		m.sums[w] = teams, m.more[w] = rows;
	__syncthreads();
	teams = lane < WARPS ? m.sums[lane] : 0, rows = lane < WARPS ? m.more[lane] : 0;
	int place = __reduce_add_sync(~0u, lane < w ? teams : 0), before = __reduce_add_sync(~0u, lane < w ? rows : 0);
	teams = __reduce_add_sync(~0u, teams), rows = __reduce_add_sync(~0u, rows);
	if (threadIdx.x == 0)
		m.teams = teams, m.rows = rows, m.sure = n <= a.k;
#pragma unroll 1
	for (int i0 = 0; i0 < mine; i0 += WARP) {
		int i = i0 + lane;
		Team t = few[min(i, PER_WARP - 1)];
		bool is = i < mine && (t.key >= high || m.won[w * (PER_WARP / 32) + i0 / 32] >> lane & 1);
		u32 all = __ballot_sync(~0u, is);
		int upto = is ? t.rows : 0;
#pragma unroll
		for (int step = 1; step < WARP; step *= 2) {
			int x = __shfl_up_sync(~0u, upto, step);
			upto += lane >= step ? x : 0;
		}
		int at = place + __popc(all & (1u << lane) - 1);
		if (is)
			m.drawn[at] = t, m.before[at] = before + upto - t.rows;
		place += __popc(all);
		before += __shfl_sync(~0u, upto, WARP - 1);
	}
	__syncthreads();
	list_rows(m, 0, block);
	return true;
}

// Sum of x over the threads before this one, and over all.
__device__ inline int block_before(int x, int *shared, int &all)
{
	int upto = x;
	for (int step = 1; step < WARP; step *= 2) {
		int y = __shfl_up_sync(~0u, upto, step);
		if (lane_id() >= step)
			upto += y;
	}
	__syncthreads();
	if (lane_id() == WARP - 1)
		shared[warp_id()] = upto;
	__syncthreads();
	int before = 0;
	all = 0;
	for (int w = 0; w < WARPS; w++) {
		before += w < warp_id() ? shared[w] : 0;
		all += shared[w];
	}
	return before + upto - x;
}

// The keys of the scores that reach `low`; staged keeps those that fit.
struct Keys {
	const float *y;
	const float *staged;
	int kept;
	__device__ float score(int i) const { return i < kept ? staged[i] : fresh(y + i); }
	__device__ u32 at(int i) const { return order_bits(score(i)); }
};

// Narrows [low, high] to keys of one bin: the (K + 1)-th largest is the need-th of the bin's `found` keys.
__device__ inline void narrow(Selection &m, const Head &a, const Keys &keys)
{
	do {
		u32 low = m.low, span = m.high - low;
		int shift = max(0, 32 - __clz(span) - 11);
		for (int i = threadIdx.x; i < BINS; i += THREADS)
			m.bin[i] = 0;
		__syncthreads();
		for (int i = threadIdx.x; i < a.teams; i += THREADS) {
			u32 key = keys.at(i);
			if (key >= low && key - low <= span)
				atomicAdd(&m.bin[(key - low) >> shift], 1u);
		}
		__syncthreads();
		// Thread i has the i-th bins from the top.
		const int each = BINS / THREADS;
		u32 mine[each];
		int sum = 0, all;
#pragma unroll
		for (int j = 0; j < each; j++)
			sum += mine[j] = m.bin[BINS - 1 - threadIdx.x * each - j];
		u32 before = block_before(sum, m.sums, all), need = m.need;
		__syncthreads();
#pragma unroll
		for (int j = 0; j < each; j++) {
			if (before < need && before + mine[j] >= need) {
				u32 bin = BINS - 1 - threadIdx.x * each - j;
				m.low = low + (bin << shift);
				m.high = low + min(span, (bin << shift) + (1u << shift) - 1);
				m.need = need - before, m.found = mine[j];
			}
			before += mine[j];
		}
		__syncthreads();
	} while (m.found > BORDER && m.low != m.high);
}

// Places the teams of the K largest scores in rising order of teams, whatever K and the scores are, in several times the
// time of the others. ring has `room`
// floats, marks a bit for each team.
__device__ __noinline__ void place_many(Selection &m, const Head &a, u32 border, float *ring, int room, u32 *marks, int block)
{
	int words = (a.teams + 31) / 32, there = 0, all;
	Keys keys{a.y, ring, min(a.teams, room)};
	u32 low = max(border, NOTHING + 1), high = 0;
	__syncthreads();
	for (int i = threadIdx.x; i < a.teams; i += THREADS) {
		float y = fresh(a.y + i);
		if (i < room)
			ring[i] = y;
		there += order_bits(y) >= low;
		high = max(high, order_bits(y));
	}
	for (int i = threadIdx.x; i < words; i += THREADS)
		marks[i] = 0;
	block_before(there, m.sums, all);
	high = __reduce_max_sync(~0u, high);
	__syncthreads();
	if (lane_id() == 0)
		m.sums[warp_id()] = high;
	__syncthreads();
	for (int w = 0; w < WARPS; w++)
		high = max(high, (u32)m.sums[w]);
	bool sure = all <= a.k;
	u32 winner = low; // keys from here on are drawn
	if (!sure) {
		__syncthreads();
		if (threadIdx.x == 0)
			m.low = low, m.high = high, m.need = a.k + 1, m.n = 0;
		__syncthreads();
		narrow(m, a, keys);
		winner = m.high + 1;
	}
	for (int i = threadIdx.x; i < a.teams; i += THREADS) {
		u32 key = keys.at(i);
		if (key >= winner)
			atomicOr(&marks[i / 32], 1u << i % 32);
		else if (!sure && key >= m.low && m.found <= BORDER)
			m.border[take(&m.n, 1)] = (u64)key << 32 | (u32)~i;
	}
	__syncthreads();
	if (!sure && m.found <= BORDER) {
		for (int i = threadIdx.x; i < m.found; i += THREADS) {
			u32 rank = 0, team = ~(u32)m.border[i];
			for (int j = 0; j < m.found; j++)
				rank += m.border[j] > m.border[i];
			if (rank + 1 < m.need)
				atomicOr(&marks[team / 32], 1u << team % 32);
			if (rank + 1 == m.need)
				m.tau = from_order_bits(m.border[i] >> 32);
		}
	} else if (!sure) { // all of the bin are equal: the lower teams
		u32 taken = 0;
		for (int i0 = 0; i0 < a.teams && taken + 1 < m.need; i0 += THREADS) {
			int i = i0 + threadIdx.x, n;
			bool is = i < a.teams && keys.at(i) == m.low;
			u32 at = taken + block_before(is, m.sums, n);
			if (is && at + 1 < m.need)
				atomicOr(&marks[i / 32], 1u << i % 32);
			taken += n;
		}
		if (threadIdx.x == 0)
			m.tau = from_order_bits(m.low);
	}
	__syncthreads();
	int at = 0, n;
	for (int w0 = 0; w0 < words; w0 += THREADS) {
		u32 bits = w0 + threadIdx.x < words ? marks[w0 + threadIdx.x] : 0;
		int place = at + block_before(__popc(bits), m.sums, n);
		for (; bits; bits &= bits - 1)
			m.drawn[place++].team = (w0 + threadIdx.x) * 32 + __ffs(bits) - 1;
		at += n;
	}
	__syncthreads();
	int rows = 0;
	for (int i0 = 0; i0 < at; i0 += THREADS) {
		int i = i0 + threadIdx.x, first = 0, last = 0;
		if (i < at) {
			int team = m.drawn[i].team;
			first = fresh(a.offsets + team), last = max(fresh(a.offsets + team + 1), first);
			m.drawn[i].key = keys.at(team);
		}
		int before = rows + block_before(last - first, m.sums, n);
		if (i < at)
			m.drawn[i].first = first, m.drawn[i].rows = last - first, m.before[i] = before;
		rows += n;
	}
	if (threadIdx.x == 0)
		m.teams = at, m.rows = rows, m.sure = sure;
	__syncthreads();
	list_rows(m, 0, block);
}

// Selects, and lists the block's first LISTED rows.
__device__ inline void select(Selection &m, const Head &a, int block, float *ring, int room, u32 *marks)
{
	int per = ((a.groups + WARPS - 1) / WARPS + 7) / 8 * 8, first = warp_id() * per;
	u32 least = border(m, a, per, first);
	int mine = collect(m, a, least, per, first);
	bool done;
	if (RANKED) {
		__syncthreads();
		int n = m.n;
		done = n <= FEW;
		if (done)
			rank_few(m, a, n, block);
	} else {
		done = place_in_order(m, a, mine, block);
	}
	if (!done)
		place_many(m, a, least, ring, room, marks, block);
}
