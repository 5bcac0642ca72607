// cache[h, slot] = rows[t, h], slot = pos[t] or slots[h, pos[t]].
// Grid: (tokens, heads). cache [heads, capacity, d]; rows [tokens, heads, d];
// pos [tokens]; slots [heads, mapped], mapped 0 for none. A slot outside the
// cache is not written.
#include "common.cuh"

struct Args {
	Cube<DST> cache;
	Cube<const SRC> rows;
	const int *pos;
	Mat<const int> slots;
	int mapped, capacity, d;
};

KERNEL append(PARAM)
{
	int t = blockIdx.x, h = blockIdx.y;
	int slot = a.pos[t];
	if ((u32)slot < (u32)a.mapped)
		slot = a.slots.row(h)[slot];
	if ((u32)slot >= (u32)a.capacity)
		return;
	const SRC *src = a.rows.row(t, h);
	DST *dst = a.cache.row(h, slot);
	for (int i = threadIdx.x; i < a.d; i += blockDim.x)
		dst[i] = to<DST>(src[i]);
}
