// Queries on their way to a shared latent: head_transposed.cuh multiplies them by the
// keys' up-projection while a block a token rotates and stores what rotate_append.cuh
// does. Neither reads what the other writes.
// Grid: (blocks of outputs, heads + 1, tokens), 256 threads; 2·half floats of dynamic
// shared memory.
#include "head_transposed.cuh"
#include "rotate_append.cuh"

struct Args {
	Place place;
	HeadProduct product;
};

extern "C" __global__ void __launch_bounds__(256) absorb(PARAM)
{
	let_next_start();
	if (blockIdx.y < gridDim.y - 1)
		multiply_transposed(a.product);
	else if (blockIdx.x == 0)
		place_token(a.place, blockIdx.z);
}
