// Rows of a checkpoint as signed bytes and a factor each (Device.ImportInt8).
// src [rows, n]; dst [rows, n]; scale [rows], all without gaps. Grid: (rows), 256
// threads, VEC elements a load. A row is read twice, the second time from a cache.
#include "common.cuh"

struct Args {
	i8 *dst;
	float *scale;
	const SRC *src;
	int n;
};

extern "C" __global__ void __launch_bounds__(256) round_rows(PARAM)
{
	__shared__ float shared[8];
	const SRC *src = a.src + blockIdx.x * (i64)a.n;
	i8 *dst = a.dst + blockIdx.x * (i64)a.n;
	float top = 0;
	for (int i = threadIdx.x * VEC; i < a.n; i += 256 * VEC) {
		Vec<SRC, VEC> v = *(const Vec<SRC, VEC> *)(src + i);
		for (int j = 0; j < VEC; j++) {
			float x = fabsf(f32(v.at[j]));
			top = fmaxf(top, x < INF ? x : INF); // NaN, too
		}
	}
	top = block_max(top, shared);
	float scale = top < INF ? top / 127 : __int_as_float(0x7fc00000);
	if (threadIdx.x == 0)
		a.scale[blockIdx.x] = scale;
	for (int i = threadIdx.x * VEC; i < a.n; i += 256 * VEC) {
		Vec<SRC, VEC> v = *(const Vec<SRC, VEC> *)(src + i);
		Vec<i8, VEC> q;
		for (int j = 0; j < VEC; j++)
			q.at[j] = scale > 0 ? (i8)fminf(127, fmaxf(-127, rintf(f32(v.at[j]) / scale))) : 0;
		*(Vec<i8, VEC> *)(dst + i) = q;
	}
}
