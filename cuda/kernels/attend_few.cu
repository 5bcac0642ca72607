// Exact attention of few tokens over the rows from ≤ j ≤ pos[t]: the rows are
// split over blocks, merge_parts puts the parts together.
// Grid: (SPLITS, key heads · chunks of HEADS query heads, tokens), 256 threads.
// q [tokens, heads, DK]; k [key heads, capacity, DK]; v [key heads, capacity,
// DV]; parts float32 [tokens, heads, SPLITS, DV + 2]: unnormalised output,
// largest logit, sum of exp. Parts without rows are not written.
#include "attention.cuh"

struct Args {
	float *parts;
	Cube<const Q> q;
	Cube<const K> k;
	Cube<const V> v;
	const int *from; // or null: 0
	const int *pos;
	int heads, group, capacity;
	float scale;
};

KERNEL attend_few(PARAM)
{
	__shared__ AttentionMemory<HEADS> memory;
	int t = blockIdx.z, chunks = (a.group + HEADS - 1) / HEADS;
	int kv = blockIdx.y / chunks, in_group = blockIdx.y % chunks * HEADS;
	int first = a.from ? max(*a.from, 0) : 0;
	int rows = min(a.pos[t], a.capacity - 1) - first + 1;
	int size = split_rows(max(rows, 0)), begin = blockIdx.x * size;
	if (begin >= rows)
		return;
	int head = kv * a.group + in_group, heads = min(HEADS, a.group - in_group);
	load_queries<HEADS>(memory.q, a.q.row(t, head), a.q.s1, heads);
	attend(min(size, rows - begin),
		[&](int i, int &row, float &bias) { row = first + begin + i; bias = 0; },
		Mat<const K>{a.k.row(kv, 0), a.k.s1}, Mat<const V>{a.v.row(kv, 0), a.v.s1}, a.scale, memory,
		a.parts + ((t * a.heads + head) * (i64)SPLITS + blockIdx.x) * (DV + 2), (i64)SPLITS * (DV + 2), heads);
}
