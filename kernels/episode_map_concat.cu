// The papers' MapConcat, several threads an episode (MTPE; Patnaik et al., §III.B; Cao et al.,
// §5.1). Time is cut in segments. `episode_map` takes one automaton for every segment and every
// possible split of an occurrence across the segment's begin through it, from its own offset before
// the segment to the first completion after it. `episode_concat` goes from segment to segment by the
// automaton whose first completion is where the segment before left off.
//
// Where no automaton fits (the offsets are fixed, so on regular trains the true completion can be
// missing from all), the segment is counted again from the state that truly holds at its begin,
// which is known because an automaton is empty just after a completion.

#include "episode_automaton.cuh"

constexpr u32 ALL = 0xffffffffu;

// Result of one automaton for the occurrences that end in its segment.
struct Tuple {
    Tick first;   // end of the first one, if it lies within the episode's span of the segment's begin; else −1
    Tick beyond;  // end of the first completion after the segment, within the span of its end; else −1
    u32 count;    // number of occurrences
    u32 unused;   // padding
};

// Takes the events with index in [from, to) that are at or after `earliest`; counts completions in
// [begin, end).
static __device__ Tuple run(const Stream& stream, Automaton& automaton, u32 from, u32 to,
                            Tick earliest, Tick begin, Tick end, Tick span) {
    Tuple tuple = {NEVER, NEVER, 0, 0};
    stream.walk(from, to, automaton.present, [&](Tick tick, u32 symbol) {
        if (tick < earliest) {
            return true;
        }
        // Not `end + span`, which may be more than a tick can hold.
        if (tick >= end && tick - end >= span) {
            return false;
        }
        if (automaton.push(tick, symbol) && tick >= begin) {
            if (tick >= end) {
                tuple.beyond = tick;
                return false;
            }
            if (tuple.count == 0 && tick - begin < span) {
                tuple.first = tick;
            }
            ++tuple.count;
        }
        return !automaton.overflow;
    });
    return tuple;
}

// An automaton for every segment and split of every episode.
// Segment s lasts from cuts[s] to cuts[s + 1]; its automata see at most the events from index
// entries[s] to exits[s]. A block has some of the (episode, split) of one segment; `lists` has
// (places - 1) * capacity ticks for each of the grid's threads. tuples[(s * episodes + e) * places +
// split]; overflown[e] (zeroed) becomes 1 where the lists are too short.
//: events: in, event_count
//: sizes: in, episodes
//: symbols: in, episodes * places
//: lows: in, episodes * places
//: highs: in, episodes * places
//: cuts: in, grid.y + 1
//: entries: in, grid.y
//: exits: in, grid.y
//: lists: in-out
//: tuples: out, grid.y * episodes * places
//: overflown: in-out, episodes
extern "C" __global__ void episode_map(const u64* __restrict__ events, u32 event_count,
                                       u32 symbol_bits, const u32* __restrict__ sizes,
                                       const u32* __restrict__ symbols,
                                       const Tick* __restrict__ lows,
                                       const Tick* __restrict__ highs, u32 episodes, u32 places,
                                       const Tick* __restrict__ cuts,
                                       const u32* __restrict__ entries,
                                       const u32* __restrict__ exits, u32 capacity, Tick* lists,
                                       Tuple* tuples, u32* overflown) {
    extern __shared__ Tick shared[];
    const u32 item = blockIdx.x * blockDim.x + threadIdx.x, segment = blockIdx.y;
    const u32 e = item / places, split = item % places;
    if (e >= episodes || split >= (segment == 0 ? 1 : sizes[e])) {
        return;
    }
    const u64 width = (u64)gridDim.x * blockDim.x;
    Automaton automaton;
    automaton.open(shared, threadIdx.x, blockDim.x, places,
                   Episodes{sizes, symbols, lows, highs, episodes}, e,
                   lists + segment * width + item, gridDim.y * width, capacity);
    Tick span = 0, offset = 0;
    for (u32 p = 1; p < automaton.size; ++p) {
        span += automaton.highs[p * automaton.step];
        offset = p == split ? span : offset;
    }
    const Tick begin = cuts[segment];
    const Tuple tuple = run(Stream{events, event_count, symbol_bits}, automaton, entries[segment],
                            exits[segment], begin - offset, begin, cuts[segment + 1], span);
    tuples[((u64)segment * episodes + e) * places + split] = tuple;
    if (automaton.overflow) {
        overflown[e] = 1;
    }
}

