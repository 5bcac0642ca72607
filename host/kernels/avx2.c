#if defined(__x86_64__)
#pragma GCC target("avx2,fma")
#define ISA avx2
#define VW 8
#include "bodies.h"
#endif
