#define ISA portable
#define VW 4
#include "bodies.h"
