#pragma once
// Hopper's own instructions (sm_90a): barriers in shared memory, bulk tensor
// copies that complete on them, and products of warpgroups (128 threads).
#include "shared.cuh"

// A tensor's shape, strides and box as the copy engine knows them.
struct __align__(64) TensorMap { u64 opaque[16]; };

// ---- barriers ----

__device__ inline void barrier_init(u64 *b, int arrivals)
{
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(b)), "r"(arrivals) : "memory");
}

// Makes initialised barriers known to the copy engine.
__device__ inline void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void barrier_arrive(u64 *b)
{
	asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(b)) : "memory");
}

// Arrives when what this thread has copied (copy4, copy16) is there.
__device__ inline void arrive_after_copies(u64 *b)
{
	asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" :: "r"(shared_address(b)) : "memory");
}

// Arrives and announces bytes that copies will bring.
__device__ inline void barrier_expect(u64 *b, int bytes)
{
	asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" :: "r"(shared_address(b)), "r"(bytes) : "memory");
}

// Waits until the phase of that parity is over.
__device__ inline void barrier_wait(u64 *b, u32 parity)
{
	asm volatile("{\n"
		".reg .pred done;\n"
		"AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
		"@done bra OVER;\n"
		"bra AGAIN;\n"
		"OVER:\n"
		"}" :: "r"(shared_address(b)), "r"(parity) : "memory");
}

// A named barrier of some warps of the block: wait there, or arrive and go on. named_wait is the aligned form: in each
// turn of a barrier all warps that wait do so at the same place in the code. named_meet is for turns with several places.
__device__ inline void named_wait(int id, int threads) { asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
__device__ inline void named_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory"); }
__device__ inline void named_meet(int id, int threads) { asm volatile("barrier.cta.sync %0, %1;" :: "r"(id), "r"(threads) : "memory"); }

// Registers move from the warpgroup that copies to those that compute.
template <int N> __device__ inline void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(N)); }
template <int N> __device__ inline void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(N)); }

// ---- copies ----
// A box comes in rows of 128 bytes, of which 16-byte piece i of row r lies at
// place i ^ r % 8; dst is aligned to 1,024 bytes. Outside the tensor it is zero.

__device__ inline void load_box(void *dst, const TensorMap *map, u64 *barrier, int c0, int c1)
{
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
		:: "r"(shared_address(dst)), "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1) : "memory");
}

__device__ inline void load_box(void *dst, const TensorMap *map, u64 *barrier, int c0, int c1, int c2)
{
	asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
		:: "r"(shared_address(dst)), "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2) : "memory");
}

__device__ inline void load_box(void *dst, const TensorMap *map, u64 *barrier, int c0, int c1, int c2, u64 policy)
{
	asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1, {%3, %4, %5}], [%2], %6;"
		:: "r"(shared_address(dst)), "l"(map), "r"(shared_address(barrier)), "r"(c0), "r"(c1), "r"(c2), "l"(policy) : "memory");
}

// Ordinary stores to shared memory before it are seen by copies and products
// after it.
__device__ inline void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- products ----
// d [64, N] of a warpgroup += a [64, 16]·b [16, N]. Warp w has the rows 16w …,
// lane l of it d[4i + 2r + c] = row l/4 + 8r, column 8i + 2(l%4) + c.

// Describes a tile of rows of 128 bytes as load_box brings them. far is the
// distance in bytes of the next 64 columns, where columns are not summed over.
__device__ inline u64 tile(const void *p, u32 far = 16)
{
	return (u64)(shared_address(p) >> 4) | (u64)(far >> 4) << 16 | (u64)(1024 >> 4) << 32 | (u64)1 << 62;
}

__device__ inline void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most N groups are under way.
template <int N> __device__ inline void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }

// Keeps the compiler from moving uses of d across.
template <int N> __device__ inline void hold(float (&d)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		asm volatile("" : "+f"(d[i]) :: "memory");
}
template <int N> __device__ inline void hold(u32 (&d)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		asm volatile("" : "+r"(d[i]) :: "memory");
}

#define D8(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define D32(i) D8(i), D8(i + 8), D8(i + 16), D8(i + 24)
#define R32_0 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define R32_1 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
	"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define R32_2 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
	"%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define R32_3 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
	"%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// a and b in shared memory, both with 16 neighbouring columns summed over.
// add = 0: d is not read.
template <int N> __device__ inline void product(float (&d)[N / 2], u64 a, u64 b, int add)
{
	if constexpr (N == 64)
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" R32_0 "}, %32, %33, p, 1, 1, 0, 0;\n}"
			: D32(0) : "l"(a), "l"(b), "r"(add));
	else if constexpr (N == 128)
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" R32_0 ", " R32_1 "}, %64, %65, p, 1, 1, 0, 0;\n}"
			: D32(0), D32(32) : "l"(a), "l"(b), "r"(add));
	else if constexpr (N == 256)
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" R32_0 ", " R32_1 ", " R32_2 ", " R32_3 "}, %128, %129, p, 1, 1, 0, 0;\n}"
			: D32(0), D32(32), D32(64), D32(96) : "l"(a), "l"(b), "r"(add));
	else
		static_assert(N < 0, "width");
}

// a in registers: a[0], a[1] columns 2(l%4) … of the rows l/4 and l/4 + 8, a[2],
// a[3] columns 8 + 2(l%4) …. b in shared memory, with 16 rows summed over.
template <int N> __device__ inline void product(float (&d)[N / 2], const u32 *a, u64 b, int add)
{
	if constexpr (N == 64)
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" R32_0 "}, {%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
			: D32(0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
	else if constexpr (N == 128)
		asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
			"wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" R32_0 ", " R32_1 "}, {%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"
			: D32(0), D32(32) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
	else
		static_assert(N < 0, "width");
}
