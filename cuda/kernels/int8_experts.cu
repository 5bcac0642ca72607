// The weights of experts that have tokens, from signed bytes to bf16. dst [experts
// of a pass, matrices, width·hidden]: some of gate, up, down, from the one numbered
// first; table and firstTile [experts + 1] as in experts_prefill.cu. Grid:
// (width·hidden / VEC / 256, matrices·experts), 256 threads, VEC elements each.
#include "int8.cuh"
#include "expert.cuh"

struct Args {
	bf16 *dst;
	const Expert *table;
	const int *firstTile;
	int hidden, width, from, first, matrices, pad;
};

KERNEL widen_experts(PARAM)
{
	int id = a.from + blockIdx.y / a.matrices, matrix = a.first + blockIdx.y % a.matrices, at = (blockIdx.x * 256 + threadIdx.x) * VEC;
	if (a.firstTile[id] == a.firstTile[id + 1] || at >= a.width * a.hidden)
		return;
	const Expert &e = a.table[id];
	const i8 *w = matrix == 0 ? e.gate : matrix == 1 ? e.up : e.down;
	const float *scale = matrix == 0 ? e.gateScale : matrix == 1 ? e.upScale : e.downScale;
	i64 ld = matrix == 0 ? e.gateLD : matrix == 1 ? e.upLD : e.downLD;
	int n = matrix == 2 ? a.width : a.hidden, row = at / n;
	Loaded<i8, VEC> v = *(const Loaded<i8, VEC> *)(w + row * ld + at % n);
	float y[VEC], s = scale[row];
	widen<i8>(v, y);
	bf16 *dst = a.dst + (i64)blockIdx.y * a.width * a.hidden + at;
	const int STORE = VEC < 8 ? VEC : 8;
#pragma unroll
	for (int j = 0; j < VEC; j += STORE) {
		Vec<bf16, STORE> out;
#pragma unroll
		for (int k = 0; k < STORE; k++)
			out.at[k] = to<bf16>(s * y[j + k]);
		*(Vec<bf16, STORE> *)(dst + j) = out;
	}
}
