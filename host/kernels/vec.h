// Vectors of VW floats on GCC's and Clang's vector extension. No -ffast-math: sums keep the order
// written here; a*b + c may become one FMA.
#include <math.h>
#include <stdint.h>
#include <string.h>

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define KERNEL(name) PASTE(bk_##name, ISA)
#define INLINE static inline __attribute__((always_inline))

typedef float vf __attribute__((vector_size(4 * VW)));
typedef int32_t vi __attribute__((vector_size(4 * VW)));
typedef uint32_t vu __attribute__((vector_size(4 * VW)));
typedef double vd __attribute__((vector_size(4 * VW))); // VW/2 doubles
#define VD (VW / 2)

INLINE vf load(const float *p) {
  vf v;
  memcpy(&v, p, sizeof v);
  return v;
}

INLINE void put(float *p, vf v) { memcpy(p, &v, sizeof v); }

INLINE vf splat(float x) { return x - (vf){}; }

// The lanes n … VW−1 are zero.
INLINE vf load_some(const float *p, long n) {
  vf v = {};
  memcpy(&v, p, n * sizeof *p);
  return v;
}

INLINE void put_some(float *p, vf v, long n) { memcpy(p, &v, n * sizeof *p); }

// a where mask is set (all ones), else b.
INLINE vf choose(vi mask, vf a, vf b) { return (vf)(((vi)a & mask) | ((vi)b & ~mask)); }

INLINE vf vmax(vf a, vf b) { return choose(a > b, a, b); }

// Every lane exchanged with the one n lanes away, n a power of two.
#if VW == 16
#define SWAP8(v) __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)
#define SWAP4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)
#define SWAP2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)
#define SWAP1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14)
#elif VW == 8
#define SWAP4(v) __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define SWAP2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define SWAP1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#else
#define SWAP2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1)
#define SWAP1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2)
#endif

// Adds the groups of four lanes: each then holds the totals.
INLINE vf sum_groups(vf v) {
#if VW >= 16
  v += SWAP8(v);
#endif
#if VW >= 8
  v += SWAP4(v);
#endif
  return v;
}

INLINE float sum(vf v) {
  v += SWAP1(v);
  v += SWAP2(v);
  return sum_groups(v)[0];
}

typedef float v4 __attribute__((vector_size(16)));

// Lanes i and i + 2 (mod 4) of each group of four of a, then of b.
#if VW == 16
#define PICK(a, b, i, j)                                                                           \
  __builtin_shufflevector(a, b, i, j, 16 + i, 16 + j, 4 + i, 4 + j, 20 + i, 20 + j, 8 + i, 8 + j,  \
                          24 + i, 24 + j, 12 + i, 12 + j, 28 + i, 28 + j)
#elif VW == 8
#define PICK(a, b, i, j)                                                                           \
  __builtin_shufflevector(a, b, i, j, 8 + i, 8 + j, 4 + i, 4 + j, 12 + i, 12 + j)
#else
#define PICK(a, b, i, j) __builtin_shufflevector(a, b, i, j, 4 + i, 4 + j)
#endif

// The sums of a, b, c and d, each with the additions of sum in the same order.
INLINE v4 sum4(vf a, vf b, vf c, vf d) {
  vf ab = PICK(a, b, 0, 2) + PICK(a, b, 1, 3), cd = PICK(c, d, 0, 2) + PICK(c, d, 1, 3);
  vf v = sum_groups(PICK(ab, cd, 0, 2) + PICK(ab, cd, 1, 3));
  v4 r;
  memcpy(&r, &v, sizeof r);
  return r;
}

INLINE float largest(vf v) {
#if VW >= 16
  v = vmax(v, SWAP8(v));
#endif
#if VW >= 8
  v = vmax(v, SWAP4(v));
#endif
  v = vmax(v, SWAP2(v));
  return vmax(v, SWAP1(v))[0];
}

// exp with a relative error below 1e-7: x = n ln 2 + r, a degree-6 polynomial in r, n added to the
// exponent. 0 below −87.3 (no denormals), +Inf above 88.4, NaN for NaN. Coefficients: Cephes expf.
INLINE vf vexp(vf x) {
  const float shift = 12582912.0f; // 1.5·2²³: adding it rounds to an integer in the low bits
  vf c = choose(x > 89.0f, splat(89.0f), choose(x < -88.0f, splat(-88.0f), x));
  vf t = c * 1.44269504088896341f + shift;
  vf n = t - shift;
  vf r = c - n * 0.693359375f;
  r = r - n * -2.12194440e-4f;
  vf p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  vf y = p * (vf)(((vi)t + (127 - 0x4B400000)) << 23);
  return choose(x < -87.3f, (vf){}, y);
}
