// Random numbers of the team sampler: the same words as Philox in package device.

INLINE void philox(uint32_t c[4], uint32_t k0, uint32_t k1) {
  for (int i = 0; i < 10; i++) {
    uint64_t p0 = (uint64_t)0xD2511F53u * c[0], p1 = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t c0 = (uint32_t)(p1 >> 32) ^ c[1] ^ k0, c2 = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[0] = c0, c[1] = (uint32_t)p1, c[2] = c2, c[3] = (uint32_t)p0;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
}

void KERNEL(perturb)(double *y, const float *phi, long teams, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
  for (long g = 0; g < teams; g += 4) {
    uint32_t c[4] = {(uint32_t)(g / 4), c1, c2, c3};
    philox(c, k0, k1);
    for (long i = 0; i < 4 && g + i < teams; i++) y[g + i] = phi[g + i] - log(-log1p(-((double)c[i] + 0.5) / 4294967296.0));
  }
}
