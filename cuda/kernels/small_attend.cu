// The half of a layer that attends, for one token, rows of 64, and few rows in a layer
// small enough (small.cuh), but for the addition of its results to x:
//
//	h = x / √(mean(x²) + eps) · gamma; q ‖ k ‖ v = h·wᵀ + bias, q and k rotated
//	out = attention of q over the rows before pos and the new one, which is stored
//	parts = o·out, a key head's share of the columns a part
//
// A key head is a cluster of 8 blocks. They multiply by the weights of its rows of q, k
// and v, an eighth each, and send each other the results; all attend (attend_cluster.cuh);
// they send each other attention, and multiply by the columns of o of the key head.
// Weights are in registers and shared memory before the kernel ahead has ended; with
// early rows of the cache and pos, too.
// Grid: (8, key heads) in clusters of 8; 512 threads; dynamic shared memory: struct
// Memory. x [HIDDEN]; wq [key heads·GROUP·64, HIDDEN], wk and wv [key heads·64, HIDDEN];
// o [HIDDEN, key heads·GROUP·64]; out, q [1, key heads·GROUP, 64]; newK, newV [1, key
// heads, 64]; k, v [key heads, capacity, 64], on 16-byte boundaries; parts [key heads,
// HIDDEN]. Sums in float32, in an order that depends on the shape and pos alone.
#define D 64
#define CLUSTER 8
#define WARPS 8 // that attend
#define TILES 1
#define ELEMENT bf16
#include "attend_cluster.cuh"
#include "small.cuh"

#define ROW ((GROUP + 2) * D) // q, k and v of a key head
#define OUTS (ROW / CLUSTER)  // of them, by a block
#define KEPT 64               // of those, in registers
#define STEPS (HIDDEN / 128)  // of 32 columns, a quarter of all
#define STRIDE (HIDDEN * 2 + GAP)
#define INNER (GROUP * D)        // columns of o
#define FINAL (HIDDEN / CLUSTER) // rows of o, by a block
static_assert(OUTS <= KEPT + 8 && FINAL % 16 == 0 && FINAL / 8 <= BLOCK_WARPS && HIDDEN <= 4 * THREADS, "room");

struct Args {
	TensorMap o; // boxes of FINAL rows
	const W *w[3], *bias[3]; // of q, k, v; biases or null
	i64 ld[3];
	Cube<bf16> out, q, k, v, newK, newV;
	const SRC *x;
	float *parts;
	W *h;
	const W *gamma;
	const float *freq; // [D/2]
	const int *pos;
	u64 *read;
	int capacity, early;
	float eps, scale, turn; // scale of the logits, turn of what is rotated
	int pad;
};

struct Memory {
	u8 o[INNER / 64][FINAL * 128];
	u8 rest[8 * STRIDE]; // rows of q, k and v past KEPT
	Exchange exchange;
	Normed<HIDDEN> x;
	float sums[4][KEPT], rests[BLOCK_WARPS][8], products[2][FINAL];
	__align__(16) bf16 mine[OUTS], row[ROW], mixed[INNER]; // of q, k and v; all of them; attention
	Angles angles;
	u64 arrived, rowInbox, mixedInbox;
};

// Output i of a block: which matrix, and its row there.
struct Place {
	int matrix, row;
	__device__ Place(int i, int block, int kv)
	{
		i = min(i, OUTS - 1) + block * OUTS;
		matrix = i < GROUP * D ? 0 : i < (GROUP + 1) * D ? 1 : 2;
		row = matrix == 0 ? kv * GROUP * D + i : kv * D + i % D;
	}
	__device__ const W *weights(const Args &a) const { return a.w[matrix] + row * a.ld[matrix]; }
	__device__ float bias(const Args &a) const { return a.bias[matrix] ? f32(a.bias[matrix][row]) : 0; }
};

