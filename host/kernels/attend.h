// Attention. Scores are handled in blocks of BLOCK rows with a running maximum m, mass l and sum
// acc (online softmax, Milakov and Gimelshein 2018; blocks as in FlashAttention, Dao et al. 2022).
// What a query row adds up, and in which order, depends on its own rows alone, not on the queries
// beside it.

// Query rows and vectors of a register tile: sums, loads and a broadcast fill the registers.
#if VW == 16
#define TILE_Q 6
#define TILE_V 4
#else
#define TILE_Q 4
#define TILE_V 2
#endif

// The first n scores become weights exp(s − m), the others 0; m, l and acc are brought to the new
// maximum. A score that is NaN may be no maximum, but its weight is NaN, and so is l then.
INLINE void weigh(float *s, long n, float *m, float *l, float *acc, long dv) {
  for (long i = n; i < BLOCK; i++) s[i] = -INFINITY;
  vf top = load(s);
  for (long i = VW; i < BLOCK; i += VW) top = vmax(load(s + i), top);
  float now = largest(top);
  if (now > *m) {
    float r = vexp(splat(*m - now))[0];
    *m = now;
    *l *= r;
    for (long i = 0; i < dv; i++) acc[i] *= r;
  } else {
    now = *m == -INFINITY ? 0 : *m; // nothing yet, or nothing that is a number
  }
  vf mass = {};
  for (long i = 0; i < BLOCK; i += VW) {
    vf w = vexp(load(s + i) - now);
    mass += w;
    put(s + i, w);
  }
  *l += sum(mass);
}

// acc[q, i] (+)= sum over j < n of p[q, j] v[j, i] for tq rows and tv vectors; row j of v is row
// idx[j] where idx is given. add is 0 or 1.
INLINE void sum_tile(const int tq, const int tv, int add, float *acc, long lda, const float *p,
                     long ldp, const float *v, long ldv, const int32_t *idx, long n) {
  vf sums[TILE_Q][TILE_V];
  for (int a = 0; a < tq; a++)
    for (int b = 0; b < tv; b++) sums[a][b] = add ? load(acc + a * lda + b * VW) : (vf){};
  for (long j = 0; j < n; j++) {
    const float *row = v + (idx ? idx[j] : j) * ldv;
    vf rows[TILE_V];
    for (int b = 0; b < tv; b++) rows[b] = load(row + b * VW);
    for (int a = 0; a < tq; a++)
      for (int b = 0; b < tv; b++) sums[a][b] += rows[b] * p[a * ldp + j];
  }
  for (int a = 0; a < tq; a++)
    for (int b = 0; b < tv; b++) put(acc + a * lda + b * VW, sums[a][b]);
}

INLINE void sum_rows(const int tq, int add, float *acc, long lda, const float *p, long ldp,
                     const float *v, long ldv, const int32_t *idx, long n, long width) {
  long i = 0;
  for (; i + TILE_V * VW <= width; i += TILE_V * VW)
    sum_tile(tq, TILE_V, add, acc + i, lda, p, ldp, v + i, ldv, idx, n);
  for (; i + VW <= width; i += VW) sum_tile(tq, 1, add, acc + i, lda, p, ldp, v + i, ldv, idx, n);
  for (; i < width; i++)
    for (int a = 0; a < tq; a++) {
      float s = add ? acc[a * lda + i] : 0;
      for (long j = 0; j < n; j++) s += p[a * ldp + j] * v[(idx ? idx[j] : j) * ldv + i];
      acc[a * lda + i] = s;
    }
}

INLINE void finish(float *out, float *lse, float m, float l, const float *acc, long dv) {
  float r = l > 0 ? 1 / l : 0;
  for (long i = 0; i < dv; i++) out[i] = l == 0 ? 0 : acc[i] * r;
  if (lse) *lse = l > 0 ? m + logf(l) : l == 0 ? -INFINITY : NAN;
}

