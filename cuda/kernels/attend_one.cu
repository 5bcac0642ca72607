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
#include "attend_cluster.cuh"

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
	Exchange exchange;
	Angles angles;
	Limits early;
	int last;
};

__device__ inline int clusters_for(int rows) { return rows <= ALONE ? 1 : min(CLUSTERS, (rows + AT_LEAST - 1) / AT_LEAST); }

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
	a.out.row(0, head)[column] = to<DST>(y.mean());
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
		inbox_open(&m.exchange.inbox, EXCHANGED);
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
		find_angles(m.angles, a.freq, limits.pos, threadIdx.x, WARPS * WARP);
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
		find_angles(m.angles, a.freq, now.pos, threadIdx.x, WARPS * WARP);
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
		rotate(q, m.angles, a.turn);
	State z;
	if (tiles > 0) {
		float scale = a.scale * LOG2E;
		for (int tile = 1;; tile++) {
			if (ROTATE && last == limits.pos) {
				rotate(key, m.angles, a.turn);
				put_new(keys, values, key, value, row, last);
				store_key(a.k.row(kv, last), key);
				store_key(a.newK.row(0, kv), key);
				store_value(a.v.row(kv, last), value);
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
	send_sums(m.exchange, z, block, [] { cluster_wait(); });
	Column y = {-INF, 0, 0};
	int h = threadIdx.x / SHARE, column = block * SHARE + threadIdx.x % SHARE, head = kv * a.group + h;
	if (threadIdx.x < 8 * SHARE)
		y = receive(m.exchange, h, threadIdx.x % SHARE);
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