// Multiplies the block's rows of q, k and v, and sends the results to the blocks of the key head.
__device__ inline void send_row(const Args &a, Memory &m, const uint4 (&kept)[STEPS][2], float bias, int block)
{
	int t = threadIdx.x, g = lane_id() / 4, c = lane_id() % 4, tile = warp_id() / 4, quarter = warp_id() % 4;
	Outputs y, z;
#pragma unroll
	for (int s = 0; s < STEPS; s++)
		y.add(kept[s][0], kept[s][1], m.x.columns(quarter * STEPS + s));
	float2 sum = y.over_parts();
	if (c == 0)
		m.sums[quarter][16 * tile + g] = sum.x, m.sums[quarter][16 * tile + 8 + g] = sum.y;
	for (int s = quarter * STEPS + tile; s < (quarter + 1) * STEPS; s += 4)
		z.add(*(const uint4 *)(m.rest + g * STRIDE + (32 * s + 8 * c) * 2), nothing(), m.x.columns(s));
	sum = z.over_parts();
	if (c == 0)
		m.rests[warp_id()][g] = sum.x;
	__syncthreads();
	if (t < OUTS) {
		float sum = 0;
		if (t < KEPT)
			sum = m.sums[0][t] + m.sums[1][t] + (m.sums[2][t] + m.sums[3][t]);
		else
#pragma unroll
			for (int w = 0; w < BLOCK_WARPS; w++)
				sum += m.rests[w][t - KEPT];
		m.mine[t] = to<bf16>(sum * m.x.factor(a.eps) + bias);
	}
	cluster_wait(); // inboxes are open
	__syncthreads();
	if (t < OUTS / 2 * CLUSTER) {
		int word = t % (OUTS / 2), to = t / (OUTS / 2);
		send(to, (float *)m.row + block * (OUTS / 2) + word, ((const float *)m.mine)[word], &m.rowInbox);
	}
}

__device__ inline void load_query(const Memory &m, uint4 (&q)[D / 32], float turn)
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
	for (int j = 0; j < D / 32; j++)
		q[j] = g < GROUP ? *(const uint4 *)(m.row + g * D + 32 * j + 8 * c) : nothing();
	rotate(q, m.angles, turn);
}

// Attends by a warp to its share of the rows, the first of them loaded.
__device__ inline void attend(const Args &a, const Memory &m, State &z, const Share<ROWS> &share, Keys &keys, Values &values, int kv, int pos)
{
	int g = lane_id() / 4, c = lane_id() % 4, tiles = share.tiles(), row = share.begin(0), last = share.end(0);
	u64 policy = evict_first();
	uint4 q[D / 32], key[D / 32], value[HALVES];
	load_query(m, q, a.turn);
	for (int tile = 1;; tile++) {
		if (last == pos) {
#pragma unroll
			for (int j = 0; j < D / 32; j++)
				key[j] = *(const uint4 *)(m.row + GROUP * D + 32 * j + 8 * c);
			value[0] = *(const uint4 *)(m.row + (GROUP + 1) * D + 8 * g);
			rotate(key, m.angles, a.turn);
			put_new(keys, values, key, value, row, last);
			store_key(a.k.row(kv, last), key);
			store_key(a.newK.row(0, kv), key);
			store_value(a.v.row(kv, last), value);
			store_value(a.newV.row(0, kv), value);
		}
		float s[TILES][4] = {};
		score(s, keys, q);
		int next = share.begin(tile), next_last = share.end(tile);
		if (tile < tiles)
			load(keys, {a.k.row(kv, 0), a.k.s1}, next, next_last, policy);
		weigh(z, s, a.scale * LOG2E, row, last);
		add_values(z, values, s);
		if (tile == tiles)
			return;
		row = next, last = next_last;
		load(values, {a.v.row(kv, 0), a.v.s1}, row, last, policy);
	}
}

// What nothing here waits for, by warps that do not attend: h, q, the count of rows.
__device__ inline void store_rest(const Args &a, const Memory &m, int kv, int block, int pos)
{
	int i = threadIdx.x - (WARPS + 1) * WARP, g = lane_id() / 4;
	if (kv == 0 && i >= 0 && i < FINAL)
		a.h[block * FINAL + i] = m.x.at(block * FINAL + i, m.x.factor(a.eps));
	if (block == 0 && warp_id() == WARPS) {
		uint4 q[D / 32];
		load_query(m, q, a.turn);
		if (g < GROUP)
#pragma unroll
			for (int j = 0; j < D / 32; j++)
				*(uint4 *)(a.q.row(0, kv * GROUP + g) + 32 * j + lane_id() % 4 * 8) = q[j];
	}
	if (a.read && block == 0 && kv == 0 && threadIdx.x == THREADS - 1)
		atomicAdd(a.read, (u64)min(pos + 1, a.capacity) * gridDim.y);
}
static_assert(FINAL <= (BLOCK_WARPS - WARPS - 1) * WARP, "threads for h");

// Multiplies attention by the block's rows of o.
__device__ inline void multiply_o(const Args &a, Memory &m, int kv, int block)
{
	int t = threadIdx.x, c = lane_id() % 4, tile = warp_id() / 2, half = warp_id() % 2, r = box_row();
	if (tile < FINAL / 16) {
		Outputs y;
		int at = 16 * tile * 128 + box_place(r, 4 * half + c);
#pragma unroll
		for (int s = 0; s < INNER / 64; s++)
			y.add(*(const uint4 *)(m.o[s] + at), *(const uint4 *)(m.o[s] + at + 8 * 128),
				lane_id() < 4 ? *(const uint4 *)(m.mixed + 64 * s + 32 * half + 8 * c) : nothing());
		if (c == 0)
			m.products[half][16 * tile + r] = y.even[0] + y.odd[0], m.products[half][16 * tile + 8 + r] = y.even[2] + y.odd[2];
	}
	__syncthreads();
	if (t < FINAL)
		a.parts[kv * HIDDEN + block * FINAL + t] = m.products[0][t] + m.products[1][t];
}

