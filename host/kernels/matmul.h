// Products with weights. Each output is one dot product over the input dimension, summed in VW
// partial sums in order whatever the number of rows: a row's result does not depend on the batch.

// A tile of tx rows of x and tw (4 or 1) rows of w.
INLINE void dot_tile(const int tx, const int tw, float *dst, long ldd, const float *x, long ldx,
                     const float *w, long ldw, const float *bias, long in, int add) {
  vf acc[4][4];
  for (int a = 0; a < tx; a++)
    for (int b = 0; b < tw; b++) acc[a][b] = (vf){};
  long i = 0;
  for (; i + VW <= in; i += VW) {
    vf xs[4];
#pragma GCC unroll 8
    for (int a = 0; a < tx; a++) xs[a] = load(x + a * ldx + i);
#pragma GCC unroll 8
    for (int b = 0; b < tw; b++) {
      vf wb = load(w + b * ldw + i);
#pragma GCC unroll 8
      for (int a = 0; a < tx; a++) acc[a][b] += xs[a] * wb;
    }
  }
  if (i < in)
    for (int b = 0; b < tw; b++) {
      vf wb = load_some(w + b * ldw + i, in - i);
      for (int a = 0; a < tx; a++) acc[a][b] += load_some(x + a * ldx + i, in - i) * wb;
    }
  for (int a = 0; a < tx; a++) {
    float *out = dst + a * ldd;
    if (tw == 4) {
      v4 y = sum4(acc[a][0], acc[a][1], acc[a][2], acc[a][3]), more;
      if (bias) memcpy(&more, bias, sizeof more), y += more;
      if (add) memcpy(&more, out, sizeof more), y += more;
      memcpy(out, &y, sizeof y);
    } else {
      float y = sum(acc[a][0]) + (bias ? bias[0] : 0);
      *out = add ? *out + y : y;
    }
  }
}

#define TILE_ROWS(tx)                                                                              \
  do {                                                                                             \
    long o = 0;                                                                                    \
    for (; o + 4 <= outs; o += 4)                                                                  \
      dot_tile(tx, 4, dst + o, ldd, x, ldx, w + o * ldw, ldw, bias ? bias + o : 0, in, add);       \
    for (; o < outs; o++)                                                                          \
      dot_tile(tx, 1, dst + o, ldd, x, ldx, w + o * ldw, ldw, bias ? bias + o : 0, in, add);       \
  } while (0)

void KERNEL(matmul)(float *dst, long ldd, const float *x, long ldx, const float *w, long ldw,
                    const float *bias, long rows, long outs, long in, int add) {
  for (; rows >= 4; rows -= 4, x += 4 * ldx, dst += 4 * ldd) TILE_ROWS(4);
  for (; rows >= 2; rows -= 2, x += 2 * ldx, dst += 2 * ldd) TILE_ROWS(2);
  if (rows) TILE_ROWS(1);
}

INLINE void nn_tile(const int tx, const int tv, float *dst, long ldd, const float *x, long ldx,
                    const float *w, long ldw, long in) {
  vf acc[4][4];
  for (int a = 0; a < tx; a++)
    for (int b = 0; b < tv; b++) acc[a][b] = (vf){};
  for (long i = 0; i < in; i++) {
    vf ws[4];
    for (int b = 0; b < tv; b++) ws[b] = load(w + i * ldw + b * VW);
    for (int a = 0; a < tx; a++)
      for (int b = 0; b < tv; b++) acc[a][b] += ws[b] * x[a * ldx + i];
  }
  for (int a = 0; a < tx; a++)
    for (int b = 0; b < tv; b++) put(dst + a * ldd + b * VW, acc[a][b]);
}

void KERNEL(matmul_nn)(float *dst, long ldd, const float *x, long ldx, const float *w, long ldw,
                       long rows, long outs, long in) {
  long o = 0;
  for (; o + 2 * VW <= outs; o += 2 * VW) {
    long t = 0;
    for (; t + 4 <= rows; t += 4)
      nn_tile(4, 2, dst + t * ldd + o, ldd, x + t * ldx, ldx, w + o, ldw, in);
    for (; t < rows; t++) nn_tile(1, 2, dst + t * ldd + o, ldd, x + t * ldx, ldx, w + o, ldw, in);
  }
  for (; o + VW <= outs; o += VW)
    for (long t = 0; t < rows; t++)
      nn_tile(1, 1, dst + t * ldd + o, ldd, x + t * ldx, ldx, w + o, ldw, in);
  for (; o < outs; o++)
    for (long t = 0; t < rows; t++) {
      float y = 0;
      for (long i = 0; i < in; i++) y += x[t * ldx + i] * w[i * ldw + o];
      dst[t * ldd + o] = y;
    }
}

void KERNEL(store)(float *dst, long ldd, const float *src, long lds, const float *bias, long rows,
                   long n, int add) {
  for (long t = 0; t < rows; t++, dst += ldd, src += lds)
    for (long i = 0; i < n; i++) {
      float y = src[i] + (bias ? bias[i] : 0);
      dst[i] = add ? dst[i] + y : y;
    }
}
