// `crates/lab/spiking/src/dynamics/qif.rs`.

#pragma once

struct Quadratic {
    static constexpr int STATES = 1, PARAMETERS = 8;
    static constexpr bool RESETS = true;

    static __device__ __forceinline__ void slope(const float* p, const float* y, float current, float* slope) {
        const float v = y[0] > p[4] ? p[4] : y[0];
        const float pull = p[1] * (v - p[2]);
        slope[0] = fmaf(pull, v - p[3], current + p[6]) / p[0];
    }

    static __device__ __forceinline__ bool fires(const float* p, float, float now) { return now >= p[4]; }

    static __device__ __forceinline__ void reset(const float* p, float* y) { y[0] = p[5]; }
};