// dst[i, 0 … BLOCK) = column i of the first n rows of k, then zeros.
INLINE void transpose(float *dst, const float *k, long ldk, long n, long dk) {
  long j = 0;
  for (; j + 4 <= n; j += 4) {
    const float *row = k + j * ldk;
    long i = 0;
    for (; i + 4 <= dk; i += 4) {
      v4 r[4];
      for (int a = 0; a < 4; a++) memcpy(r + a, row + a * ldk + i, sizeof *r);
      v4 lo01 = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5),
         hi01 = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
      v4 lo23 = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5),
         hi23 = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
      v4 c[4] = {__builtin_shufflevector(lo01, lo23, 0, 1, 4, 5),
                 __builtin_shufflevector(lo01, lo23, 2, 3, 6, 7),
                 __builtin_shufflevector(hi01, hi23, 0, 1, 4, 5),
                 __builtin_shufflevector(hi01, hi23, 2, 3, 6, 7)};
      for (int a = 0; a < 4; a++) memcpy(dst + (i + a) * BLOCK + j, c + a, sizeof *c);
    }
    for (; i < dk; i++)
      for (int a = 0; a < 4; a++) dst[i * BLOCK + j + a] = row[a * ldk + i];
  }
  for (; j < BLOCK; j++)
    for (long i = 0; i < dk; i++) dst[i * BLOCK + j] = j < n ? k[j * ldk + i] : 0;
}

// Work memory of attend_tile for rows query rows, a multiple of TILE_Q.
typedef struct {
  float *q;    // [rows, dk]
  float *acc;  // [rows, dv]
  float *s;    // [rows, BLOCK]
  float *keys; // [dk, BLOCK]
  float *m, *l;
} tile;

INLINE tile tile_in(float *scratch, long rows, long dk, long dv) {
  tile w;
  w.q = scratch, w.acc = w.q + rows * dk, w.s = w.acc + rows * dv, w.keys = w.s + rows * BLOCK,
  w.m = w.keys + dk * BLOCK, w.l = w.m + rows;
  return w;
}

void KERNEL(attend_tile)(float *out, long ldot, long ldoh, float *lse, long ldl, const float *q,
                         long ldqt, long ldqh, const float *k, long ldk, const float *v, long ldv,
                         long tokens, long group, long dk, long dv, long from, const int32_t *pos,
                         float scale, float *scratch) {
  long queries = tokens * group, rows = (queries + TILE_Q - 1) / TILE_Q * TILE_Q, last = -1;
  tile w = tile_in(scratch, rows, dk, dv);
  memset(w.q, 0, rows * dk * sizeof *w.q);
  memset(w.acc, 0, rows * dv * sizeof *w.acc);
  for (long r = 0; r < rows; r++) w.m[r] = -INFINITY, w.l[r] = 0;
  for (long t = 0; t < tokens; t++) {
    last = pos[t] > last ? pos[t] : last;
    for (long h = 0; h < group; h++)
      memcpy(w.q + (t * group + h) * dk, q + t * ldqt + h * ldqh, dk * sizeof *q);
  }
  for (long j = from; j <= last; j += BLOCK) {
    long n = last + 1 - j < BLOCK ? last + 1 - j : BLOCK;
    transpose(w.keys, k + j * ldk, ldk, n, dk);
    for (long r = 0; r < rows; r += TILE_Q) {
      float *s = w.s + r * BLOCK;
      sum_rows(TILE_Q, 0, s, BLOCK, w.q + r * dk, dk, w.keys, BLOCK, 0, dk, BLOCK);
      for (long i = 0; i < TILE_Q * BLOCK; i++) s[i] *= scale;
      for (long a = 0; a < TILE_Q; a++) {
        long see = r + a < queries ? pos[(r + a) / group] + 1 - j : 0;
        weigh(s + a * BLOCK,
              see < 0   ? 0
              : see < n ? see
                        : n,
              w.m + r + a, w.l + r + a, w.acc + (r + a) * dv, dv);
      }
      sum_rows(TILE_Q, 1, w.acc + r * dv, dv, s, BLOCK, v + j * ldv, ldv, 0, n, dv);
    }
  }
  for (long r = 0; r < queries; r++) {
    long t = r / group, h = r % group;
    finish(out + t * ldot + h * ldoh, lse ? lse + t * ldl + h : 0, w.m[r], w.l[r], w.acc + r * dv,
           dv);
  }
}

