// Distances and nearest centers for building teams, products in double.

void KERNEL(distances)(float *dst, long ldd, const float *x, long ldx, long n, const float *points, long ldp, long npoints, long d) {
  for (long p = 0; p < npoints; p++)
    for (long i = 0; i < n; i++) {
      double xy = 0, xx = 0, yy = 0;
      for (long j = 0; j < d; j++) {
        double a = x[i * ldx + j], b = points[p * ldp + j];
        xy += a * b, xx += a * a, yy += b * b;
      }
      double s = (-2 * xy + xx) + yy;
      dst[p * ldd + i] = (float)(s > 0 ? s : 0);
    }
}

void KERNEL(nearest_pack)(double *packed, float *norms, const float *centers, long ldc, long n, long d) {
  for (long j = 0; j < n; j++) {
    float s = 0;
    for (long i = 0; i < d; i++) {
      float c = centers[j * ldc + i];
      s += c * c;
      packed[j * d + i] = c;
    }
    norms[j] = s;
  }
}

void KERNEL(nearest)(int32_t *labels, const float *x, long ldx, long n, const double *packed, const float *norms, long centers, long d) {
  for (long i = 0; i < n; i++) {
    float best = INFINITY;
    labels[i] = 0;
    for (long j = 0; j < centers; j++) {
      double s = 0;
      for (long a = 0; a < d; a++) s += x[i * ldx + a] * packed[j * d + a];
      float y = (float)(norms[j] - 2 * s);
      if (y < best) best = y, labels[i] = (int32_t)j;
    }
  }
}
