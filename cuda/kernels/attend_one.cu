// Exact attention of one token in one kernel, with grouped queries, at most 8 heads a
// key head, over the rows from ≤ j ≤ pos. With ROTATE queries and the new key are
// turned on the way, and the new key and value stored, as rotate_append does; the new
// row is the last one (from is null). With early every other row and pos are as they
// were before the step, and are read before the kernel ahead has ended.
// Grid: (CLUSTERS · CLUSTER, key heads) in clusters of CLUSTER, WARPS · 32 threads.
// All warps of as many clusters as the number of rows asks for share the rows
// (attend_rows.cuh). The blocks of a cluster send each other their sums, when all have
// said that their inboxes are open, and each finishes D / CLUSTER columns of all heads.
// Where there are several clusters, each leaves its columns in parts, and the block that
// counts last in arrived joins those of all. So blocks wait for their own cluster alone,
// which the card starts as a whole, and a cluster without rows is free to end at once.
// Sums in an order that depends on the number of rows alone.
// q [1, heads, D]; k, v [key heads, capacity, D]; newK, newV [1, key heads, D], all
// ELEMENT on 16-byte boundaries; out [1, heads, D]; lse [1, heads] or null, natural
// log; parts, mass: sums of CLUSTERS clusters, by key head and block; arrived: clusters
// that have left theirs, 0 between launches; read as in attend_merge.
#include "attend_rows.cuh"
#include "shared.cuh"

#define SHARE (D / CLUSTER) // columns of a block

struct Args {
	Cube<DST> out;
	Mat<float> lse;
	Cube<ELEMENT> q, k, v, newK, newV;
	const float *freq; // [D/2], with ROTATE
	float *parts;      // [key heads, CLUSTER, CLUSTERS, 8, SHARE]
	Mass *mass;        // [key heads, CLUSTER, CLUSTERS, 8]
	u32 *arrived;      // [key heads, CLUSTER]
	const int *from, *pos;
	u64 *read;
	int heads, group, capacity;
	float scale, turn; // of the logits; of what is rotated
	int early; // pos, and the rows before the new one, are not written by this step
};

struct Memory {
	float4 sums[WARPS][SUMS][WARP];
	float2 tops[WARPS][4], masses[WARPS][4];
	__align__(16) float top[CLUSTER][8], sum[CLUSTER][8], part[CLUSTER][8][SHARE]; // from the cluster's blocks
	__align__(16) float cosines[D / 2], sines[D / 2];
	u64 inbox;
	Limits early;
	int last;
};

__device__ inline int clusters_for(int rows) { return rows <= ALONE ? 1 : min(CLUSTERS, (rows + AT_LEAST - 1) / AT_LEAST); }

__device__ inline void find_angles(const Args &a, Memory &m, int pos)
{
	for (int i = threadIdx.x; i < D / 2; i += WARPS * WARP)
		sincosf(__fmul_rn((float)pos, a.freq[i]), m.sines + i, m.cosines + i);
}

// Rotates a row of which the lane has the columns 8c … of every 32.
__device__ inline void rotate(uint4 (&x)[D / 32], const Memory &m, float scale)
{
#pragma unroll
	for (int j = 0; j < D / 64; j++) {
		const float *cosines = m.cosines + 32 * j + lane_id() % 4 * 8, *sines = m.sines + 32 * j + lane_id() % 4 * 8;
		u32 u[4] = {x[j].x, x[j].y, x[j].z, x[j].w}, w[4] = {x[j + D / 64].x, x[j + D / 64].y, x[j + D / 64].z, x[j + D / 64].w};
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float2 c = *(const float2 *)(cosines + 2 * i), s = *(const float2 *)(sines + 2 * i);
			float u0 = low_half(u[i]), u1 = high_half(u[i]), w0 = low_half(w[i]), w1 = high_half(w[i]);
			u[i] = pack<ELEMENT>(scale * (u0 * c.x - w0 * s.x), scale * (u1 * c.y - w1 * s.y));
			w[i] = pack<ELEMENT>(scale * (w0 * c.x + u0 * s.x), scale * (w1 * c.y + u1 * s.y));
		}
		x[j] = make_uint4(u[0], u[1], u[2], u[3]), x[j + D / 64] = make_uint4(w[0], w[1], w[2], w[3]);
	}
}

// Puts the new row where a tile should have it, and stores it.
__device__ inline void put_new(const Args &a, Keys &keys, Values &values, const uint4 (&key)[D / 32], const uint4 (&value)[HALVES], int kv, int row, int last)
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
	for (int i = 0; i < TILES; i++) {
#pragma unroll
		for (int second = 0; second < 2; second++)
			if (row + 16 * i + 8 * second + g >= last)
#pragma unroll
				for (int j = 0; j < D / 32; j++)
					keys.at[i][second][j] = key[j];
#pragma unroll
		for (int r = 0; r < 4; r++)
			if (row + 16 * i + 2 * c + (r & 1) + (r & 2) * 4 >= last)
#pragma unroll
				for (int h = 0; h < HALVES; h++)
					values.at[i][r][h] = value[h];
	}
	if (g == 0)
