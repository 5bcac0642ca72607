// The second half of AttendTeams for one token, many teams drawn and up to 8 query heads a key head: rows are read once
// for all of them.
// Grid: (BLOCKS = PARTS · HEADS, key heads), 512 threads. All blocks must be there at once, since they wait for each other.
// PARTS blocks find the border of a query head, the key of its (K+1)-th largest perturbed score, and each tells the HEADS
// blocks of its part. A block looks at every BLOCKS-th quad of neighbouring teams, lists the rows of those that any head
// draws, and attends to them, and to every BLOCKS-th row of the suffix, for all heads: rows as the long side of the tensor
// cores' products, heads as the short one (attend_decode.cu). When all have left their sums in parts, a block adds up
// D / PARTS columns of a head.
// Shared: struct Memory in ROOM bytes, DEPTH tiles of rows a warp.
// q [1, heads, D]; k, v [key heads, capacity, D], ELEMENT (bf16 or half); offsets [key heads, teams + 1]; out [1, heads, D];
// teams, logc [1, heads, K], with REPORT; y as teams_score leaves it, EACH a thread; told [key heads, BLOCKS + 1]: zeroed by
// teams_score; parts [key heads, BLOCKS, HEADS, D + 2]; rows and suffix, if there are any, grow by the rows read.
// Scores and sums in float32, weights as two ELEMENTs; the order depends on the drawn teams, the suffix and PARTS alone.
// Source: SANTA++, Eq. 4, 7; Gumbel-top-k, Kool et al. (2019).
#include "teams_head.cuh"
#include "tensor.cuh"

#define WARPS 16
#define THREADS (WARPS * WARP)
#define BLOCKS (PARTS * HEADS) // of a key head
#define QUADS (THREADS / 8)    // of neighbouring teams, that a block looks at in a pass
#define TEAMS (PASSES * QUADS * 4)
#define LISTED 1024
#define HALVES (D / 64) // 64 columns
#define SUMS (D / 16)   // products that cover the columns
#define PIECES (D / 8)  // of 16 bytes of a row
#define TILE 8          // rows that a warp multiplies at a time
#define TILE_BYTES (TILE * 2 * D) // of keys, or of values
#define RING (WARPS * DEPTH * 2 * TILE_BYTES)
#define SHARE (D / PARTS) // columns that a block adds up
#define GROUPS (THREADS / SHARE)
#define PART (D + 2)      // numbers that a block has of a head: the largest logit, the sum of weights, weighted values

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

// What a block finds its border with.
struct Selection {
	union {
		struct {
			u32 bin[BINS], fine[BINS]; // of the largest of UNIT scores, and of the candidates
			u64 middle[MIDDLE];        // keys
		};
		struct {
			u32 any_bin[ANY_BINS];
			u64 border[BORDER];
		};
	};
	int picks, undecided;
	u32 low, high, need, found;
	int cross, above, in; // a bin, the keys in those above, and in it
	u32 tops[WARPS], bottoms[WARPS];
	int sums[WARP], totals[3][WARPS];
	u64 key; // of the first team that is not drawn
	bool sure;
};

struct Memory {
	u64 border[HEADS];
	float weight[BLOCKS], column[GROUPS][SHARE];
	float2 tops[WARPS][4], sums[WARPS][4];
	__align__(16) float less[TEAMS + 1][8]; // by head: −ln c / ln 2 of the block's teams, −Inf where it is not drawn; 0: of the suffix
	int2 list[LISTED]; // row, and 1 + its team of these
	Selection selected;
};
static_assert(sizeof(Memory) <= ROOM && ROOM % 128 == 0 && WARPS * SUMS * WARP * 16 <= RING, "room");

#include "teams_histogram.cuh"
#include "teams_border.cuh"

