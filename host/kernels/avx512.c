#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,prefer-vector-width=512")
#define ISA avx512
#define VW 16
#include "bodies.h"
#endif