#pragma unroll
		for (int j = 0; j < D / 32; j++) {
			*(uint4 *)(a.k.row(kv, last) + 32 * j + 8 * c) = key[j];
			*(uint4 *)(a.newK.row(0, kv) + 32 * j + 8 * c) = key[j];
		}
	if (c == 0)
#pragma unroll
		for (int h = 0; h < HALVES; h++)
			*(uint4 *)(a.v.row(kv, last) + 64 * h + 8 * g) = value[h];
}

// Sends what the block's warps have to the blocks of the cluster that finish it.
__device__ inline void send_sums(Memory &m, State &z, int block)
{
	int warp = warp_id(), g = lane_id() / 4, c = lane_id() % 4;
	leave_mass(z, m.tops, m.masses);
#pragma unroll
	for (int i = 0; i < SUMS; i++)
		m.sums[warp][i][lane_id()] = make_float4(z.acc[i][0], z.acc[i][1], z.acc[i][2], z.acc[i][3]);
	__syncthreads();
	cluster_wait();
	for (int i = threadIdx.x; i < SUMS * WARP; i += WARPS * WARP) {
		float top[2] = {-INF, -INF};
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			top[0] = fmaxf(top[0], m.tops[w][c].x), top[1] = fmaxf(top[1], m.tops[w][c].y);
		float4 y = make_float4(0, 0, 0, 0);
#pragma unroll
		for (int w = 0; w < WARPS; w++) {
			float4 x = m.sums[w][i / WARP][lane_id()];
			float w0 = power2(m.tops[w][c].x - reference(top[0])), w1 = power2(m.tops[w][c].y - reference(top[1]));
			y.x += w0 * x.x, y.y += w1 * x.y, y.z += w0 * x.z, y.w += w1 * x.w;
		}
		int column = i / WARP / 4 * 64 + g * 8 + i / WARP % 4 * 2, to = column / SHARE;
		float *even = &m.part[block][2 * c][column % SHARE], *odd = &m.part[block][2 * c + 1][column % SHARE];
		send(to, even, y.x, y.z, &m.inbox);
		send(to, odd, y.y, y.w, &m.inbox);
	}
	if (threadIdx.x < 8 * CLUSTER) {
		int h = threadIdx.x % 8, to = threadIdx.x / 8;
		float top = -INF, sum = 0;
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			top = fmaxf(top, ((const float *)m.tops[w])[h]);
#pragma unroll
		for (int w = 0; w < WARPS; w++)
			sum += power2(((const float *)m.tops[w])[h] - reference(top)) * ((const float *)m.masses[w])[h];
		send(to, &m.top[block][h], top, &m.inbox);
		send(to, &m.sum[block][h], sum, &m.inbox);
	}
}

// A column of a head.
struct Column { float top, sum, value; };

template <int N> __device__ inline Column together(const Column (&x)[N])
{
	Column y = {-INF, 0, 0};
#pragma unroll
	for (int i = 0; i < N; i++)
		y.top = fmaxf(y.top, x[i].top);
#pragma unroll
	for (int i = 0; i < N; i++) {
		float w = power2(x[i].top - reference(y.top));
		y.sum += w * x[i].sum, y.value += w * x[i].value;
	}
	return y;
}

// Puts the columns of all clusters together; false for blocks that leave that to another.
__device__ inline bool join_clusters(const Args &a, Memory &m, Column &y, int kv, int block, int cluster, int clusters)
{
	int slot = (kv * CLUSTER + block) * CLUSTERS, at = threadIdx.x, h = at / SHARE;
	if (at < 8 * SHARE) {
		a.parts[(slot + cluster) * 8 * SHARE + at] = y.value;
		if (at % SHARE == 0)
			a.mass[(slot + cluster) * 8 + h] = Mass{y.top, y.sum};
	}
	__syncthreads();
	if (at == 0) {
		__threadfence();
		m.last = atomicInc(a.arrived + kv * CLUSTER + block, clusters - 1) == clusters - 1;
		__threadfence();
	}
	__syncthreads();
	if (!m.last)
		return false;
	if (at < 8 * SHARE) {
		Column x[CLUSTERS];
#pragma unroll
		for (int i = 0; i < CLUSTERS; i++) {
			x[i] = Column{-INF, 0, 0};
			if (i < clusters) {
				float2 mass = __ldcg((const float2 *)a.mass + (slot + i) * 8 + h);
				x[i] = Column{mass.x, mass.y, __ldcg(a.parts + (slot + i) * 8 * SHARE + at)};
			}
		}
		y = together(x);
	}
	return true;
}

__device__ inline void store_query(const Args &a, const uint4 (&q)[D / 32], int kv)
{
	int g = lane_id() / 4, c = lane_id() % 4;
#pragma unroll
	for (int j = 0; j < D / 32; j++)
		*(uint4 *)(a.q.row(0, kv * a.group + g) + 32 * j + 8 * c) = q[j];
}

