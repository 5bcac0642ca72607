// Draws K teams a query head without replacement: the K largest of y = phi +
// Gumbel noise, and ln of their inclusion probabilities given the (K+1)-th.
// Grid: (heads, tokens), one block of 1,024 threads each.
// teams, logc [tokens, heads, K]; phi [tokens, heads, m]; pos [tokens]; seed [2].
// Scratch: y [tokens, heads, m], order bits of y, 0 for no team; best [tokens,
// heads, K + 1], the winners' keys in no order.
// Source: SANTA++, Eq. 7; Gumbel-top-k, Kool et al. (2019).
#include "philox.cuh"
#include "topk.cuh"

struct Args {
	Cube<int> teams;
	Cube<float> logc;
	Cube<const float> phi;
	const u32 *seed;
	const int *pos;
	u32 *y;
	u64 *best;
	int m, k;
	u32 layer;
	int pad;
};

__device__ float from_order_bits(u32 u) { return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u); }

// ln(1 − exp(−exp(delta))).
__device__ float log_inclusion(float delta)
{
	if (delta < -20)
		return delta;
	if (delta > 20)
		return 0;
	return logf(-expm1f(-expf(delta)));
}

// Fills y; returns how many teams there are.
__device__ int perturb(const Args &a, const float *phi, u32 *y, int *shared)
{
	int there = 0;
	for (int quad = threadIdx.x; quad * 4 < a.m; quad += blockDim.x) {
		Words w = philox(quad, blockIdx.x, a.layer, a.pos[blockIdx.y], a.seed[0], a.seed[1]);
		for (int j = 0; j < 4 && quad * 4 + j < a.m; j++) {
			float p = phi[quad * 4 + j];
			bool is = p != -INF;
			y[quad * 4 + j] = is ? order_bits(p + gumbel(w.at[j])) : 0;
			there += is;
		}
	}
	return block_sum(there, shared);
}

KERNEL sample_topk(PARAM)
{
	__shared__ int shared[WARP];
	__shared__ SelectMemory memory;
	__shared__ int found;
	int h = blockIdx.x, t = blockIdx.y;
	i64 list = t * (i64)gridDim.x + h;
	const float *phi = a.phi.row(t, h);
	u32 *y = a.y + list * a.m;
	u64 *best = a.best + list * (a.k + 1);
	int there = perturb(a, phi, y, shared);
	int winners = min(there, a.k + 1);
	if (threadIdx.x == 0)
		found = 0;
	__syncthreads();

	// The lower team first among equals: its complement is the key's low half.
	auto key = [&](int g, u64 &k) { k = (u64)y[g] << 32 | (u32)~g; return y[g] != 0; };
	u64 least = winners > 0 ? radix_select(a.m, winners, 0, key, memory) : ~0ull;
	for (int g = threadIdx.x; g < a.m; g += blockDim.x) {
		u64 k;
		if (key(g, k) && k >= least) {
			int at = atomicAdd(&found, 1);
			if (at < winners)
				best[at] = k;
		}
	}
	__syncthreads();

	for (int i = threadIdx.x; i < winners; i += blockDim.x) {
		int rank = 0;
		for (int j = 0; j < winners; j++)
			rank += best[j] > best[i];
		if (rank < a.k)
			a.teams.row(t, h)[rank] = ~(u32)best[i];
		else
			found = i; // the (K+1)-th
	}
	__syncthreads();
	float tau = there > a.k ? from_order_bits(best[found] >> 32) : 0;
	for (int j = threadIdx.x; j < a.k; j += blockDim.x) {
		if (j >= there)
			a.teams.row(t, h)[j] = -1;
		bool sure = there <= a.k || j >= there;
		a.logc.row(t, h)[j] = sure ? 0 : log_inclusion(phi[a.teams.row(t, h)[j]] - tau);
	}
}
