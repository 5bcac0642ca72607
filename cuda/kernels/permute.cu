// Reorders the first n rows of every head: t[i] = former t[order[i]], or with
// inverse t[order[i]] = former t[i]. Either through a packed copy, first pack, then
// permute, or where rows stay among those that a block has in place: exchange.
// Grid: (1,024 pieces, heads), 256 threads; a piece is VEC elements, and a thread
// has 4 of them under way. t [heads, n, d], copy [heads, n, d] without gaps, order
// [heads, n].
#include "common.cuh"

#define AT_ONCE 4

struct Args {
	Cube<DST> t;
	DST *copy;
	Mat<const int> order;
	int d, n, inverse, pad;
};

typedef Vec<DST, VEC> Piece;

// Moves pieces of a head, from and into the rows that where tells of a row; in
// place, all of a block's are read before any is written.
template <bool in_place, class W> __device__ void move(const Args &a, W where)
{
	int each = a.d / VEC, all = a.n * each, first = blockIdx.x * blockDim.x * AT_ONCE + threadIdx.x;
	Piece held[AT_ONCE];
	Piece *into[AT_ONCE];
#pragma unroll
	for (int v = 0; v < AT_ONCE; v++) {
		int i = first + v * blockDim.x;
		into[v] = 0;
		if (i >= all)
			continue;
		int row = i / each, j = i % each * VEC;
		const DST *from;
		DST *to;
		if (where(row, from, to)) {
			held[v] = *(const Piece *)(from + j);
			into[v] = (Piece *)(to + j);
		}
	}
	if (in_place)
		__syncthreads();
#pragma unroll
	for (int v = 0; v < AT_ONCE; v++)
		if (into[v])
			*into[v] = held[v];
}

KERNEL pack(PARAM)
{
	int h = blockIdx.y;
	move<false>(a, [&](int row, const DST *&from, DST *&to) {
		from = a.t.row(h, row), to = a.copy + (h * (i64)a.n + row) * a.d;
		return true;
	});
}

KERNEL permute(PARAM)
{
	int h = blockIdx.y;
	move<false>(a, [&](int row, const DST *&from, DST *&to) {
		int other = a.order.row(h)[row];
		if ((u32)other >= (u32)a.n)
			return false;
		int source = a.inverse ? row : other, place = a.inverse ? other : row;
		from = a.copy + (h * (i64)a.n + source) * a.d, to = a.t.row(h, place);
		return true;
	});
}

KERNEL exchange(PARAM)
{
	int h = blockIdx.y;
	move<true>(a, [&](int row, const DST *&from, DST *&to) {
		int other = a.order.row(h)[row];
		if ((u32)other >= (u32)a.n)
			return false;
		from = a.t.row(h, a.inverse ? row : other), to = a.t.row(h, a.inverse ? other : row);
		return true;
	});
}
