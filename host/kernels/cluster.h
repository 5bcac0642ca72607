// Distances and nearest centers for building teams, products in double.

// Rows and vectors of a register tile of nearest.
#if VW == 16
#define NEAR_ROWS 6
#define NEAR_VECS 4
#else
#define NEAR_ROWS 4
#define NEAR_VECS 2
#endif
// NEAR_BLOCK is a multiple of NEAR_VECS * VD for all of them.

typedef float vh __attribute__((vector_size(2 * VW))); // VD floats

INLINE double sum_double(vd v) {
#if VD >= 8
  v += __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3);
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5);
  v += __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6);
#elif VD >= 4
  v += __builtin_shufflevector(v, v, 2, 3, 0, 1);
  v += __builtin_shufflevector(v, v, 1, 0, 3, 2);
#else
  v += __builtin_shufflevector(v, v, 1, 0);
#endif
  return v[0];
}

// dst = x as doubles; returns their sum of squares.
INLINE double widen(double *dst, const float *x, long d) {
  vd squares = {};
  long i = 0;
  for (; i + VD <= d; i += VD) {
    vh v;
    memcpy(&v, x + i, sizeof v);
    vd w = __builtin_convertvector(v, vd);
    memcpy(dst + i, &w, sizeof w);
    squares += w * w;
  }
  double s = sum_double(squares);
  for (; i < d; i++) dst[i] = x[i], s += dst[i] * dst[i];
  return s;
}

// Widens n <= NEAR_ROWS rows, and zeros up to NEAR_ROWS, with their sums of squares.
INLINE void widen_rows(double *dst, double *squares, const float *x, long ldx, long n, long d) {
  for (long a = 0; a < n; a++) squares[a] = widen(dst + a * d, x + a * ldx, d);
  memset(dst + n * d, 0, (NEAR_ROWS - n) * d * sizeof *dst);
}

// packed [d, NEAR_BLOCK] = n <= NEAR_BLOCK centers as columns, zeros beyond them.
INLINE void pack_block(double *packed, const float *centers, long ldc, long n, long d) {
  for (long j = 0; j < NEAR_BLOCK; j++)
    for (long i = 0; i < d; i++) packed[i * NEAR_BLOCK + j] = j < n ? centers[j * ldc + i] : 0;
}

// Products of NEAR_ROWS rows x [NEAR_ROWS, d] with nv vectors of packed centers, to products
// [NEAR_ROWS, NEAR_BLOCK].
INLINE void near_tile(const int nv, double *products, const double *x, const double *packed,
                      long d) {
  vd acc[NEAR_ROWS][NEAR_VECS];
  for (int a = 0; a < NEAR_ROWS; a++)
    for (int b = 0; b < nv; b++) acc[a][b] = (vd){};
  for (long i = 0; i < d; i++) {
    vd c[NEAR_VECS];
    for (int b = 0; b < nv; b++) memcpy(c + b, packed + i * NEAR_BLOCK + b * VD, sizeof *c);
    for (int a = 0; a < NEAR_ROWS; a++)
      for (int b = 0; b < nv; b++) acc[a][b] += c[b] * x[a * d + i];
  }
  for (int a = 0; a < NEAR_ROWS; a++)
    for (int b = 0; b < nv; b++) memcpy(products + a * NEAR_BLOCK + b * VD, &acc[a][b], sizeof(vd));
}

// Products with n <= NEAR_BLOCK centers.
INLINE void near_block(double *products, const double *x, const double *packed, long n, long d) {
  long b = 0;
  for (; n - b > (NEAR_VECS - 1) * VD; b += NEAR_VECS * VD)
    near_tile(NEAR_VECS, products + b, x, packed + b, d);
  for (; b < n; b += VD) near_tile(1, products + b, x, packed + b, d);
}

// scratch: NEAR_SCRATCH doubles a dimension.
void KERNEL(distances)(float *dst, long ldd, const float *x, long ldx, long n, const float *points,
                       long ldp, long npoints, long d, double *scratch) {
  double *packed = scratch, *rows = packed + NEAR_BLOCK * d;
  double products[NEAR_ROWS * NEAR_BLOCK], xx[NEAR_ROWS], yy[NEAR_BLOCK];
  for (long p = 0; p < npoints; p += NEAR_BLOCK) {
    long count = npoints - p < NEAR_BLOCK ? npoints - p : NEAR_BLOCK;
    for (long j = 0; j < count; j++) yy[j] = widen(rows, points + (p + j) * ldp, d);
    pack_block(packed, points + p * ldp, ldp, count, d);
    for (long i = 0; i < n; i += NEAR_ROWS) {
      long left = n - i < NEAR_ROWS ? n - i : NEAR_ROWS;
      widen_rows(rows, xx, x + i * ldx, ldx, left, d);
      near_block(products, rows, packed, count, d);
      for (long j = 0; j < count; j++)
        for (long a = 0; a < left; a++) {
          double s = (-2 * products[a * NEAR_BLOCK + j] + xx[a]) + yy[j];
          dst[(p + j) * ldd + i + a] = s < 0 ? 0 : (float)s;
        }
    }
  }
}

// packed [blocks, d, NEAR_BLOCK]: as pack_block, block by block.
void KERNEL(nearest_pack)(double *packed, float *norms, const float *centers, long ldc, long n,
                          long d) {
  for (long j = 0; j < n; j++) {
    norms[j] = 0;
    for (long i = 0; i < d; i++) {
      float c = centers[j * ldc + i];
      norms[j] = (float)((double)norms[j] + (double)(c * c)); // the square is rounded: no FMA
    }
  }
  for (long j = 0; j < n; j += NEAR_BLOCK)
    pack_block(packed + j * d, centers + j * ldc, ldc, n - j < NEAR_BLOCK ? n - j : NEAR_BLOCK, d);
}

// scratch: NEAR_SCRATCH doubles a dimension.
void KERNEL(nearest)(int32_t *labels, const float *x, long ldx, long n, const double *packed,
                     const float *norms, long centers, long d, double *scratch) {
  for (long i = 0; i < n; i += NEAR_ROWS) {
    double products[NEAR_ROWS * NEAR_BLOCK], squares[NEAR_ROWS];
    float least[NEAR_ROWS];
    long rows = n - i < NEAR_ROWS ? n - i : NEAR_ROWS;
    widen_rows(scratch, squares, x + i * ldx, ldx, rows, d);
    for (long j = 0; j < centers; j += NEAR_BLOCK) {
      long count = centers - j < NEAR_BLOCK ? centers - j : NEAR_BLOCK;
      near_block(products, scratch, packed + j * d, count, d);
      for (long a = 0; a < rows; a++)
        for (long b = 0; b < count; b++) {
          float y = (float)(norms[j + b] - 2 * products[a * NEAR_BLOCK + b]);
          if (j + b == 0 || y < least[a]) least[a] = y, labels[i + a] = (int32_t)(j + b);
        }
    }
  }
}
