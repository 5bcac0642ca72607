// Splits parents of at most 16 members into teams, as divide.cu does, by
// distances in float32. Where their error could change who represents or joins,
// the parent is left to divide.cu.
// Grid: (8 parents, problems), 256 threads, a warp a parent, two lanes a member.
// Shared memory: a warp's rows and their mean. Rows of D bf16 numbers.
//
// A squared distance of two rows is a sum in four parts: the rounding of
// differences, squares and sums changes it by at most 21 units of 2⁻²⁴ of itself for
// 128 columns; 32 are reckoned with, and 2⁻¹⁰⁰ for squares that underflow. A
// coordinate of the mean m is off by at most 8 units of the members' mean magnitude
// there, so the mean by 8 units of the root of the members' mean square
// S ≤ |m|² + the largest distance d from it, and d by 16·√(d·S) units more.
#include "divide.cuh"

#define PIECE 8             // numbers of a load
#define PITCH (D + 2 * PIECE) // of a row: loads of four rows then meet no bank twice
#define UNIT 0x1p-24f

struct Parent {
	bf16 rows[PAIR][PITCH]; // zeros beyond the last
	float point[D];         // from which distances are taken
};

__device__ inline float lower(u32 two) { return __uint_as_float(two << 16); }
__device__ inline float upper(u32 two) { return __uint_as_float(two & 0xffff0000u); }

