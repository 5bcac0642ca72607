#pragma once
// Attention by the threads that read the rows, LANES of them a row.
#define COLUMNS (V_CHUNKS * 8) // of the output that a lane has
#define PITCH DV               // numbers of a sum in shared memory
#define AT_ONCE (LANES == WARP ? 2 : 1) // rounds that are worked on side by side: a warp waits for its sums across lanes
static_assert(DEPTH % AT_ONCE == 0, "shape");

// A weighted sum of values; weights are exp2(score − top).
struct Sum {
	float top, sum, at[COLUMNS];
	__device__ void shrink(float to)
	{
		float by = power2(top - to);
		top = to, sum *= by;
#pragma unroll
		for (int i = 0; i < COLUMNS; i++)
			at[i] *= by;
	}
};

__device__ inline float dot8(uint4 x, const float *q)
{
	u32 w[4] = {x.x, x.y, x.z, x.w};
	float sum = 0;
#pragma unroll
	for (int i = 0; i < 4; i++)
		sum += low_half(w[i]) * q[2 * i] + high_half(w[i]) * q[2 * i + 1];
	return sum;
}

__device__ inline void add8(float *at, uint4 x, float p)
{
	u32 w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
	for (int i = 0; i < 4; i++)
		at[2 * i] += p * low_half(w[i]), at[2 * i + 1] += p * high_half(w[i]);
}

// A lane's part of the query, scaled for exp2.
struct Query { float at[K_CHUNKS * 8]; };

__device__ inline void load_query(Query &q, const uint4 *query, float by)
{
	int lane = threadIdx.x % LANES;
#pragma unroll
	for (int c = 0; c < K_CHUNKS; c++)
		if (has<DK>(c, lane)) {
			uint4 x = query[c * LANES + lane];
			u32 w[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
			for (int i = 0; i < 4; i++)
				q.at[c * 8 + 2 * i] = low_half(w[i]) * by, q.at[c * 8 + 2 * i + 1] = high_half(w[i]) * by;
		}
}

// Adds the rows to x; the first DEPTH rounds are under way. AT_ONCE rounds are worked on side by side.
__device__ inline void attend(Sum &x, const Query &q, u8 *ring, const Rows &r, const Selection &m)
{
	int lane = threadIdx.x % LANES, rounds = r.rounds(), at = threadIdx.x / LANES - r.suffix;
#pragma unroll 1
	for (int round = 0, slot = 0; round < rounds; round += AT_ONCE, slot = slot + AT_ONCE == DEPTH ? 0 : slot + AT_ONCE, at += AT_ONCE * GROUPS) {
		if (__any_sync(~0u, at < r.listed)) {
			float score[AT_ONCE], part[AT_ONCE];
			uint4 key[AT_ONCE][V_IN_K ? K_CHUNKS : 1];
			bool is[AT_ONCE];
#pragma unroll
			for (int n = 0; n < AT_ONCE; n++) {
				int i = at + n * GROUPS;
				is[n] = i < r.listed;
				score[n] = is[n] && i >= 0 ? -less(m, m.list[i].which) : 0;
			}
			copy_wait<DEPTH - AT_ONCE>();
#pragma unroll
			for (int n = 0; n < AT_ONCE; n++) {
				part[n] = 0;
#pragma unroll
				for (int c = 0; c < K_CHUNKS; c++)
					if (is[n] && has<DK>(c, lane)) {
						uint4 chunk = *lane_chunk(ring, slot + n, c);
						if (V_IN_K)
							key[n][c] = chunk;
						part[n] += dot8(chunk, q.at + c * 8);
					}
			}
#pragma unroll
			for (int step = LANES / 2; step > 0; step /= 2)
#pragma unroll
				for (int n = 0; n < AT_ONCE; n++)
					part[n] += __shfl_xor_sync(~0u, part[n], step);
			float high = LOW;
#pragma unroll
			for (int n = 0; n < AT_ONCE; n++) {
				score[n] = is[n] ? score[n] + part[n] : LOW;
				high = fmaxf(high, score[n]);
			}
			if (__any_sync(~0u, high > x.top)) // one maximum for the warp
				x.shrink(fmaxf(x.top, from_order_bits(__reduce_max_sync(~0u, order_bits(high)))));
#pragma unroll
			for (int n = 0; n < AT_ONCE; n++)
				if (is[n]) {
					float p = power2(score[n] - x.top);
					x.sum += p;
#pragma unroll
					for (int c = 0; c < V_CHUNKS; c++)
						if (has<DV>(c, lane))
							add8(x.at + c * 8, V_IN_K ? key[n][V_IN_K ? c : 0] : *lane_chunk(ring, slot + n, K_CHUNKS + c), p);
				}
		}
#pragma unroll
		for (int n = 0; n < AT_ONCE; n++)
			fetch(ring, slot + n, r, m, round + n + DEPTH, true, true);
	}
	copy_wait<0>();
}

// Adds up the sums of THREADS / SUMS neighbouring threads and leaves them.
__device__ inline void leave(Sum &x, float *tops, float *sums, float (*parts)[PITCH])
{
	int lane = threadIdx.x % LANES, at = threadIdx.x * SUMS / THREADS;
#pragma unroll
	for (int step = LANES; step < THREADS / SUMS; step *= 2) {
		x.sum += __shfl_xor_sync(~0u, x.sum, step);
#pragma unroll
		for (int i = 0; i < COLUMNS; i++)
			x.at[i] += __shfl_xor_sync(~0u, x.at[i], step);
	}
	if (threadIdx.x % (THREADS / SUMS) < LANES) {
		if (lane == 0)
			tops[at] = x.top, sums[at] = x.sum;
#pragma unroll
		for (int c = 0; c < V_CHUNKS; c++)
			if (has<DV>(c, lane))
#pragma unroll
				for (int i = 0; i < 8; i += 4)
					*(float4 *)&parts[at][(c * LANES + lane) * 8 + i] =
						make_float4(x.at[c * 8 + i], x.at[c * 8 + i + 1], x.at[c * 8 + i + 2], x.at[c * 8 + i + 3]);
	}
}

// Where a column lies in a sum.
__device__ inline int place_of(int column) { return column; }