// s[h, j] = sum over i of q[h, i] k[idx[j], i] for th heads and 4 rows.
INLINE void score_tile(const int th, float *s, const float *q, long ldq, const float *k, long ldk,
                       const int32_t *idx, long dk) {
  vf acc[4][4];
  for (int a = 0; a < th; a++)
    for (int b = 0; b < 4; b++) acc[a][b] = (vf){};
  for (long i = 0; i < dk; i += VW) {
    long n = dk - i;
    vf qs[4];
    for (int a = 0; a < th; a++)
      qs[a] = n < VW ? load_some(q + a * ldq + i, n) : load(q + a * ldq + i);
    for (int b = 0; b < 4; b++) {
      const float *row = k + idx[b] * ldk + i;
      vf kb = n < VW ? load_some(row, n) : load(row);
      for (int a = 0; a < th; a++) acc[a][b] += qs[a] * kb;
    }
  }
  for (int a = 0; a < th; a++) {
    v4 y = sum4(acc[a][0], acc[a][1], acc[a][2], acc[a][3]);
    memcpy(s + a * BLOCK, &y, sizeof y);
  }
}

// Rows that will be needed after those at hand; n = 0 for none.
typedef struct {
  const float *p;
  long ld, width, n;
  const int32_t *idx;
} ahead;

INLINE void prefetch(ahead a, long row) {
  if (row < a.n)
    for (long i = 0; i < a.width; i += 16) __builtin_prefetch(a.p + a.idx[row] * a.ld + i, 0, 2);
}

// The scores of one block of rows for all heads, s [group, BLOCK]. n is a multiple of 4.
INLINE void score_rows(float *s, const float *q, long ldq, const float *k, long ldk,
                       const int32_t *idx, long n, long group, long dk, ahead v, ahead next) {
  for (long j = 0; j < n; j += 4) {
    long h = 0;
    for (int b = 0; b < 4; b++) prefetch(v, j + b), prefetch(next, j + b);
    for (; h + 4 <= group; h += 4)
      score_tile(4, s + h * BLOCK + j, q + h * ldq, ldq, k, ldk, idx + j, dk);
    if (group - h == 3) score_tile(3, s + h * BLOCK + j, q + h * ldq, ldq, k, ldk, idx + j, dk);
    if (group - h == 2) score_tile(2, s + h * BLOCK + j, q + h * ldq, ldq, k, ldk, idx + j, dk);
    if (group - h == 1) score_tile(1, s + h * BLOCK + j, q + h * ldq, ldq, k, ldk, idx + j, dk);
  }
}

INLINE void sum_heads(float *part, long width, const float *s, const float *v, long ldv,
                      const int32_t *idx, long n, long group, long dv) {
  long h = 0;
  for (; h + TILE_Q <= group; h += TILE_Q)
    sum_rows(TILE_Q, 1, part + h * width, width, s + h * BLOCK, BLOCK, v, ldv, idx, n, dv);
  for (; h + 3 <= group; h += 3)
    sum_rows(3, 1, part + h * width, width, s + h * BLOCK, BLOCK, v, ldv, idx, n, dv);
  for (; h < group; h++)
    sum_rows(1, 1, part + h * width, width, s + h * BLOCK, BLOCK, v, ldv, idx, n, dv);
}

// Where reading stands: the next row is row in of segment g.
typedef struct {
  const segment *segs;
  long n, g, in;
} cursor;

