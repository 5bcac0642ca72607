// inertia[p] = Σᵢ |x[i] − centers[labels[p, i] − base[p]]|², in float32: squares
// are added four by four, the rows in order. First apart, then inertia.
// apart: grid (256 rows, problems), 256 threads, a row a thread, VEC
// columns at once, to far [problems, n]. inertia: one block a problem, 256 threads; one of them adds.
#include "common.cuh"

struct Args {
	float *inertia;
	Mat<const int> labels;
	const Mat<const SRC> *x;
	Mat<const int> ids;
	Cube<const float> centers;
	const int *base, *live;
	float *far;
	int n, d;
};

KERNEL apart(PARAM)
{
	int problem = blockIdx.y, i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= a.n || a.live && !a.live[problem])
		return;
	int label = a.labels.row(problem)[i] - (a.base ? a.base[problem] : 0);
	const SRC *x = a.x[problem].row(a.ids.p ? a.ids.row(problem)[i] : i);
	const float *c = a.centers.row(problem, label);
	float sum = 0;
	int j = 0;
	for (; j + 4 <= a.d; j += 4) {
		float square[4];
#pragma unroll
		for (int v = 0; v < 4; v += VEC) {
			Vec<SRC, VEC> left = *(const Vec<SRC, VEC> *)(x + j + v);
			Vec<float, VEC> right = *(const Vec<float, VEC> *)(c + j + v);
#pragma unroll
			for (int u = 0; u < VEC; u++) {
				float d = __fsub_rn(f32(left.at[u]), right.at[u]);
				square[v + u] = __fmul_rn(d, d);
			}
		}
		sum = __fadd_rn(sum, __fadd_rn(__fadd_rn(__fadd_rn(square[0], square[1]), square[2]), square[3]));
	}
	for (; j < a.d; j++) {
		float d = __fsub_rn(f32(x[j]), c[j]);
		sum = __fadd_rn(sum, __fmul_rn(d, d));
	}
	a.far[problem * (i64)a.n + i] = sum;
}

KERNEL inertia(PARAM)
{
	__shared__ float part[1024];
	int problem = blockIdx.x;
	if (a.live && !a.live[problem])
		return;
	const float *far = a.far + problem * (i64)a.n;
	float sum = 0;
	for (int from = 0; from < a.n; from += 1024) {
		int count = min(1024, a.n - from);
		for (int i = threadIdx.x; i < count; i += blockDim.x)
			part[i] = far[from + i];
		__syncthreads();
		if (threadIdx.x == 0)
			for (int i = 0; i < count; i++)
				sum = __fadd_rn(sum, part[i]);
		__syncthreads();
	}
	if (threadIdx.x == 0)
		a.inertia[problem] = sum;
}
