// Small integer kernels. One thread an element of ids [n].
#include "early.cuh"

struct Args {
	int *ids;
	int *seen;
	int n, vocab;
};

KERNEL increment(PARAM)
{
	let_next_start();
	wait_for_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < a.n)
		a.ids[i]++;
}

// seen[ids[i]] = 1; an id that is no token is ignored. seen [vocab].
KERNEL mark_seen(PARAM)
{
	let_next_start();
	wait_for_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < a.n && (u32)a.ids[i] < (u32)a.vocab)
		a.seen[a.ids[i]] = 1;
}
