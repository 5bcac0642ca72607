// Every function of the CUDA libraries that is called here: library, name,
// parameters, arguments. Included several times with different meanings of API.
// All return an int status. Handles are void *, device addresses are uint64_t,
// as in the libraries' own ABI.
#define DRIVER(...) API(LIB_DRIVER, __VA_ARGS__)
#define COMPILER(...) API(LIB_COMPILER, __VA_ARGS__)
#define BLAS(...) API(LIB_BLAS, __VA_ARGS__)

DRIVER(cuInit, (unsigned flags), (flags))
DRIVER(cuDriverGetVersion, (int *version), (version))
DRIVER(cuGetErrorName, (int code, const char **name), (code, name))
DRIVER(cuGetErrorString, (int code, const char **text), (code, text))
DRIVER(cuDeviceGetCount, (int *n), (n))
DRIVER(cuDeviceGet, (int *dev, int ordinal), (dev, ordinal))
DRIVER(cuDeviceGetName, (char *name, int n, int dev), (name, n, dev))
DRIVER(cuDeviceGetAttribute, (int *value, int attr, int dev), (value, attr, dev))
DRIVER(cuDevicePrimaryCtxRetain, (void **ctx, int dev), (ctx, dev))
DRIVER(cuDevicePrimaryCtxRelease_v2, (int dev), (dev))
DRIVER(cuCtxSetCurrent, (void *ctx), (ctx))

DRIVER(cuMemGetInfo_v2, (size_t *free, size_t *total), (free, total))
DRIVER(cuMemAlloc_v2, (uint64_t *ptr, size_t n), (ptr, n))
DRIVER(cuMemFree_v2, (uint64_t ptr), (ptr))
DRIVER(cuMemHostAlloc, (void **ptr, size_t n, unsigned flags), (ptr, n, flags))
DRIVER(cuMemFreeHost, (void *ptr), (ptr))
DRIVER(cuMemcpyHtoDAsync_v2, (uint64_t dst, const void *src, size_t n, void *stream), (dst, src, n, stream))
DRIVER(cuMemcpyDtoHAsync_v2, (void *dst, uint64_t src, size_t n, void *stream), (dst, src, n, stream))
DRIVER(cuMemcpyDtoDAsync_v2, (uint64_t dst, uint64_t src, size_t n, void *stream), (dst, src, n, stream))
DRIVER(cuMemsetD8Async, (uint64_t dst, unsigned char byte, size_t n, void *stream), (dst, byte, n, stream))

DRIVER(cuStreamCreate, (void **stream, unsigned flags), (stream, flags))
DRIVER(cuStreamDestroy_v2, (void *stream), (stream))
DRIVER(cuStreamSynchronize, (void *stream), (stream))
DRIVER(cuStreamBeginCapture_v2, (void *stream, int mode), (stream, mode))
DRIVER(cuStreamEndCapture, (void *stream, void **graph), (stream, graph))
DRIVER(cuEventCreate, (void **event, unsigned flags), (event, flags))
DRIVER(cuEventDestroy_v2, (void *event), (event))
DRIVER(cuEventRecord, (void *event, void *stream), (event, stream))
DRIVER(cuEventSynchronize, (void *event), (event))
DRIVER(cuEventElapsedTime, (float *ms, void *from, void *to), (ms, from, to))

DRIVER(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags), (exec, graph, flags))
DRIVER(cuGraphUpload, (void *exec, void *stream), (exec, stream))
DRIVER(cuGraphLaunch, (void *exec, void *stream), (exec, stream))
DRIVER(cuGraphExecDestroy, (void *exec), (exec))
DRIVER(cuGraphDestroy, (void *graph), (graph))

