// Norms, rotary encodings, activations.

void KERNEL(axpy)(float *dst, const float *src, float scale, long n) {
  for (long i = 0; i < n; i++) dst[i] += scale * src[i];
}

INLINE float dot(const float *a, const float *b, long n) {
  vf s0 = {}, s1 = {};
  long i = 0;
  for (; i + 2 * VW <= n; i += 2 * VW) {
    s0 += load(a + i) * load(b + i);
    s1 += load(a + i + VW) * load(b + i + VW);
  }
  for (; i + VW <= n; i += VW) s0 += load(a + i) * load(b + i);
  if (i < n) s1 += load_some(a + i, n - i) * load_some(b + i, n - i);
  return sum(s0 + s1);
}

void KERNEL(rms_norm)(float *dst, long ldd, const float *x, long ldx, const float *gamma, float eps,
                      long rows, long n) {
  for (long t = 0; t < rows; t++, dst += ldd, x += ldx) {
    float r = 1 / sqrtf(dot(x, x, n) / n + eps);
    for (long i = 0; i < n; i++) dst[i] = x[i] * r * gamma[i];
  }
}

void KERNEL(rotate)(float *x, long ldt, long ldh, const int32_t *pos, const float *freq,
                    float scale, int interleaved, long tokens, long heads, long d) {
  long half = d / 2, step = interleaved ? 2 : 1, other = interleaved ? 1 : half;
  for (long t = 0; t < tokens; t++)
    for (long i = 0; i < half; i++) {
      float angle = (float)pos[t] * freq[i];
      float c = scale * cosf(angle), s = scale * sinf(angle);
      float *p = x + t * ldt + i * step;
      for (long h = 0; h < heads; h++, p += ldh) {
        float a = p[0], b = p[other];
        p[0] = a * c - b * s;
        p[other] = b * c + a * s;
      }
    }
}

INLINE vf silu(vf g) { return g / (1.0f + vexp(-g)); }

void KERNEL(swiglu)(float *dst, long ldd, const float *gu, long ldg, long rows, long n) {
  for (long t = 0; t < rows; t++, dst += ldd, gu += ldg) {
    long i = 0;
    for (; i + VW <= n; i += VW) put(dst + i, silu(load(gu + i)) * load(gu + n + i));
    if (i < n)
      put_some(dst + i, silu(load_some(gu + i, n - i)) * load_some(gu + n + i, n - i), n - i);
  }
}

void KERNEL(softmax)(float *x, long n) {
  float m = -INFINITY, total = 0;
  for (long i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
  for (long i = 0; i < n; i += VW) {
    long w = n - i < VW ? n - i : VW;
    put_some(x + i, vexp(load_some(x + i, w) - m), w);
  }
  for (long i = 0; i < n; i++) total += x[i];
  for (long i = 0; i < n; i++) x[i] /= total;
}

void KERNEL(widen_bf16)(float *dst, const uint16_t *src, long n) {
  for (long i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)src[i] << 16;
    memcpy(dst + i, &bits, 4);
  }
}

// The exponent moves by 112: by a product, which normalises small numbers.
void KERNEL(widen_f16)(float *dst, const uint16_t *src, long n) {
  for (long i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)(src[i] & 0x7fff) << 13, whole = 0x7f800000, sign = (uint32_t)(src[i] & 0x8000) << 16;
    float x;
    memcpy(&x, &bits, 4);
    x *= 0x1p112f;
    memcpy(&bits, &x, 4);
    bits |= sign | ((src[i] & 0x7c00) == 0x7c00 ? whole : 0); // infinity or NaN
    memcpy(dst + i, &bits, 4);
  }
}

// The same for E4M3.
void KERNEL(widen_f8)(float *dst, const uint8_t *src, long n) {
  for (long i = 0; i < n; i++) {
    uint32_t bits = (uint32_t)(src[i] & 0x7f) << 20, nan = 0x7fc00000, sign = (uint32_t)(src[i] & 0x80) << 24;
    float x;
    memcpy(&x, &bits, 4);
    x *= 0x1p120f;
    memcpy(&bits, &x, 4);
    bits |= sign | ((src[i] & 0x7f) == 0x7f ? nan : 0);
    memcpy(dst + i, &bits, 4);
  }
}

void KERNEL(widen_i8)(float *dst, long ldd, const int8_t *src, long lds, const float *scale,
                      long rows, long n) {
  for (long t = 0; t < rows; t++, dst += ldd, src += lds)
    for (long i = 0; i < n; i++) dst[i] = scale[t] * src[i];
}

void KERNEL(round_i8)(int8_t *dst, float *scale, const float *src, long n) {
  float top = 0;
  int finite = 1;
  for (long i = 0; i < n; i++) {
    float a = fabsf(src[i]);
    finite &= a < INFINITY;
    top = a > top ? a : top;
  }
  float s = *scale = finite ? top / 127 : NAN;
  for (long i = 0; i < n; i++) {
    float q = s > 0 ? rintf(src[i] / s) : 0;
    dst[i] = q > 127 ? 127 : q < -127 ? -127 : q;
  }
}
