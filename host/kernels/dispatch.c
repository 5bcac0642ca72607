// Chooses the instruction set once, when the program is loaded: the best that the processor has, or
// at most what the environment variable BLITZEN_ISA says.
#include "kernels.h"
#include <stdlib.h>
#include <string.h>

#define DECLARE(name, params, args)                                                                \
  void bk_##name##_avx512 params;                                                                  \
  void bk_##name##_avx2 params;                                                                    \
  void bk_##name##_portable params;
KERNELS(DECLARE)

static int level;

__attribute__((constructor)) static void choose(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  int avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  level = avx2 && avx512 ? 2 : avx2;
  const char *limit = getenv("BLITZEN_ISA"); // a lower level, to compare or to avoid a fault
  if (limit && !strcmp(limit, "portable")) level = 0;
  if (limit && !strcmp(limit, "avx2") && level > 1) level = 1;
#endif
}

#if defined(__x86_64__)
#define WRAP(name, params, args)                                                                   \
  void bk_##name params {                                                                          \
    if (level == 2)                                                                                \
      bk_##name##_avx512 args;                                                                     \
    else if (level == 1)                                                                           \
      bk_##name##_avx2 args;                                                                       \
    else                                                                                           \
      bk_##name##_portable args;                                                                   \
  }
#else
#define WRAP(name, params, args)                                                                   \
  void bk_##name params { bk_##name##_portable args; }
#endif
KERNELS(WRAP)

const char *bk_isa(void) { return level == 2 ? "avx512" : level == 1 ? "avx2" : "portable"; }
