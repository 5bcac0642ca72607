// dst = src element by element, converting floats; any strides, 0 repeats.
// One thread an element. The shape is padded to 5 dimensions in front.
#include "common.cuh"

struct Args {
	DST *dst;
	const SRC *src;
	i64 n;
	i64 shape[5], toStride[5], fromStride[5];
};

KERNEL copy(PARAM)
{
	i64 rest = blockIdx.x * (i64)blockDim.x + threadIdx.x;
	if (rest >= a.n)
		return;
	i64 d = 0, s = 0;
	for (int k = 4; k >= 0; k--) {
		i64 i = rest % a.shape[k];
		rest /= a.shape[k];
		d += i * a.toStride[k];
		s += i * a.fromStride[k];
	}
	a.dst[d] = to<DST>(a.src[s]);
}
