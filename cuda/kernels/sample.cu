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

struct Memory {
	SelectMemory select;
	u64 mass[256];
	u64 sums[WARP];
	u64 keys[WARP];
	u64 above;
	u32 border;
};

// −NaN, NaN and the tokens dropped so far have no weight.
__device__ u64 weight(float x, float top) { return x == -INF ? 0 : __float2ull_rz(expf(x - top) * 0x1p44f); }

// Writes the penalised logits over the temperature (0 counts as 1); returns the
// key of the best: order bits, complement of its id. broken: NaN or +Inf.
__device__ u64 adjust(const Args &a, Memory &m, bool &broken)
{
	float temperature = a.settings[TEMPERATURE], penalty = a.settings[REPETITION];
	int bad = 0;
	u64 best = 0;
	for (int i = threadIdx.x; i < a.vocab; i += blockDim.x) {
		float x = a.logits[i];
		bad |= !(x < INF);
		if (a.seen[i])
			x = x > 0 ? x / penalty : x * penalty;
		if (temperature != 0)
			x /= temperature;
		a.adjusted[i] = x;
		best = max(best, (u64)order_bits(x) << 32 | (u32)~i);
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

__device__ void drop_below(const Args &a, u32 border)
{
	for (int i = threadIdx.x; i < a.vocab; i += blockDim.x)
		if (order_bits(a.adjusted[i]) < border)
			a.adjusted[i] = -INF;
	__syncthreads();
}

// Keeps the tokens with fewer than k larger ones.
__device__ void keep_top_k(const Args &a, Memory &m, int k)
{
	auto key = [&](int i, u64 &bits) { bits = (u64)order_bits(a.adjusted[i]) << 32; return true; };
	drop_below(a, radix_select(a.vocab, k, 32, key, m.select) >> 32);
}

// Keeps the tokens whose larger ones hold less than p of the mass together: a
// radix search for the lowest such logit over sums of mass.
__device__ void keep_top_p(const Args &a, Memory &m, float p, float top)
{
	u64 total = 0;
	for (int i = threadIdx.x; i < a.vocab; i += blockDim.x)
		total += weight(a.adjusted[i], top);
	total = block_sum(total, m.sums);
	u64 target = __double2ull_rz((double)fmaxf(p, 0) * (double)total);
	if (threadIdx.x == 0)
		m.above = 0, m.border = 0;
	for (int shift = 24; shift >= 0; shift -= 8) {
		for (int i = threadIdx.x; i < 256; i += blockDim.x)
			m.mass[i] = 0;
		__syncthreads();
		u32 border = m.border;
		for (int i = threadIdx.x; i < a.vocab; i += blockDim.x) {
			u32 bits = order_bits(a.adjusted[i]);
			if (shift == 24 || bits >> (shift + 8) == border >> (shift + 8))
				atomicAdd(&m.mass[bits >> shift & 255], weight(a.adjusted[i], top));
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
	drop_below(a, m.border);
}

// The first token whose running sum of weights exceeds u times the total.
__device__ void draw(const Args &a, Memory &m, float top)
{
	i64 per = (a.vocab + WARP - 1) / WARP, from = warp_id() * per, to = min(from + per, a.vocab);
	u64 sum = 0;
	for (i64 i = from + lane_id(); i < to; i += WARP)
		sum += weight(a.adjusted[i], top);
	for (int step = WARP / 2; step > 0; step /= 2)
		sum += __shfl_xor_sync(~0u, sum, step);
	if (lane_id() == 0)
		m.sums[warp_id()] = sum;
	__syncthreads();
	u64 total = 0, before = 0;
	for (int w = 0; w < WARP; w++) {
		before = w == warp_id() ? total : before;
		total += m.sums[w];
	}
	// u = (2x + 1)·2⁻³³, and a sum of integers exceeds u·total where it exceeds the floor.
	u32 x = philox(0, 0, 0xffffffffu, *a.pos, a.seed[0], a.seed[1]).at[0];
	u64 odd = 2 * (u64)x + 1, target = __umul64hi(odd, total) << 31 | odd * total >> 33;
	if (target < before || target >= before + sum)
		return;
	for (i64 i = from; i < to; i += WARP) {
		u64 w = i + lane_id() < to ? weight(a.adjusted[i + lane_id()], top) : 0;
		for (int step = 1; step < WARP; step *= 2) {
			u64 left = __shfl_up_sync(~0u, w, step);
			w += lane_id() >= step ? left : 0;
		}
		u32 over = __ballot_sync(~0u, before + w > target);
		if (over) {
			if (lane_id() == 0)
				*a.id = i + __ffs(over) - 1;
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
	int k = a.settings[TOP_K];
	if (k > 0 && k < a.vocab)
		keep_top_k(a, m, k);
	if (a.settings[TOP_P] < 1)
		keep_top_p(a, m, a.settings[TOP_P], top);
	if (a.settings[MIN_P] > 0)
		drop_below(a, order_bits(top + logf(a.settings[MIN_P])));
	draw(a, m, top);
}
