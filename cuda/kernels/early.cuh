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

// Has x computed here and kept.
template <class T> __device__ inline void settle(T *&x) { asm volatile("" : "+l"(x)); }

// N neighbours as they came from memory: in words, since a number of two bytes would
// take a register of its own.
template <int BYTES> struct __align__(BYTES) Packed { u32 words[BYTES / 4]; };
template <> struct Packed<2> { u16 words[1]; };
template <> struct Packed<1> { u8 words[1]; };
template <class T, int N> using Loaded = Packed<sizeof(T) * N>;

// Loads N neighbours that are read once. The order of such loads and of waits
// stays as written.
template <class T, int N> __device__ inline Loaded<T, N> stream(const T *p)
{
	if constexpr (sizeof(T) * N == 16) {
		Loaded<T, N> v;
		asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
			: "=r"(v.words[0]), "=r"(v.words[1]), "=r"(v.words[2]), "=r"(v.words[3]) : "l"(p));
		return v;
	} else {
		return *(const Loaded<T, N> *)p;
	}
}

// Number i of a load.
template <class T, int BYTES> __device__ inline float number(const Packed<BYTES> &v, int i)
{
	if constexpr (sizeof(T) == 4) {
		return __uint_as_float(v.words[i]);
	} else if constexpr (sizeof(T) == 2) {
		T x;
		x.bits = v.words[i * 2 / sizeof(v.words[0])] >> (sizeof(v.words[0]) == 4 ? i % 2 * 16 : 0);
		return f32(x);
	} else {
		return (i8)(v.words[i / sizeof(v.words[0])] >> i % sizeof(v.words[0]) * 8);
	}
}
