// `crates/lab/spiking/src/dynamics/izhikevich.rs`.

#pragma once

struct Izhikevich {
    static constexpr int STATES = 2, PARAMETERS = 12;
    static constexpr bool RESETS = true;

    static __device__ __forceinline__ void slope(const float* p, const float* y, float current, float* slope) {
        const float v = y[0] > p[4] ? p[4] : y[0];
        const float curve = fmaf(v, fmaf(v, p[5], p[6]), p[7]);
        slope[0] = curve - y[1] + (current + p[10]) / p[9];
        slope[1] = p[0] * fmaf(p[1], v + p[8], -(p[11] * y[1]));
    }

    static __device__ __forceinline__ bool fires(const float* p, float, float now) { return now >= p[4]; }

    static __device__ __forceinline__ void reset(const float* p, float* y) {
        y[0] = p[2];
        y[1] = y[1] + p[3];
    }
};
