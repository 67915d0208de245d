// `crates/lab/spiking/src/dynamics/theta.rs`.

#pragma once

#include "spiking_math.cuh"

struct Theta {
    static constexpr int STATES = 1, PARAMETERS = 3;
    static constexpr bool RESETS = false;

    static __device__ __forceinline__ void slope(const float* p, const float* y, float current, float* slope) {
        const float along = cosine(y[0]);
        const float drive = p[1] + current / p[2];
        slope[0] = fmaf(1.0f + along, drive, 1.0f - along) / p[0];
    }

    static __device__ __forceinline__ bool fires(const float*, float, float now) { return now >= 3.14159265358979323846f; }

    static __device__ __forceinline__ void reset(const float*, float* y) { y[0] = y[0] - 2.0f * 3.14159265358979323846f; }
};
