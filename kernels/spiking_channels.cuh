// Channels whose conductance depends on the potential (`crates/lab/spiking/src/channels`).

#pragma once

#include "spiking_math.cuh"

// NMDA: share of channels that magnesium (mM) leaves open.
__device__ __forceinline__ float magnesium_gate(float magnesium, float v) {
    return 1.0f / fmaf(magnesium / 3.57f, exponential(-0.062f * v), 1.0f);
}
