// Labels of bf16 rows of D columns by products on the bf16 tensor cores, with a
// bound on their error; the rows that the bound leaves open are listed, for
// kernels/nearest_double.cu. First split, then guess.
// A center is the sum of two bf16 numbers a coordinate and less than 2⁻¹⁷ of it,
// so that with the error of float32 sums a score is off by less than
// DOUBT·|x|·|center|. Norms, as kernels/nearest.cu sums them, are squares.
// split: grid (8 centers, problems), 256 threads, a warp a center, to parts
// [problems, k, 2, D] and norms [problems, k]; largest [problems] is the bits of
// the largest norm. guess: grid (128 rows,
// problems), 256 threads: 4 by 2 warps of 32 rows and 32 centers; rows stay in
// registers, tiles of 64 centers come by cp.async into two buffers. Dynamic shared
// memory: 2 · 64 · 2·D bf16. list [problems, n], listed [problems].
// Coordinates meet in another order than they have: a lane takes 8 neighbours, a
// piece, of rows and of centers alike, for two products.
#include "tensor.cuh"

#define ROWS 128
#define COLS 64
#define LD (2 * D) // of a center: both parts
#define PIECE 8    // coordinates of a load
#define DOUBT 0x1p-13f

struct Args {
	Mat<int> labels;
	const Mat<const SRC> *x;
	Mat<const int> ids;
	Cube<const float> centers;
	const int *base, *live;
	float *norms;
	bf16 *parts;
	int *largest, *list, *listed;
	int n, k, d, pad;
};

KERNEL split(PARAM)
{
	int problem = blockIdx.y, j = blockIdx.x * (blockDim.x / WARP) + warp_id();
	if (j >= a.k || a.live && !a.live[problem])
		return;
	const float *center = a.centers.row(problem, j);
	bf16 *parts = a.parts + (problem * (i64)a.k + j) * 2 * D;
	for (int i = lane_id(); i < D; i += WARP) {
		bf16 high = to<bf16>(center[i]);
		parts[i] = high;
		parts[D + i] = to<bf16>(center[i] - f32(high));
	}
	if (lane_id() == 0) {
		float norm = 0;
		for (int i = 0; i < D; i++)
			norm = __fadd_rn(norm, __fmul_rn(center[i], center[i]));
		a.norms[problem * (i64)a.k + j] = norm;
		atomicMax(a.largest + problem, __float_as_int(norm));
	}
}

__device__ inline void copy16(void *into, const void *from, bool there)
{
	u32 at = __cvta_generic_to_shared(into);
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0));
}

__device__ inline void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma(c, a[0], a[1], a[2], a[3], b0, b1); }

// The two lowest scores.
struct Best {
	float score, second;
	int label;
	__device__ void take(float s, int l)
	{
		if (s < score)
			second = score, score = s, label = l;
		else
			second = fminf(second, s);
	}
	__device__ void join(Best o)
	{
		if (o.score < score) {
			second = fminf(score, o.second);
			score = o.score, label = o.label;
		} else {
			second = fminf(second, o.score);
		}
	}
};

extern __shared__ __align__(128) u8 shared[];

// Where a piece of a tile's row lies: lanes that read two rows at a time use different banks. (Of rows
// padded by 16 bytes every second would take cp.async twice the time.)
__device__ inline int place(int row, int piece) { return row * LD + (piece ^ row % 2 * 4) * PIECE; }

__device__ void load(const Args &a, int problem, int tile)
{
	bf16 *into = (bf16 *)shared + tile % 2 * COLS * LD;
	const bf16 *parts = a.parts + problem * (i64)a.k * 2 * D;
	const int pieces = LD / PIECE;
	for (int i = threadIdx.x; i < COLS * pieces; i += blockDim.x) {
		int r = i / pieces, piece = i % pieces, center = tile * COLS + r;
		copy16(into + place(r, piece), parts + (i64)min(center, a.k - 1) * LD + piece * PIECE, center < a.k);
	}
	asm volatile("cp.async.commit_group;");
}

