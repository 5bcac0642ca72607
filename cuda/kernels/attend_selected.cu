// Attention of every query head over the rows of the teams it drew, logits
// scale·q·k − logc. Three kernels: list, attend_selected (its parts are put
// together by merge_parts), and count for the rows read.
// q [tokens, heads, DK]; k, v [key heads, capacity, DK or DV]; offsets [key
// heads, teams + 1]; drawn, logc [tokens, heads, n], drawn −1 for none.
// Scratch: starts [tokens, heads, n + 1]: rows of the head's list before each
// drawn team; lengths [tokens, heads]; seen [tokens, key heads, words] zeroed.
#include "attention.cuh"

struct Args {
	float *parts;
	Cube<const Q> q;
	Cube<const K> k;
	Cube<const V> v;
	Mat<const int> offsets;
	Cube<const int> drawn;
	Cube<const float> logc;
	int *starts, *lengths;
	u32 *seen;
	u64 *read;
	int heads, group, teams, n, words;
	float scale;
};

__device__ int team_rows(const Args &a, int kv, int team)
{
	if ((u32)team >= (u32)a.teams)
		return 0;
	return max(a.offsets.row(kv)[team + 1] - a.offsets.row(kv)[team], 0);
}

// starts and lengths. Grid: (heads, tokens), 256 threads.
KERNEL list(PARAM)
{
	__shared__ int sums[THREADS];
	int h = blockIdx.x, t = blockIdx.y, kv = h / a.group;
	const int *drawn = a.drawn.row(t, h);
	int *starts = a.starts + (t * a.heads + h) * (i64)(a.n + 1);
	int per = (a.n + THREADS - 1) / THREADS, from = min((int)threadIdx.x * per, a.n), to = min(from + per, a.n);
	int mine = 0;
	for (int j = from; j < to; j++)
		mine += team_rows(a, kv, drawn[j]);
	sums[threadIdx.x] = mine;
	__syncthreads();
	int at = 0;
	for (int i = 0; i < threadIdx.x; i++)
		at += sums[i];
	for (int j = from; j < to; j++) {
		starts[j] = at;
		at += team_rows(a, kv, drawn[j]);
	}
	if (threadIdx.x == THREADS - 1)
		starts[a.n] = a.lengths[t * a.heads + h] = at;
}

// Grid: (SPLITS, heads, tokens), 256 threads.
KERNEL attend_selected(PARAM)
{
	__shared__ AttentionMemory<1> memory;
	int h = blockIdx.y, t = blockIdx.z, kv = h / a.group;
	int rows = a.lengths[t * a.heads + h];
	int size = split_rows(rows), begin = blockIdx.x * size;
	if (begin >= rows)
		return;
	const int *starts = a.starts + (t * a.heads + h) * (i64)(a.n + 1);
	const int *drawn = a.drawn.row(t, h), *offsets = a.offsets.row(kv);
	const float *logc = a.logc.row(t, h);
	load_queries<1>(memory.q, a.q.row(t, h), 0, 1);
	auto look = [&](int i, int &row, float &bias) {
		int low = 0, high = a.n; // starts[low] ≤ begin + i < starts[high]
		while (high - low > 1) {
			int middle = (low + high) / 2;
			(starts[middle] <= begin + i ? low : high) = middle;
		}
		row = offsets[drawn[low]] + begin + i - starts[low];
		bias = -logc[low];
	};
	attend(min(size, rows - begin), look, Mat<const K>{a.k.row(kv, 0), a.k.s1}, Mat<const V>{a.v.row(kv, 0), a.v.s1},
		a.scale, memory, a.parts + ((t * a.heads + h) * (i64)SPLITS + blockIdx.x) * (DV + 2), 0, 1);
}

// read += rows of the union of what a key head's query heads drew. Grid: (key
// heads, tokens), 256 threads.
KERNEL count(PARAM)
{
	__shared__ int shared[WARP];
	int kv = blockIdx.x, t = blockIdx.y, rows = 0;
	u32 *seen = a.seen + (t * gridDim.x + kv) * (i64)a.words;
	for (int i = threadIdx.x; i < a.group * a.n; i += blockDim.x) {
		int team = a.drawn.row(t, kv * a.group + i / a.n)[i % a.n];
		if ((u32)team >= (u32)a.teams)
			continue;
		u32 bit = 1u << team % 32;
		if (!(atomicOr(seen + team / 32, bit) & bit))
			rows += team_rows(a, kv, team);
	}
	rows = block_sum(rows, shared);
	if (threadIdx.x == 0)
		atomicAdd(a.read, (u64)rows);
}
