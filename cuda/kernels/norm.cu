// dst = x / √(mean(x²) + eps) · gamma, row by row; dst may be x.
// Grid: one block a row. dst, x [rows, n]; gamma [n]. VEC neighbours a load.
// Sums in float32.
#include "early.cuh"

struct Args {
	Mat<DST> dst;
	Mat<const SRC> x;
	const GAMMA *gamma;
	int n;
	float eps;
};

KERNEL rms_norm(PARAM)
{
	let_next_start();
	wait_for_previous();
	__shared__ float shared[WARP];
	const SRC *x = a.x.row(blockIdx.x);
	DST *dst = a.dst.row(blockIdx.x);
	float sum = 0;
	for (int i = threadIdx.x * VEC; i < a.n; i += blockDim.x * VEC) {
		Vec<SRC, VEC> v = *(const Vec<SRC, VEC> *)(x + i);
		for (int j = 0; j < VEC; j++)
			sum += f32(v.at[j]) * f32(v.at[j]);
	}
	float scale = 1 / sqrtf(block_sum(sum, shared) / a.n + a.eps);
	for (int i = threadIdx.x * VEC; i < a.n; i += blockDim.x * VEC) {
		Vec<SRC, VEC> v = *(const Vec<SRC, VEC> *)(x + i);
		Vec<GAMMA, VEC> g = *(const Vec<GAMMA, VEC> *)(a.gamma + i);
		Vec<DST, VEC> out;
		for (int j = 0; j < VEC; j++)
			out.at[j] = to<DST>(f32(v.at[j]) * scale * f32(g.at[j]));
		*(Vec<DST, VEC> *)(dst + i) = out;
	}
}
