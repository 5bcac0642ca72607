// Writes where the rows of every problem are: problem first + h of an entry has
// the rows p + h·s0, ld apart. Grid: one block an entry. table [problems].
#include "common.cuh"

struct Entry {
	u64 p;      // address of the first problem's first row
	i64 s0, ld; // elements from one problem, one row to the next
	int first, count;
};

struct Args {
	Mat<u8> *table;
	int n, size; // bytes of an element
	Entry of[96];
};

KERNEL row_sets(PARAM)
{
	const Entry &e = a.of[blockIdx.x];
	for (int h = threadIdx.x; h < e.count; h += blockDim.x)
		a.table[e.first + h] = {(u8 *)e.p + h * e.s0 * a.size, e.ld};
}
