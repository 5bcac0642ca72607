#include "shim.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

// One pointer and one forwarding function for each library function. A
// function whose library is not open fails with -1.
#define API(lib, name, params, args)      \
	static int(*ptr_##name) params;       \
	int shim_##name params                \
	{                                     \
		return ptr_##name ? ptr_##name args : -1; \
	}
#include "api.h"

static const struct {
	int lib;
	const char *name;
	void **ptr;
} table[] = {
#define API(lib, name, params, args) {lib, #name, (void **)&ptr_##name},
#include "api.h"
};

// Libraries belong to the process, hence the only state here.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *open_libs[LIB_COUNT];

static int find_all(int lib, void *handle, const char *path, char *error, size_t n)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		if (table[i].lib != lib)
			continue;
		*table[i].ptr = dlsym(handle, table[i].name);
		if (!*table[i].ptr) {
			snprintf(error, n, "%s has no function %s: it is too old", path, table[i].name);
			return 1;
		}
	}
	return 0;
}

int shim_open(int lib, const char *path, char *error, size_t n)
{
	int failed = 0;
	pthread_mutex_lock(&lock);
	if (!open_libs[lib]) {
		void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			snprintf(error, n, "%s", dlerror());
			failed = 1;
		} else if (find_all(lib, handle, path, error, n)) {
			dlclose(handle);
			failed = 1;
		} else {
			open_libs[lib] = handle;
		}
	}
	pthread_mutex_unlock(&lock);
	return failed;
}

void shim_preload(const char *path) { dlopen(path, RTLD_NOW | RTLD_GLOBAL); }

_Static_assert(sizeof(struct shim_attribute) == 72 && sizeof(struct shim_config) == 56, "as the driver has them");

int shim_launch(void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned block, unsigned shared, int early, unsigned cluster, void *stream, void *args)
{
	enum { CLUSTER_DIMENSION = 4, PROGRAMMATIC_STREAM_SERIALIZATION = 6 };
	struct shim_attribute attributes[2] = {0};
	unsigned n = 0;
	void *params[] = {args};
	if (early)
		attributes[n++] = (struct shim_attribute){PROGRAMMATIC_STREAM_SERIALIZATION, {1}};
	if (cluster) {
		const unsigned size[3] = {cluster, 1, 1};
		attributes[n].id = CLUSTER_DIMENSION;
		memcpy(attributes[n++].value, size, sizeof size);
	}
	if (!n)
		return shim_cuLaunchKernel(fn, gx, gy, gz, block, 1, 1, shared, stream, params, NULL);
	struct shim_config config = {gx, gy, gz, block, 1, 1, shared, stream, attributes, n};
	return shim_cuLaunchKernelEx(&config, fn, params, NULL);
}

int shim_tensor_map(uint64_t *map, unsigned rank, uint64_t ptr, const uint64_t *shape, const uint64_t *strides, const uint32_t *box)
{
	enum { BF16 = 9, PLAIN = 0, SWIZZLE_128B = 3, PROMOTE_128B = 2, ZERO = 0 };
	static const uint32_t every[5] = {1, 1, 1, 1, 1};
	_Alignas(64) uint64_t made[16];
	int code = shim_cuTensorMapEncodeTiled(made, BF16, rank, ptr, shape, strides, box, every, PLAIN, SWIZZLE_128B, PROMOTE_128B, ZERO);
	if (!code)
		memcpy(map, made, sizeof made);
	return code;
}
