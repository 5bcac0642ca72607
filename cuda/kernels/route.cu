// phi[t, h, g] = bias[kv, g] + scale·q[t, h]·reps[kv, g]; where the bias is
// −Inf, and beyond last[t], there is no team, and its row is not read.
// Grid: (ROWS teams, key heads · chunks of HEADS query heads, tokens), 256
// threads, a warp a team. q [tokens, heads, DK]; reps [key heads, teams, DK],
// f8 in multiples of factor[kv · step]; bias [key heads, teams]; phi [tokens,
// heads, teams]; read, if there is one, grows by the teams of every token and key
// head.
#include "f8.cuh"
#include "attention.cuh"

struct Args {
	Cube<float> phi;
	Cube<const Q> q;
	Cube<const K> reps;
	Mat<const float> bias;
	const int *last;
	u64 *read;
	const float *factor; // or null: 1
	i64 step;
	int teams, group;
	float scale;
	int pad;
};

KERNEL route(PARAM)
{
	__shared__ float q[HEADS][DK];
	__shared__ int counts[WARP];
	int t = blockIdx.z, chunks = (a.group + HEADS - 1) / HEADS;
	int kv = blockIdx.y / chunks, in_group = blockIdx.y % chunks * HEADS;
	int head = kv * a.group + in_group, heads = min(HEADS, a.group - in_group);
	int first = blockIdx.x * ROWS, n = min(ROWS, a.teams - first);
	const float *bias = a.bias.row(kv) + first;
	int there = a.last ? min(n, a.last[t] - first + 1) : n; // teams that this token may have
	float scale = a.factor ? a.scale * a.factor[kv * a.step] : a.scale;
	load_queries<HEADS>(q, a.q.row(t, head), a.q.s1, heads);
	score_rows<HEADS>(n, q,
		[&](int r) { return r >= there || bias[r] == -INF ? nullptr : a.reps.row(kv, first + r); },
		[&](int r, int h, float s) {
			if (h < heads)
				a.phi.row(t, head + h)[first + r] = bias[r] + scale * s;
		});
	bool mine = (int)threadIdx.x < there && bias[threadIdx.x] != -INF;
	if (threadIdx.x < n && !mine)
		for (int h = 0; h < heads; h++)
			a.phi.row(t, head + h)[first + threadIdx.x] = -INF;
	int count = block_sum((int)mine, counts);
	if (a.read && threadIdx.x == 0 && in_group == 0)
		atomicAdd(a.read, (u64)count);
}
