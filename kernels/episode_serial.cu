// The papers' Algorithm 1, one thread per episode (PTPE; Cao et al., §5.1): every thread takes its
// episode through the whole stream. The threads of a warp read the same event at the same time.

#include "episode_automaton.cuh"

// Algorithm 1, one thread per episode.
// `lists` has (places - 1) * capacity ticks for each of the grid's threads; the capacity is a power
// of two. counts[e] becomes OVERFLOWN where that is too little.
//: events: in, event_count
//: sizes: in, episodes
//: symbols: in, episodes * places
//: lows: in, episodes * places
//: highs: in, episodes * places
//: lists: in-out, episodes * places.saturating_sub(1) * capacity
//: counts: out, episodes
extern "C" __global__ void episode_serial(const u64* __restrict__ events, u32 event_count,
                                          u32 symbol_bits, const u32* __restrict__ sizes,
                                          const u32* __restrict__ symbols,
                                          const Tick* __restrict__ lows,
                                          const Tick* __restrict__ highs, u32 episodes, u32 places,
                                          u32 capacity, Tick* lists, u32* counts) {
    extern __shared__ Tick shared[];
    const u32 e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= episodes) {
        return;
    }
    const u64 stride = (u64)gridDim.x * blockDim.x;
    Automaton automaton;
    automaton.open(shared, threadIdx.x, blockDim.x, places,
                   Episodes{sizes, symbols, lows, highs, episodes}, e, lists + e, stride, capacity);
    u32 count = 0;
    const Stream stream = {events, event_count, symbol_bits};
    stream.walk(0, event_count, automaton.present, [&](Tick tick, u32 symbol) {
        count += automaton.push(tick, symbol);
        return !automaton.overflow;
    });
    counts[e] = automaton.overflow ? OVERFLOWN : count;
}