__device__ inline void write(const Args &a, const Column &y, int head, int column)
{
	a.out.row(0, head)[column] = to<DST>(y.sum != 0 ? y.value / y.sum : 0);
	if (a.lse.p && column == 0)
		a.lse.row(0)[head] = y.sum != 0 ? (y.top + log2f(y.sum)) * LN2 : -INF;
}

extern "C" __global__ void __launch_bounds__(WARPS * WARP) attend_one(PARAM)
{
	__shared__ Memory m;
	int cluster = blockIdx.x / CLUSTER, block = blockIdx.x % CLUSTER, kv = blockIdx.y, g = lane_id() / 4, c = lane_id() % 4;
	let_next_start();
	u64 policy = evict_first();
	Mat<const ELEMENT> k = {a.k.row(kv, 0), a.k.s1}, v = {a.v.row(kv, 0), a.v.s1};
	// The limits are read before the kernel ahead is over, by one thread, so that all
	// have the same. Where a kernel may still write them they are read once more after:
	// as a rule they are as they were.
	if (threadIdx.x == 0) {
		inbox_open(&m.inbox, CLUSTER * 8 * (SHARE + 2) * 4);
		m.early = Limits(a.from, a.pos, 0);
	}
	__syncthreads();
	Limits limits = m.early;
	if (a.early && cluster >= clusters_for(Range(limits, a.capacity).rows))
		return;
	cluster_arrive();
	Share<ROWS> share;
	Keys keys;
	Values values;
	int clusters, tiles, row, last;
	auto begin = [&] {
		Range range(limits, a.capacity);
		clusters = clusters_for(range.rows);
		share = Share<ROWS>(range, (cluster * CLUSTER + block) * WARPS + warp_id(), clusters * CLUSTER * WARPS);
		tiles = cluster < clusters ? share.tiles() : 0;
		row = share.begin(0), last = share.end(0);
		if (tiles > 0) {
			load(keys, k, row, last, policy);
			load(values, v, row, last, policy);
		}
	};
	if (a.early)
		begin();
	if (ROTATE)
		find_angles(a, m, limits.pos);
	__syncthreads();
	wait_for_previous();
	Limits now = limits;
	if (!a.early)
		now = Limits(a.from, a.pos, 0);
	uint4 q[D / 32], key[D / 32], value[HALVES];
#pragma unroll
	for (int j = 0; j < D / 32; j++) {
		q[j] = g < a.group ? *(const uint4 *)(a.q.row(0, kv * a.group + g) + 32 * j + 8 * c) : make_uint4(0, 0, 0, 0);
		if (ROTATE)
			key[j] = *(const uint4 *)(a.newK.row(0, kv) + 32 * j + 8 * c);
	}
	if (ROTATE)
#pragma unroll
		for (int h = 0; h < HALVES; h++)
			value[h] = *(const uint4 *)(a.newV.row(0, kv) + 64 * h + 8 * g);
	bool moved = limits != now;
	if (moved && ROTATE) {
		__syncthreads();
		find_angles(a, m, now.pos);
		__syncthreads();
	}
	if (moved || !a.early) {
		limits = now;
		begin();
	}
	if (cluster >= clusters) {
		cluster_wait();
		return;
	}
	if (ROTATE)
		rotate(q, m, a.turn);
	State z;
	if (tiles > 0) {
		float scale = a.scale * LOG2E;
		for (int tile = 1;; tile++) {
			if (ROTATE && last == limits.pos) {
				rotate(key, m, a.turn);
				put_new(a, keys, values, key, value, kv, row, last);
			}
			float s[TILES][4] = {};
			score(s, keys, q);
			int next = share.begin(tile), next_last = share.end(tile);
			if (tile < tiles)
				load(keys, k, next, next_last, policy);
			weigh(z, s, scale, row, last);
			add_values(z, values, s);
			if (tile == tiles)
				break;
			row = next, last = next_last;
			load(values, v, row, last, policy);
		}
	}
	send_sums(m, z, block);
	Column y = {-INF, 0, 0};
	int h = threadIdx.x / SHARE, column = block * SHARE + threadIdx.x % SHARE, head = kv * a.group + h;
	if (threadIdx.x < 8 * SHARE) {
		inbox_wait(&m.inbox);
		Column x[CLUSTER];
#pragma unroll
		for (int b = 0; b < CLUSTER; b++)
			x[b] = Column{m.top[b][h], m.sum[b][h], m.part[b][h][threadIdx.x % SHARE]};
		y = together(x);
	}
	if (clusters > 1 && !join_clusters(a, m, y, kv, block, cluster, clusters))
		return;
	if (h < a.group)
		write(a, y, head, column);
	if (block > 0)
		return;
	if (ROTATE && warp_id() == 0 && g < a.group) // nobody reads them any more
		store_query(a, q, kv);
	if (a.read && kv == 0 && threadIdx.x == 0)
		atomicAdd(a.read, (u64)Range(limits, a.capacity).rows * gridDim.y);
}
