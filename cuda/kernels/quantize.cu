// Rows of a head as E4M3 floats with one factor (Device.Quantize). src [heads, n,
// d]; dst [heads, n, d]; factor of head h: factor[h · step]. Two kernels, both
// with the grid (any number, heads) and 256 threads: largest raises top [heads],
// zeroed, to the bits of the largest magnitude; quantize divides and rounds.
#include "f8.cuh"

struct Args {
	Cube<f8> dst;
	Cube<const SRC> src;
	float *factor;
	i64 step;
	u32 *top;
	int n, d;
};

KERNEL largest(PARAM)
{
	u32 top = 0;
	for (int i = blockIdx.x; i < a.n; i += gridDim.x)
		for (int j = threadIdx.x; j < a.d; j += blockDim.x)
			top = max(top, __float_as_uint(fabsf(f32(a.src.row(blockIdx.y, i)[j])))); // NaN is above all
	for (int step = WARP / 2; step > 0; step /= 2)
		top = max(top, __shfl_xor_sync(~0u, top, step));
	if (lane_id() == 0)
		atomicMax(&a.top[blockIdx.y], top);
}

KERNEL quantize(PARAM)
{
	float top = __uint_as_float(a.top[blockIdx.y]), factor = top < INF ? top / 448 : __int_as_float(0x7fc00000);
	if (blockIdx.x == 0 && threadIdx.x == 0)
		a.factor[blockIdx.y * a.step] = factor;
	for (int i = blockIdx.x; i < a.n; i += gridDim.x)
		for (int j = threadIdx.x; j < a.d; j += blockDim.x)
			a.dst.row(blockIdx.y, i)[j] = factor > 0 ? to_f8(f32(a.src.row(blockIdx.y, i)[j]) / factor) : f8{0};
}
