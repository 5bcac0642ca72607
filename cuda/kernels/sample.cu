// The next token: repetition penalty, temperature, top-k, top-p, min-p, draw.
//
//	adjust   logits after penalty and temperature; the best of every chunk
//	weigh    greedy: the best of all. Else weights, summed by chunk (no filter or
//	         min-p alone: then the draw) or by distance from the best, in bins
//	choose   the tokens above the bin in which a filter ends; the draw
//
// Grid: a block a chunk of the vocabulary, 256, 256 and 1,024 threads. Whichever
// block of weigh or choose is done last ends the work of all.
// logits, adjusted (scratch) [vocab]; seen [vocab]; settings [5] as
// device.SetTemperature and its followers number them; state is scratch.
// Weights are integers, exp(x − max)·2⁴⁰, so that sums are exact and do not
// depend on their order.
#include "early.cuh"
#include "philox.cuh"
#include "topk.cuh"

#define THREADS 256 // of adjust and weigh
#define MANY 1024   // of choose
#define CHUNKS 1024 // at most
#define BINS 1024
#define PER_NAT 32 // bins
#define LIST 2048
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

#define AT_ONCE 4 // elements that a thread of 256 loads before it looks at one

KERNEL adjust(PARAM)
{
	let_next_start();
	wait_for_previous();
	float temperature = a.settings[TEMPERATURE], penalty = a.settings[REPETITION];
	int from = blockIdx.x * a.chunk, to = min(from + a.chunk, a.vocab);
	u64 best = 0;
	for (int i0 = from + threadIdx.x; i0 < to; i0 += AT_ONCE * blockDim.x) {
		float x[AT_ONCE];
		int seen[AT_ONCE];
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++) {
			int i = min(i0 + j * blockDim.x, to - 1);
			x[j] = a.logits[i], seen[j] = a.seen[i];
		}
#pragma unroll
		for (int j = 0; j < AT_ONCE; j++) {
			int i = i0 + j * blockDim.x;
			if (i >= to)
				continue;
			bool broken = !(x[j] < INF);
			if (seen[j])
				x[j] = x[j] > 0 ? x[j] / penalty : x[j] * penalty;
			if (temperature != 0)
				x[j] /= temperature;
			a.adjusted[i] = x[j];
			best = max(best, broken ? ~0ull : (u64)order_bits(x[j]) << 32 | (u32)~i);
		}
	}
	best = block_best(best);
	if (threadIdx.x == 0)
		a.state->best[blockIdx.x] = best;
	static_assert(BINS == CHUNKS, "one loop clears both");
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < BINS; i += gridDim.x * blockDim.x)
		a.state->mass[i] = 0, a.state->count[i] = 0, a.state->sums[i] = 0;
	if (blockIdx.x == 0 && threadIdx.x == 0)
		a.state->listed = 0, a.state->weighed = 0, a.state->chosen = 0;
}

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

// Tokens that filters are tried on, and draws made from, one by one.
struct List {
	float x[LIST];
	int ids[LIST];
	u64 w[LIST]; // 0: dropped
	int n;

	// Calls each(i, slot) for the tokens of this thread.
	template <class Each> __device__ void mine(Each each) const
	{
#pragma unroll
		for (int slot = 0; slot < LIST / MANY; slot++)
			if (int i = slot * MANY + threadIdx.x; i < n)
				each(i, slot);
	}
	// The weights of tokens j for which is(j).
	template <class Is> __device__ u64 sum(Is is) const
	{
		u64 sum = 0;
#pragma unroll 8
		for (int j = 0; j < n; j++)
			sum += is(j) ? w[j] : 0;
		return sum;
	}
};

// Drops what top-k and then top-p drop. above is the mass of larger tokens than
// those of the list, total that of all, unless top-k leaves less.
__device__ void filter(List &l, Filters f, u64 above, u64 total, float top)
{
	__shared__ u64 shared[WARP];
	if (f.k) {
		u64 mine = 0;
		l.mine([&](int i, int) {
			int larger = 0;
#pragma unroll 8
			for (int j = 0; j < l.n; j++)
				larger += l.x[j] > l.x[i];
			l.w[i] = larger < f.k ? weight(l.x[i], top) : 0;
			mine += l.w[i];
		});
		total = block_sum(mine, shared);
	}
	u64 target = f.target(total);
	bool drop[LIST / MANY];
	l.mine([&](int i, int slot) {
		float x = l.x[i];
		bool by_mass = f.p < 1 && !f.keeps(above + l.sum([&](int j) { return l.x[j] > x; }), target);
		drop[slot] = by_mass || order_bits(x) < f.floor;
	});
	__syncthreads();
	l.mine([&](int i, int slot) { l.w[i] = drop[slot] ? 0 : l.w[i]; });
	__syncthreads();
}

// Draws from the list alone, in the order of ids.
__device__ void draw_listed(const Args &a, const List &l)
{
	__shared__ u64 shared[WARP];
	u64 mine = 0;
	l.mine([&](int i, int) { mine += l.w[i]; });
	u64 over = threshold(a, block_sum(mine, shared));
	l.mine([&](int i, int) {
		int id = l.ids[i];
		u64 before = l.sum([&](int j) { return l.ids[j] < id; });
		if (over >= before && over < before + l.w[i])
			*a.id = id;
	});
}