static_assert(sizeof(Memory) <= SHARED, "as large as was asked for");

extern "C" __global__ void __launch_bounds__(THREADS, 1) small_attend(PARAM)
{
	extern __shared__ __align__(1024) u8 memory[];
	Memory &m = *(Memory *)memory;
	int kv = blockIdx.y, block = blockIdx.x, t = threadIdx.x, g = lane_id() / 4, c = lane_id() % 4, tile = warp_id() / 4, quarter = warp_id() % 4;
	let_next_start();
	if (t == 0) {
		barrier_init(&m.arrived, 1);
		barriers_ready();
		barrier_expect(&m.arrived, FINAL * INNER * 2);
		inbox_open(&m.rowInbox, ROW * 2);
		inbox_open(&m.exchange.inbox, EXCHANGED);
		inbox_open(&m.mixedInbox, INNER * 2);
	}
	__syncthreads();
	cluster_arrive();
	if (t == THREADS - WARP)
#pragma unroll 1
		for (int i = 0; i < INNER / 64; i++)
			load_box(m.o[i], &a.o, &m.arrived, kv * INNER + i * 64, block * FINAL);
	__syncwarp();
	if (lane_id() == 0)
#pragma unroll 1
		for (int i = warp_id(); i < OUTS; i += BLOCK_WARPS)
			bring(Place(i, block, kv).weights(a), HIDDEN * 2);
	__syncwarp();
	uint4 kept[STEPS][2];
#pragma unroll
	for (int high = 0; high < 2; high++) {
		const W *p = Place(tile * 16 + 8 * high + g, block, kv).weights(a) + 32 * quarter * STEPS + 8 * c;
#pragma unroll
		for (int s = 0; s < STEPS; s++)
			kept[s][high] = stream8(p + 32 * s);
	}
	const W *p = Place(KEPT + warp_id() / 2, block, kv).weights(a);
	for (int i = warp_id() % 2 * WARP + lane_id(); i < HIDDEN / 8; i += 2 * WARP)
		copy16(m.rest + warp_id() / 2 * STRIDE + 16 * i, p + 8 * i);
	copy_end();
	if (!a.early)
		wait_for_previous();
	Limits limits(nullptr, a.pos, 0);
	Share<ROWS> share(Range(limits, a.capacity), block * WARPS + warp_id(), CLUSTER * WARPS);
	bool attending = warp_id() < WARPS && share.tiles() > 0;
	Keys keys;
	Values values;
	if (attending) {
		load(keys, {a.k.row(kv, 0), a.k.s1}, share.begin(0), share.end(0), evict_first());
		load(values, {a.v.row(kv, 0), a.v.s1}, share.begin(0), share.end(0), evict_first());
	}
	if (warp_id() == BLOCK_WARPS - 1)
		find_angles(m.angles, a.freq, limits.pos, lane_id(), WARP);
	float bias = Place(t, block, kv).bias(a);
	float4 gamma = four(a.gamma, t, 4 * t < HIDDEN);
	copy_wait<0>();
	if (a.early)
		wait_for_previous();
	m.x.put(four(a.x, t, 4 * t < HIDDEN), gamma);
	__syncthreads();
	send_row(a, m, kept, bias, block);
	inbox_wait(&m.rowInbox);
	State z;
	if (attending)
		attend(a, m, z, share, keys, values, kv, limits.pos);
	else
		store_rest(a, m, kv, block, limits.pos);
	send_sums(m.exchange, z, block, [] {});
	if (t < 8 * SHARE) {
		int h = t / SHARE, column = block * SHARE + t % SHARE;
		bf16 y = to<bf16>(receive(m.exchange, h, t % SHARE).mean());
		u32 word = y.bits | __shfl_down_sync(~0u, (u32)y.bits, 1) << 16;
		if (h < GROUP)
			a.out.row(0, kv * GROUP + h)[column] = y;
		if (h < GROUP && t % 2 == 0)
#pragma unroll
			for (int to = 0; to < CLUSTER; to++)
				send(to, (float *)(m.mixed + h * D + column), __uint_as_float(word), &m.mixedInbox);
	}
	inbox_wait(&m.mixedInbox);
	barrier_wait(&m.arrived, 0);
	multiply_o(a, m, kv, block);
}
