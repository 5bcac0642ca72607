#pragma once
// What the three kernels of the next token share: repetition penalty,
// temperature, top-k, top-p, min-p, draw.
//
//	sample_adjust  logits after penalty and temperature; the best of every chunk
//	sample_weigh   greedy: the best of all. Else weights, summed by chunk (no filter
//	               or min-p alone: then the draw) or by distance from the best, in bins
//	sample_choose  the tokens above the bin in which a filter ends; the draw
//
// Grid: a block a chunk of the vocabulary, 256, 256 and 1,024 threads. Whichever
// block of weigh or choose is done last ends the work of all.
// logits, adjusted (scratch) [vocab]; seen [vocab]; settings [5] as
// device.SetTemperature and its followers number them; state is scratch.
// Weights are integers, exp(x − max)·2⁴⁰, so that sums are exact and do not
// depend on their order.
#include "early.cuh"
#include "philox.cuh"

#define THREADS 256 // of adjust and weigh
#define MANY 1024   // of choose
#define CHUNKS 1024 // at most
#define BINS 1024
#define PER_NAT 32 // bins
#define LIST 2048
#define AT_ONCE 4 // elements that a thread of 256 loads before it looks at one
#ifndef PLAIN_ALWAYS // by tests, which compare both ways
#define PLAIN_ALWAYS 0
#endif

// What the kernels hand on.
struct State {
	int mode, bin; // the last bin that a filter reaches
	float top;     // the best logit
	u32 listed, weighed, chosen;
	u64 total, above; // weights of all, and of the bins before the last one
	u64 best[CHUNKS]; // key of the best token: order bits, complement of its id; ~0: NaN or +Inf
	u64 sums[CHUNKS]; // of the weights that are kept for sure
	u64 mass[BINS];
	u32 count[BINS]; // tokens that have a weight
	float x[LIST];
	int ids[LIST];
};

static_assert(sizeof(State) <= 1 << 16, "State is larger than its scratch memory");

enum { DONE, LISTED, BORDER, PLAIN };

struct Args {
	int *id;
	const float *logits;
	const int *seen;
	const float *settings;
	const u32 *seed;
	const int *pos;
	float *adjusted;
	State *state;
	int vocab, chunk;
};

enum { TEMPERATURE, TOP_K, TOP_P, MIN_P, REPETITION };

// The weight of a token; those dropped so far have none.
__device__ u64 weight(float x, float top) { return x == -INF ? 0 : __float2ull_rz(expf(x - top) * 0x1p40f); }

__device__ float from_order_bits(u32 u) { return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u); }

// Equal logits share a bin, and larger ones have no later bin.
__device__ int bin_of(float x, float top) { return min((int)((top - x) * PER_NAT), BINS - 1); }

// Settings as numbers to compare with.
struct Filters {
	float temperature, k_setting, p, min_p;
	int k;     // 0: off
	u32 floor; // order bits of the lowest logit that min-p keeps

	__device__ explicit Filters(const Args &a) // loads, early
		: temperature(a.settings[TEMPERATURE]), k_setting(a.settings[TOP_K]), p(a.settings[TOP_P]), min_p(a.settings[MIN_P]) {}
	__device__ void set(float top, int vocab)
	{
		k = k_setting > 0 && k_setting < vocab ? k_setting : 0;
		floor = min_p > 0 ? order_bits(top + logf(min_p)) : 0;
	}
	// The mass that top-p wants.
	__device__ u64 target(u64 total) const { return __double2ull_rz((double)fmaxf(p, 0) * (double)total); }
	// Whether top-p keeps a token; above is the mass of larger ones.
	__device__ bool keeps(u64 above, u64 target) const { return p >= 1 || above == 0 || above < target; }
};

__device__ u64 block_best(u64 best)
{
	__shared__ u64 shared[WARP];
	for (int step = WARP / 2; step > 0; step /= 2)
		best = max(best, __shfl_xor_sync(~0u, best, step));
	__syncthreads();
	if (lane_id() == 0)
		shared[warp_id()] = best;
	__syncthreads();
	for (int w = 0; w < blockDim.x / WARP; w++)
		best = max(best, shared[w]);
	return best;
}

