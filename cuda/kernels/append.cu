// cache[h, slot] = rows[t, h], slot = pos[t] or slots[h, pos[t]].
// One thread for VEC neighbours. cache [heads, capacity, d]; rows [tokens, heads,
// d]; pos [tokens]; slots [heads, mapped], mapped 0 for none. A slot outside the
// cache is not written.
#include "early.cuh"

struct Args {
	Cube<DST> cache;
	Cube<const SRC> rows;
	const int *pos;
	Mat<const int> slots;
	int mapped, capacity, tokens, heads, d;
};

KERNEL append(PARAM)
{
	let_next_start();
	wait_for_previous();
	int pieces = a.d / VEC, i = blockIdx.x * blockDim.x + threadIdx.x;
	int t = i / pieces / a.heads, h = i / pieces % a.heads, column = i % pieces * VEC;
	if (t >= a.tokens)
		return;
	int slot = a.pos[t];
	if ((u32)slot < (u32)a.mapped)
		slot = a.slots.row(h)[slot];
	if ((u32)slot >= (u32)a.capacity)
		return;
	Vec<SRC, VEC> from = *(const Vec<SRC, VEC> *)(a.rows.row(t, h) + column);
	Vec<DST, VEC> into;
	for (int j = 0; j < VEC; j++)
		into.at[j] = to<DST>(from.at[j]);
	*(Vec<DST, VEC> *)(a.cache.row(h, slot) + column) = into;
}
