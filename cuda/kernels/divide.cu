// Splits parents into teams. In a parent, up to most members represent: the one
// nearest the mean, then again and again the one farthest from its nearest
// representative, the lower row among equals; each member joins its nearest.
// Distances in float64, every step rounded: two sums, over the coordinates j of
// even and of odd ⌊j/8⌋, in order, then both.
// First group: one block a problem, 1024 threads; dynamic shared memory: parents
// ints, unless cursor [problems, parents] is given. Then divide: grid (8
// parents, problems), 256 threads, a warp a parent, two lanes a member; dynamic
// shared memory: 8·d doubles. Then count: one thread a problem.
// Between group and divide, kernels/divide_few.cu may have done what it can: left
// [problems, parents] then says which parents it left.
// parent, slots [problems, n]; reps, logn [problems, teams], offsets [problems,
// teams+1]; order, owner, near [problems, n]; start, begin [problems, parents+1];
// bad [problems], the lowest row that is not finite.
#include "divide.cuh"

#define SOME (VEC < 4 ? VEC : 4) // columns that a lane averages at once
#define AHEAD 8 // rows under way for that

__device__ inline double minus(SRC x, double y) { return __dsub_rn(scaled(x) * SCALE, y); }
__device__ inline double minus(SRC x, SRC y) { return __dsub_rn(scaled(x), scaled(y)) * SCALE; }

// The block's first team of every parent, in begin; nothing beyond the last.
KERNEL group(PARAM)
{
	extern __shared__ int shared[];
	__shared__ int sums[1024];
	int p = blockIdx.x;
	int *start = a.start + p * (i64)(a.parents + 1), *begin = a.begin + p * (i64)(a.parents + 1);
	group_rows(a.parent.row(p), a.n, a.parents, a.order + p * (i64)a.n, start, a.cursor ? a.cursor + p * (i64)a.parents : shared);
	int each = (a.parents + blockDim.x - 1) / blockDim.x, from = min(a.parents, (int)threadIdx.x * each), to = min(a.parents, from + each);
	int sum = 0;
	for (int i = from; i < to; i++)
		sum += min(a.most, start[i + 1] - start[i]);
	sums[threadIdx.x] = sum;
	__syncthreads();
	for (int step = 1; step < blockDim.x; step *= 2) {
		int before = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
		__syncthreads();
		sums[threadIdx.x] += before;
		__syncthreads();
	}
	int at = sums[threadIdx.x] - sum, total = sums[blockDim.x - 1];
	for (int i = from; i < to; i++) {
		begin[i] = at;
		at += min(a.most, start[i + 1] - start[i]);
	}
	for (int g = total + threadIdx.x; g < a.teams; g += blockDim.x) {
		a.reps.row(p)[g] = 0;
		a.logn.row(p)[g] = -INF;
		a.offsets.row(p)[g + 1] = a.n;
	}
	if (threadIdx.x == 0) {
		begin[a.parents] = total;
		a.offsets.row(p)[0] = 0;
		a.bad[p] = a.n;
	}
}

// VEC columns of a row, or of a mean, which lies at no such boundary.
__device__ inline Vec<SRC, VEC> columns(const SRC *p) { return *(const Vec<SRC, VEC> *)p; }
struct Means {
	double at[VEC];
};
__device__ inline Means columns(const double *p)
{
	Means m;
	for (int v = 0; v < VEC; v++)
		m.at[v] = p[v];
	return m;
}

// A member's squared distance from a point, by the two lanes that have it.
template <class T> __device__ double apart(const SRC *x, const T *point, int d)
{
	double sum = 0;
	for (int j = lane_id() % 2 * 8; j < d; j += 16) {
		int count = min(8, d - j);
		if (count == 8) {
#pragma unroll
			for (int v = 0; v < 8; v += VEC) {
				auto left = columns(x + j + v);
				auto right = columns(point + j + v);
#pragma unroll
				for (int u = 0; u < VEC; u++) {
					double diff = minus(left.at[u], right.at[u]);
					sum = __dadd_rn(sum, __dmul_rn(diff, diff));
				}
			}
		} else {
			for (int v = 0; v < count; v++) {
				double diff = minus(x[j + v], point[j + v]);
				sum = __dadd_rn(sum, __dmul_rn(diff, diff));
			}
		}
	}
	return __dadd_rn(sum, __shfl_xor_sync(~0u, sum, 1));
}

