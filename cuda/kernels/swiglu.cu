// dst[t, i] = silu(g[t, i])·u[t, i], VEC neighbours a thread.
// Grid: (tokens, blocks of columns). dst [tokens, n]; x [tokens, 2n] is g‖u.
#include "early.cuh"

struct Args {
	Mat<DST> dst;
	Mat<const SRC> x;
	int n;
};

KERNEL swiglu(PARAM)
{
	let_next_start();
	wait_for_previous();
	int i = (blockIdx.y * blockDim.x + threadIdx.x) * VEC;
	if (i >= a.n)
		return;
	const SRC *x = a.x.row(blockIdx.x) + i;
	Vec<SRC, VEC> gates = *(const Vec<SRC, VEC> *)x, ups = *(const Vec<SRC, VEC> *)(x + a.n);
	Vec<DST, VEC> out;
	for (int j = 0; j < VEC; j++) {
		float g = f32(gates.at[j]), u = f32(ups.at[j]);
		out.at[j] = to<DST>(g / (1 + expf(-g)) * u);
	}
	*(Vec<DST, VEC> *)(a.dst.row(blockIdx.x) + i) = out;
}
