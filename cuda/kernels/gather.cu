// dst[h, i] = src[h, ids[h, i]] for many rows of one type; an id outside src
// reads row 0. Grid: (1,024 pieces, heads), 256 threads; a piece is VEC elements,
// and a thread has 4 of them under way. dst [heads, rows, n]; src [heads, limit,
// n]; ids [heads, rows].
#include "common.cuh"

#define AT_ONCE 4

struct Args {
	Cube<DST> dst;
	Cube<const DST> src;
	Mat<const int> ids;
	int n, limit, rows, pad;
};

typedef Vec<DST, VEC> Piece;

KERNEL gather(PARAM)
{
	const int h = blockIdx.y, *ids = a.ids.row(h);
	int each = a.n / VEC, all = a.rows * each, first = blockIdx.x * blockDim.x * AT_ONCE + threadIdx.x;
	Piece held[AT_ONCE];
#pragma unroll
	for (int v = 0; v < AT_ONCE; v++) {
		int i = first + v * blockDim.x;
		if (i < all) {
			int id = ids[i / each];
			held[v] = *(const Piece *)(a.src.row(h, (u32)id < (u32)a.limit ? id : 0) + i % each * VEC);
		}
	}
#pragma unroll
	for (int v = 0; v < AT_ONCE; v++) {
		int i = first + v * blockDim.x;
		if (i < all)
			*(Piece *)(a.dst.row(h, i / each) + i % each * VEC) = held[v];
	}
}
