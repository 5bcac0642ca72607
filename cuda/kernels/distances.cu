// dst[p, i] = max(0, (−2·x[i]·points[p] + |x[i]|²) + |points[p]|²), in float64
// rounded once. Grid: (8 rows of x, 8 points), 256 threads, a warp a row.
// dst [points, n]; x [n, d]; points [m, d].
#include "common.cuh"

#define POINTS 8

struct Args {
	Mat<float> dst;
	Mat<const SRC> x;
	Mat<const POINT> points;
	int n, m, d, pad;
};

__device__ double sum(double x)
{
	for (int step = WARP / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(~0u, x, step);
	return x;
}

KERNEL distances(PARAM)
{
	int i = blockIdx.x * (blockDim.x / WARP) + warp_id();
	if (i >= a.n)
		return;
	const SRC *x = a.x.row(i);
	for (int p = blockIdx.y * POINTS; p < min((int)(blockIdx.y + 1) * POINTS, a.m); p++) {
		const POINT *y = a.points.row(p);
		double both = 0, left = 0, right = 0;
		for (int j = lane_id(); j < a.d; j += WARP) {
			double u = f32(x[j]), v = f32(y[j]);
			both += u * v, left += u * u, right += v * v;
		}
		double distance = (-2 * sum(both) + sum(left)) + sum(right);
		if (lane_id() == 0)
			a.dst.row(p)[i] = fmax(0, distance);
	}
}