// The border is among the `in` keys of m.middle; `above` are larger.
__device__ inline void choose(Selection &m, int k, int above, int in)
{
	__syncthreads();
#pragma unroll 1
	for (int i = threadIdx.x; i < in; i += THREADS) {
		u64 mine = m.middle[i];
		int rank = above;
#pragma unroll 4
		for (int j = 0; j < in; j++)
			rank += m.middle[j] > mine;
		if (rank == k)
			m.key = mine;
	}
	__syncthreads();
}

// Finds the border of a head; false where the scores lie too close together. As in teams_bins.cuh: a histogram of the
// largest of UNIT scores leaves few candidates, one of these the bin in which the border lies. Every thread has EACH scores.
__device__ inline bool border(Selection &m, const Head &a)
{
	float y[EACH], top[EACH / UNIT], high, low;
#pragma unroll
	for (int i = 0; i < EACH; i += 4) {
		int team = i * THREADS + threadIdx.x * 4;
		float4 x = team < a.teams ? fresh((const float4 *)(a.y + team)) : make_float4(-INF, -INF, -INF, -INF);
		y[i] = x.x, y[i + 1] = x.y, y[i + 2] = x.z, y[i + 3] = x.w;
	}
#pragma unroll
	for (int i = 0; i < EACH; i += UNIT)
		top[i / UNIT] = UNIT == 1 ? y[i] : fmaxf(fmaxf(y[i], y[i + 1]), fmaxf(y[i + 2], y[i + 3]));
	range(m, top, high, low);
	float by = fminf(0.9999f * BINS / (high - low), 1e30f);
	if (!(high - low < INF))
		return false;
#pragma unroll
	for (int i = 0; i < EACH / UNIT; i++) {
		float d = distance(top[i], high, by);
		count_if(d < BINS, &m.bin[min((int)d, BINS - 1)]);
	}
	__syncthreads();
	if (find_bin(m, m.bin, a.k + 1, m.totals[0]) <= a.k)
		return false; // more than one of UNIT teams may be needed
	float edge = m.cross + 1, by2 = by * (BINS / edge);
	int bin[EACH];
#pragma unroll
	for (int i = 0; i < EACH; i++) {
		float d = high - y[i];
		int b = fminf(d * by2, BINS - 1);
		bin[i] = d * by < edge ? b : BINS;
		count_if(bin[i] < BINS, &m.fine[b]);
	}
	__syncthreads();
	find_bin(m, m.fine, a.k + 1, m.totals[1]); // there are that many
	int cross = m.cross, above = m.above, in = m.in;
	if (in > MIDDLE)
		return false;
	u32 open = 0;
#pragma unroll
	for (int i = 0; i < EACH; i++)
		open |= (bin[i] == cross) << i;
#pragma unroll 1
	for (; open; open &= open - 1) {
		int i = __ffs(open) - 1;
		float x = 0;
#pragma unroll
		for (int j = 0; j < EACH; j++)
			x = i == j ? y[j] : x;
		m.middle[take(&m.undecided, 1)] = before_key(order_bits(x), i / 4 * 4 * THREADS + threadIdx.x * 4 + i % 4);
	}
	choose(m, a.k, above, in);
	return true;
}

// The block's teams that are drawn by any head, a quad of neighbours for 8 threads. Head: threadIdx.x % 8.
struct Mine {
	float y[PASSES][4]; // of the head
	int offset[PASSES]; // of the thread's team in the quad, or the end
	u32 drawn[PASSES];  // a bit a team: by the head, in the upper half by any
	int before[PASSES]; // rows
};

__device__ inline int quad_of(int pass, int block) { return (pass * QUADS + threadIdx.x / 8) * BLOCKS + block; }

// Rows of the i-th team of a quad, and the first.
__device__ inline int rows_of(const Mine &x, int p, int i, int &first)
{
	first = __shfl_sync(~0u, x.offset[p], i, 8);
	int next = __shfl_sync(~0u, x.offset[p], i + 1, 8);
	return x.drawn[p] >> (16 + i) & 1 ? max(next - first, 0) : 0;
}

