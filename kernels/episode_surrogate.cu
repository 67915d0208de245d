// Makes a surrogate of events: every event is moved by up to `delta` ticks, by a number that follows from the
// surrogate's key, the event's tick and symbol alone (crates/lab/episode/src/significance/surrogate.rs has the same to the
// bit). What is moved is sorted by sort.cu, and then laid out symbol by symbol, as the counting kernels read it.
//
// An event: `tick << symbol_bits | symbol`. Of a moved one the tick counts from `origin`.
//
//: variants -DWIDE=0 | -DWIDE=1

#include "episode_tick.cuh"

// 2^64 over the golden ratio, odd.
constexpr u64 ODD = 0x9e3779b97f4a7c15ull;

// A permutation of words in which every bit depends on all: SplitMix64's.
static __device__ u64 mix(u64 word) {
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9ull;
    word = (word ^ word >> 27) * 0x94d049bb133111ebull;
    return word ^ word >> 31;
}

// Every event moved.
// moved[i]: event i of the ascending `events`, moved, and mirrored where it would leave its segment; segment s has the
// ticks firsts[s] to lasts[s], both included. Neither sorted nor in any order. One thread per event.
//: events: in, count
//: firsts: in, segments
//: lasts: in, segments
//: moved: out, count
extern "C" __global__ void __launch_bounds__(256)
surrogate_dither(const u64* __restrict__ events, u32 count, u32 symbol_bits,
                 const long long* __restrict__ firsts, const long long* __restrict__ lasts,
                 u32 segments, long long origin, u64 key, long long delta, u64* moved) {
    const u64 thread = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= count) {
        return;
    }
    const u32 i = (u32)thread;
    const u64 event = events[i];
    const u64 symbol = event & ((1ull << symbol_bits) - 1);
    const long long tick = (long long)(event >> symbol_bits);
    // Several events of a tick and symbol are moved apart from each other.
    const u64 same = i > 0 && events[i - 1] == event ? i - not_before(events, 0, i, event) : 0;
    const u64 which = (symbol << 32 | same) * ODD;
    const u64 word = mix(mix(key ^ (u64)tick) + which);
    const u64 span = 2 * (u64)delta + 1;
    const long long to = tick + (long long)__umul64hi(word, span) - delta;
    // The first segment that does not end before the event; the last, if all do.
    const u32 s = min(not_before(lasts, 0, segments, tick), segments - 1);
    const long long first = firsts[s], last = lasts[s];
    long long mirrored = to < first ? 2 * first - to : to > last ? 2 * last - to : to;
    mirrored = max(first, min(last, mirrored));
    moved[i] = (u64)(mirrored - origin) << symbol_bits | symbol;
}

// The ticks alone. One thread per event.
//: events: in, count
//: ticks: out, count
extern "C" __global__ void __launch_bounds__(256)
surrogate_ticks(const u64* __restrict__ events, u32 count, u32 symbol_bits, Tick* ticks) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) {
        ticks[i] = (Tick)(events[i] >> symbol_bits);
    }
}

// Where in the ticks each symbol's cells begin.
// index[s * (cells + 1) + c]: the first of `ticks` that is symbol s's and not before cuts[c]. Those of symbol s are
// offsets[s] to offsets[s + 1], ascending. One thread per symbol and cut.
//: offsets: in, symbols + 1
//: cuts: in, cells + 1
//: index: out, symbols * (cells + 1)
extern "C" __global__ void __launch_bounds__(256)
surrogate_index(const Tick* __restrict__ ticks, const u32* __restrict__ offsets, u32 symbols,
                const Tick* __restrict__ cuts, u32 cells, u32* index) {
    const u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (u64)symbols * (cells + 1)) {
        const u32 s = (u32)(i / (cells + 1)), c = (u32)(i % (cells + 1));
        index[i] = not_before(ticks, offsets[s], offsets[s + 1], cuts[c]);
    }
}
