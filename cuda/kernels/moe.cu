// One token through the half of a layer that has experts:
//
//	up    h = x / √(mean(x²) + eps) · gamma; the experts with the largest scores of
//	      router·h; inner = silu(gate·h)·(up·h) of the shared expert and of those
//	down  x += Σ weight·(down·inner), the shared expert with weight 1
//
// In up the first blocks multiply by the router's rows and post logits. A warp of every
// block takes them and chooses, while the others multiply by the shared expert's gate
// and up; those of the chosen ones come after. Blocks wait for blocks before them alone,
// which wait for none. The weights of the shared expert are asked for before the kernel
// ahead has ended.
//
// Grid of up: any, at least as many as experts; of down: (hidden / OUTS); THREADS
// threads. Dynamic shared memory: of up hidden floats; of down the table and OUTS floats
// a part. x [hidden]; ids, weights [k]; inner float32 [sharedParts + k·expertParts,
// segment]; logits: bits, EMPTY between launches. Sums in float32, in an order that
// depends on the shape alone. No biases. A shared expert of width 0 is none.
#include "choose.cuh"
#include "early.cuh"
#include "expert.cuh"
#include "shared.cuh"

#define WARPS (THREADS / WARP)
#define OUTS 8  // of x, by a block
#define LEAD 2  // loads of a row under way, gate and up
#define DEEP 6  // loads of a segment of down
#define SOON 4  // of them under way before up has ended: that is seen later the more there are
#define EMPTY ~0u

struct Args {
	SRC *x;
	const GAMMA *gamma;
	const W *router; // [experts, hidden]
	int *ids;
	float *weights;
	const W *gate, *up, *down; // of the shared expert
	const Expert *table;
	float *inner;
	u32 *logits;
	i64 routerLD, gateLD, upLD, downLD;
	int hidden, shared, width, experts, k, normalize; // shared: the shared expert's width
	int segment, sharedParts, expertParts;            // columns of down at a time
	float eps, scale;
	int pad;
};

__device__ inline u32 peek(const u32 *p)
{
	u32 x;
	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
	return x;
}
__device__ inline void post(u32 *p, u32 x) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" :: "l"(p), "r"(x) : "memory"); }

// Where number i of n neighbours lies, so that lanes read four numbers beside each
// other: of eight the first four come in the first half.
__device__ inline int place(int i, int n) { return VEC == 8 ? (i & 4 ? n / 2 : 0) + i / 8 * 4 + i % 4 : i; }

// The numbers i … i + VEC − 1 of n.
__device__ inline void placed(const float *x, int i, int n, float (&y)[VEC])
{
	*(float4 *)y = *(const float4 *)(x + place(i, n));
	if constexpr (VEC == 8)
		*(float4 *)(y + 4) = *(const float4 *)(x + place(i + 4, n));
}

// sum += x·w.
__device__ inline void add_product(float &sum, const float (&x)[VEC], const Loaded<W, VEC> &w)
{
#pragma unroll
	for (int j = 0; j < VEC; j++)
		sum += x[j] * number<W>(w, j);
}

// A chosen expert, in shared memory.
struct Chosen {
	const W *gate, *up;
	i64 gateLD, upLD;
};

struct Memory {
	float2 sums[WARPS];
	Chosen chosen[WARP];
	int ready; // of the choice
};

// h without the norm's scale, which is returned; the first blocks post the logits.
__device__ inline float normalise(const Args &a, Memory &m, float *h)
{
	bool routes = blockIdx.x < a.experts;
	Vec<GAMMA, 4> gamma[PIECES];
	Vec<W, 4> router[PIECES];
#pragma unroll
	for (int n = 0; n < PIECES; n++)
		if (int c = (n * THREADS + threadIdx.x) * 4; c < a.hidden) {
			gamma[n] = *(const Vec<GAMMA, 4> *)(a.gamma + c);
			if (routes)
				router[n] = *(const Vec<W, 4> *)(a.router + blockIdx.x * a.routerLD + c);
		}
	wait_for_previous();
	float squares = 0, dot = 0;
#pragma unroll
	for (int n = 0; n < PIECES; n++)
		if (int c = (n * THREADS + threadIdx.x) * 4; c < a.hidden) {
			Vec<SRC, 4> x = *(const Vec<SRC, 4> *)(a.x + c);
			Vec<float, 4> z;
#pragma unroll
			for (int j = 0; j < 4; j++) {
				float y = f32(x.at[j]);
				z.at[j] = y * f32(gamma[n].at[j]);
				squares += y * y;
				if (routes)
					dot += z.at[j] * f32(router[n].at[j]);
			}
			*(Vec<float, 4> *)(h + place(c, a.hidden)) = z;
		}
	squares = warp_sum(squares), dot = warp_sum(dot);
	if (lane_id() == 0)
		m.sums[warp_id()] = make_float2(squares, dot);
	__syncthreads();
	squares = dot = 0;
#pragma unroll
	for (int w = 0; w < WARPS; w++)
		squares += m.sums[w].x, dot += m.sums[w].y;
	float scale = 1 / sqrtf(squares / a.hidden + a.eps);
	if (routes && threadIdx.x == 0) {
		u32 bits = __float_as_uint(scale * dot);
		post(a.logits + blockIdx.x, bits == EMPTY ? 0x7fc00000 : bits);
	}
	return scale;
}