// Finds out what is drawn; returns the rows of all of it.
__device__ inline int look(Mine &x, Selection &m, u64 key, int block)
{
	int rows = 0, all;
#pragma unroll
	for (int p = 0; p < PASSES; p++) {
		u32 own = 0;
#pragma unroll
		for (int i = 0; i < 4; i++)
			own |= (before_key(order_bits(x.y[p][i]), quad_of(p, block) * 4 + i) > key) << i;
		u32 any = own;
#pragma unroll
		for (int step = 1; step < 8; step *= 2)
			any |= __shfl_xor_sync(~0u, any, step);
		x.drawn[p] = own | any << 16;
		x.before[p] = rows;
		int first;
#pragma unroll
		for (int i = 0; i < 4; i++)
			rows += rows_of(x, p, i, first);
	}
	int before = scan(threadIdx.x % 8 ? 0 : rows, m.totals[2], all);
	before = __shfl_sync(~0u, before, 0, 8);
#pragma unroll
	for (int p = 0; p < PASSES; p++)
		x.before[p] += before;
	return all;
}

// Lists LISTED rows from number `from` on.
__device__ inline void list(Memory &m, const Mine &x, int from)
{
#pragma unroll
	for (int p = 0; p < PASSES; p++) {
		int at = x.before[p] - from, first;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int n = rows_of(x, p, i, first);
#pragma unroll 1
			for (int j = threadIdx.x % 8; j < n; j += 8)
				if ((u32)(at + j) < LISTED)
					m.list[at + j] = make_int2(first + j, 1 + (p * QUADS + threadIdx.x / 8) * 4 + i);
			at += n;
		}
	}
	__syncthreads();
}

// Finds what less has.
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
			m.less[1 + (p * QUADS + threadIdx.x / 8) * 4 + i][threadIdx.x % 8] = less[i];
	}
	if (threadIdx.x < 8)
		m.less[0][threadIdx.x] = threadIdx.x < HEADS ? 0 : -INF;
}

// The rows of a block, a warp's from `row` to `end`: those of the suffix, then those of the list.
struct Rows {
	const ELEMENT *k, *v; // row 0
	int k_step, v_step, first, suffix, row, end;
};

__device__ inline int2 row_at(const Memory &m, const Rows &r, int i)
{
	return i < r.suffix ? make_int2(r.first + i * BLOCKS, 0) : m.list[i - r.suffix];
}

// Where a piece of a row of keys, or of values, lies in a tile, so that lanes that read together use different banks.
__device__ inline int key_place(int row, int piece) { return (row * PIECES + (piece ^ row % 2 * 4)) * 16; }
__device__ inline int value_place(int row, int piece) { return (row * PIECES + (piece ^ row / 2 % 4 * 2)) * 16; }

// The warp's next TILE rows; those past its end are zero.
__device__ inline void fetch(u8 *tile, const Memory &m, const Rows &r, int row)
{
	int piece = lane_id() % PIECES;
	if (row < r.end)
#pragma unroll 2
		for (int n = lane_id() / PIECES; n < TILE; n += WARP / PIECES) {
			uint4 *key = (uint4 *)(tile + key_place(n, piece)), *value = (uint4 *)(tile + TILE_BYTES + value_place(n, piece));
			if (row + n < r.end) {
				i64 at = row_at(m, r, row + n).x;
				copy16(key, r.k + at * r.k_step + piece * 8);
				copy16(value, r.v + at * r.v_step + piece * 8);
			} else {
				*key = *value = make_uint4(0, 0, 0, 0);
			}
		}
	copy_end();
}

// Attention of a warp: the sums of the heads 2c and 2c + 1 over the lane's rows, the columns of sums as mma leaves them.
struct State {
	float acc[SUMS][4];
	float top[2], sum[2];
};

__device__ inline u32 transposed(u32 x)
{
	u32 y;
	asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
	return y;
}

__device__ inline float low_half(u32 x) { return f32(ELEMENT{(u16)x}); }
__device__ inline float high_half(u32 x) { return f32(ELEMENT{(u16)(x >> 16)}); }
__device__ inline u32 word(const uint4 &x, int i) { return i == 0 ? x.x : i == 1 ? x.y : i == 2 ? x.z : x.w; }