// A row's squared distance from the point, by two lanes, which take every second
// piece.
__device__ inline float apart(const Parent &shared, const bf16 *row)
{
	float sum[4] = {};
#pragma unroll
	for (int k = 0; k < D / (2 * PIECE); k++) {
		int j = (2 * k + lane_id() % 2) * PIECE;
		uint4 own = *(const uint4 *)(row + j);
		float4 a = *(const float4 *)(shared.point + j), b = *(const float4 *)(shared.point + j + 4);
		const u32 left[4] = {own.x, own.y, own.z, own.w};
		const float right[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
#pragma unroll
		for (int w = 0; w < 4; w++) {
			float one = lower(left[w]) - right[2 * w], two = upper(left[w]) - right[2 * w + 1];
			sum[w] = fmaf(one, one, sum[w]);
			sum[w] = fmaf(two, two, sum[w]);
		}
	}
	float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
	return all + __shfl_xor_sync(~0u, all, 1);
}

// What a squared distance of rows may be off by.
__device__ inline float error_of(float d) { return 32 * UNIT * d + 0x1p-100f; }

// The member of the largest score among those that have one; −1 where the scores'
// errors do not tell.
__device__ inline int best(float score, float error, bool there)
{
	u32 bits = there ? order_bits(score) : 0;
	u32 top = __reduce_max_sync(~0u, bits);
	int lane = __ffs(__ballot_sync(~0u, bits == top)) - 1;
	float least = __shfl_sync(~0u, score - error, lane);
	bool clear = !there || lane_id() / 2 == lane / 2 || score + error < least;
	return __all_sync(~0u, clear) ? lane / 2 : -1;
}

// Makes the mean of n members the point; returns its squared norm.
__device__ inline float average(Parent &shared, int n)
{
	float norm = 0;
	for (int j = lane_id() * 4; j < D; j += WARP * 4) {
		float sum[4][4] = {};
#pragma unroll
		for (int i = 0; i < PAIR; i++) {
			uint2 x = *(const uint2 *)(shared.rows[i] + j);
			sum[i % 4][0] += lower(x.x), sum[i % 4][1] += upper(x.x);
			sum[i % 4][2] += lower(x.y), sum[i % 4][3] += upper(x.y);
		}
#pragma unroll
		for (int v = 0; v < 4; v++) {
			float m = ((sum[0][v] + sum[1][v]) + (sum[2][v] + sum[3][v])) * (1.f / n);
			shared.point[j + v] = m;
			norm = fmaf(m, m, norm);
		}
	}
	return warp_sum(norm);
}

// Makes a row the point.
__device__ inline void take(Parent &shared, const bf16 *row)
{
	for (int j = lane_id() * 4; j < D; j += WARP * 4) {
		uint2 x = *(const uint2 *)(row + j);
		*(float4 *)(shared.point + j) = {lower(x.x), upper(x.x), lower(x.y), upper(x.y)};
	}
}

// Divides one parent; false, and nothing written, where float32 does not do.
__device__ bool divide(const Args &a, Parent &shared, const float *logs, int p, int from, int n, int team)
{
	const Mat<const SRC> x = a.x[p];
	int lane = lane_id(), i = lane / 2, member = a.order[p * (i64)a.n + from + min(lane % PAIR, n - 1)];
	bool there = i < n;
#pragma unroll
	for (int piece = lane; piece < PAIR * D / PIECE; piece += WARP) {
		int row = piece / (D / PIECE), j = piece % (D / PIECE) * PIECE;
		const SRC *from = x.row(__shfl_sync(~0u, member, row)) + j;
		u32 into = (u32)__cvta_generic_to_shared(shared.rows[row] + j);
		asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(into), "l"(from), "r"(row < n ? 16 : 0) : "memory");
	}
	asm volatile("cp.async.wait_all;" ::: "memory");
	__syncwarp();
	float norm = average(shared, n);
	__syncwarp();
	const bf16 *own = shared.rows[i];
	float near = apart(shared, own), square = norm + warp_max(there ? near : 0);
	bool clear = !there || near < 1e38f;
	int chosen = best(-near, error_of(near) + 17 * UNIT * sqrtf(near * square) + 65 * UNIT * UNIT * square, there);
	if (!__all_sync(~0u, clear) || chosen < 0)
		return false;
	int count = min(a.most, n), owner = 0, rep = 0;
	bool taken = false;
	for (int s = 0; s < count; s++) {
		int row = __shfl_sync(~0u, member, chosen);
		if (lane == s)
			rep = row;
		__syncwarp();
		take(shared, shared.rows[chosen]);
		__syncwarp();
		float far = apart(shared, own);
		if (i == chosen) {
			taken = true, owner = s;
		} else if (there && !taken) {
			clear = clear && (s == 0 || fabsf(far - near) > error_of(far) + error_of(near));
			if (s == 0 || far < near)
				near = far, owner = s;
		}
		if (s + 1 < count && (chosen = best(near, error_of(near), there && !taken)) < 0)
			return false;
	}
	if (!__all_sync(~0u, clear))
		return false;
	int place = from, end = 0, size = 0;
	for (int s = 0; s < count; s++) {
		bool mine = there && lane % 2 == 0 && owner == s;
		u32 all = __ballot_sync(~0u, mine);
		int row = __shfl_sync(~0u, member, i);
		if (mine)
			a.slots.row(p)[row] = place + __popc(all & ((1u << lane) - 1));
		place += __popc(all);
		if (lane == s)
			end = place, size = __popc(all);
	}
	if (lane < count) {
		a.reps.row(p)[team + lane] = rep;
		a.offsets.row(p)[team + lane + 1] = end;
		a.logn.row(p)[team + lane] = logs[size];
	}
	return true;
}

extern "C" __global__ void __launch_bounds__(WARPS * WARP, 3) divide_few(PARAM)
{
	extern __shared__ uint4 memory[];
	__shared__ float logs[PAIR + 1];
	if (threadIdx.x <= PAIR)
		logs[threadIdx.x] = log((double)threadIdx.x);
	__syncthreads();
	int p = blockIdx.y, parent = blockIdx.x * WARPS + warp_id();
	if (parent >= a.parents)
		return;
	i64 at = p * (i64)(a.parents + 1) + parent;
	int from = a.start[at], n = a.start[at + 1] - from;
	if (n == 0)
		return;
	bool done = n <= PAIR && divide(a, ((Parent *)memory)[warp_id()], logs, p, from, n, a.begin[at]);
	if (lane_id() == 0)
		a.left[p * (i64)a.parents + parent] = !done;
}
