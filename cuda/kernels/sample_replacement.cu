// Draws teams with replacement: draw j is the first team whose running sum of
// exp(phi) exceeds u(j) times their total; logc = ln(draws · p).
// Grid: (heads, tokens), one block of 1,024 threads each; a thread sums a run of
// neighbouring teams, in double: float32 sums of 2¹⁵ terms would move borders.
// teams, logc [tokens, heads, draws]; phi [tokens, heads, m]; pos [tokens];
// seed [2].
#include "philox.cuh"

#define BLOCK 1024

struct Args {
	Cube<int> teams;
	Cube<float> logc;
	Cube<const float> phi;
	const u32 *seed;
	const int *pos;
	int m, draws;
	u32 layer;
	int sys;
};

__device__ double uniform(const Args &a, int j)
{
	Words w = philox(j / 4, blockIdx.x, a.layer, a.pos[blockIdx.y], a.seed[0], a.seed[1]);
	return ((double)w.at[j % 4] + 0.5) * 0x1p-32;
}

// ends[i] = sum of what the threads 0 … i hold.
__device__ void running_sums(double *ends, double mine)
{
	ends[threadIdx.x] = mine;
	for (int step = 1; step < BLOCK; step *= 2) {
		__syncthreads();
		double before = threadIdx.x >= step ? ends[threadIdx.x - step] : 0;
		__syncthreads();
		ends[threadIdx.x] += before;
	}
	__syncthreads();
}

KERNEL sample_replacement(PARAM)
{
	__shared__ double ends[BLOCK];
	__shared__ float tops[WARP];
	int h = blockIdx.x, t = blockIdx.y, per = (a.m + BLOCK - 1) / BLOCK;
	const float *phi = a.phi.row(t, h);
	int *teams = a.teams.row(t, h);
	float *logc = a.logc.row(t, h), top = -INF;
	for (int g = threadIdx.x; g < a.m; g += BLOCK)
		top = fmaxf(top, phi[g]);
	top = block_max(top, tops);
	auto mass = [&](int g) { return phi[g] == -INF ? 0. : (double)expf(phi[g] - top); };
	double sum = 0;
	for (int g = threadIdx.x * per, end = min(g + per, a.m); g < end; g++)
		sum += mass(g);
	running_sums(ends, sum);
	double total = ends[BLOCK - 1];
	for (int j = threadIdx.x; j < a.draws; j += BLOCK) {
		if (top == -INF) {
			teams[j] = -1, logc[j] = 0;
			continue;
		}
		double target = total * (a.sys ? (j + uniform(a, 0)) / a.draws : uniform(a, j));
		int low = 0, high = BLOCK - 1; // the first run that ends beyond the target
		while (low < high) {
			int middle = (low + high) / 2;
			if (ends[middle] > target)
				high = middle;
			else
				low = middle + 1;
		}
		double at = low ? ends[low - 1] : 0;
		int team = -1; // the last one that there is, where rounding misses the border
		for (int g = low * per, end = min(g + per, a.m); g < end && at <= target; g++) {
			double x = mass(g);
			at += x;
			if (x > 0)
				team = g;
		}
		if (team < 0) // a run of nothing at the very end
			for (team = a.m - 1; team > 0 && !(mass(team) > 0); team--)
				;
		teams[j] = team;
		logc[j] = (double)phi[team] - top - log(total) + log((double)a.draws);
	}
}