// The logits of a tile, row g and heads 2c and 2c + 1, become weights; the state is brought to the new reference.
__device__ inline void weigh(State &z, float (&s)[2], float scale, const Memory &m, const Rows &r, int row)
{
	int g = lane_id() / 4, c = lane_id() % 4;
	float2 less = make_float2(-INF, -INF);
	if (row + g < r.end)
		less = *(const float2 *)&m.less[row_at(m, r, row + g).y][2 * c];
	s[0] = s[0] * scale + less.x, s[1] = s[1] * scale + less.y;
	float top[2] = {fmaxf(z.top[0], s[0]), fmaxf(z.top[1], s[1])};
#pragma unroll
	for (int step = 4; step < WARP; step *= 2)
#pragma unroll
		for (int h = 0; h < 2; h++)
			top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], step));
	if (__any_sync(~0u, top[0] != z.top[0] || top[1] != z.top[1])) {
		float shrink[2];
#pragma unroll
		for (int h = 0; h < 2; h++) {
			shrink[h] = power2(z.top[h] - reference(top[h]));
			z.sum[h] *= shrink[h];
			z.top[h] = top[h];
		}
#pragma unroll
		for (int i = 0; i < SUMS; i++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				z.acc[i][e] *= shrink[e % 2];
	}
#pragma unroll
	for (int h = 0; h < 2; h++) {
		s[h] = power2(s[h] - reference(top[h]));
		z.sum[h] += s[h];
	}
}

// Adds the warp's rows to z; the first DEPTH tiles are under way.
__device__ inline void attend(State &z, const uint4 (&q)[D / 32], u8 *ring, const Memory &m, const Rows &r, float scale)
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll 1
	for (int row = r.row, slot = 0; row < r.end; row += TILE, slot = slot + 1 == DEPTH ? 0 : slot + 1) {
		u8 *tile = ring + slot * 2 * TILE_BYTES;
		copy_wait<DEPTH - 1>();
		__syncwarp();
		float even[4] = {}, odd[4] = {}; // the tensor cores' rows 8 to 15 are zero
#pragma unroll
		for (int j = 0; j < D / 32; j++) {
			uint4 x = *(uint4 *)(tile + key_place(g, 4 * j + c));
			mma<ELEMENT>(even, x.x, 0, x.y, 0, q[j].x, q[j].y);
			mma<ELEMENT>(odd, x.z, 0, x.w, 0, q[j].z, q[j].w);
		}
		float s[2] = {even[0] + odd[0], even[1] + odd[1]};
		weigh(z, s, scale, m, r, row);
		u32 x = pack<ELEMENT>(s[0], s[1]), p = transposed(x), rest = transposed(pack<ELEMENT>(s[0] - low_half(x), s[1] - high_half(x)));
#pragma unroll
		for (int h = 0; h < HALVES; h++) {
			uint4 v0 = *(uint4 *)(tile + TILE_BYTES + value_place(2 * c, g + 8 * h)), v1 = *(uint4 *)(tile + TILE_BYTES + value_place(2 * c + 1, g + 8 * h));
#pragma unroll
			for (int w = 0; w < 4; w++) {
				u32 low = __byte_perm(word(v0, w), word(v1, w), 0x5410), high = __byte_perm(word(v0, w), word(v1, w), 0x7632);
				mma<ELEMENT>(z.acc[4 * h + w], low, high, 0, 0, p, 0);
				mma<ELEMENT>(z.acc[4 * h + w], low, high, 0, 0, rest, 0);
			}
		}
		__syncwarp();
		fetch(tile, m, r, row + DEPTH * TILE);
	}
	copy_wait<0>();
}

// Puts the warps' states together and leaves the block's part.
__device__ inline void hand_on(State &z, Memory &m, float4 (*sums)[SUMS][WARP], float *parts)
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
	for (int step = 4; step < WARP; step *= 2)