extern "C" __global__ void __launch_bounds__(256, 2) guess(PARAM)
{
	__shared__ Best found[2][ROWS];
	int problem = blockIdx.y, first = blockIdx.x * ROWS;
	if (a.live && !a.live[problem])
		return;
	int tiles = (a.k + COLS - 1) / COLS;
	load(a, problem, 0);
	int group = lane_id() / 4, quarter = lane_id() % 4, own = quarter * 2, down = warp_id() / 2 * 32, right = warp_id() % 2 * 32;
	const Mat<const SRC> rows = a.x[problem];
	const int *ids = a.ids.p ? a.ids.row(problem) : 0;
	const float *norms = a.norms + problem * (i64)a.k;
	u32 x[2][D / 16][4];
	float square[4]; // of the rows down + group + 8·m
#pragma unroll
	for (int m = 0; m < 4; m++) {
		int row = min(first + down + m * 8 + group, a.n - 1);
		const SRC *from = rows.row(ids ? ids[row] : row) + quarter * PIECE;
		square[m] = 0;
#pragma unroll
		for (int i = 0; i < D / PIECE / 4; i++) {
			uint4 v = *(const uint4 *)(from + i * 4 * PIECE);
			const u32 pairs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
			for (int j = 0; j < 4; j++) {
				float low = __uint_as_float(pairs[j] << 16), high = __uint_as_float(pairs[j] & 0xffff0000);
				square[m] += low * low + high * high;
				x[m / 2][2 * i + j / 2][m % 2 + j % 2 * 2] = pairs[j];
			}
		}
		square[m] += __shfl_xor_sync(~0u, square[m], 1);
		square[m] += __shfl_xor_sync(~0u, square[m], 2);
	}
	Best best[4];
	for (int m = 0; m < 4; m++)
		best[m] = {INF, INF, 0};
	for (int tile = 0; tile < tiles; tile++) {
		if (tile + 1 < tiles) {
			load(a, problem, tile + 1);
			asm volatile("cp.async.wait_group 1;");
		} else {
			asm volatile("cp.async.wait_group 0;");
		}
		__syncthreads();
		const bf16 *c = (const bf16 *)shared + tile % 2 * COLS * LD;
		const uint4 *even = (const uint4 *)(c + place(right + group, quarter)), *odd = (const uint4 *)(c + place(right + group, 4 + quarter));
#pragma unroll
		for (int n = 0; n < 4; n++) {
			float dot[2][4] = {};
#pragma unroll
			for (int i = 0; i < LD / PIECE / 4; i++) {
				uint4 v = (i % 2 ? odd : even)[n * LD + i / 2 * 8]; // 8 rows have LD pieces
#pragma unroll
				for (int m = 0; m < 2; m++)
					multiply(dot[m], x[m][2 * i % (D / 16)], v.x, v.y);
#pragma unroll
				for (int m = 0; m < 2; m++)
					multiply(dot[m], x[m][(2 * i + 1) % (D / 16)], v.z, v.w);
			}
#pragma unroll
			for (int e = 0; e < 2; e++) {
				int label = tile * COLS + right + n * 8 + own + e;
				if (label < a.k) {
					float norm = norms[label];
					for (int m = 0; m < 4; m++)
						best[m].take(norm - 2 * dot[m / 2][m % 2 * 2 + e], label);
				}
			}
		}
		__syncthreads();
	}
#pragma unroll
	for (int m = 0; m < 4; m++) {
		for (int step = 1; step < 4; step *= 2) {
			Best other = {__shfl_xor_sync(~0u, best[m].score, step), __shfl_xor_sync(~0u, best[m].second, step), __shfl_xor_sync(~0u, best[m].label, step)};
			best[m].join(other);
		}
		if (own == 0) {
			found[warp_id() % 2][down + m * 8 + group] = best[m];
			if (warp_id() % 2 == 0)
				((float *)shared)[down + m * 8 + group] = square[m];
		}
	}
	__syncthreads();
	int row = first + threadIdx.x;
	if (threadIdx.x < ROWS && row < a.n) {
		Best one = found[0][threadIdx.x];
		one.join(found[1][threadIdx.x]);
		float doubt = 2 * DOUBT * sqrtf(((float *)shared)[threadIdx.x] * __int_as_float(a.largest[problem]));
		if (one.second - one.score > doubt)
			a.labels.row(problem)[row] = one.label + (a.base ? a.base[problem] : 0);
		else
			a.list[problem * (i64)a.n + atomicAdd(a.listed + problem, 1)] = row;
	}
}
