// Exact attention of many bf16 queries over the rows from ≤ j ≤ pos[t] by
// Hopper's tensor cores. A block has 64·CONSUMERS queries of one head: a warp
// copies keys and values, KEYS rows at a time, into STAGES tiles; each of
// CONSUMERS warpgroups has 64 queries. While one multiplies, another takes
// exponentials, and within each the scores of a block are multiplied while the
// weights of the block before meet their values. Blocks of keys begin at from
// and go from the last to the first. Weights are rounded to bf16; sums are
// float32.
// Grid: query tiles · heads, those of a key head together, long ones first;
// 128·(CONSUMERS + 1) threads; SHARED bytes of dynamic shared memory.
// q [tokens, heads, DK]; k [key heads, capacity, DK]; v [key heads, capacity,
// DV]; out [tokens, heads, DV]; lse [tokens, heads] or null; read or null.
// DK ≤ 192, a multiple of 16; DV 64 or 128.
// Source: Shah et al., FlashAttention-3 (2024).
#include "attend_prefill.cuh"
#include "hopper.cuh"

#define ROWS (64 * CONSUMERS)
#define KEY_PANELS ((DK + 63) / 64) // of 64 columns; zero beyond DK
#define VALUE_PANELS (DV / 64)

struct Args {
	TensorMap q, k, v;
	Cube<DST> out;
	Mat<float> lse;
	const int *from; // or null: 0
	const int *pos;
	u64 *read;
	int tokens, heads, group, capacity;
	float scale;
};

struct Memory {
	bf16 q[KEY_PANELS][ROWS][64];
	bf16 k[STAGES][KEY_PANELS][KEYS][64];
	bf16 v[STAGES][VALUE_PANELS][KEYS][64];
	u64 q_full, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
	Limits<ROWS> limits;
};
static_assert(sizeof(Memory) <= SHARED, "shared memory");

__device__ inline void prepare(Memory &m)
{
	barrier_init(&m.q_full, 1);
	for (int i = 0; i < STAGES; i++) {
		barrier_init(&m.k_full[i], 1);
		barrier_init(&m.v_full[i], 1);
		barrier_init(&m.k_empty[i], 4 * CONSUMERS);
		barrier_init(&m.v_empty[i], 4 * CONSUMERS);
	}
	barriers_ready();
}

// A tile of queries, and the rows that it reads.
struct Work { int t0, head, kv, first, last, blocks; };

// The n-th block of rows.
__device__ inline int row_of(const Work &w, int n) { return w.first + (w.blocks - 1 - n) * KEYS; }

// One thread copies all.
__device__ void copy_all(const Args &a, Memory &m, const Work &w)
{
	auto rows = [&](const TensorMap *map, bf16 (*to)[KEYS][64], u64 *full, u64 *empty, int panels, int n) {
		barrier_wait(empty + n % STAGES, n / STAGES & 1 ^ 1);
		barrier_expect(full + n % STAGES, panels * KEYS * 128);
		for (int p = 0; p < panels; p++)
			load_box(to[p], map, full + n % STAGES, 64 * p, row_of(w, n), w.kv);
	};
	auto keys = [&](int n) { rows(&a.k, m.k[n % STAGES], m.k_full, m.k_empty, KEY_PANELS, n); };
	if (w.blocks == 0)
		return;
	barrier_expect(&m.q_full, sizeof(m.q));
	for (int p = 0; p < KEY_PANELS; p++)
		load_box(m.q[p], &a.q, &m.q_full, 64 * p, w.head, w.t0);
	keys(0);
	for (int n = 0; n < w.blocks; n++) {
		if (n + 1 < w.blocks)
			keys(n + 1);
		rows(&a.v, m.v[n % STAGES], m.v_full, m.v_empty, VALUE_PANELS, n);
	}
}

// A warpgroup's view of the work.
struct Consumer {
	const Args &a;
	Memory &m;
	const Work &w;
	int index;    // of the warpgroup
	int limit[2]; // of the thread's rows
	int low;      // the smallest of the warpgroup
	float c;      // scale · log2 e

	__device__ void release(u64 *empty)
	{
		if (lane_id() == 0)
			barrier_arrive(empty);
	}

	// s = q·k of block n.
	__device__ void score(float (&s)[KEYS / 2], int n)
	{
		u64 q = tile(m.q[0][64 * index]), k = tile(m.k[n % STAGES][0]);
#pragma unroll
		for (int i = 0; i < DK / 16; i++)
			product<KEYS>(s, q + i / 4 * (ROWS * 8) + i % 4 * 2, k + i / 4 * (KEYS * 8) + i % 4 * 2, i > 0);
		products_commit();
	}

	// o += p·v of block n.
	__device__ void gather(float (&o)[DV / 2], u32 (&p)[KEYS / 4], int n)
	{
		u64 v = tile(m.v[n % STAGES][0], KEYS * 128);
#pragma unroll
		for (int i = 0; i < KEYS / 16; i++)
			product<DV>(o, p + 4 * i, v + i * 128, 1);
		products_commit();
	}

