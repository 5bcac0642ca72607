// labels[p, i] = base[p] + argminⱼ |centers[j]|² − 2·x[i]·centers[j], the lower
// center among equals, as kernels/nearest.cu, with products on the float64 tensor
// cores: of all rows, or of those that kernels/nearest_bf16.cu lists. First norms, then nearest.
// norms: grid (256 centers, problems), 256 threads, to norms [problems, k].
// nearest: grid (128 rows, problems), 256 threads: 4 by 2 warps of 32 rows and 32
// centers. Tiles of 64 centers, 128 columns at a time, come by cp.async into two
// buffers; so do the rows, once where they have no more columns than that.
// Dynamic shared memory: buffers · 128 · 136 elements and 2 · 64 · 136 floats.
// d a multiple of 8; rows begin at multiples of 16 bytes.
#include "common.cuh"

#define ROWS 128
#define COLS 64
#define WIDE 128
#define LD (WIDE + 8) // no two of the rows that lanes load from share a bank

struct Args {
	Mat<int> labels;
	const Mat<const SRC> *x;
	Mat<const int> ids;
	Cube<const float> centers;
	const int *base, *live;
	float *norms;
	bf16 *parts;              // not used
	int *largest, *list, *listed; // [problems, n] the rows to label, [problems] how many; null: all
	int n, k, d, pad;
};

KERNEL norms(PARAM)
{
	int problem = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
	if (j >= a.k || a.live && !a.live[problem])
		return;
	const Vec<float, 4> *center = (const Vec<float, 4> *)a.centers.row(problem, j);
	float norm = 0;
	for (int i = 0; i < a.d / 4; i++) {
		Vec<float, 4> c = center[i];
		for (int v = 0; v < 4; v++)
			norm = __fadd_rn(norm, __fmul_rn(c.at[v], c.at[v]));
	}
	a.norms[problem * (i64)a.k + j] = norm;
}

__device__ inline void copy16(void *into, const void *from, bool there)
{
	u32 at = __cvta_generic_to_shared(into);
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0));
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;"); }
template <int N> __device__ inline void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N)); }

// Two neighbours as float64; bf16 times 2⁻⁸⁹⁶, which moves their bits alone.
#define SCALE (sizeof(SRC) == 2 ? 0x1p896 : 1.)
__device__ inline void wide(double &x, double &y, const float *p)
{
	Vec<float, 2> v = *(const Vec<float, 2> *)p;
	x = v.at[0], y = v.at[1];
}
__device__ inline void wide(double &x, double &y, const bf16 *p)
{
	u32 v = *(const u32 *)p;
	x = __hiloint2double((int)(v << 16) >> 3 & 0x8fffffff, 0);
	y = __hiloint2double((int)(v & 0xffff0000) >> 3 & 0x8fffffff, 0);
}

// c += a·b: 16 rows, 8 columns, 8 products each.
__device__ inline void multiply(double (&c)[4], const double (&a)[4], const double (&b)[2])
{
#if __CUDA_ARCH__ >= 900
	asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	    : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
	    : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
	for (int half = 0; half < 2; half++)
		for (int k = 0; k < 2; k++)
			asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
			    : "+d"(c[2 * half]), "+d"(c[2 * half + 1])
			    : "d"(a[half + 2 * k]), "d"(b[k]));
#endif
}

struct Best {
	float score;
	int label;
	__device__ void take(float s, int l)
	{
		if (s < score || s == score && l < label)
			score = s, label = l;
	}
};

extern __shared__ __align__(128) u8 shared[];

// What a stage of a block needs: a tile of centers and, with more than one part
// of the columns, of rows.
struct Stage {
	const Args &a;
	int problem, first, parts;
	Mat<const SRC> rows;
	const int *ids, *list;
	int n;

