// Ticks of the kernels that are compiled for two widths of them.

#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;

#if WIDE
typedef long long Tick;
#else
// Ticks and bounds of delays are below 2^30, so that their sums fit.
typedef int Tick;
#endif

constexpr u32 ALL = 0xffffffffu;

// Index of the first of the ascending values[from..to) that is at least `bound`.
template <class Value>
static __device__ u32 not_before(const Value* values, u32 from, u32 to, Value bound) {
    while (from < to) {
        const u32 middle = from + (to - from) / 2;
        if (values[middle] < bound) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}