#pragma unroll
		for (int h = 0; h < 2; h++)
			z.sum[h] += __shfl_xor_sync(~0u, z.sum[h], step);
	if (g == 0) {
		m.tops[warp_id()][c] = make_float2(z.top[0], z.top[1]);
		m.sums[warp_id()][c] = make_float2(z.sum[0], z.sum[1]);
	}
	__syncthreads(); // and the ring is free
	float top[2] = {-INF, -INF};
#pragma unroll 4
	for (int w = 0; w < WARPS; w++) {
		float2 t = m.tops[w][c];
		top[0] = fmaxf(top[0], t.x), top[1] = fmaxf(top[1], t.y);
	}
	float shrink[2] = {power2(z.top[0] - reference(top[0])), power2(z.top[1] - reference(top[1]))};
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		sums[warp_id()][i][lane_id()] = make_float4(z.acc[i][0] * shrink[0], z.acc[i][1] * shrink[1], z.acc[i][2] * shrink[0], z.acc[i][3] * shrink[1]);
	__syncthreads();
	for (int i = threadIdx.x; i < SUMS * WARP * 2; i += THREADS) {
		int sum = i / (WARP * 2), lane = i / 2 % WARP, odd = i % 2, column = sum / 4 * 64 + lane / 4 * 8 + sum % 4 * 2 + odd, h = lane % 4 * 2;
		float2 y = make_float2(0, 0);
#pragma unroll 4
		for (int w = 0; w < WARPS; w++) {
			float2 x = ((float2 *)&sums[w][sum][lane])[odd];
			y.x += x.x, y.y += x.y;
		}
		if (h < HEADS)
			parts[h * PART + 2 + column] = y.x;
		if (h + 1 < HEADS)
			parts[(h + 1) * PART + 2 + column] = y.y;
	}
	if (threadIdx.x < 4) {
		float sum[2] = {};
#pragma unroll 4
		for (int w = 0; w < WARPS; w++) {
			float2 t = m.tops[w][c], x = m.sums[w][c];
			sum[0] += x.x * power2(t.x - reference(top[0])), sum[1] += x.y * power2(t.y - reference(top[1]));
		}
#pragma unroll
		for (int h = 0; h < 2; h++)
			if (2 * c + h < HEADS)
				*(float2 *)&parts[(2 * c + h) * PART] = make_float2(top[h], sum[h]);
	}
}

// Waits until all blocks of the key head have left their sums.
__device__ inline void meet(u32 *arrived)
{
	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence();
		atomicAdd(arrived, 1u);
		while (*(volatile u32 *)arrived < BLOCKS) {
		}
		__threadfence();
	}
	__syncthreads();
}

