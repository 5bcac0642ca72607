// The next token: repetition penalty, temperature, top-k, top-p, min-p, draw.
// Grid: one block of 1,024 threads. logits, adjusted (scratch) [vocab]; seen
// [vocab]; settings [5] as device.SetTemperature and its followers number them.
// Probabilities are integers, exp(x − max)·2⁴⁴, so that sums are exact and do
// not depend on their order.
#include "philox.cuh"
#include "topk.cuh"

struct Args {
	int *id;
	const float *logits;
	const int *seen;
	const float *settings;
	const u32 *seed;
	const int *pos;
	float *adjusted;
	i64 vocab;
};

enum { TEMPERATURE, TOP_K, TOP_P, MIN_P, REPETITION };

#define FEW 1024 // tokens that are worth a list

struct Memory {
	SelectMemory select;
	u64 mass[256];
	u64 sums[WARP];
	u64 keys[WARP];
	u64 above;
	u32 border;
	float few[FEW];
	int ids[FEW];
};

// The tokens that are still in the draw, in the order of their ids.
struct Tokens {
	float *x;
	int n;
	const int *ids; // null: all of the vocabulary
};

// The weight of a token; those dropped so far have none.
__device__ u64 weight(float x, float top) { return x == -INF ? 0 : __float2ull_rz(expf(x - top) * 0x1p44f); }

// Writes the penalised logits over the temperature (0 counts as 1); returns the
// key of the best: order bits, complement of its id. broken: NaN or +Inf.
__device__ u64 adjust(const Args &a, Memory &m, bool &broken)
{
	float temperature = a.settings[TEMPERATURE], penalty = a.settings[REPETITION];
	int bad = 0;
	u64 best = 0;
	for (int i0 = threadIdx.x; i0 < a.vocab; i0 += ABREAST * blockDim.x) {
		float x[ABREAST];
		int seen[ABREAST];
#pragma unroll
		for (int j = 0; j < ABREAST; j++) {
			int i = min(i0 + j * blockDim.x, (u32)a.vocab - 1);
			x[j] = a.logits[i], seen[j] = a.seen[i];
		}
#pragma unroll
		for (int j = 0; j < ABREAST; j++) {
			int i = i0 + j * blockDim.x;
			if (i >= a.vocab)
				continue;
			bad |= !(x[j] < INF);
			if (seen[j])
				x[j] = x[j] > 0 ? x[j] / penalty : x[j] * penalty;
			if (temperature != 0)
				x[j] /= temperature;
			a.adjusted[i] = x[j];
			best = max(best, (u64)order_bits(x[j]) << 32 | (u32)~i);
		}
	}
	broken = __syncthreads_or(bad);
	for (int step = WARP / 2; step > 0; step /= 2)
		best = max(best, __shfl_xor_sync(~0u, best, step));
	if (lane_id() == 0)
		m.keys[warp_id()] = best;
	__syncthreads();
	for (int w = 0; w < WARP; w++)
		best = max(best, m.keys[w]);
	return best;
}

__device__ void drop_below(Tokens t, u32 border)
{
	for (int i = threadIdx.x; i < t.n; i += blockDim.x)
		if (order_bits(t.x[i]) < border)
			t.x[i] = -INF;
	__syncthreads();
}

// The elements of one warp.
struct Range { int from, to; };

__device__ Range mine(Tokens t)
{
	int per = (t.n + WARP - 1) / WARP, from = min(warp_id() * per, t.n);
	return {from, min(from + per, t.n)};
}

// The sum of the values of the warps before this one; x is the warp's.
__device__ u64 before_warp(u64 x, u64 *shared, u64 &total)
{
	__syncthreads();
	if (lane_id() == 0)
		shared[warp_id()] = x;
	__syncthreads();
	u64 before = 0;
	total = 0;
	for (int w = 0; w < WARP; w++) {
		before = w == warp_id() ? total : before;
		total += shared[w];
	}
	return before;
}

// Lists the tokens at or above a border when they are few.
__device__ Tokens list(Tokens t, Memory &m, u32 border)
{
	Range r = mine(t);
	u64 n = 0, total;
#pragma unroll 8
	for (int i = r.from; i < r.to; i += WARP)
		n += __popc(__ballot_sync(~0u, i + lane_id() < r.to && order_bits(t.x[i + lane_id()]) >= border));
	int at = before_warp(n, m.sums, total);
	if (total > FEW) {
		drop_below(t, border);
		return t;
	}
	for (int i = r.from; i < r.to; i += WARP) {
		bool in = i + lane_id() < r.to && order_bits(t.x[i + lane_id()]) >= border;
		u32 all = __ballot_sync(~0u, in);
		if (in) {
			int to = at + __popc(all & ((1u << lane_id()) - 1));
			m.few[to] = t.x[i + lane_id()], m.ids[to] = i + lane_id();
		}
		at += __popc(all);
	}
	__syncthreads();
	return {m.few, (int)total, m.ids};
}

