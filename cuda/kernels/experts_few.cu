// dst[t] += Σⱼ weights[t, j]·expert(ids[t, j])(x[t]) for few tokens: every
// (token, choice) reads its expert's weights, a warp an output, VEC inputs a
// load. x [tokens, hidden]; dst [tokens, hidden]; ids, weights [tokens, k];
// inner float32 [tokens·k, width]. Sums in float32, choices in order.
#include "expert.cuh"

struct Args {
	Mat<DST> dst;
	Mat<const SRC> x;
	Mat<const int> ids;
	Mat<const float> weights;
	const Expert *table;
	float *inner;
	i64 innerLD;
	int hidden, k, experts, pad;
};

// The warp's sum of x·w over n elements.
template <class X> __device__ float dot(const X *x, const W *w, int n)
{
	float sum = 0;
#pragma unroll 4
	for (int i = lane_id() * VEC; i < n; i += WARP * VEC) {
		Vec<W, VEC> v = *(const Vec<W, VEC> *)(w + i);
		Vec<X, VEC> u = *(const Vec<X, VEC> *)(x + i);
		for (int j = 0; j < VEC; j++)
			sum += f32(u.at[j]) * f32(v.at[j]);
	}
	return warp_sum(sum);
}

// inner = silu(gate·x)·(up·x). Grid: (blocks of width, tokens·k).
KERNEL gate_up(PARAM)
{
	int t = blockIdx.y / a.k, id = a.ids.row(t)[blockIdx.y % a.k];
	int o = blockIdx.x * (blockDim.x / WARP) + warp_id();
	if ((u32)id >= (u32)a.experts || o >= a.table[id].width)
		return;
	const Expert &e = a.table[id];
	float g = dot(a.x.row(t), e.gate + o * e.gateLD, a.hidden) + bias_at(e.gateBias, o);
	float u = dot(a.x.row(t), e.up + o * e.upLD, a.hidden) + bias_at(e.upBias, o);
	if (lane_id() == 0)
		a.inner[blockIdx.y * a.innerLD + o] = silu(g) * u;
}

// dst += Σⱼ weights·(down·inner). Grid: (blocks of hidden, tokens).
KERNEL down(PARAM)
{
	int t = blockIdx.y, o = blockIdx.x * (blockDim.x / WARP) + warp_id();
	if (o >= a.hidden)
		return;
	float y = 0;
	for (int j = 0; j < a.k; j++) {
		int id = a.ids.row(t)[j];
		if ((u32)id >= (u32)a.experts)
			continue;
		const Expert &e = a.table[id];
		float s = dot(a.inner + (t * a.k + j) * a.innerLD, e.down + o * e.downLD, e.width);
		y += a.weights.row(t)[j] * (s + bias_at(e.downBias, o));
	}
	DST *dst = a.dst.row(t) + o;
	if (lane_id() == 0)
		*dst = to<DST>(f32(*dst) + y);
}