// The sum of the values of the threads before this one, and of all.
__device__ u64 scan(u64 x, u64 &total)
{
	__shared__ u64 shared[WARP];
	u64 sum = x;
	for (int step = 1; step < WARP; step *= 2) {
		u64 left = __shfl_up_sync(~0u, sum, step);
		sum += lane_id() >= step ? left : 0;
	}
	__syncthreads();
	if (lane_id() == WARP - 1)
		shared[warp_id()] = sum;
	__syncthreads();
	u64 before = sum - x;
	total = 0;
	for (int w = 0; w < blockDim.x / WARP; w++) {
		before += w < warp_id() ? shared[w] : 0;
		total += shared[w];
	}
	return before;
}

// Reports, in the block that is last, that all blocks have come here; what they
// wrote can then be read by load.
__device__ bool last(u32 *arrived)
{
	__shared__ bool is;
	__syncthreads();
	if (threadIdx.x == 0) {
		__threadfence();
		is = atomicAdd(arrived, 1) == gridDim.x - 1;
		__threadfence();
	}
	__syncthreads();
	return is;
}

template <class T> __device__ T load(const T *p) { return __ldcg(p); }

// N neighbouring values of a thread, all on their way at once.
template <int N, class T> struct Few {
	T at[N];
	__device__ explicit Few(const T *p)
	{
#pragma unroll
		for (int i = 0; i < N; i++)
			at[i] = __ldcg(p + i);
	}
};

// u times a sum of weights: u = (2x + 1)·2⁻³³, and a sum of integers exceeds
// u·total where it exceeds the floor.
__device__ u64 threshold(const Args &a, u64 total)
{
	u32 x = philox(0, 0, 0xffffffffu, *a.pos, a.seed[0], a.seed[1]).at[0];
	u64 odd = 2 * (u64)x + 1;
	return __umul64hi(odd, total) << 31 | odd * total >> 33;
}

// The first of n logits at or above a border whose running sum of weights,
// begun with `before`, exceeds a threshold. Every warp has a range of its own.
__device__ void draw(const Args &a, const float *x, int first, int n, float top, u32 border, u64 before, u64 over)
{
	__shared__ u64 shared[WARP];
	int warps = blockDim.x / WARP, per = (n + warps - 1) / warps, from = min(warp_id() * per, n), to = min(from + per, n);
	auto kept = [&](int i) { return i < to && order_bits(x[i]) >= border ? weight(x[i], top) : 0; };
	u64 sum = 0;
#pragma unroll 8
	for (int i = from + lane_id(); i < to; i += WARP)
		sum += kept(i);
	for (int step = WARP / 2; step > 0; step /= 2)
		sum += __shfl_xor_sync(~0u, sum, step);
	__syncthreads();
	if (lane_id() == 0)
		shared[warp_id()] = sum;
	__syncthreads();
	for (int w = 0; w < warp_id(); w++)
		before += shared[w];
	if (over < before || over >= before + sum)
		return;
	for (int i = from; i < to; i += WARP) {
		u64 w = kept(i + lane_id());
		for (int step = 1; step < WARP; step *= 2) {
			u64 left = __shfl_up_sync(~0u, w, step);
			w += lane_id() >= step ? left : 0;
		}
		u32 found = __ballot_sync(~0u, before + w > over);
		if (found) {
			if (lane_id() == 0)
				*a.id = first + i + __ffs(found) - 1;
			return;
		}
		before += __shfl_sync(~0u, w, WARP - 1);
	}
}

// Draws from the chunks' sums, N a thread, then within a chunk.
template <int N> __device__ void draw_chunk(const Args &a, float top, u32 border, const u64 (&sums)[N])
{
	__shared__ int chunk;
	__shared__ u64 start;
	u64 mine = 0, total;
#pragma unroll
	for (int i = 0; i < N; i++)
		mine += sums[i];
	u64 before = scan(mine, total), over = threshold(a, total);
#pragma unroll
	for (int i = 0; i < N; i++) {
		if (over >= before && over < before + sums[i])
			chunk = threadIdx.x * N + i, start = before;
		before += sums[i];
	}
	__syncthreads();
	int first = chunk * a.chunk;
	draw(a, a.adjusted + first, first, min(a.chunk, a.vocab - first), top, border, start, over);
}
