// Zeroed memory; large pieces ask for huge pages, without which scattered cache rows cost a TLB
// miss each.
#include "kernels.h"
#include <stdlib.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define HUGE_PAGE (2l << 20)

void *bk_alloc(long n, void **base) {
  long align = n >= 2 * HUGE_PAGE ? HUGE_PAGE : 64;
  char *p =
      calloc(n + align, 1); // large pieces are mapped, and cost nothing until they are touched
  *base = p;
  if (!p) return 0;
  p += (align - (uintptr_t)p % align) % align;
#if defined(MADV_HUGEPAGE)
  if (align == HUGE_PAGE)
    madvise(p, n / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE); // only advice: an error changes nothing
#endif
  return p;
}
