// Every kernel exists once per instruction set (avx512.c, avx2.c, portable.c include the same
// bodies with another vector width) and is called through a wrapper that dispatch.c makes from this
// list. Matrices are row-major; "ld…" is the distance between rows in elements.
#ifndef BLITZEN_KERNELS_H
#define BLITZEN_KERNELS_H
#include <stdint.h>

#define BLOCK 64        // cache rows whose scores are handled together
#define NEAR_BLOCK 32   // centers side by side in what nearest_pack writes
#define NEAR_SCRATCH 38 // doubles a dimension: a block of centers and the rows of a register tile
#define TILE_Q_MAX 6    // query rows of a register tile of attend_tile, at most

// A run of cache rows that share one correction, the unit that the decode attention reads.
typedef struct {
  int32_t first, count; // rows [first, first + count)
  int32_t team;         // column of bias
} segment;

#define KERNELS(X)                                                                                 \
  /* dst[t, o] (+)= sum over i of x[t, i] w[o, i] + bias[o]; bias may be null */                   \
  X(matmul,                                                                                        \
    (float *dst, long ldd, const float *x, long ldx, const float *w, long ldw, const float *bias,  \
     long rows, long outs, long in, int add),                                                      \
    (dst, ldd, x, ldx, w, ldw, bias, rows, outs, in, add))                                         \
  /* dst[t, o] = sum over i of x[t, i] w[i, o] */                                                  \
  X(matmul_nn,                                                                                     \
    (float *dst, long ldd, const float *x, long ldx, const float *w, long ldw, long rows,          \
     long outs, long in),                                                                          \
    (dst, ldd, x, ldx, w, ldw, rows, outs, in))                                                    \
  /* dst (+)= src + bias, rows x n */                                                              \
  X(store,                                                                                         \
    (float *dst, long ldd, const float *src, long lds, const float *bias, long rows, long n,       \
     int add),                                                                                     \
    (dst, ldd, src, lds, bias, rows, n, add))                                                      \
  /* dst += scale src */                                                                           \
  X(axpy, (float *dst, const float *src, float scale, long n), (dst, src, scale, n))               \
  X(rms_norm,                                                                                      \
    (float *dst, long ldd, const float *x, long ldx, const float *gamma, float eps, long rows,     \
     long n),                                                                                      \
    (dst, ldd, x, ldx, gamma, eps, rows, n))                                                       \
  X(rotate,                                                                                        \
    (float *x, long ldt, long ldh, const int32_t *pos, const float *freq, float scale,             \
     int interleaved, long tokens, long heads, long d),                                            \
    (x, ldt, ldh, pos, freq, scale, interleaved, tokens, heads, d))                                \
  X(swiglu, (float *dst, long ldd, const float *gu, long ldg, long rows, long n),                  \
    (dst, ldd, gu, ldg, rows, n))                                                                  \
  X(softmax, (float *x, long n), (x, n))                                                           \
  X(widen_bf16, (float *dst, const uint16_t *src, long n), (dst, src, n))                          \
  X(widen_f16, (float *dst, const uint16_t *src, long n), (dst, src, n))                           \
  X(widen_f8, (float *dst, const uint8_t *src, long n), (dst, src, n))                             \
  /* dst[t, i] = scale[t] src[t, i] */                                                             \
  X(widen_i8,                                                                                      \
    (float *dst, long ldd, const int8_t *src, long lds, const float *scale, long rows, long n),    \
    (dst, ldd, src, lds, scale, rows, n))                                                          \
  /* Rounds a row to bytes and returns its factor through scale: see Device.ImportInt8 */          \
  X(round_i8, (int8_t *dst, float *scale, const float *src, long n), (dst, scale, src, n))         \
  /* Causal attention of tokens x group query rows over the rows from <= j <= pos[t] */            \
  X(attend_tile,                                                                                   \
    (float *out, long ldot, long ldoh, float *lse, long ldl, const float *q, long ldqt, long ldqh, \
     const float *k, long ldk, const float *v, long ldv, long tokens, long group, long dk,         \
     long dv, long from, const int32_t *pos, float scale, float *scratch),                         \
    (out, ldot, ldoh, lse, ldl, q, ldqt, ldqh, k, ldk, v, ldv, tokens, group, dk, dv, from, pos,   \
     scale, scratch))                                                                              \
  /* Attention of one token's group of heads over segments, unfinished: part is [group, dv + 2],   \
   * per head maximum, mass, sum. bias [group, ldb] or null */                                     \
  X(attend_segments,                                                                               \
    (float *part, const float *q, long ldqh, const float *k, long ldk, const float *v, long ldv,   \
     const segment *segs, long nsegs, const float *bias, long ldb, long group, long dk, long dv,   \
     float scale, float *scratch),                                                                 \
    (part, q, ldqh, k, ldk, v, ldv, segs, nsegs, bias, ldb, group, dk, dv, scale, scratch))        \
  /* Joins n parts in order; lse may be null */                                                    \
  X(attend_join,                                                                                   \
    (float *out, long ldoh, float *lse, const float *part, long n, long group, long dv),           \
    (out, ldoh, lse, part, n, group, dv))                                                          \
  X(merge, (float *dst, const float *a, float lse_a, const float *b, float lse_b, long n),         \
    (dst, a, lse_a, b, lse_b, n))                                                                  \
  /* phi[h, g] = bias[g] + scale q[h] . reps[g], -inf where bias is */                             \
  X(route,                                                                                         \
    (float *phi, long ldp, const float *q, long ldqh, const float *reps, long ldr,                 \
     const float *bias, long group, long teams, long dk, float scale, float *scratch),             \
    (phi, ldp, q, ldqh, reps, ldr, bias, group, teams, dk, scale, scratch))                        \
  /* y[g] = phi[g] + Gumbel noise of counter (g/4, c1, c2, c3) */                                  \
  X(perturb,                                                                                       \
    (double *y, const float *phi, long teams, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0,  \
     uint32_t k1),                                                                                 \
    (y, phi, teams, c1, c2, c3, k0, k1))                                                           \
  X(distances,                                                                                     \
    (float *dst, long ldd, const float *x, long ldx, long n, const float *points, long ldp,        \
     long npoints, long d, double *scratch),                                                       \
    (dst, ldd, x, ldx, n, points, ldp, npoints, d, scratch))                                       \
  /* packed holds the centers as double, transposed in blocks: see nearest_pack */                 \
  X(nearest,                                                                                       \
    (int32_t *labels, const float *x, long ldx, long n, const double *packed, const float *norms,  \
     long centers, long d, double *scratch),                                                       \
    (labels, x, ldx, n, packed, norms, centers, d, scratch))                                       \
  X(nearest_pack, (double *packed, float *norms, const float *centers, long ldc, long n, long d),  \
    (packed, norms, centers, ldc, n, d))

#define DECLARE(name, params, args) void bk_##name params;
KERNELS(DECLARE)
#undef DECLARE

// n zeroed bytes aligned to 64 or a huge page, and in base what to free; null when there is no
// memory.
void *bk_alloc(long n, void **base);

// Name of the instruction set in use: "avx512", "avx2" or "portable".
const char *bk_isa(void);

#endif
