// dst = x / √(mean(x²) + eps) · gamma, row by row; dst may be x.
// Grid: one block a row. dst, x [rows, n]; gamma [n]. Sums in float32.
#include "common.cuh"

struct Args {
	Mat<DST> dst;
	Mat<const SRC> x;
	const GAMMA *gamma;
	int n;
	float eps;
};

KERNEL rms_norm(PARAM)
{
	__shared__ float shared[WARP];
	const SRC *x = a.x.row(blockIdx.x);
	DST *dst = a.dst.row(blockIdx.x);
	float sum = 0;
	for (int i = threadIdx.x; i < a.n; i += blockDim.x)
		sum += f32(x[i]) * f32(x[i]);
	float scale = 1 / sqrtf(block_sum(sum, shared) / a.n + a.eps);
	for (int i = threadIdx.x; i < a.n; i += blockDim.x)
		dst[i] = to<DST>(f32(x[i]) * scale * f32(a.gamma[i]));
}
