#pragma once
// What checked builds have before their first line: instrument.go has bounds_check called in front of every access to
// global memory. The host writes Bounds before a launch and reads found after it (bounds.go has the Go twins).
#include "common.cuh"

#define KEPT 4        // violations that are described
#define SINK (256 << 10) // bytes; no access is larger

struct Region { u64 from, to; };

// An access of a thread outside all regions.
struct Violation {
	u64 at;
	u32 bytes, site;
	u32 block[3], thread;
};

struct Bounds {
	u32 regions, found;
	u32 pad[2];
	Violation first[KEPT];
	u8 sink[SINK];
	Region region[1]; // rising, apart from each other
};

extern "C" { __device__ Bounds *bounds; }

// The address, or one that does no harm where bytes from at are not of one region. An address of shared or local memory
// or of a parameter passes.
extern "C" __device__ __noinline__ __attribute__((used)) u64 bounds_check(u64 at, u32 bytes, u32 site)
{
	if (bytes == 0 || !__isGlobal((void *)at) || __isGridConstant((void *)at))
		return at;
	Bounds &b = *bounds;
	u32 low = 0, high = b.regions;
	while (low < high) {
		u32 middle = (low + high) / 2;
		if (b.region[middle].from <= at)
			low = middle + 1;
		else
			high = middle;
	}
	if (low > 0 && at < b.region[low - 1].to && bytes <= b.region[low - 1].to - at)
		return at;
	u32 n = atomicAdd(&b.found, 1);
	if (n < KEPT)
		b.first[n] = {at, bytes, site, {blockIdx.x, blockIdx.y, blockIdx.z}, threadIdx.x};
	return (u64)b.sink + at % 16;
}
