// The first of three kernels of the next token (sample.cuh): logits after penalty
// and temperature, and the best of every chunk. Clears what the others count in.
#include "sample.cuh"

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
