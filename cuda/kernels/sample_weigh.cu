// The second of three kernels of the next token (sample.cuh): greedy, or without
// top-k and top-p, it ends here. Else finds the bin in which a filter ends.
#include "sample.cuh"

// The best token's key.
__device__ u64 best_of_all(const Args &a)
{
	u64 best = 0;
	for (int i = threadIdx.x; i < (a.vocab + a.chunk - 1) / a.chunk; i += blockDim.x)
		best = max(best, a.state->best[i]);
	return block_best(best);
}

// Weights of a block by bins, in parts of 15 bits: a chunk has fewer than 2¹⁷
// tokens.
struct Histogram {
	u32 count[BINS], parts[3][BINS];

	__device__ void clear()
	{
		for (int i = threadIdx.x; i < BINS; i += blockDim.x)
			count[i] = parts[0][i] = parts[1][i] = parts[2][i] = 0;
		__syncthreads();
	}
	__device__ void add(int bin, u64 w)
	{
		atomicAdd(&count[bin], 1);
		for (int part = 0; part < 3; part++)
			if (u32 bits = w >> 15 * part & 0x7fff)
				atomicAdd(&parts[part][bin], bits);
	}
	__device__ void flush(State *s)
	{
		__syncthreads();
		for (int i = threadIdx.x; i < BINS; i += blockDim.x)
			if (count[i]) {
				atomicAdd(&s->count[i], count[i]);
				atomicAdd(&s->mass[i], parts[0][i] + ((u64)parts[1][i] << 15) + ((u64)parts[2][i] << 30));
			}
	}
};

// Finds the last bin with tokens that top-k, or else top-p, may keep.
__device__ void find_bin(const Args &a, Filters f)
{
	constexpr int N = BINS / THREADS;
	State *s = a.state;
	__shared__ int reach;
	int first = threadIdx.x * N;
	Few<N, u32> count(&s->count[first]);
	Few<N, u64> mass(&s->mass[first]);
	u64 tokens = 0, weights = 0, all, total;
#pragma unroll
	for (int i = 0; i < N; i++)
		tokens += count.at[i], weights += mass.at[i];
	u64 counted = scan(tokens, all), above = scan(weights, total), target = f.target(total);
	if (threadIdx.x == 0)
		reach = -1;
	__syncthreads();
	u64 counts[N], masses[N]; // of the bins before each
#pragma unroll
	for (int i = 0; i < N; i++) {
		counts[i] = counted, masses[i] = above;
		if (count.at[i] > 0 && (f.k ? counted < f.k : f.keeps(above, target)))
			atomicMax(&reach, first + i);
		counted += count.at[i], above += mass.at[i];
	}
	__syncthreads();
#pragma unroll
	for (int i = 0; i < N; i++)
		if (reach == first + i) {
			u32 n = count.at[i];
			s->mode = PLAIN_ALWAYS ? PLAIN : counts[i] + n <= LIST ? LISTED : !f.k && n <= LIST ? BORDER : PLAIN;
			s->bin = reach, s->above = masses[i], s->total = total;
		}
}

KERNEL weigh(PARAM)
{
	let_next_start();
	wait_for_previous();
	__shared__ Histogram h;
	__shared__ u64 shared[WARP];
	State *s = a.state;
	int from = blockIdx.x * a.chunk, to = min(from + a.chunk, a.vocab);
	Filters f(a);
	float x[AT_ONCE];
	auto fetch = [&](int i0) {
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++)
			x[j] = i0 + j * THREADS < to ? a.adjusted[i0 + j * THREADS] : -INF;
	};
	fetch(from + threadIdx.x);
	u64 best = best_of_all(a);
	float top = from_order_bits(best >> 32);
	bool broken = best == ~0ull || top == -INF;
	if (broken || f.temperature == 0) {
		if (blockIdx.x == 0 && threadIdx.x == 0)
			*a.id = broken ? -1 : (int)~(u32)best, s->mode = DONE;
		return;
	}
	f.set(top, a.vocab);
	bool bins = PLAIN_ALWAYS || f.k || f.p < 1;
	if (bins)
		h.clear();
	u64 sum = 0;
	for (int i0 = from + threadIdx.x; i0 < to; i0 += AT_ONCE * THREADS) {
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++) {
			u64 w = weight(x[j], top);
			if (bins && w)
				h.add(bin_of(x[j], top), w);
			sum += order_bits(x[j]) >= f.floor ? w : 0;
		}
		fetch(i0 + AT_ONCE * THREADS);
	}
	if (bins) {
		h.flush(s);
	} else {
		sum = block_sum(sum, shared);
		if (threadIdx.x == 0)
			s->sums[blockIdx.x] = sum;
	}
	if (!last(&s->weighed))
		return;
	if (threadIdx.x == 0)
		s->top = top;
	if (bins) {
		find_bin(a, f);
		return;
	}
	if (threadIdx.x == 0)
		s->mode = DONE;
	Few<CHUNKS / THREADS, u64> sums(&s->sums[threadIdx.x * (CHUNKS / THREADS)]);
	draw_chunk(a, top, f.floor, sums.at);
}
