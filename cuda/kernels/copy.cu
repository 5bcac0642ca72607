// dst = src element by element, converting floats; any strides, 0 repeats. A
// thread has VEC neighbours. The shape, in vectors, is padded to 5 dimensions in
// front.
#include "early.cuh"
#include "f8.cuh"

struct Args {
	DST *dst;
	const SRC *src;
	i64 n; // vectors
	i64 shape[5], toStride[5], fromStride[5];
};

KERNEL copy(PARAM)
{
	let_next_start();
	wait_for_previous();
	i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x;
	if (at >= a.n)
		return;
	INDEX rest = at; // u32 where it suffices: division is slow
	i64 d = 0, s = 0;
#pragma unroll
	for (int k = 4; k >= 0; k--) {
		INDEX n = a.shape[k], i = rest % n;
		rest /= n;
		d += i * a.toStride[k];
		s += i * a.fromStride[k];
	}
	Vec<SRC, VEC> from = *(const Vec<SRC, VEC> *)(a.src + s);
	Vec<DST, VEC> into;
	for (int i = 0; i < VEC; i++)
		into.at[i] = to<DST>(from.at[i]);
	*(Vec<DST, VEC> *)(a.dst + d) = into;
}
