#pragma once
// An expert's SwiGLU network as a device table describes it.
#include "common.cuh"

struct Expert {
	const W *gate, *up, *down;            // [width, hidden], [width, hidden], [hidden, width]
	i64 gateLD, upLD, downLD;
	const BIAS *gateBias, *upBias, *downBias; // or null
	const float *gateScale, *upScale, *downScale; // of weights that are signed bytes; else null
	i64 width;
};

__device__ inline float silu(float x) { return x / (1 + expf(-x)); }

__device__ inline float scale_at(const float *scale, int i) { return scale ? scale[i] : 1; }

__device__ inline float bias_at(const BIAS *bias, int i) { return bias ? f32(bias[i]) : 0; }