// Draws from the list, which is the last bin, and all before it.
__device__ void draw_border(const Args &a, const List &l, Filters f, float top, u64 *shared)
{
	__shared__ u32 border;
	shared[threadIdx.x] = load(&a.state->sums[threadIdx.x]);
	if (threadIdx.x == 0)
		border = ~0u;
	__syncthreads();
	l.mine([&](int i, int) {
		if (l.w[i]) {
			atomicAdd(&shared[l.ids[i] / a.chunk], l.w[i]);
			atomicMin(&border, order_bits(l.x[i]));
		}
	});
	__syncthreads();
	u64 sums[CHUNKS / MANY] = {shared[threadIdx.x]};
	// Where min-p leaves nothing of the bin, it alone decides.
	draw_chunk(a, top, border == ~0u ? f.floor : border, sums);
}

// What one block needs to find borders among all tokens.
struct Plain {
	SelectMemory select;
	u64 mass[256];
	u64 above;
	u32 border;
};

// The order bits of the lowest logit that top-p keeps of those at or above
// `floor`: a radix search over sums of mass.
__device__ u32 mass_border(const Args &a, Plain &m, Filters f, float top, u32 floor, u64 target)
{
	if (threadIdx.x == 0)
		m.above = 0, m.border = 0;
	for (int shift = 24; shift >= 0; shift -= 8) {
		for (int i = threadIdx.x; i < 256; i += blockDim.x)
			m.mass[i] = 0;
		__syncthreads();
		u32 border = m.border;
		for (int i = threadIdx.x; i < a.vocab; i += blockDim.x) {
			u32 bits = order_bits(a.adjusted[i]);
			if (bits >= floor && (shift == 24 || bits >> (shift + 8) == border >> (shift + 8)))
				atomicAdd(&m.mass[bits >> shift & 255], weight(a.adjusted[i], top));
		}
		__syncthreads();
		if (threadIdx.x == 0) {
			u64 above = m.above;
			int lowest = 0;
			for (int digit = 255; digit >= 0; digit--) {
				if (m.mass[digit] == 0)
					continue;
				if (!f.keeps(above, target))
					break;
				lowest = digit, m.above = above;
				above += m.mass[digit];
			}
			m.border |= (u32)lowest << shift;
		}
		__syncthreads();
	}
	return m.border;
}

// Filters and draws in one block, where too many tokens are in question for a
// list.
__device__ void plain(const Args &a, Plain &m, Filters f, float top)
{
	__shared__ u64 shared[WARP];
	u32 border = 0;
	auto total = [&]() {
		u64 sum = 0;
		for (int i = threadIdx.x; i < a.vocab; i += blockDim.x)
			sum += order_bits(a.adjusted[i]) >= border ? weight(a.adjusted[i], top) : 0;
		return block_sum(sum, shared);
	};
	if (f.k) {
		auto key = [&](int i, u64 &bits) { bits = (u64)order_bits(a.adjusted[i]) << 32; return true; };
		border = radix_select(a.vocab, f.k, 32, key, m.select) >> 32;
	}
	if (f.p < 1)
		border = max(border, mass_border(a, m, f, top, border, f.target(total())));
	border = max(border, f.floor);
	draw(a, a.adjusted, 0, a.vocab, top, border, 0, threshold(a, total()));
}

KERNEL choose(PARAM)
{
	let_next_start();
	wait_for_previous();
	static_assert(CHUNKS == MANY, "a thread a chunk");
	__shared__ union Memory { List list; Plain plain; __device__ Memory() {} } m;
	__shared__ u64 sums[CHUNKS];
	State *s = a.state;
	int mode = s->mode, bin_at_end = s->bin, from = blockIdx.x * a.chunk, to = min(from + a.chunk, a.vocab);
	float top = s->top, next = from + threadIdx.x < to ? a.adjusted[from + threadIdx.x] : -INF;
	u64 total = s->total, before = s->above;
	Filters f(a);
	if (mode == DONE)
		return;
	f.set(top, a.vocab);
	if (mode == PLAIN) {
		if (blockIdx.x == 0)
			plain(a, m.plain, f, top);
		return;
	}
	u64 sum = 0;
	for (int i = from + threadIdx.x; i - (int)threadIdx.x < to; i += MANY) {
		float x = next;
		next = i + MANY < to ? a.adjusted[i + MANY] : -INF;
		u64 w = weight(x, top);
		int bin = bin_of(x, top);
		sum += bin < bin_at_end && order_bits(x) >= f.floor ? w : 0;
		bool in = w && (bin == bin_at_end || mode == LISTED && bin < bin_at_end);
		u32 all = __ballot_sync(~0u, in);
		int at = 0;
		if (all && lane_id() == 0)
			at = atomicAdd(&s->listed, __popc(all));
		at = __shfl_sync(~0u, at, 0) + __popc(all & ((1u << lane_id()) - 1));
		if (in)
			s->x[at] = x, s->ids[at] = i;
	}
	sum = block_sum(sum, sums);
	if (threadIdx.x == 0)
		s->sums[blockIdx.x] = sum;
	if (!last(&s->chosen))
		return;
	List &l = m.list;
	if (threadIdx.x == 0)
		l.n = load(&s->listed);
	__syncthreads();
	l.mine([&](int i, int) {
		l.x[i] = load(&s->x[i]), l.ids[i] = load(&s->ids[i]);
		l.w[i] = weight(l.x[i], top);
	});
	__syncthreads();
	filter(l, f, mode == LISTED ? 0 : before, total, top);
	if (mode == LISTED)
		draw_listed(a, l);
	else
		draw_border(a, l, f, top, sums);
}
