// Functions of f32, bit for bit as on the CPU (`crates/lab/spiking/src/math.rs`): multiply-adds, products and bit patterns.
//
// Files that include it are compiled without contraction (-fmad=false).

#pragma once

// Adding and taking away 1.5 · 2²³ rounds a number below 2²² to a whole one.
constexpr float ROUNDING = 12582912.0f;

// e^x.
__device__ __forceinline__ float exponential(float x) {
    x = x < -87.0f ? -87.0f : x;
    x = x > 88.0f ? 88.0f : x;
    const float rounded = fmaf(x, 1.44269504088896340736f, ROUNDING);
    const float whole = rounded - ROUNDING;
    float rest = fmaf(whole, -0.6933594f, x);
    rest = fmaf(whole, 2.1219444e-4f, rest);
    float p = 1.9875691e-4f;
    p = fmaf(p, rest, 1.3981999e-3f);
    p = fmaf(p, rest, 8.333452e-3f);
    p = fmaf(p, rest, 4.1665796e-2f);
    p = fmaf(p, rest, 1.6666665e-1f);
    p = fmaf(p, rest, 0.5f);
    p = fmaf(p * rest, rest, rest) + 1.0f;
    const unsigned int power = __float_as_uint(rounded) - __float_as_uint(ROUNDING);
    return p * __uint_as_float((power + 127u) << 23);
}

// cos x of an angle between −2π and 2π.
__device__ __forceinline__ float cosine(float x) {
    const float half = 0.5f * x;
    const float rounded = fmaf(half, 0.318309886183790671538f, ROUNDING);
    const float whole = rounded - ROUNDING;
    float rest = fmaf(whole, -3.140625f, half);
    rest = fmaf(whole, -9.676536e-4f, rest);
    const float square = rest * rest;
    float p = 2.60832e-6f;
    p = fmaf(p, square, -1.981069e-4f);
    p = fmaf(p, square, 8.333078e-3f);
    p = fmaf(p, square, -1.666666e-1f);
    const float sine = fmaf(p * square, rest, rest);
    return fmaf(sine * -2.0f, sine, 1.0f);
}

// x / (1 − e^(−x)).
__device__ __forceinline__ float linoid(float x) {
    const float near = fmaf(x * (1.0f / 12.0f), x, fmaf(x, 0.5f, 1.0f));
    const float far = x / (1.0f - exponential(-x));
    return fabsf(x) < 1e-2f ? near : far;
}
