// `crates/lab/spiking/src/dynamics/lif.rs`.

#pragma once

struct LeakyIntegrator {
    static constexpr int STATES = 1, PARAMETERS = 7;
    static constexpr bool RESETS = true;

    static __device__ __forceinline__ void slope(const float* p, const float* y, float current, float* slope) {
        slope[0] = (p[2] - y[0]) / p[0] + (current + p[5]) / p[1];
    }

    static __device__ __forceinline__ bool fires(const float* p, float, float now) { return now >= p[3]; }

    static __device__ __forceinline__ void reset(const float* p, float* y) { y[0] = p[4]; }
};