// By one warp: the choice, as soon as all logits are there.
__device__ inline void choose(const Args &a, Memory &m)
{
	float logit[EACH], weight;
#pragma unroll
	for (int j = 0; j < EACH; j++) {
		int e = j * WARP + lane_id();
		u32 bits = 0;
		if (e < a.experts)
			while ((bits = peek(a.logits + e)) == EMPTY)
				;
		logit[j] = __uint_as_float(bits);
	}
	__syncwarp();
	int id;
	choose_experts(logit, a.experts, a.k, a.normalize, a.scale, id, weight);
	if (lane_id() < a.k) {
		const Expert &e = a.table[id];
		m.chosen[lane_id()] = Chosen{e.gate, e.up, e.gateLD, e.upLD};
		if (blockIdx.x == 0)
			a.ids[lane_id()] = id, a.weights[lane_id()] = weight;
	}
	__threadfence_block();
	__syncwarp();
	if (lane_id() == 0)
		*(volatile int *)&m.ready = 1;
}

// Waits until the block has chosen.
__device__ inline void await_choice(const Memory &m)
{
	while (!*(const volatile int *)&m.ready)
		;
	__threadfence_block();
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) up(PARAM)
{
	extern __shared__ __align__(16) float h[];
	__shared__ Memory m;
	let_next_start();
	if (threadIdx.x == 0)
		m.ready = 0;
	int first = warp_id() * gridDim.x + blockIdx.x, stride = gridDim.x * WARPS, total = a.shared + a.k * a.width;
	int lane = lane_id() * VEC;
	const W *gate = a.gate + first * a.gateLD, *up = a.up + first * a.upLD;
	Loaded<W, VEC> p[LEAD] = {}, q[LEAD] = {};
	auto fetch = [&](int n, int c) {
		if (c < a.hidden)
			p[n] = stream<W, VEC>(gate + c), q[n] = stream<W, VEC>(up + c);
	};
	if (first < a.shared)
#pragma unroll
		for (int n = 0; n < LEAD; n++)
			fetch(n, lane + n * WARP * VEC);
	float scale = normalise(a, m, h);
	if (warp_id() == WARPS - 1) // its first output is an expert's as a rule
		choose(a, m);
	for (int i = first; i < total; i += stride) {
		int part, o = i, n; // the part of inner, and what is in it
		if (i < a.shared) {
			part = o / a.segment, o -= part * a.segment, n = min(a.segment, a.shared - part * a.segment);
			gate = a.gate + i * a.gateLD, up = a.up + i * a.upLD;
		} else {
			await_choice(m);
			int j = (i - a.shared) / a.width;
			o = (i - a.shared) % a.width;
			gate = m.chosen[j].gate + o * m.chosen[j].gateLD, up = m.chosen[j].up + o * m.chosen[j].upLD;
			part = o / a.segment, o -= part * a.segment, n = min(a.segment, a.width - part * a.segment);
			part += a.sharedParts + j * a.expertParts;
		}
		if (i >= a.shared || i != first)
#pragma unroll
			for (int n = 0; n < LEAD; n++)
				fetch(n, lane + n * WARP * VEC);
		float g = 0, u = 0;
		for (int c0 = lane; c0 < a.hidden; c0 += LEAD * WARP * VEC) {
#pragma unroll
			for (int n = 0; n < LEAD; n++) {
				int c = c0 + n * WARP * VEC;
				if (c >= a.hidden)
					break;
				float y[VEC];
				placed(h, c, a.hidden, y);
				add_product(g, y, p[n]), add_product(u, y, q[n]);
				fetch(n, c + LEAD * WARP * VEC);
			}
		}
		g = scale * warp_sum(g), u = scale * warp_sum(u);
		if (lane_id() == 0)
			a.inner[part * a.segment + place(o, n)] = silu(g) * u;
	}
}

