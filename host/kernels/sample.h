// Random numbers of the team sampler: the same words as Philox in package device.

typedef uint64_t vl __attribute__((vector_size(4 * VW))); // VD words of 64 bits
typedef int64_t vs __attribute__((vector_size(4 * VW)));

#define LOW 0xFFFFFFFFul

// Philox4x32-10 of VD counters at once; every word sits in the low half of a lane.
INLINE void philox(vl c[4], uint32_t k0, uint32_t k1) {
  for (int i = 0; i < 10; i++) {
    vl p0 = c[0] * 0xD2511F53ul, p1 = c[2] * 0xCD9E8D57ul;
    vl c0 = (p1 >> 32) ^ c[1] ^ k0, c2 = (p0 >> 32) ^ c[3] ^ k1;
    c[0] = c0, c[1] = p1 & LOW, c[2] = c2, c[3] = p0 & LOW;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
}

// ln of positive normal numbers within an ulp or two: x = 2^k (1 + f), √½ ≤ 1 + f < √2, ln(1 + f)
// by FreeBSD's e_log.c.
INLINE vd vlog(vd x) {
  vs bits = (vs)x;
  bits += 0x3FF0000000000000 - 0x3FE6A09E667F3BCD; // √½ to 1
  vs k = (bits >> 52) - 1023;
  vd f = (vd)((bits & 0x000FFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD) - 1.0;
  vd s = f / (2.0 + f), z = s * s, w = z * z;
  vd t1 = w * (3.999999999940941908e-01 +
               w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
  vd t2 = z * (6.666666666666735130e-01 +
               w * (2.857142874366239149e-01 +
                    w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
  vd hfsq = 0.5 * f * f, dk = __builtin_convertvector(k, vd);
  return dk * 6.93147180369123816490e-01 -
         ((hfsq - (s * (hfsq + t1 + t2) + dk * 1.90821492927058770002e-10)) - f);
}

void KERNEL(perturb)(double *y, const float *phi, long teams, uint32_t c1, uint32_t c2, uint32_t c3,
                     uint32_t k0, uint32_t k1) {
  for (long g = 0; g < teams; g += 4 * VD) {
    uint64_t counter[VD];
    for (int i = 0; i < VD; i++) counter[i] = (uint32_t)(g / 4 + i);
    vl c[4] = {{}, (vl){} + c1, (vl){} + c2, (vl){} + c3};
    memcpy(c, counter, sizeof counter);
    philox(c, k0, k1);
    double noise[4][VD];
    for (int i = 0; i < 4; i++) {
      // 1 − v with v = (x + ½)·2⁻³² is exact, so that its logarithm is log1p(−v).
      vd u = 1.0 - (__builtin_convertvector((vs)c[i], vd) + 0.5) * 0x1p-32;
      vd n = -vlog(-vlog(u));
      memcpy(noise[i], &n, sizeof n);
    }
    for (long i = 0; i < 4 * VD && g + i < teams; i++) y[g + i] = phi[g + i] + noise[i % 4][i / 4];
  }
}