typedef struct {
  int32_t idx[BLOCK], team[BLOCK];
  long n;
} rows_block;

INLINE void next_rows(rows_block *b, cursor *c) {
  b->n = 0;
  while (b->n < BLOCK && c->g < c->n) {
    if (c->in == c->segs[c->g].count) {
      c->g++, c->in = 0;
      continue;
    }
    b->idx[b->n] = c->segs[c->g].first + c->in++;
    b->team[b->n++] = c->segs[c->g].team;
  }
  for (long j = b->n; j % 4; j++) b->idx[j] = b->idx[b->n - 1];
}

void KERNEL(attend_segments)(float *part, const float *q, long ldqh, const float *k, long ldk,
                             const float *v, long ldv, const segment *segs, long nsegs,
                             const float *bias, long ldb, long group, long dk, long dv, float scale,
                             float *s) {
  long width = dv + 2;
  for (long h = 0; h < group; h++) {
    memset(part + h * width, 0, width * sizeof *part);
    part[h * width] = -INFINITY;
  }
  cursor at = {segs, nsegs, 0, 0};
  rows_block blocks[2], *now = blocks, *next = blocks + 1;
  for (next_rows(now, &at); now->n > 0;) {
    next_rows(next, &at);
    score_rows(s, q, ldqh, k, ldk, now->idx, (now->n + 3) / 4 * 4, group, dk,
               (ahead){v, ldv, dv, now->n, now->idx}, (ahead){k, ldk, dk, next->n, next->idx});
    for (long h = 0; h < group; h++) {
      float *row = s + h * BLOCK;
      for (long j = 0; j < now->n; j++)
        row[j] = scale * row[j] + (bias ? bias[h * ldb + now->team[j]] : 0);
      weigh(row, now->n, part + h * width, part + h * width + 1, part + h * width + 2, dv);
    }
    sum_heads(part + 2, width, s, v, ldv, now->idx, now->n, group, dv);
    rows_block *swap = now;
    now = next, next = swap;
  }
}

void KERNEL(attend_join)(float *out, long ldoh, float *lse, const float *part, long n, long group,
                         long dv) {
  long width = dv + 2;
  for (long h = 0; h < group; h++) {
    float m = -INFINITY, l = 0, *o = out + h * ldoh;
    for (long i = 0; i < n; i++)
      m = part[(i * group + h) * width] > m ? part[(i * group + h) * width] : m;
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
  float m = lse_a > lse_b ? lse_a : lse_b; // a mass that is NaN makes the result NaN
  float wa = lse_a == -INFINITY ? 0 : expf(lse_a - m),
        wb = lse_b == -INFINITY ? 0 : expf(lse_b - m);
  float total = wa + wb;
  if (total > 0) wa /= total, wb /= total;
  for (long i = 0; i < n; i++) dst[i] = (wa == 0 ? 0 : wa * a[i]) + (wb == 0 ? 0 : wb * b[i]);
}

void KERNEL(route)(float *phi, long ldp, const float *q, long ldqh, const float *reps, long ldr,
                   const float *bias, long group, long teams, long dk, float scale, float *s) {
  for (long g = 0; g < teams; g += BLOCK) {
    int32_t idx[BLOCK];
    long n = 0, there = 0;
    for (; n < BLOCK && g + n < teams; n++)
      if (bias[g + n] != -INFINITY) idx[there++] = g + n;
    long padded = there;
    for (; padded % 4; padded++) idx[padded] = idx[there - 1];
    score_rows(s, q, ldqh, reps, ldr, idx, padded, group, dk, (ahead){}, (ahead){});
    for (long h = 0; h < group; h++) {
      float *row = phi + h * ldp;
      for (long j = 0; j < n; j++) row[g + j] = -INFINITY;
      for (long j = 0; j < there; j++) row[idx[j]] = bias[idx[j]] + scale * s[h * BLOCK + j];
    }
  }
}