DRIVER(cuModuleLoadData, (void **module, const void *image), (module, image))
DRIVER(cuModuleUnload, (void *module), (module))
DRIVER(cuModuleGetFunction, (void **fn, void *module, const char *name), (fn, module, name))
DRIVER(cuModuleGetGlobal_v2, (uint64_t *ptr, size_t *n, void *module, const char *name), (ptr, n, module, name))
DRIVER(cuFuncSetAttribute, (void *fn, int attr, int value), (fn, attr, value))
DRIVER(cuFuncGetAttribute, (int *value, int attr, void *fn), (value, attr, fn))
DRIVER(cuOccupancyMaxActiveBlocksPerMultiprocessor, (int *n, void *fn, int threads, size_t shared), (n, fn, threads, shared))
DRIVER(cuLaunchKernel,
       (void *fn, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **params, void **extra),
       (fn, gx, gy, gz, bx, by, bz, shared, stream, params, extra))
DRIVER(cuLaunchKernelEx, (const struct shim_config *config, void *fn, void **params, void **extra), (config, fn, params, extra))

DRIVER(cuTensorMapEncodeTiled,
       (void *map, int type, uint32_t rank, uint64_t ptr, const uint64_t *shape, const uint64_t *strides, const uint32_t *box, const uint32_t *steps,
        int interleave, int swizzle, int promotion, int fill),
       (map, type, rank, ptr, shape, strides, box, steps, interleave, swizzle, promotion, fill))

COMPILER(nvrtcVersion, (int *major, int *minor), (major, minor))
COMPILER(nvrtcGetNumSupportedArchs, (int *n), (n))
COMPILER(nvrtcGetSupportedArchs, (int *archs), (archs))
COMPILER(nvrtcCreateProgram,
         (void **prog, const char *src, const char *name, int headers, const char *const *texts, const char *const *names),
         (prog, src, name, headers, texts, names))
COMPILER(nvrtcCompileProgram, (void *prog, int n, const char *const *options), (prog, n, options))
COMPILER(nvrtcDestroyProgram, (void **prog), (prog))
COMPILER(nvrtcGetProgramLogSize, (void *prog, size_t *n), (prog, n))
COMPILER(nvrtcGetProgramLog, (void *prog, char *log), (prog, log))
COMPILER(nvrtcGetCUBINSize, (void *prog, size_t *n), (prog, n))
COMPILER(nvrtcGetCUBIN, (void *prog, char *image), (prog, image))
COMPILER(nvrtcGetPTXSize, (void *prog, size_t *n), (prog, n))
COMPILER(nvrtcGetPTX, (void *prog, char *image), (prog, image))

BLAS(cublasLtCreate, (void **handle), (handle))
BLAS(cublasLtDestroy, (void *handle), (handle))
BLAS(cublasLtMatmulDescCreate, (void **desc, int compute, int scale), (desc, compute, scale))
BLAS(cublasLtMatmulDescDestroy, (void *desc), (desc))
BLAS(cublasLtMatmulDescSetAttribute, (void *desc, int attr, const void *value, size_t n), (desc, attr, value, n))
BLAS(cublasLtMatrixLayoutCreate, (void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld), (layout, type, rows, cols, ld))
BLAS(cublasLtMatrixLayoutDestroy, (void *layout), (layout))
BLAS(cublasLtMatrixLayoutSetAttribute, (void *layout, int attr, const void *value, size_t n), (layout, attr, value, n))
BLAS(cublasLtMatmulPreferenceCreate, (void **pref), (pref))
BLAS(cublasLtMatmulPreferenceDestroy, (void *pref), (pref))
BLAS(cublasLtMatmulPreferenceSetAttribute, (void *pref, int attr, const void *value, size_t n), (pref, attr, value, n))
BLAS(cublasLtMatmulAlgoGetHeuristic,
     (void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int wanted, struct shim_heuristic *results, int *found),
     (handle, desc, a, b, c, d, pref, wanted, results, found))
BLAS(cublasLtMatmul,
     (void *handle, void *desc, const void *alpha, uint64_t a, void *alayout, uint64_t b, void *blayout, const void *beta, uint64_t c, void *clayout,
      uint64_t d, void *dlayout, const void *algo, uint64_t workspace, size_t bytes, void *stream),
     (handle, desc, alpha, a, alayout, b, blayout, beta, c, clayout, d, dlayout, algo, workspace, bytes, stream))

#undef DRIVER
#undef COMPILER
#undef BLAS
#undef API