	// The place of the i-th row in labels and ids.
	__device__ int place(int i) const { return list ? list[i] : i; }
	__device__ SRC *x(int s) const { return (SRC *)shared + (parts > 1 ? s % 2 : 0) * ROWS * LD; }
	__device__ float *c(int s) const { return (float *)((SRC *)shared + (parts > 1 ? 2 : 1) * ROWS * LD) + s % 2 * COLS * LD; }
	__device__ void load_rows(int s) const
	{
		const int each = 16 / sizeof(SRC);
		int from = s % parts * WIDE, pieces = min(WIDE, a.d - from) / each;
		for (int i = threadIdx.x; i < ROWS * pieces; i += blockDim.x) {
			int r = i / pieces, j = i % pieces * each, row = place(min(first + r, n - 1));
			copy16(x(s) + r * LD + j, rows.row(ids ? ids[row] : row) + from + j, first + r < n);
		}
	}
	__device__ void load_centers(int s) const
	{
		int from = s % parts * WIDE, pieces = min(WIDE, a.d - from) / 4, tile = s / parts * COLS;
		for (int i = threadIdx.x; i < COLS * pieces; i += blockDim.x) {
			int r = i / pieces, j = i % pieces * 4;
			copy16(c(s) + r * LD + j, a.centers.row(problem, min(tile + r, a.k - 1)) + from + j, tile + r < a.k);
		}
	}
	__device__ void load(int s) const
	{
		if (parts > 1 || s == 0)
			load_rows(s);
		load_centers(s);
		commit();
	}
};

extern "C" __global__ void __launch_bounds__(256) nearest(PARAM)
{
	__shared__ Best found[2][ROWS];
	int problem = blockIdx.y;
	if (a.live && !a.live[problem])
		return;
	Stage stage = {a, problem, (int)blockIdx.x * ROWS, (a.d + WIDE - 1) / WIDE, a.x[problem], a.ids.p ? a.ids.row(problem) : 0,
		       a.list ? a.list + problem * (i64)a.n : 0, a.list ? a.listed[problem] : a.n};
	if (stage.first >= stage.n)
		return;
	int group = lane_id() / 4, own = lane_id() % 4 * 2, down = warp_id() / 2 * 32, right = warp_id() % 2 * 32;
	const float *norms = a.norms + problem * (i64)a.k;
	double sum[2][4][4] = {};
	Best best[4];
	for (int i = 0; i < 4; i++)
		best[i] = {INF, 0x7fffffff};
	int stages = (a.k + COLS - 1) / COLS * stage.parts;
	stage.load(0);
	for (int s = 0; s < stages; s++) {
		if (s + 1 < stages)
			stage.load(s + 1), wait<1>();
		else
			wait<0>();
		__syncthreads();
		const SRC *x = stage.x(s) + (down + group) * LD + own;
		const float *c = stage.c(s) + (right + group) * LD + own;
		int columns = min(WIDE, a.d - s % stage.parts * WIDE);
		for (int k = 0; k < columns; k += 8) {
			double left[2][4];
			for (int m = 0; m < 2; m++) {
				wide(left[m][0], left[m][2], x + m * 16 * LD + k);
				wide(left[m][1], left[m][3], x + (m * 16 + 8) * LD + k);
			}
#pragma unroll
			for (int n = 0; n < 4; n++) {
				double top[2];
				wide(top[0], top[1], c + n * 8 * LD + k);
				multiply(sum[0][n], left[0], top);
				multiply(sum[1][n], left[1], top);
			}
		}
		if (s % stage.parts == stage.parts - 1)
#pragma unroll
			for (int n = 0; n < 4; n++)
#pragma unroll
				for (int e = 0; e < 2; e++) {
					int label = s / stage.parts * COLS + right + n * 8 + own + e;
					double norm = label < a.k ? norms[label] : INF;
#pragma unroll
					for (int m = 0; m < 4; m++) {
						double &dot = sum[m / 2][n][m % 2 * 2 + e];
						if (label < a.k)
							best[m].take((float)(norm - 2 * (dot * SCALE)), label);
						dot = 0;
					}
				}
		__syncthreads();
	}
#pragma unroll
	for (int m = 0; m < 4; m++) {
		for (int step = 1; step < 4; step *= 2)
			best[m].take(__shfl_xor_sync(~0u, best[m].score, step), __shfl_xor_sync(~0u, best[m].label, step));
		if (own == 0)
			found[warp_id() % 2][down + m * 8 + group] = best[m];
	}
	__syncthreads();
	int row = stage.first + threadIdx.x;
	if (threadIdx.x < ROWS && row < stage.n) {
		Best one = found[0][threadIdx.x], other = found[1][threadIdx.x];
		one.take(other.score, other.label);
		if (one.label == 0x7fffffff)
			one.label = 0; // no score is a number
		a.labels.row(problem)[stage.place(row)] = one.label + (a.base ? a.base[problem] : 0);
	}
}
