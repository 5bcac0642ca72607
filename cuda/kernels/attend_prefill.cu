// Exact attention of many bf16 queries over the rows from ≤ j ≤ pos[t] on the
// tensor cores of any card that multiplies bf16. A block has 128 queries of
// one head, a warp 32 of them; it reads KEYS keys while it adds up values, and
// values while it scores keys. Blocks of keys begin at from and go from the
// last to the first. Weights are rounded to bf16; sums are float32.
// Grid: heads · query tiles, long ones first; 128 threads; SHARED bytes of
// dynamic shared memory.
// q [tokens, heads, DK]; k [key heads, capacity, DK]; v [key heads, capacity,
// DV]; out [tokens, heads, DV]; lse [tokens, heads] or null; read or null.
// DK and DV are multiples of 16, rows of all begin at multiples of 16 bytes.
// Source: Dao, FlashAttention-2 (2023).
#include "attend_prefill.cuh"
#include "shared.cuh"

#define ROWS 128
#define THREADS 128

struct Args {
	Cube<DST> out;
	Mat<float> lse;
	Cube<const bf16> q, k, v;
	const int *from; // or null: 0
	const int *pos;
	u64 *read;
	int tokens, heads, group, capacity;
	float scale;
};

struct Memory { // 16 bytes more a row keep the banks apart
	bf16 q[ROWS][DK + 8], k[KEYS][DK + 8], v[KEYS][DV + 8];
	Limits<ROWS> limits;
};
static_assert(sizeof(Memory) <= SHARED, "shared memory");

// Begins to copy rows first … first + N − 1 to shared memory; zero from n on.
template <int N, int D> __device__ inline void copy_rows(bf16 (*to)[D + 8], Mat<const bf16> from, i64 first, int n)
{
	for (int i = threadIdx.x; i < N * D / 8; i += THREADS) {
		int r = i / (D / 8), c = i % (D / 8) * 8;
		const bf16 *src = from.row(first + (r < n ? r : 0)) + c;
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(shared_address(to[r] + c)), "l"(src), "r"(r < n ? 16 : 0) : "memory");
	}
	copy_end();
}

// All copies are there, for all threads.
__device__ inline void copies_wait()
{
	copy_wait<0>();
	__syncthreads();
}

// d [16, 8] += a [16, 16] · b [16, 8].
__device__ inline void multiply(float *d, const u32 *a, u32 b0, u32 b1)
{
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// s = q·k for the warp's queries, 16 in each half.
__device__ inline void score(const Memory &m, float (&s)[2][KEYS / 2])
{
	int l = lane_id();
#pragma unroll
	for (int h = 0; h < 2; h++)
#pragma unroll
		for (int i = 0; i < KEYS / 2; i++)
			s[h][i] = 0;
#pragma unroll
	for (int d = 0; d < DK; d += 16) {
		u32 q[2][4];
#pragma unroll
		for (int h = 0; h < 2; h++)
			load_matrices(q[h], shared_address(&m.q[32 * warp_id() + 16 * h + l % 16][d + l / 16 * 8]));
#pragma unroll
		for (int j = 0; j < KEYS; j += 16) {
			u32 k[4];
			load_matrices(k, shared_address(&m.k[j + l / 16 * 8 + l % 8][d + l / 8 % 2 * 8]));
#pragma unroll
			for (int h = 0; h < 2; h++) {
				multiply(s[h] + j / 2, q[h], k[0], k[1]);
				multiply(s[h] + j / 2 + 4, q[h], k[2], k[3]);
			}
		}
	}
}

// o += p·v.
__device__ inline void gather(const Memory &m, float (&o)[2][DV / 2], const float (&p)[2][KEYS / 2])
{
	int l = lane_id();
#pragma unroll
	for (int j = 0; j < KEYS; j += 16) {
		u32 a[2][4];
#pragma unroll
		for (int h = 0; h < 2; h++)
#pragma unroll
			for (int i = 0; i < 4; i++)
				a[h][i] = pack(p[h][j / 2 + 2 * i], p[h][j / 2 + 2 * i + 1]);
#pragma unroll
		for (int d = 0; d < DV; d += 16) {
			u32 v[4];
			load_transposed(v, shared_address(&m.v[j + l % 16][d + l / 16 * 8]));
#pragma unroll
			for (int h = 0; h < 2; h++) {
				multiply(o[h] + d / 2, a[h], v[0], v[1]);
				multiply(o[h] + d / 2 + 4, a[h], v[2], v[3]);
			}
		}
	}
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) attend_prefill(PARAM)
{
	extern __shared__ __align__(16) u8 raw[];
	Memory &m = *(Memory *)raw;
	int tiles = (a.tokens + ROWS - 1) / ROWS;
	int t0 = (tiles - 1 - (int)blockIdx.x / a.heads) * ROWS, head = blockIdx.x % a.heads, kv = head / a.group;
	load_limits(a, m.limits, t0);
	__syncthreads();
	int first = a.from ? max(*a.from, 0) : 0, last = largest(m.limits.of, ROWS), low = smallest(m.limits.of + 32 * warp_id(), 32);
	if (warp_id() == 0 && a.read && head % a.group == 0)
		count_rows(a, m.limits, t0, first);
	Mat<const bf16> q = {a.q.row(0, head), a.q.s0}, k = {a.k.row(kv, 0), a.k.s1}, v = {a.v.row(kv, 0), a.v.s1};
	int row = 32 * warp_id() + lane_id() / 4;
	Softmax soft[2];
	float o[2][DV / 2] = {};
	int j0 = first + (last - first) / KEYS * KEYS;
	if (last >= first) {
		copy_rows<ROWS, DK>(m.q, q, t0, a.tokens - t0);
		copy_rows<KEYS, DK>(m.k, k, j0, last - j0 + 1);
	}
	for (; last >= first && j0 >= first; j0 -= KEYS) {
		float s[2][KEYS / 2], shrink[2];
		copies_wait();
		copy_rows<KEYS, DV>(m.v, v, j0, last - j0 + 1);
		score(m, s);
		copies_wait();
		if (j0 > first)
			copy_rows<KEYS, DK>(m.k, k, j0 - KEYS, KEYS);
#pragma unroll
		for (int h = 0; h < 2; h++) {
			if (j0 + KEYS - 1 > low)
				mask(s[h], j0 + lane_id() % 4 * 2, {m.limits.of[row + 16 * h], m.limits.of[row + 16 * h + 8]});
			soft[h].weigh(s[h], a.scale * LOG2E, shrink);
			scale_rows(o[h], shrink);
		}
		gather(m, o, s);
	}
#pragma unroll
	for (int h = 0; h < 2; h++)
		store_rows(a, o[h], soft[h], t0 + row + 16 * h, head);
}