	// Waits for the values of block n. Rows beyond the last, which may hold
	// anything, get weight 0 and must not be NaN.
	__device__ void values(int n)
	{
		barrier_wait(&m.v_full[n % STAGES], n / STAGES & 1);
		int valid = w.last - row_of(w, n) + 1;
		if (valid >= KEYS)
			return;
		for (int p = 0; p < VALUE_PANELS; p++)
			for (int i = valid * 8 + threadIdx.x % 128; i < KEYS * 8; i += 128)
				((uint4 *)m.v[n % STAGES][p])[i] = make_uint4(0, 0, 0, 0);
		fence_async();
		named_wait(8 + index, 128);
	}

	__device__ void weigh(Softmax &soft, float (&s)[KEYS / 2], int n, float (&shrink)[2])
	{
		int row = row_of(w, n);
		if (row + KEYS - 1 > low)
			mask(s, row + lane_id() % 4 * 2, limit);
		soft.weigh(s, c, shrink);
	}

	__device__ static void round(u32 (&p)[KEYS / 4], const float (&s)[KEYS / 2])
	{
#pragma unroll
		for (int i = 0; i < KEYS / 4; i++)
			p[i] = pack(s[2 * i], s[2 * i + 1]);
	}

	// Warpgroups take turns at issuing products.
	__device__ void turn() { named_wait(1 + index, 256); }
	__device__ void pass() { named_arrive(1 + (index + 1) % CONSUMERS, 256); }

	__device__ void run(Softmax &soft, float (&o)[DV / 2])
	{
		float s[KEYS / 2], shrink[2];
		u32 p[KEYS / 4];
		if (w.blocks == 0)
			return;
		if (index == CONSUMERS - 1)
			pass();
		barrier_wait(&m.q_full, 0);
		barrier_wait(&m.k_full[0], 0);
		products_begin();
		score(s, 0);
		products_wait<0>();
		hold(s);
		release(&m.k_empty[0]);
		weigh(soft, s, 0, shrink);
		round(p, s);
		for (int n = 1; n < w.blocks; n++) {
			barrier_wait(&m.k_full[n % STAGES], n / STAGES & 1);
			turn();
			hold(s);
			hold(o);
			hold(p);
			products_begin();
			score(s, n);
			values(n - 1);
			gather(o, p, n - 1);
			pass();
			products_wait<1>();
			hold(s);
			release(&m.k_empty[n % STAGES]);
			weigh(soft, s, n, shrink);
			if (soft.sum[0] + soft.sum[1] < 0) // never; without it ptxas waits first and weighs then
				*(volatile int *)m.limits.of = 0;
			products_wait<0>();
			hold(o);
			hold(p);
			release(&m.v_empty[(n - 1) % STAGES]);
			round(p, s);
			scale_rows(o, shrink);
		}
		values(w.blocks - 1);
		hold(o);
		hold(p);
		products_begin();
		gather(o, p, w.blocks - 1);
		products_wait<0>();
		hold(o);
	}
};

extern "C" __global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1) attend_prefill(PARAM)
{
	extern __shared__ __align__(1024) u8 raw[];
	Memory &m = *(Memory *)raw;
	int tiles = (a.tokens + ROWS - 1) / ROWS;
	Work w;
	int per_key_head = a.group * tiles, rest = blockIdx.x % per_key_head;
	w.kv = blockIdx.x / per_key_head;
	w.head = w.kv * a.group + rest % a.group;
	w.t0 = (tiles - 1 - rest / a.group) * ROWS;
	load_limits(a, m.limits, w.t0);
	if (threadIdx.x == 0)
		prepare(m);
	__syncthreads();
	w.first = a.from ? max(*a.from, 0) : 0;
	w.last = largest(m.limits.of, ROWS);
	w.blocks = w.last < w.first ? 0 : (w.last - w.first) / KEYS + 1;
	if (threadIdx.x < 128) {
		fewer_registers<CONSUMERS == 2 ? 24 : 32>();
		if (threadIdx.x == 0)
			copy_all(a, m, w);
		if (warp_id() == 1 && a.read && w.head % a.group == 0)
			count_rows(a, m.limits, w.t0, w.first);
	} else {
		more_registers<CONSUMERS == 2 ? 240 : 160>();
		int index = warp_id() / 4 - 1, row = 64 * index + warp_id() % 4 * 16 + lane_id() / 4;
		Consumer consumer = {a, m, w, index, {m.limits.of[row], m.limits.of[row + 8]}, smallest(m.limits.of + 64 * index, 64), a.scale * LOG2E};
		Softmax soft;
		float o[DV / 2] = {};
		consumer.run(soft, o);
		store_rows(a, o, soft, w.t0 + row, w.head);
	}
}
