// dst[i] = src[ids[i]] for many rows of one type; an id outside src reads row 0.
// Grid: 1,024 pieces a block, 256 threads; a piece is VEC elements, and a thread
// has 4 of them under way. dst [rows, n]; src [limit, n]; ids [rows].
#include "common.cuh"

#define AT_ONCE 4

struct Args {
	Mat<DST> dst;
	Mat<const DST> src;
	const int *ids;
	int n, limit, rows, pad;
};

typedef Vec<DST, VEC> Piece;

KERNEL gather(PARAM)
{
	int each = a.n / VEC, all = a.rows * each, first = blockIdx.x * blockDim.x * AT_ONCE + threadIdx.x;
	Piece held[AT_ONCE];
#pragma unroll
	for (int v = 0; v < AT_ONCE; v++) {
		int i = first + v * blockDim.x;
		if (i < all) {
			int id = a.ids[i / each];
			held[v] = *(const Piece *)(a.src.row((u32)id < (u32)a.limit ? id : 0) + i % each * VEC);
		}
	}
#pragma unroll
	for (int v = 0; v < AT_ONCE; v++) {
		int i = first + v * blockDim.x;
		if (i < all)
			*(Piece *)(a.dst.row(i / each) + i % each * VEC) = held[v];
	}
}