// Keeps the tokens with fewer than k larger ones.
__device__ Tokens keep_top_k(Tokens t, Memory &m, int k)
{
	auto key = [&](int i, u64 &bits) { bits = (u64)order_bits(t.x[i]) << 32; return true; };
	return list(t, m, radix_select(t.n, k, 32, key, m.select) >> 32);
}

// Keeps the tokens whose larger ones hold less than p of the mass together: a
// radix search for the lowest such logit over sums of mass.
__device__ void keep_top_p(Tokens t, Memory &m, float p, float top)
{
	u64 total = 0;
	for (int i = threadIdx.x; i < t.n; i += blockDim.x)
		total += weight(t.x[i], top);
	total = block_sum(total, m.sums);
	u64 target = __double2ull_rz((double)fmaxf(p, 0) * (double)total);
	if (threadIdx.x == 0)
		m.above = 0, m.border = 0;
	for (int shift = 24; shift >= 0; shift -= 8) {
		for (int i = threadIdx.x; i < 256; i += blockDim.x)
			m.mass[i] = 0;
		__syncthreads();
		u32 border = m.border;
		for (int i = threadIdx.x; i < t.n; i += blockDim.x) {
			u32 bits = order_bits(t.x[i]);
			if (shift == 24 || bits >> (shift + 8) == border >> (shift + 8))
				atomicAdd(&m.mass[bits >> shift & 255], weight(t.x[i], top));
		}
		__syncthreads();
		if (threadIdx.x == 0) {
			u64 above = m.above;
			int lowest = 0;
			for (int digit = 255; digit >= 0; digit--) {
				if (m.mass[digit] == 0)
					continue;
				if (above != 0 && above >= target)
					break;
				lowest = digit, m.above = above;
				above += m.mass[digit];
			}
			m.border |= (u32)lowest << shift;
		}
		__syncthreads();
	}
	drop_below(t, m.border);
}

// The first token whose running sum of weights exceeds u times the total.
__device__ void draw(const Args &a, Tokens t, Memory &m, float top)
{
	Range r = mine(t);
	u64 sum = 0, total;
#pragma unroll 8
	for (int i = r.from + lane_id(); i < r.to; i += WARP)
		sum += weight(t.x[i], top);
	for (int step = WARP / 2; step > 0; step /= 2)
		sum += __shfl_xor_sync(~0u, sum, step);
	u64 before = before_warp(sum, m.sums, total);
	// u = (2x + 1)·2⁻³³, and a sum of integers exceeds u·total where it exceeds the floor.
	u32 x = philox(0, 0, 0xffffffffu, *a.pos, a.seed[0], a.seed[1]).at[0];
	u64 odd = 2 * (u64)x + 1, target = __umul64hi(odd, total) << 31 | odd * total >> 33;
	if (target < before || target >= before + sum)
		return;
	for (int i = r.from; i < r.to; i += WARP) {
		u64 w = i + lane_id() < r.to ? weight(t.x[i + lane_id()], top) : 0;
		for (int step = 1; step < WARP; step *= 2) {
			u64 left = __shfl_up_sync(~0u, w, step);
			w += lane_id() >= step ? left : 0;
		}
		u32 over = __ballot_sync(~0u, before + w > target);
		if (over) {
			int at = i + __ffs(over) - 1;
			if (lane_id() == 0)
				*a.id = t.ids ? t.ids[at] : at;
			return;
		}
		before += __shfl_sync(~0u, w, WARP - 1);
	}
}

KERNEL sample(PARAM)
{
	__shared__ Memory m;
	bool broken;
	u64 best = adjust(a, m, broken);
	float top = a.adjusted[~(u32)best];
	if (broken || top == -INF) {
		if (threadIdx.x == 0)
			*a.id = -1;
		return;
	}
	if (a.settings[TEMPERATURE] == 0) {
		if (threadIdx.x == 0)
			*a.id = ~(u32)best;
		return;
	}
	Tokens t = {a.adjusted, (int)a.vocab, nullptr};
	int k = a.settings[TOP_K];
	if (k > 0 && k < t.n)
		t = keep_top_k(t, m, k);
	if (a.settings[TOP_P] < 1)
		keep_top_p(t, m, a.settings[TOP_P], top);
	if (a.settings[MIN_P] > 0)
		drop_below(t, order_bits(top + logf(a.settings[MIN_P])));
	draw(a, t, m, top);
}
