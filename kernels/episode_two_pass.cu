// The first pass of the papers' two-pass elimination (PreElim; Feng et al., §1.3.2, Algorithm 4), a
// thread an episode: without lower bounds the latest tick of each place is all that is needed. The
// result is at least the count.

#include "episode_automaton.cuh"

// Before every event by more than any interval.
constexpr Tick LONG_AGO = -(1ll << 62);

// At least the count of each episode.
//: events: in, event_count
//: sizes: in, episodes
//: symbols: in, episodes * places
//: highs: in, episodes * places
//: bounds: out, episodes
extern "C" __global__ void episode_upper_bound(const u64* __restrict__ events, u32 event_count,
                                               u32 symbol_bits, const u32* __restrict__ sizes,
                                               const u32* __restrict__ symbols,
                                               const Tick* __restrict__ highs, u32 episodes,
                                               u32 places, u32* bounds) {
    extern __shared__ Tick shared[];
    const u32 e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= episodes) {
        return;
    }
    const u32 step = blockDim.x, size = sizes[e];
    // Side by side for the block's threads: bounds of the delays, latest ticks, symbols.
    Tick* own_highs = shared + threadIdx.x;
    Tick* latest = own_highs + step * places;
    u32* own_symbols = (u32*)(shared + 2 * step * places) + threadIdx.x;
    u64 present = 0;
    for (u32 p = 0; p < size; ++p) {
        const u64 from = (u64)p * episodes + e;
        own_highs[p * step] = highs[from];
        own_symbols[p * step] = symbols[from];
        latest[p * step] = LONG_AGO;
        present |= bit_of(symbols[from]);
    }
    u32 bound = 0;
    const Stream stream = {events, event_count, symbol_bits};
    stream.walk(0, event_count, present, [&](Tick tick, u32 symbol) {
        for (u32 p = size; p-- > 0;) {
            if (own_symbols[p * step] != symbol ||
                (p > 0 && tick - latest[(p - 1) * step] > own_highs[p * step])) {
                continue;
            }
            if (p + 1 == size) {
                ++bound;
                for (u32 q = 0; q < size; ++q) {
                    latest[q * step] = LONG_AGO;
                }
                break;
            }
            latest[p * step] = tick;
        }
        return true;
    });
    bounds[e] = bound;
}
