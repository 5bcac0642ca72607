// dst[t] += Σⱼ weights[t, j]·expert(ids[t, j])(x[t]) for few tokens: every
// (token, choice) reads its expert's weights, a warp an output, VEC inputs a
// load. x [tokens, hidden]; dst [tokens, hidden]; ids, weights [tokens, k];
// inner float32 [tokens·k, width]. Sums in float32, choices in order. Both
// kernels have THREADS threads and fill every multiprocessor evenly: the time is
// that of reading the weights.
#include "early.cuh"
#include "expert.cuh"

struct Args {
	Mat<DST> dst;
	Mat<const SRC> x;
	Mat<const int> ids;
	Mat<const float> weights;
	const Expert *table;
	float *inner;
	i64 innerLD;
	int tokens, hidden, width, k, experts, pad; // width: of the widest
};

#define FEW extern "C" __global__ void __launch_bounds__(THREADS, 1024 / THREADS)

// An expert of the table; null for an id outside it.
__device__ inline const Expert *expert(const Args &a, int t, int j)
{
	int id = a.ids.row(t)[j];
	return (u32)id < (u32)a.experts ? a.table + id : nullptr;
}

// inner = silu(gate·x)·(up·x). Any grid: warps take outputs in turn.
FEW gate_up(PARAM)
{
	let_next_start();
	wait_for_previous();
	int outputs = a.tokens * a.k * a.width;
	for (int i = warp_id() * gridDim.x + blockIdx.x; i < outputs; i += gridDim.x * (THREADS / WARP)) {
		int choice = i / a.width, o = i % a.width, t = choice / a.k;
		const Expert *e = expert(a, t, choice % a.k);
		if (!e || o >= e->width)
			continue;
		const W *gate = e->gate + o * e->gateLD, *up = e->up + o * e->upLD;
		const SRC *x = a.x.row(t);
		float g = 0, u = 0;
#pragma unroll 2
		for (int d = lane_id() * VEC; d < a.hidden; d += WARP * VEC) {
			Vec<W, VEC> p = *(const Vec<W, VEC> *)(gate + d), q = *(const Vec<W, VEC> *)(up + d);
			Vec<SRC, VEC> v = *(const Vec<SRC, VEC> *)(x + d);
			for (int j = 0; j < VEC; j++)
				g += f32(v.at[j]) * f32(p.at[j]), u += f32(v.at[j]) * f32(q.at[j]);
		}
		g = warp_sum(g) + bias_at(e->gateBias, o), u = warp_sum(u) + bias_at(e->upBias, o);
		if (lane_id() == 0)
			a.inner[choice * a.innerLD + o] = silu(g) * u;
	}
}

// dst += Σⱼ weights·(down·inner). Grid: (blocks of OUTS outputs, tokens); OUTS·k
// floats of dynamic shared memory. Warps take outputs of choices in turn.
FEW down(PARAM)
{
	let_next_start();
	wait_for_previous();
	extern __shared__ float part[]; // [k][OUTS]
	int t = blockIdx.y, first = blockIdx.x * OUTS;
	for (int i = warp_id(); i < OUTS * a.k; i += THREADS / WARP) {
		int j = i / OUTS, o = first + i % OUTS;
		const Expert *e = expert(a, t, j);
		float s = 0;
		if (e && o < a.hidden) {
			const W *w = e->down + o * e->downLD;
			const float *x = a.inner + (t * a.k + j) * a.innerLD;
#pragma unroll 4
			for (int d = lane_id() * VEC; d < e->width; d += WARP * VEC) {
				Vec<W, VEC> p = *(const Vec<W, VEC> *)(w + d);
				Vec<float, VEC> v = *(const Vec<float, VEC> *)(x + d);
				for (int c = 0; c < VEC; c++)
					s += v.at[c] * f32(p.at[c]);
			}
			s = a.weights.row(t)[j] * (warp_sum(s) + bias_at(e->downBias, o));
		}
		if (lane_id() == 0)
			part[i] = s;
	}
	__syncthreads();
	int o = first + threadIdx.x;
	if (threadIdx.x >= OUTS || o >= a.hidden)
		return;
	float y = 0;
	for (int j = 0; j < a.k; j++)
		y += part[j * OUTS + threadIdx.x];
	DST *dst = a.dst.row(t) + o;
	*dst = to<DST>(f32(*dst) + y);
}
