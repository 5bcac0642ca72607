#pragma once
// What both ways to divide parents share.
#include "group.cuh"

#define WARPS 8
#define PAIR 16 // members at once, two lanes each

struct Args {
	const Mat<const SRC> *x;
	Mat<const int> parent;
	int *count;
	Mat<int> reps;
	Mat<float> logn;
	Mat<int> offsets, slots;
	int *order, *start, *begin, *cursor, *owner, *bad, *left;
	double *near;
	int n, d, parents, most, teams, problems;
};

// Numbers as float64 times 1/SCALE: of bf16 the bits alone are moved.
#define SCALE (sizeof(SRC) == 2 ? 0x1p896 : 1.)
__device__ inline double scaled(float x) { return x; }
__device__ inline double scaled(bf16 x) { return __hiloint2double((int)((u32)x.bits << 16) >> 3 & 0x8fffffff, 0); }
