// The n most probable tokens with ln of their probabilities, and that of one
// token.
//
//	chunks         Σ exp and the n best of 1,024 tokens: a block each, 256 threads
//	join           of all: one block of 1,024, at most 256 chunks, n at most 32
//	top_logprobs   any n and vocabulary: one block of 1,024, a pass for each of n
//
// ids, logprobs [n]; chosen [1]; logits [vocab]; id [1]. Scratch: best [chunks,
// n] keys; tops, sums [chunks], the largest logit and the sum relative to it.
//
// The n best lie at or above the n-th largest of the groups' best: few others
// do, and those are put in order by counting, for each, how many are larger.
#include "early.cuh"

struct Args {
	int *ids;
	float *logprobs, *chosen;
	const float *logits;
	const int *id;
	u64 *best;
	float *tops, *sums;
	int n, vocab, chunks, pad;
};

#define CHUNK 1024
#define MOST 32 // n
#define GROUP 16 // tokens that a group's best stands for
#define GROUPS (CHUNK / GROUP)

// Falling logits, lower ids first; NaN last. No token has key 0.
__device__ u64 key(float x, int i) { return (u64)(x != x ? 0 : order_bits(x)) << 32 | (u32)~i; }

__device__ void write(const Args &a, int j, u64 key, float whole)
{
	a.ids[j] = ~(u32)key;
	a.logprobs[j] = a.logits[~(u32)key] - whole;
}

__device__ void write_chosen(const Args &a, float whole)
{
	*a.chosen = (u32)*a.id < (u32)a.vocab ? a.logits[*a.id] - whole : INF - INF;
}

// How many keys are larger.
__device__ int larger(const u64 *keys, int n, u64 than)
{
	int count = 0;
#pragma unroll 8
	for (int i = 0; i < n; i++)
		count += keys[i] > than;
	return count;
}

// Keys at or above a border, in no order.
template <int N> struct Above {
	u64 keys[N];
	u64 border;
	int n;

	__device__ void begin()
	{
		if (threadIdx.x == 0)
			border = 0, n = 0;
		__syncthreads();
	}
	__device__ void add(u64 k)
	{
		if (k && k >= border)
			keys[atomicAdd(&n, 1)] = k;
	}
	// Calls each(rank, key).
	template <class Each> __device__ void ranked(Each each) const
	{
		for (int i = threadIdx.x; i < n; i += blockDim.x)
			each(larger(keys, n, keys[i]), keys[i]);
	}
};

KERNEL chunks(PARAM)
{
	let_next_start();
	wait_for_previous();
	__shared__ float shared[WARP];
	__shared__ u64 heads[GROUPS];
	__shared__ Above<MOST * GROUP> above;
	above.begin();
	float x[4], top = -INF, sum = 0;
	u64 k[4], best = 0;
#pragma unroll
	for (int j = 0; j < 4; j++) {
		int i = blockIdx.x * CHUNK + j * 256 + threadIdx.x;
		x[j] = i < a.vocab ? a.logits[i] : -INF;
		k[j] = i < a.vocab ? key(x[j], i) : 0;
		top = fmaxf(top, x[j]), best = max(best, k[j]);
	}
	top = block_max(top, shared);
#pragma unroll
	for (int j = 0; j < 4; j++)
		sum += blockIdx.x * CHUNK + j * 256 + threadIdx.x < a.vocab ? expf(x[j] - top) : 0;
	sum = block_sum(sum, shared);
	if (threadIdx.x == 0)
		a.tops[blockIdx.x] = top, a.sums[blockIdx.x] = sum;

	for (int step = 1; step < GROUP / 4; step *= 2)
		best = max(best, __shfl_xor_sync(~0u, best, step));
	if (threadIdx.x % (GROUP / 4) == 0)
		heads[threadIdx.x / (GROUP / 4)] = best;
	__syncthreads();
	if (threadIdx.x < GROUPS && larger(heads, GROUPS, heads[threadIdx.x]) == a.n - 1)
		above.border = heads[threadIdx.x];
	__syncthreads();
#pragma unroll
	for (int j = 0; j < 4; j++)
		above.add(k[j]);
	__syncthreads();
	u64 *list = a.best + blockIdx.x * a.n;
	above.ranked([&](int rank, u64 key) {
		if (rank < a.n)
			list[rank] = key;
	});
	if (threadIdx.x >= above.n && threadIdx.x < a.n)
		list[threadIdx.x] = 0;
}

KERNEL join(PARAM)
{
	let_next_start();
	wait_for_previous();
	__shared__ float shared[WARP];
	__shared__ u64 heads[256];
	__shared__ Above<MOST * MOST> above;
	above.begin();
	bool mine = threadIdx.x < a.chunks;
	u64 head = mine ? a.best[threadIdx.x * a.n] : 0;
	if (threadIdx.x < 256)
		heads[threadIdx.x] = head;
	float own = mine ? a.tops[threadIdx.x] : -INF, top = block_max(own, shared);
	float sum = mine && own != -INF ? a.sums[threadIdx.x] * expf(own - top) : 0;
	float whole = top + logf(block_sum(sum, shared));
	if (mine && larger(heads, a.chunks, head) == a.n - 1)
		above.border = head;
	__syncthreads();
	for (int i = threadIdx.x; i < a.chunks * a.n; i += blockDim.x)
		above.add(a.best[i]);
	__syncthreads();
	above.ranked([&](int rank, u64 key) {
		if (rank < a.n)
			write(a, rank, key, whole);
	});
	if (threadIdx.x == 0)
		write_chosen(a, whole);
}

KERNEL top_logprobs(PARAM)
{
	let_next_start();
	wait_for_previous();
	__shared__ float floats[WARP];
	__shared__ u64 keys[2][WARP];
	float top = -INF, sum = 0;
#pragma unroll 8
	for (int i = threadIdx.x; i < a.vocab; i += blockDim.x)
		top = fmaxf(top, a.logits[i]);
	top = block_max(top, floats);
#pragma unroll 8
	for (int i = threadIdx.x; i < a.vocab; i += blockDim.x)
		sum += expf(a.logits[i] - top);
	float whole = top + logf(block_sum(sum, floats));

	u64 last = ~0ull;
	for (int j = 0; j < a.n; j++) {
		u64 best = 0;
#pragma unroll 8
		for (int i = threadIdx.x; i < a.vocab; i += blockDim.x) {
			u64 k = key(a.logits[i], i);
			best = k < last ? max(best, k) : best;
		}
		for (int step = WARP / 2; step > 0; step /= 2)
			best = max(best, __shfl_xor_sync(~0u, best, step));
		if (lane_id() == 0)
			keys[j % 2][warp_id()] = best;
		__syncthreads();
		for (int w = 0; w < WARP; w++)
			best = max(best, keys[j % 2][w]);
		last = best;
		if (threadIdx.x == 0)
			write(a, j, best, whole);
	}
	if (threadIdx.x == 0)
		write_chosen(a, whole);
}
