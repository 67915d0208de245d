// `crates/lab/spiking/src/dynamics/hh.rs`.

#pragma once

#include "spiking_math.cuh"

struct HodgkinHuxley {
    static constexpr int STATES = 4, PARAMETERS = 9;
    static constexpr bool RESETS = false;

    static __device__ __forceinline__ void slope(const float* p, const float* y, float current, float* slope) {
        const float v = y[0], m = y[1], h = y[2], n = y[3];
        const float opening_m = linoid((v + 40.0f) * 0.1f);
        const float closing_m = 4.0f * exponential((v + 65.0f) * (-1.0f / 18.0f));
        const float opening_h = 0.07f * exponential((v + 65.0f) * -0.05f);
        const float closing_h = 1.0f / (1.0f + exponential((v + 35.0f) * -0.1f));
        const float opening_n = 0.1f * linoid((v + 55.0f) * 0.1f);
        const float closing_n = 0.125f * exponential((v + 65.0f) * -0.0125f);
        const float squared = n * n;
        float sum = current + p[8];
        sum = fmaf(p[3], p[6] - v, sum);
        sum = fmaf(p[2] * (squared * squared), p[5] - v, sum);
        sum = fmaf(p[1] * (m * m * m * h), p[4] - v, sum);
        slope[0] = sum / p[0];
        slope[1] = fmaf(opening_m, 1.0f - m, -(closing_m * m));
        slope[2] = fmaf(opening_h, 1.0f - h, -(closing_h * h));
        slope[3] = fmaf(opening_n, 1.0f - n, -(closing_n * n));
    }

    static __device__ __forceinline__ bool fires(const float* p, float before, float now) {
        return before < p[7] && now >= p[7];
    }

    static __device__ __forceinline__ void reset(const float*, float*) {}
};
