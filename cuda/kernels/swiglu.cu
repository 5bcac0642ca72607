// dst[t, i] = silu(g[t, i])·u[t, i].
// Grid: (tokens, blocks of columns). dst [tokens, n]; x [tokens, 2n] is g‖u.
#include "common.cuh"

struct Args {
	Mat<DST> dst;
	Mat<const SRC> x;
	int n;
};

KERNEL swiglu(PARAM)
{
	int i = blockIdx.y * blockDim.x + threadIdx.x;
	if (i >= a.n)
		return;
	const SRC *x = a.x.row(blockIdx.x);
	float g = f32(x[i]), u = f32(x[a.n + i]);
	a.dst.row(blockIdx.x)[i] = to<DST>(g / (1 + expf(-g)) * u);
}