// Adds up the block's columns of a head.
__device__ inline void finish(const Args &a, Memory &m, const float *parts, int head, int first)
{
	int column = threadIdx.x % SHARE, group = threadIdx.x / SHARE;
	float x[(BLOCKS + GROUPS - 1) / GROUPS], top = -INF, sum = 0;
	float2 mass[(BLOCKS + WARP - 1) / WARP];
#pragma unroll
	for (int i = 0; i < sizeof(x) / 4; i++) {
		int b = i * GROUPS + group;
		x[i] = b < BLOCKS ? fresh(parts + b * HEADS * PART + 2 + first + column) : 0;
	}
#pragma unroll
	for (int i = 0; i < sizeof(mass) / 8; i++) {
		int b = i * WARP + lane_id();
		mass[i] = b < BLOCKS ? fresh((const float2 *)(parts + b * HEADS * PART)) : make_float2(-INF, 0);
		top = fmaxf(top, mass[i].x);
	}
	top = warp_max(top);
#pragma unroll
	for (int i = 0; i < sizeof(mass) / 8; i++) {
		float w = power2(mass[i].x - reference(top));
		sum += w * mass[i].y;
		if (warp_id() == 0 && i * WARP + lane_id() < BLOCKS)
			m.weight[i * WARP + lane_id()] = w;
	}
	sum = warp_sum(sum);
	__syncthreads();
	float y = 0;
#pragma unroll
	for (int i = 0; i < sizeof(x) / 4; i++)
		y += i * GROUPS + group < BLOCKS ? m.weight[i * GROUPS + group] * x[i] : 0;
	m.column[group][column] = y;
	__syncthreads();
	if (threadIdx.x >= SHARE)
		return;
	y = 0;
#pragma unroll 4
	for (int i = 0; i < GROUPS; i++)
		y += m.column[i][column];
	a.out.row(0, head)[first + column] = to<DST>(sum != 0 ? y / sum : 0);
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
#pragma unroll
	for (int p = 0; p < PASSES; p++)
		x.offset[p] = fresh(h.offsets + min(quad_of(p, block) * 4 + min(of, 4), a.there));
	__syncthreads();
	if (a.early)
		wait_for_previous();
	let_next_start();
	const float *y = h.y + (min(of, HEADS - 1) - own) * a.y.ld;
#pragma unroll
	for (int p = 0; p < PASSES; p++) {
		int team = quad_of(p, block) * 4;
		float4 t = make_float4(-INF, -INF, -INF, -INF);
		if (team < a.there)
			t = fresh((const float4 *)(y + team));
		x.y[p][0] = t.x, x.y[p][1] = t.y, x.y[p][2] = t.z, x.y[p][3] = t.w;
	}
	if (!border(s, h))
		border_any(s, h, (float *)ring, RING / 4);
	if (threadIdx.x == 0)
		*(volatile u64 *)&told[block] = s.key;
	if (threadIdx.x < HEADS) {
		u64 key;
		do
			key = *(volatile u64 *)&told[part * HEADS + threadIdx.x];
		while (key == 0);
		m.border[threadIdx.x] = key;
	}
	__syncthreads();
	u64 key = of < HEADS ? m.border[of] : ~(u64)0;
	int rows = look(x, s, key, block), first = max(from, 0), suffix = max(min((int)h.pos, a.capacity - 1) - first + 1, 0);
	r.first = first + block, r.suffix = (suffix - block + BLOCKS - 1) / BLOCKS;
	uint4 q[D / 32];
	State z = {};
	z.top[0] = z.top[1] = -INF;
#pragma unroll 1
	for (int done = 0; done == 0 || done < rows; done += LISTED) { // a list at a time
		if (done > 0) {
			__syncthreads();
			r.suffix = 0;
		}
		list(m, x, done);
		int n = r.suffix + min(rows - done, LISTED);
		r.row = n * warp_id() / WARPS, r.end = n * (warp_id() + 1) / WARPS;
#pragma unroll 1
		for (int i = 0; i < DEPTH; i++)
			fetch(tiles + i * 2 * TILE_BYTES, m, r, r.row + i * TILE);
		if (done == 0) { // while the first rows are under way
			int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
			for (int j = 0; j < D / 32; j++)
				q[j] = g < HEADS ? fresh((const uint4 *)(query + g * a.q.s1 + 32 * j + 8 * c)) : make_uint4(0, 0, 0, 0);
			Head by = h;
			by.head += of - own;
			correct(m, x, by, key, block);
			__syncthreads();
		}
		attend(z, q, tiles, m, r, a.scale * LOG2E);
	}
	hand_on(z, m, (float4 (*)[SUMS][WARP])ring, parts + block * HEADS * PART);
	if (threadIdx.x == THREADS - 1) {
		if (a.rows)
			atomicAdd(a.rows, (u64)rows);
		if (a.suffix && block == 0)
			atomicAdd(a.suffix, (u64)suffix);
	}
	if (REPORT && part == 0)
		report(a, s, h, m.border[own]);
	meet((u32 *)&told[BLOCKS]);
	finish(a, m, parts + block / PARTS * PART, kv * HEADS + block / PARTS, block % PARTS * SHARE);
}
