// experts_few.cu with weights of signed bytes: dst[t] += Σⱼ weights[t, j]·
// expert(ids[t, j])(x[t]) for few tokens. All loads of a row, up to DEEP of VEC
// bytes a lane, are under way before the first is multiplied. x, dst [tokens,
// hidden]; ids, weights [tokens, k]; inner float32 [tokens·k, width]. Sums in
// float32, choices in order.
#include "early.cuh"
#include "int8.cuh"
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

// An expert of the table; null for an id outside it.
__device__ inline const Expert *expert(const Args &a, int t, int j)
{
	int id = a.ids.row(t)[j];
	return (u32)id < (u32)a.experts ? a.table + id : nullptr;
}

// The lane's part of the products of two rows of n bytes with x.
template <class X> __device__ inline void products(float &s0, float &s1, const i8 *w0, const i8 *w1, const X *x, int n)
{
	s0 = s1 = 0;
	for (int base = lane_id() * VEC; base < n; base += DEEP * WARP * VEC) {
		Loaded<i8, VEC> p[DEEP], q[DEEP];
#pragma unroll
		for (int i = 0; i < DEEP; i++)
			if (int d = base + i * WARP * VEC; d < n)
				p[i] = stream<i8, VEC>(w0 + d), q[i] = stream<i8, VEC>(w1 + d);
#pragma unroll
		for (int i = 0; i < DEEP; i++) {
			int d = base + i * WARP * VEC;
			if (d >= n)
				break;
			float y0[VEC], y1[VEC];
			widen<i8>(p[i], y0), widen<i8>(q[i], y1);
			const int PART = VEC * sizeof(X) > 32 ? 32 / sizeof(X) : VEC;
#pragma unroll
			for (int j = 0; j < VEC; j += PART) {
				Vec<X, PART> v = *(const Vec<X, PART> *)(x + d + j);
#pragma unroll
				for (int c = 0; c < PART; c++)
					s0 += f32(v.at[c]) * y0[j + c], s1 += f32(v.at[c]) * y1[j + c];
			}
		}
	}
}

// Brings the table near: its rows are read in the middle of a chain of loads.
__device__ inline void prefetch_table(const Args &a)
{
	for (int i = threadIdx.x * 128; i < a.experts * (int)sizeof(Expert); i += blockDim.x * 128)
		asm volatile("prefetch.global.L2 [%0];" ::"l"((const u8 *)a.table + i));
}

// inner = silu(gate·x)·(up·x). Grid: BLOCKS a multiprocessor, THREADS threads:
// warps take outputs in turn.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) gate_up(PARAM)
{
	let_next_start();
	prefetch_table(a);
	wait_for_previous();
	int outputs = a.tokens * a.k * a.width;
	for (int i = warp_id() * gridDim.x + blockIdx.x; i < outputs; i += gridDim.x * (THREADS / WARP)) {
		int choice = i / a.width, o = i % a.width, t = choice / a.k;
		const Expert *e = expert(a, t, choice % a.k);
		if (!e || o >= e->width)
			continue;
		float g, u, gateScale = e->gateScale[o], upScale = e->upScale[o];
		products(g, u, e->gate + o * e->gateLD, e->up + o * e->upLD, a.x.row(t), a.hidden);
		g = warp_sum(g) * gateScale + bias_at(e->gateBias, o), u = warp_sum(u) * upScale + bias_at(e->upBias, o);
		if (lane_id() == 0)
			a.inner[choice * a.innerLD + o] = silu(g) * u;
	}
}

// dst += Σⱼ weights·(down·inner). Grid: (blocks of OUTS outputs, tokens),
// DOWN_THREADS threads; OUTS·k floats of dynamic shared memory. Warps take two
// outputs of a choice at a time.
extern "C" __global__ void __launch_bounds__(DOWN_THREADS, BLOCKS) down(PARAM)
{
	let_next_start();
	wait_for_previous();
	extern __shared__ float part[]; // [k][OUTS]
	int t = blockIdx.y, first = blockIdx.x * OUTS;
	for (int i = warp_id(); i < OUTS / 2 * a.k; i += DOWN_THREADS / WARP) {
		int j = i / (OUTS / 2), o = i % (OUTS / 2) * 2, o0 = first + o, o1 = min(o0 + 1, a.hidden - 1);
		const Expert *e = expert(a, t, j);
		float s0 = 0, s1 = 0;
		if (e && o0 < a.hidden) {
			float scale0 = e->downScale[o0], scale1 = e->downScale[o1], weight = a.weights.row(t)[j];
			products(s0, s1, e->down + o0 * e->downLD, e->down + o1 * e->downLD, a.inner + (t * a.k + j) * a.innerLD, (int)e->width);
			s0 = weight * (warp_sum(s0) * scale0 + bias_at(e->downBias, o0));
			s1 = weight * (warp_sum(s1) * scale1 + bias_at(e->downBias, o1));
		}
		if (lane_id() == 0)
			part[j * OUTS + o] = s0, part[j * OUTS + o + 1] = s1;
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
