// phi[t, h, g] = ln Σ exp(scores[t, h, i]), offsets[kv, g] ≤ i < offsets[kv, g + 1].
// Grid: (groups/8, heads, tokens), 256 threads, a warp a group. phi [tokens,
// heads, groups]; scores [tokens, heads, rows]; offsets [key heads, groups + 1].
#include "common.cuh"

struct Args {
	Cube<float> phi;
	Cube<const float> scores;
	Mat<const int> offsets;
	int groups, rows, group, pad;
};

KERNEL group_mass(PARAM)
{
	int g = blockIdx.x * (blockDim.x / WARP) + warp_id(), h = blockIdx.y, t = blockIdx.z;
	if (g >= a.groups)
		return;
	const int *offsets = a.offsets.row(h / a.group);
	const float *scores = a.scores.row(t, h);
	int from = max(offsets[g], 0), to = min(offsets[g + 1], a.rows);
	float top = -INF, sum = 0;
	for (int i = from + lane_id(); i < to; i += WARP)
		top = fmaxf(top, scores[i]);
	top = warp_max(top);
	for (int i = from + lane_id(); i < to; i += WARP)
		sum += expf(scores[i] - reference(top));
	sum = warp_sum(sum);
	if (lane_id() == 0)
		a.phi.row(t, h)[g] = sum != 0 ? top + logf(sum) : -INF;
}
