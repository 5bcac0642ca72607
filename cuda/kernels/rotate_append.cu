// rotate_append.cuh alone. Grid: one block a token, at most 384 threads, few enough to
// share a multiprocessor with a block of attention that has come early.
#include "rotate_append.cuh"

struct Args : Place {};

extern "C" __global__ void __launch_bounds__(384) rotate_append(PARAM)
{
	let_next_start();
	place_token(a, blockIdx.x);
}
