#pragma once
// Memory that a block shares: copies into it that nobody waits for (sm_80 or newer),
// loads of matrices out of it, and blocks of a cluster that send each other numbers (sm_90).
#include "common.cuh"

__device__ inline u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// Copies 16 bytes into shared memory without waiting; the copies up to copy_end form a group. Fastest where lines of 128 bytes
// lie alike on both sides (but for the order of their pieces); twice as long where they are 16 bytes apart.
__device__ inline void copy16(u32 shared, const void *global)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
__device__ inline void copy16(void *shared, const void *global) { copy16(shared_address(shared), global); }
__device__ inline void copy4(void *shared, const void *global)
{
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared_address(shared)), "l"(global) : "memory");
}
__device__ inline void copy_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until at most N groups of this thread's copies are under way.
template <int N> __device__ inline void copy_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"); }

// Waits for all of this thread's copies, whether copy_end has been called or not.
__device__ inline void copy_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Four 8 × 8 matrices of 16-bit numbers in shared memory; lane i names row i % 8 of matrix i / 8.
__device__ inline void load_matrices(u32 (&x)[4], u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}
__device__ inline void load_transposed(u32 (&x)[4], u32 at)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
		: "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(at) : "memory");
}

// The first half of a barrier of the cluster's blocks, and the second.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// A count of bytes that other blocks of the cluster send here.
__device__ inline void inbox_open(u64 *inbox, int bytes)
{
	asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(inbox)) : "memory");
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
	asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(inbox)), "r"(bytes) : "memory");
}
__device__ inline void inbox_wait(u64 *inbox)
{
	u32 done;
	do {
		asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
			: "=r"(done) : "r"(shared_address(inbox)) : "memory");
	} while (!done);
}
// Stores x at the place of p in the shared memory of another block, which counts it in the place of inbox.
__device__ inline void send(int block, float *p, float x, u64 *inbox)
{
	asm volatile("{ .reg .b32 to, count; mapa.shared::cluster.u32 to, %0, %3; mapa.shared::cluster.u32 count, %1, %3;"
		" st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [to], %2, [count]; }"
		:: "r"(shared_address(p)), "r"(shared_address(inbox)), "f"(x), "r"(block) : "memory");
}
__device__ inline void send(int block, float *p, float x, float y, u64 *inbox) // two neighbours, p on 8 bytes
{
	asm volatile("{ .reg .b32 to, count; mapa.shared::cluster.u32 to, %0, %4; mapa.shared::cluster.u32 count, %1, %4;"
		" st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [to], {%2, %3}, [count]; }"
		:: "r"(shared_address(p)), "r"(shared_address(inbox)), "f"(x), "f"(y), "r"(block) : "memory");
}
