// dst[t] += Σⱼ weights[t, j]·expert(ids[t, j])(x[t]) for few tokens: every
// (token, choice) reads its expert's weights, a warp an output, VEC inputs a
// load. x [tokens, hidden]; dst [tokens, hidden]; ids, weights [tokens, k];
// inner float32 [tokens·k, width]. Sums in float32, choices in order. Both
// kernels have THREADS threads and fill every multiprocessor evenly: the time is
// that of reading the weights. Dynamic shared memory of both: the table, tokens·k
// numbers, and for down OUTS·k more.
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

// The chosen experts. The table, which no kernel writes, is on its way before the
// kernel ahead has ended: where weights lie is known as soon as who is chosen.
struct Chosen {
	Expert *rows; // [experts]
	int *ids;     // [tokens·k]
	__device__ Chosen(const Args &a, u8 *shared) : rows((Expert *)shared), ids((int *)(rows + a.experts))
	{
		for (int i = threadIdx.x; i < a.experts * (int)(sizeof(Expert) / 8); i += blockDim.x)
			((u64 *)rows)[i] = ((const u64 *)a.table)[i];
		wait_for_previous();
		for (int i = threadIdx.x; i < a.tokens * a.k; i += blockDim.x)
			ids[i] = a.ids.row(i / a.k)[i % a.k];
		__syncthreads();
	}
	// Null for an id outside the table.
	__device__ const Expert *at(const Args &a, int choice) const
	{
		int id = ids[choice];
		return (u32)id < (u32)a.experts ? rows + id : nullptr;
	}
};

// inner = silu(gate·x)·(up·x). Any grid: warps take outputs in turn.
FEW gate_up(PARAM)
{
	extern __shared__ __align__(16) u8 memory[];
	let_next_start();
	Chosen chosen(a, memory);
	int outputs = a.tokens * a.k * a.width;
	for (int i = warp_id() * gridDim.x + blockIdx.x; i < outputs; i += gridDim.x * (THREADS / WARP)) {
		int choice = i / a.width, o = i % a.width, t = choice / a.k;
		const Expert *e = chosen.at(a, choice);
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

// dst += Σⱼ weights·(down·inner). Grid: (blocks of OUTS outputs, tokens). Warps take
// outputs of choices in turn.
FEW down(PARAM)
{
	extern __shared__ __align__(16) u8 memory[];
	let_next_start();
	Chosen chosen(a, memory);
	float *part = (float *)(chosen.ids + a.tokens * a.k); // [k][OUTS]
	int t = blockIdx.y, first = blockIdx.x * OUTS;
	for (int i = warp_id(); i < OUTS * a.k; i += THREADS / WARP) {
		int j = i / OUTS, o = first + i % OUTS;
		const Expert *e = chosen.at(a, t * a.k + j);
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
