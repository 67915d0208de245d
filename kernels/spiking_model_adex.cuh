// `crates/lab/spiking/src/dynamics/adex.rs`.

#pragma once

#include "spiking_math.cuh"

struct Adex {
    static constexpr int STATES = 2, PARAMETERS = 12;
    static constexpr bool RESETS = true;

    static __device__ __forceinline__ void slope(const float* p, const float* y, float current, float* slope) {
        const float v = y[0] > p[9] ? p[9] : y[0];
        const float away = v - p[2];
        const float upswing = p[4] * exponential((v - p[3]) / p[4]) - away;
        slope[0] = (fmaf(p[1], upswing, current + p[10]) - y[1]) / p[0];
        slope[1] = fmaf(p[6], away, -y[1]) / p[5];
    }

    static __device__ __forceinline__ bool fires(const float* p, float, float now) { return now >= p[9]; }

    static __device__ __forceinline__ void reset(const float* p, float* y) {
        y[0] = p[8];
        y[1] = y[1] + p[7];
    }
};
