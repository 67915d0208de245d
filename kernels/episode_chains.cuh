// Valid ends of a prefix's chains, each with the latest start of a chain that ends there, made by a
// warp from those of the prefix without its last symbol. Ticks count from the first event.

#pragma once

#include "episode_tick.cuh"

// Before every event.
constexpr Tick NEVER = -1;

// Index of the first of ticks[from..to) after `bound`, `to` when there is none; near `from` mostly.
static __device__ u32 after(const Tick* ticks, u32 from, u32 to, Tick bound) {
    u32 step = 1;
    while (from + step <= to && ticks[from + step - 1] <= bound) {
        from += step;
        step *= 2;
    }
    to = min(to, from + step - 1);
    while (from < to) {
        u32 middle = from + (to - from) / 2;
        if (ticks[middle] <= bound) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

// Writes the valid ends among ticks[from..to) that follow a chain by more than `low` and at most
// `high`, each with the start of the last such chain; returns their number, at most to - from.
static __device__ u32 extend(const Tick* ends, const Tick* starts, u32 chains, const Tick* ticks,
                             u32 from, u32 to, Tick low, Tick high, Tick* new_ends,
                             Tick* new_starts) {
    const u32 lane = threadIdx.x % 32;
    u32 written = 0;
    for (u32 base = 0; base < chains && from < to; base += 32) {
        const u32 chain = base + lane;
        u32 first = from, reached = 0;
        Tick start = 0;
        if (chain < chains) {
            const Tick end = ends[chain];
            start = starts[chain];
            Tick last = end + high;
            if (chain + 1 < chains) {
                last = min(last, ends[chain + 1] + low);
            }
            first = after(ticks, from, to, end + low);
            reached = after(ticks, first, to, last) - first;
        }
        u32 through = reached;
        for (u32 step = 1; step < 32; step *= 2) {
            const u32 before = __shfl_up_sync(ALL, through, step);
            through += lane >= step ? before : 0;
        }
        const u32 total = __shfl_sync(ALL, through, 31);
        for (u32 offset = 0; offset < total; offset += 32) {
            const u32 k = offset + lane;
            // The lane whose chain reaches the k-th.
            u32 owner = 0;
            for (u32 step = 16; step > 0; step /= 2) {
                owner += __shfl_sync(ALL, through, owner + step - 1) <= k ? step : 0;
            }
            const u32 skipped = __shfl_sync(ALL, through - reached, owner);
            const u32 owners_first = __shfl_sync(ALL, first, owner);
            const Tick owners_start = __shfl_sync(ALL, start, owner);
            if (k < total) {
                new_ends[written + k] = ticks[owners_first + (k - skipped)];
                new_starts[written + k] = owners_start;
            }
        }
        written += total;
        from = __shfl_sync(ALL, first, min(31u, chains - base - 1));
    }
    __syncwarp();
    return written;
}
