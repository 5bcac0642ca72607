// The last of three kernels of the next token (sample.cuh): filters try the tokens
// of the bin in which they end one by one; the draw.
#include "sample.cuh"
#include "sample_list.cuh"
#include "topk.cuh"

// What one block needs to find borders among all tokens.
struct Plain {
	SelectMemory select;
	u64 mass[256];
	u64 above;
	u32 border;
};

// The order bits of the lowest logit that top-p keeps of those at or above
// `floor`: a radix search over sums of mass.
__device__ u32 mass_border(const Args &a, Plain &m, Filters f, float top, u32 floor, u64 target)
{
	if (threadIdx.x == 0)
		m.above = 0, m.border = 0;
	for (int shift = 24; shift >= 0; shift -= 8) {
		for (int i = threadIdx.x; i < 256; i += blockDim.x)
			m.mass[i] = 0;
		__syncthreads();
		u32 border = m.border;
		for (int i = threadIdx.x; i < a.vocab; i += blockDim.x) {
			u32 bits = order_bits(a.adjusted[i]);
			if (bits >= floor && (shift == 24 || bits >> (shift + 8) == border >> (shift + 8)))
				atomicAdd(&m.mass[bits >> shift & 255], weight(a.adjusted[i], top));
		}
		__syncthreads();
		if (threadIdx.x == 0) {
			u64 above = m.above;
			int lowest = 0;
			for (int digit = 255; digit >= 0; digit--) {
				if (m.mass[digit] == 0)
					continue;
				if (!f.keeps(above, target))
					break;
				lowest = digit, m.above = above;
				above += m.mass[digit];
			}
			m.border |= (u32)lowest << shift;
		}
		__syncthreads();
	}
	return m.border;
}

// Filters and draws in one block, where too many tokens are in question for a
// list.
__device__ void plain(const Args &a, Plain &m, Filters f, float top)
{
	__shared__ u64 shared[WARP];
	u32 border = 0;
	auto total = [&]() {
		u64 sum = 0;
		for (int i = threadIdx.x; i < a.vocab; i += blockDim.x)
			sum += order_bits(a.adjusted[i]) >= border ? weight(a.adjusted[i], top) : 0;
		return block_sum(sum, shared);
	};
	if (f.k) {
		auto key = [&](int i, u64 &bits) { bits = (u64)order_bits(a.adjusted[i]) << 32; return true; };
		border = radix_select(a.vocab, f.k, 32, key, m.select) >> 32;
	}
	if (f.p < 1)
		border = max(border, mass_border(a, m, f, top, border, f.target(total())));
	border = max(border, f.floor);
	draw(a, a.adjusted, 0, a.vocab, top, border, 0, threshold(a, total()));
}

KERNEL choose(PARAM)
{
	let_next_start();
	wait_for_previous();
	static_assert(CHUNKS == MANY, "a thread a chunk");
	__shared__ union Memory { List list; Plain plain; __device__ Memory() {} } m;
	__shared__ u64 sums[CHUNKS];
	State *s = a.state;
	int mode = s->mode, bin_at_end = s->bin, from = blockIdx.x * a.chunk, to = min(from + a.chunk, a.vocab);
	float top = s->top, next = from + threadIdx.x < to ? a.adjusted[from + threadIdx.x] : -INF;
	u64 total = s->total, before = s->above;
	Filters f(a);
	if (mode == DONE)
		return;
	f.set(top, a.vocab);
	if (mode == PLAIN) {
		if (blockIdx.x == 0)
			plain(a, m.plain, f, top);
		return;
	}
	u64 sum = 0;
	for (int i = from + threadIdx.x; i - (int)threadIdx.x < to; i += MANY) {
		float x = next;
		next = i + MANY < to ? a.adjusted[i + MANY] : -INF;
		u64 w = weight(x, top);
		int bin = bin_of(x, top);
		sum += bin < bin_at_end && order_bits(x) >= f.floor ? w : 0;
		bool in = w && (bin == bin_at_end || mode == LISTED && bin < bin_at_end);
		u32 all = __ballot_sync(~0u, in);
		int at = 0;
		if (all && lane_id() == 0)
			at = atomicAdd(&s->listed, __popc(all));
		at = __shfl_sync(~0u, at, 0) + __popc(all & ((1u << lane_id()) - 1));
		if (in)
			s->x[at] = x, s->ids[at] = i;
	}
	sum = block_sum(sum, sums);
	if (threadIdx.x == 0)
		s->sums[blockIdx.x] = sum;
	if (!last(&s->chosen))
		return;
	List &l = m.list;
	if (threadIdx.x == 0)
		l.n = load(&s->listed);
	__syncthreads();
	l.mine([&](int i, int) {
		l.x[i] = load(&s->x[i]), l.ids[i] = load(&s->ids[i]);
		l.w[i] = weight(l.x[i], top);
	});
	__syncthreads();
	filter(l, f, mode == LISTED ? 0 : before, total, top);
	if (mode == LISTED)
		draw_listed(a, l);
	else
		draw_border(a, l, f, top, sums);
}
