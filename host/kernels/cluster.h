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

INLINE vd widen(const float *p) {
  vh v;
  memcpy(&v, p, sizeof v);
  return __builtin_convertvector(v, vd);
}

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

#define GROUP 4 // points that a row is compared with at once

// dots[p] = x . points[p] for n <= GROUP points.
INLINE void dots_double(double *dots, const float *x, const float *points, long ldp, const int n,
                        long d) {
  vd acc[GROUP];
  for (int p = 0; p < n; p++) acc[p] = (vd){};
  long i = 0;
  for (; i + VD <= d; i += VD) {
    vd a = widen(x + i);
    for (int p = 0; p < n; p++) acc[p] += a * widen(points + p * ldp + i);
  }
  for (int p = 0; p < n; p++) dots[p] = sum_double(acc[p]);
  for (; i < d; i++)
    for (int p = 0; p < n; p++) dots[p] += (double)x[i] * points[p * ldp + i];
}

INLINE void distance_group(float *dst, long ldd, const float *x, long ldx, long n,
                           const float *points, long ldp, const int group, long d) {
  double xx, yy[GROUP], xy[GROUP];
  for (int p = 0; p < group; p++) dots_double(yy + p, points + p * ldp, points + p * ldp, 0, 1, d);
  for (long i = 0; i < n; i++, x += ldx) {
    dots_double(&xx, x, x, 0, 1, d);
    dots_double(xy, x, points, ldp, group, d);
    for (int p = 0; p < group; p++) {
      double s = (-2 * xy[p] + xx) + yy[p];
      dst[p * ldd + i] = s < 0 ? 0 : (float)s;
    }
  }
}

void KERNEL(distances)(float *dst, long ldd, const float *x, long ldx, long n, const float *points,
                       long ldp, long npoints, long d) {
  long p = 0;
  for (; p + GROUP <= npoints; p += GROUP)
    distance_group(dst + p * ldd, ldd, x, ldx, n, points + p * ldp, ldp, GROUP, d);
  for (; p < npoints; p++)
    distance_group(dst + p * ldd, ldd, x, ldx, n, points + p * ldp, ldp, 1, d);
}

// packed [blocks][d][NEAR_BLOCK]; centers that fill up the last block are zero and never compared.
void KERNEL(nearest_pack)(double *packed, float *norms, const float *centers, long ldc, long n,
                          long d) {
  for (long j = 0; j < (n + NEAR_BLOCK - 1) / NEAR_BLOCK * NEAR_BLOCK; j++) {
    float s = 0;
    double *column = packed + j / NEAR_BLOCK * d * NEAR_BLOCK + j % NEAR_BLOCK;
    for (long i = 0; i < d; i++) {
      float c = j < n ? centers[j * ldc + i] : 0;
      s = (float)((double)s + (double)(c * c)); // the square is rounded before it is added: no FMA
      column[i * NEAR_BLOCK] = c;
    }
    if (j < n) norms[j] = s;
  }
}

// Products of NEAR_ROWS rows x [d, NEAR_ROWS] with NEAR_VECS vectors of centers, to products
// [NEAR_ROWS, NEAR_BLOCK].
INLINE void near_tile(double *products, const double *x, const double *packed, long d) {
  vd acc[NEAR_ROWS][NEAR_VECS];
  for (int a = 0; a < NEAR_ROWS; a++)
    for (int b = 0; b < NEAR_VECS; b++) acc[a][b] = (vd){};
  for (long i = 0; i < d; i++) {
    vd c[NEAR_VECS];
    for (int b = 0; b < NEAR_VECS; b++) memcpy(c + b, packed + i * NEAR_BLOCK + b * VD, sizeof *c);
    for (int a = 0; a < NEAR_ROWS; a++)
      for (int b = 0; b < NEAR_VECS; b++) acc[a][b] += c[b] * x[i * NEAR_ROWS + a];
  }
  for (int a = 0; a < NEAR_ROWS; a++)
    for (int b = 0; b < NEAR_VECS; b++)
      memcpy(products + a * NEAR_BLOCK + b * VD, &acc[a][b], sizeof(vd));
}

// scratch: d * NEAR_ROWS doubles.
void KERNEL(nearest)(int32_t *labels, const float *x, long ldx, long n, const double *packed,
                     const float *norms, long centers, long d, double *scratch) {
  for (long i = 0; i < n; i += NEAR_ROWS) {
    double products[NEAR_ROWS * NEAR_BLOCK];
    float least[NEAR_ROWS];
    long rows = n - i < NEAR_ROWS ? n - i : NEAR_ROWS;
    for (long c = 0; c < d; c++)
      for (long a = 0; a < NEAR_ROWS; a++)
        scratch[c * NEAR_ROWS + a] = a < rows ? x[(i + a) * ldx + c] : 0;
    for (long j = 0; j < centers; j += NEAR_BLOCK) {
      long count = centers - j < NEAR_BLOCK ? centers - j : NEAR_BLOCK;
      for (long b = 0; b < NEAR_BLOCK; b += NEAR_VECS * VD)
        near_tile(products + b, scratch, packed + j * d + b, d);
      for (long a = 0; a < rows; a++)
        for (long b = 0; b < count; b++) {
          float y = (float)(norms[j + b] - 2 * products[a * NEAR_BLOCK + b]);
          if (j + b == 0 || y < least[a]) least[a] = y, labels[i + a] = (int32_t)(j + b);
        }
    }
  }
}
