// Attention. Scores are handled in blocks of BLOCK rows with a running maximum m, mass l and sum acc (online softmax, Milakov and Gimelshein 2018; blocks as
// in FlashAttention, Dao et al. 2022).
#define BLOCK 64

// Scores of one query row against up to BLOCK rows become weights exp(s − m); m, l and acc are brought to the new maximum. Entries at and beyond n are
// left zero.
INLINE void weigh(float *s, long n, float *m, float *l, float *acc, long dv) {
  for (long i = n; i < BLOCK; i++) s[i] = -INFINITY;
  vf top = load(s);
  for (long i = VW; i < BLOCK; i += VW) top = vmax(load(s + i), top);
  float now = largest(top);
  if (now == -INFINITY) {
    memset(s, 0, BLOCK * sizeof *s);
    return;
  }
  if (now > *m) {
    float r = vexp(splat(*m - now))[0];
    *m = now;
    *l *= r;
    for (long i = 0; i < dv; i++) acc[i] *= r;
  } else {
    now = *m;
  }
  vf mass = {};
  for (long i = 0; i < BLOCK; i += VW) {
    vf w = vexp(load(s + i) - now);
    mass += w;
    put(s + i, w);
  }
  *l += sum(mass);
}

// acc[dv] += sum over j of p[j] v[j].
INLINE void add_values(const int tv, float *acc, const float *p, const float *v, long ldv, long n) {
  vf sums[4];
  for (int b = 0; b < tv; b++) sums[b] = load(acc + b * VW);
  for (long j = 0; j < n; j++)
    for (int b = 0; b < tv; b++) sums[b] += load(v + j * ldv + b * VW) * p[j];
  for (int b = 0; b < tv; b++) put(acc + b * VW, sums[b]);
}

INLINE void values(float *acc, const float *p, const float *v, long ldv, long n, long dv) {
  long i = 0;
  for (; i + 4 * VW <= dv; i += 4 * VW) add_values(4, acc + i, p, v + i, ldv, n);
  for (; i + VW <= dv; i += VW) add_values(1, acc + i, p, v + i, ldv, n);
  for (; i < dv; i++)
    for (long j = 0; j < n; j++) acc[i] += p[j] * v[j * ldv + i];
}

INLINE void finish(float *out, float *lse, float m, float l, const float *acc, long dv) {
  float r = l > 0 ? 1 / l : 0;
  for (long i = 0; i < dv; i++) out[i] = l > 0 ? acc[i] * r : 0;
  if (lse) *lse = l > 0 ? m + logf(l) : -INFINITY;
}

// scratch: group·(dv + 2) floats a token.
void KERNEL(attend_tile)(float *out, long ldot, long ldoh, float *lse, long ldl, const float *q, long ldqt, long ldqh, const float *k, long ldk, const float *v, long ldv,
                         long tokens, long group, long dk, long dv, long from, const int32_t *pos, float scale, float *scratch) {
  float s[BLOCK];
  long last = -1;
  for (long t = 0; t < tokens; t++) last = pos[t] > last ? pos[t] : last;
  for (long r = 0; r < tokens * group; r++) {
    float *part = scratch + r * (dv + 2);
    memset(part, 0, (dv + 2) * sizeof *part);
    part[0] = -INFINITY;
  }
  for (long j = from; j <= last; j += BLOCK)
    for (long t = 0; t < tokens; t++) {
      long n = pos[t] + 1 - j;
      if (n <= 0) continue;
      if (n > BLOCK) n = BLOCK;
      for (long h = 0; h < group; h++) {
        float *part = scratch + (t * group + h) * (dv + 2);
        for (long i = 0; i < n; i++) s[i] = scale * dot(q + t * ldqt + h * ldqh, k + (j + i) * ldk, dk);
        weigh(s, n, part, part + 1, part + 2, dv);
        values(part + 2, s, v + j * ldv, ldv, n, dv);
      }
    }
  for (long t = 0; t < tokens; t++)
    for (long h = 0; h < group; h++) {
      float *part = scratch + (t * group + h) * (dv + 2);
      finish(out + t * ldot + h * ldoh, lse ? lse + t * ldl + h : 0, part[0], part[1], part + 2, dv);
    }
}

void KERNEL(attend_segments)(float *part, const float *q, long ldqh, const float *k, long ldk, const float *v, long ldv, const segment *segs, long nsegs,
                             const float *bias, long ldb, long group, long dk, long dv, float scale) {
  long width = dv + 2;
  float s[BLOCK];
  for (long h = 0; h < group; h++) {
    memset(part + h * width, 0, width * sizeof *part);
    part[h * width] = -INFINITY;
  }
  for (long g = 0; g < nsegs; g++)
    for (long j = segs[g].first, left = segs[g].count; left > 0; j += BLOCK, left -= BLOCK) {
      long n = left < BLOCK ? left : BLOCK;
      for (long h = 0; h < group; h++) {
        float b = bias ? bias[h * ldb + segs[g].team] : 0, *p = part + h * width;
        if (b == -INFINITY) continue;
        for (long i = 0; i < n; i++) s[i] = scale * dot(q + h * ldqh, k + (j + i) * ldk, dk) + b;
        weigh(s, n, p, p + 1, p + 2, dv);
        values(p + 2, s, v + j * ldv, ldv, n, dv);
      }
    }
}

void KERNEL(attend_join)(float *out, long ldoh, float *lse, const float *part, long n, long group, long dv) {
  long width = dv + 2;
  for (long h = 0; h < group; h++) {
    float m = -INFINITY, l = 0, *o = out + h * ldoh;
    for (long i = 0; i < n; i++) m = part[(i * group + h) * width] > m ? part[(i * group + h) * width] : m;
    memset(o, 0, dv * sizeof *o);
    for (long i = 0; i < n; i++) {
      const float *p = part + (i * group + h) * width;
      if (p[1] == 0) continue;
      float r = expf(p[0] - m);
      l += r * p[1];
      for (long j = 0; j < dv; j++) o[j] += r * p[2 + j];
    }
    finish(o, lse ? lse + h : 0, m, l, o, dv);
  }
}

void KERNEL(merge)(float *dst, const float *a, float lse_a, const float *b, float lse_b, long n) {
  float m = lse_a > lse_b ? lse_a : lse_b;
  float wa = lse_a == -INFINITY ? 0 : expf(lse_a - m), wb = lse_b == -INFINITY ? 0 : expf(lse_b - m);
  float total = wa + wb;
  if (total > 0) wa /= total, wb /= total;
  for (long i = 0; i < n; i++) dst[i] = (wa > 0 ? wa * a[i] : 0) + (wb > 0 ? wb * b[i] : 0);
}

void KERNEL(route)(float *phi, long ldp, const float *q, long ldqh, const float *reps, long ldr, const float *bias, long group, long teams, long dk, float scale) {
  for (long g = 0; g < teams; g++)
    for (long h = 0; h < group; h++)
      phi[h * ldp + g] = bias[g] == -INFINITY ? -INFINITY : bias[g] + scale * dot(q + h * ldqh, reps + g * ldr, dk);
}