// The member of the best score, the lower among equals: every lane has one.
__device__ int first_best(double score, int member)
{
	for (int step = WARP / 2; step > 0; step /= 2) {
		double other = __shfl_xor_sync(~0u, score, step);
		int its = __shfl_xor_sync(~0u, member, step);
		if (its >= 0 && (member < 0 || other > score || other == score && its < member))
			score = other, member = its;
	}
	return member;
}

// The mean of the members, to shared memory; also looks for a number that is
// none.
__device__ void average(const Args &a, int p, Mat<const SRC> rows, const int *members, int n, double *mean)
{
	int bad = a.n;
	for (int j = lane_id() * SOME; j < a.d; j += WARP * SOME) {
		double sum[SOME] = {};
		for (int from = 0; from < n; from += AHEAD) {
			Vec<SRC, SOME> x[AHEAD];
#pragma unroll
			for (int i = 0; i < AHEAD; i++)
				x[i] = *(const Vec<SRC, SOME> *)(rows.row(members[min(from + i, n - 1)]) + j);
#pragma unroll
			for (int i = 0; i < AHEAD; i++) {
				if (from + i >= n)
					break;
#pragma unroll
				for (int v = 0; v < SOME; v++) {
					if (!(fabsf(f32(x[i].at[v])) < INF))
						bad = min(bad, members[from + i]);
					sum[v] = __dadd_rn(sum[v], scaled(x[i].at[v]) * SCALE);
				}
			}
		}
		for (int v = 0; v < SOME; v++)
			mean[j + v] = __ddiv_rn(sum[v], n);
	}
	if (bad < a.n)
		atomicMin(a.bad + p, bad);
	__syncwarp();
}

KERNEL divide(PARAM)
{
	extern __shared__ double means[];
	int p = blockIdx.y, parent = blockIdx.x * WARPS + warp_id();
	if (parent >= a.parents)
		return;
	const int *start = a.start + p * (i64)(a.parents + 1);
	int from = start[parent], n = start[parent + 1] - from, team = a.begin[p * (i64)(a.parents + 1) + parent];
	if (n == 0 || a.left && !a.left[p * (i64)a.parents + parent])
		return;
	const Mat<const SRC> rows = a.x[p];
	const int *members = a.order + p * (i64)a.n + from;
	int *owner = a.owner + p * (i64)a.n + from;
	double *near = a.near + p * (i64)a.n + from, *mean = means + warp_id() * a.d;
	average(a, p, rows, members, n, mean);
	int next = -1, half = lane_id() / 2;
	double score = 0;
	for (int i = half; i - half < n; i += PAIR) {
		double far = -apart(rows.row(members[min(i, n - 1)]), mean, a.d);
		if (i < n && (next < 0 || far > score))
			score = far, next = i;
	}
	int chosen = first_best(score, next), count = min(a.most, n);
	for (int s = 0; s < count; s++) {
		const SRC *rep = rows.row(members[chosen]);
		if (lane_id() == 0)
			a.reps.row(p)[team + s] = members[chosen];
		next = -1;
		for (int i = half; i - half < n; i += PAIR) {
			double far = apart(rows.row(members[min(i, n - 1)]), rep, a.d);
			bool there = i < n;
			double before = there && s ? near[i] : far;
			bool joins = there && (i == chosen || s == 0 || before >= 0 && far < before);
			double now = i == chosen ? -1 : joins ? far : before;
			__syncwarp();
			if (joins && lane_id() % 2 == 0)
				near[i] = now, owner[i] = s;
			if (there && (next < 0 || now > score))
				score = now, next = i;
		}
		__syncwarp();
		chosen = first_best(score, next);
	}
	int place = from;
	for (int s = 0; s < count; s++) {
		int first = place;
		for (int i = lane_id(); i - lane_id() < n; i += WARP) {
			bool mine = i < n && owner[i] == s;
			u32 all = __ballot_sync(~0u, mine);
			if (mine)
				a.slots.row(p)[members[i]] = place + __popc(all & ((1u << lane_id()) - 1));
			place += __popc(all);
		}
		if (lane_id() == 0) {
			a.offsets.row(p)[team + s + 1] = place;
			a.logn.row(p)[team + s] = log((double)(place - first));
		}
	}
}

KERNEL count(PARAM)
{
	int p = blockIdx.x * blockDim.x + threadIdx.x;
	if (p < a.problems)
		a.count[p] = a.bad[p] < a.n ? -1 - a.bad[p] : a.begin[p * (i64)(a.parents + 1) + a.parents];
}
