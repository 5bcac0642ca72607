// A C function shim_NAME for every library function NAME of api.h, so that Go
// can call what dlopen found without CUDA's headers.
#ifndef BLITZEN_CUDA_SHIM_H
#define BLITZEN_CUDA_SHIM_H

#include <stddef.h>
#include <stdint.h>

enum { LIB_DRIVER, LIB_COMPILER, LIB_BLAS, LIB_COUNT };

// cublasLtMatmulHeuristicResult_t.
struct shim_heuristic {
	uint64_t algo[8];
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

// CUlaunchAttribute and CUlaunchConfig.
struct shim_attribute {
	int id;
	uint64_t value[8];
};

struct shim_config {
	unsigned gx, gy, gz, bx, by, bz, shared;
	void *stream;
	const struct shim_attribute *attributes;
	unsigned count;
};

#define API(lib, name, params, args) int shim_##name params;
#include "api.h"

// Opens the library at path, unless it is open, and finds its functions.
// Returns 0, or 1 with a text in error.
int shim_open(int lib, const char *path, char *error, size_t n);

// Opens a library that another one will look for by its bare name.
void shim_preload(const char *path);

// cuLaunchKernel with one argument struct; with early set the kernel may begin
// before the one ahead of it has ended; cluster is the blocks of a cluster, or 0.
int shim_launch(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned block, unsigned shared, int early, unsigned cluster, void *stream, void *args);

// cuTensorMapEncodeTiled for BF16, innermost dimension first, strides in bytes.
int shim_tensor_map(uint64_t *map, unsigned rank, uint64_t ptr, const uint64_t *shape, const uint64_t *strides, const uint32_t *box);

#endif