// An item is one of a block's OUTS outputs times a part: warps take them in turn, the
// shared expert's first. Which experts were chosen is read before up has ended, so that
// nothing waits for it, and compared after: if it was not there yet, items are done anew.
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) down(PARAM)
{
	extern __shared__ __align__(16) u8 memory[];
	__shared__ int seen[WARP], ids[WARP];
	__shared__ float weights[WARP];
	__shared__ __align__(4) SRC before[OUTS];
	Expert *table = (Expert *)memory;
	float *sums = (float *)(table + a.experts);
	let_next_start();
	int parts = a.sharedParts + a.k * a.expertParts, items = parts * OUTS, first = blockIdx.x * OUTS, lane = lane_id() * VEC;
	const W *w;
	int n; // columns of the item
	auto locate = [&](int item) {
		int part = item / OUTS, o = min(first + item % OUTS, a.hidden - 1), from;
		if (part < a.sharedParts) {
			from = part * a.segment, n = min(a.segment, a.shared - from), w = a.down + o * a.downLD + from;
		} else {
			const Expert &e = table[seen[(part - a.sharedParts) / a.expertParts]];
			from = (part - a.sharedParts) % a.expertParts * a.segment, n = min(a.segment, a.width - from), w = e.down + o * e.downLD + from;
		}
	};
	Loaded<W, VEC> v[DEEP] = {};
	auto fetch = [&](int d) {
		if (int c = lane + d * WARP * VEC; c < n)
			v[d] = stream<W, VEC>(w + c);
	};
	int item = warp_id();
	bool early = item / OUTS < a.sharedParts;
	if (early) {
		locate(item);
#pragma unroll
		for (int d = 0; d < SOON; d++)
			fetch(d);
	}
	for (int i = threadIdx.x; i < a.experts * (int)(sizeof(Expert) / 8); i += THREADS)
		((u64 *)table)[i] = ((const u64 *)a.table)[i];
	if (threadIdx.x < a.k)
		seen[threadIdx.x] = min(max(__ldcg(a.ids + threadIdx.x), 0), a.experts - 1);
	__syncthreads();
	wait_for_previous();
	if (early)
#pragma unroll
		for (int d = SOON; d < DEEP; d++)
			fetch(d);
	if (threadIdx.x < a.k)
		copy4(&ids[threadIdx.x], a.ids + threadIdx.x), copy4(&weights[threadIdx.x], a.weights + threadIdx.x);
	const int each = 4 / sizeof(SRC);
	if (int i = threadIdx.x * each; i < OUTS && first + i < a.hidden)
		copy4(&before[i], a.x + first + i);
	copy_end();
	if (blockIdx.x == 0)
		for (int e = threadIdx.x; e < a.experts; e += THREADS)
			a.logits[e] = EMPTY;
	while (true) {
		if (!early && item < items) {
			locate(item);
#pragma unroll
			for (int d = 0; d < DEEP; d++)
				fetch(d);
		}
		for (; item < items; item += WARPS) {
			const float *x = a.inner + item / OUTS * a.segment;
			int count = n;
			bool more = item + WARPS < items;
			if (more)
				locate(item + WARPS);
			float s = 0;
#pragma unroll
			for (int d = 0; d < DEEP; d++) {
				if (int c = lane + d * WARP * VEC; c < count) {
					float y[VEC];
					placed(x, c, count, y);
					add_product(s, y, v[d]);
				}
				if (more)
					fetch(d);
			}
			s = warp_sum(s);
			if (lane_id() == 0)
				sums[item] = s;
		}
		copy_wait<0>();
		if (!__syncthreads_or(threadIdx.x < a.k && seen[threadIdx.x] != ids[threadIdx.x]))
			break;
		if (threadIdx.x < a.k)
			seen[threadIdx.x] = ids[threadIdx.x];
		__syncthreads();
		item = warp_id(), early = false;
	}
	int out = first + threadIdx.x;
	if (threadIdx.x >= OUTS || out >= a.hidden)
		return;
	float y = 0;
	for (int part = 0; part < parts; part++) {
		float s = sums[part * OUTS + threadIdx.x];
		y += part < a.sharedParts ? s : s * weights[(part - a.sharedParts) / a.expertParts];
	}
	a.x[out] = to<SRC>(f32(before[threadIdx.x]) + y);
}
