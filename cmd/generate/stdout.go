package main

/*
#include <fcntl.h>

// Before Go starts: its runtime opens /dev/null in place of a closed stdout,
// and all that is written would be lost without an error.
static int closed;
__attribute__((constructor)) static void look(void) { closed = fcntl(1, F_GETFD) < 0; }
static int stdout_closed(void) { return closed; }
*/
import "C"

// stdoutClosed reports whether the program was started without a stdout (>&-).
func stdoutClosed() bool { return C.stdout_closed() != 0 }