// Joins what the automata of each segment saw, one warp per episode.
// One warp per episode. `lists` has (places - 1) * capacity ticks for each warp of the grid.
// counts[e]; *recounted (zeroed) becomes the number of segments that were counted again.
//: events: in, event_count
//: sizes: in, episodes
//: symbols: in, episodes * places
//: lows: in, episodes * places
//: highs: in, episodes * places
//: cuts: in, segments + 1
//: exits: in, segments
//: lists: in-out
//: tuples: in, segments * episodes * places
//: counts: in-out, episodes
//: overflown: in-out, episodes
//: recounted: in-out, 1
extern "C" __global__ void episode_concat(const u64* __restrict__ events, u32 event_count,
                                          u32 symbol_bits, const u32* __restrict__ sizes,
                                          const u32* __restrict__ symbols,
                                          const Tick* __restrict__ lows,
                                          const Tick* __restrict__ highs, u32 episodes, u32 places,
                                          const Tick* __restrict__ cuts,
                                          const u32* __restrict__ exits, u32 segments,
                                          u32 capacity, Tick* lists,
                                          const Tuple* __restrict__ tuples, u32* counts,
                                          u32* overflown, u32* recounted) {
    extern __shared__ Tick shared[];
    const u32 lane = threadIdx.x % 32, warps = blockDim.x / 32;
    const u32 e = blockIdx.x * warps + threadIdx.x / 32;
    if (e >= episodes || overflown[e]) {
        return;
    }
    const u64 width = (u64)gridDim.x * warps;
    const u32 size = sizes[e];
    Tick span = 0;
    for (u32 p = 1; p < size; ++p) {
        span += highs[(u64)p * episodes + e];
    }
    const Tuple whole = tuples[(u64)e * places];
    u32 count = whole.count;
    Tick beyond = whole.beyond;
    // A segment's first tuples are fetched while the segment before it is joined.
    const Tuple nothing = {NEVER, NEVER, 0, 0};
    auto fetch = [&](u32 s, u32 split) {
        return s < segments && split < size ? tuples[((u64)s * episodes + e) * places + split]
                                            : nothing;
    };
    Tuple next = fetch(1, lane);
    for (u32 s = 1; s < segments; ++s) {
        const Tick begin = cuts[s], end = cuts[s + 1];
        const Tuple ours = next;
        next = fetch(s + 1, lane);
        // "Nothing completes here" says something only about a segment as long as the span.
        const bool comparable = beyond != NEVER || end - begin >= span;
        u32 own_count = 0;
        Tick own_beyond = NEVER;
        bool matched = false;
        for (u32 base = 0; base < size && comparable && !matched; base += 32) {
            const Tuple tuple = base == 0 ? ours : fetch(s, base + lane);
            const u32 fits =
                __ballot_sync(ALL, base + lane < size && tuple.first == beyond);
            if (fits != 0) {
                const int source = __ffs((int)fits) - 1;
                own_count = __shfl_sync(ALL, tuple.count, source);
                own_beyond = __shfl_sync(ALL, tuple.beyond, source);
                matched = true;
            }
        }
        if (!matched) {
            bool overflow = false;
            if (lane == 0) {
                atomicAdd(recounted, 1u);
                if (beyond >= end) {
                    // The completion skips this whole segment.
                    own_beyond = beyond;
                } else {
                    const Stream stream = {events, event_count, symbol_bits};
                    Automaton automaton;
                    automaton.open(shared, threadIdx.x / 32, warps, places,
                                   Episodes{sizes, symbols, lows, highs, episodes}, e, lists + e,
                                   width, capacity);
                    const bool enters = beyond != NEVER;
                    automaton.restart_after(enters ? beyond : begin - 1);
                    const Tick earliest = enters ? beyond : begin;
                    const Tuple tuple = run(stream, automaton, stream.position(earliest),
                                            exits[s], earliest, begin, end, span);
                    own_count = tuple.count + enters;
                    own_beyond = tuple.beyond;
                    overflow = automaton.overflow;
                }
            }
            own_count = __shfl_sync(ALL, own_count, 0);
            own_beyond = __shfl_sync(ALL, own_beyond, 0);
            if (__shfl_sync(ALL, overflow, 0)) {
                if (lane == 0) {
                    overflown[e] = 1;
                }
                return;
            }
        }
        count += own_count;
        beyond = own_beyond;
    }
    if (lane == 0) {
        counts[e] = count;
    }
}
