// dst[b, r, i] = scale[b, r]·w[b, r, i]: signed bytes as numbers, for products
// that want those. Grid: (rows·n / VEC / 256, batch), 256 threads, VEC elements
// each. dst [batch, rows, n] without gaps; w [batch, rows, n].
#include "int8.cuh"

struct Args {
	DST *dst;
	Cube<const i8> w;
	Mat<const float> scale;
	int rows, n;
};

KERNEL widen_rows(PARAM)
{
	int per_row = a.n / VEC, at = blockIdx.x * 256 + threadIdx.x, r = at / per_row, i = at % per_row * VEC, b = blockIdx.y;
	if (r >= a.rows)
		return;
	Loaded<i8, VEC> v = *(const Loaded<i8, VEC> *)(a.w.row(b, r) + i);
	float y[VEC], scale = a.scale.row(b)[r];
	widen<i8>(v, y);
	const int STORE = VEC * sizeof(DST) < 16 ? VEC : 16 / sizeof(DST);
	DST *dst = a.dst + (b * (i64)a.rows + r) * a.n + i;
#pragma unroll
	for (int j = 0; j < VEC; j += STORE) {
		Vec<DST, STORE> s;
#pragma unroll
		for (int k = 0; k < STORE; k++)
			s.at[k] = to<DST>(scale * y[j + k]);
		*(Vec<DST, STORE> *)(dst + j) = s;
	}
}
