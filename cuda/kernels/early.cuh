#pragma once
// Kernels that begin before the one ahead of them has ended (driver.Grid.Early):
// weights, which no kernel writes, are on their way before that one is waited
// for.
#include "common.cuh"

// What kernels ahead have written can be read from here on. Every thread that
// reads or writes anything but weights calls it.
__device__ inline void wait_for_previous()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the kernel after this one come onto the multiprocessors.
__device__ inline void let_next_start()
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Loads N neighbours that are read once. The order of such loads and of waits
// stays as written.
template <class T, int N> __device__ inline Vec<T, N> stream(const T *p)
{
	if constexpr (sizeof(Vec<T, N>) == 16) {
		union { u32 words[4]; Vec<T, N> v; } u;
		asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
			: "=r"(u.words[0]), "=r"(u.words[1]), "=r"(u.words[2]), "=r"(u.words[3]) : "l"(p));
		return u.v;
	} else {
		return *(const Vec<T, N> *)p;
	}
}
