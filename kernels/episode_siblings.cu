// Counts all continuations of prefixes by one symbol at once: in levelwise mining a prefix is tried
// with nearly every symbol at every interval.
//
// A warp takes one prefix through the time, part by part, and lists its valid ends with their latest
// starts. The events that follow an end within the intervals are read from the stream once, one
// lane per event, and each is credited to its continuation: it completes an occurrence if the prefix's
// latest start lies after the last end that was taken (src/episode/count/siblings.rs says why that
// is the greedy choice). Ends come in order, and of one end's events the first of a continuation
// decides, because the others start at the same tick.
//
//: variants -DWIDE=0 | -DWIDE=1

#include "episode_chains.cuh"

// A symbol of a prefix, and the interval (low, high] before it.
struct Link {
    Tick low;    // lower bound of the delay, not included
    Tick high;   // upper bound, included
    u32 symbol;  // the symbol
    u32 unused;  // padding
};

// The stream: `tick << symbol_bits | symbol`, ascending; the first event's tick is `origin`.
struct Stream {
    const u64* events;
    u32 count;
    u32 symbol_bits;
    long long origin;

    __device__ Tick tick(u64 event) const {
        return (Tick)((long long)(event >> symbol_bits) - origin);
    }
    __device__ u32 symbol(u64 event) const { return (u32)event & ((1u << symbol_bits) - 1); }

    // Index of the first event after `bound`.
    __device__ u32 after(Tick bound) const {
        u32 from = 0, to = count;
        while (from < to) {
            const u32 middle = from + (to - from) / 2;
            // Not by the event that `bound` would begin: its tick may be beyond what a key can hold.
            if (tick(events[middle]) <= bound) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        return from;
    }
};

// State of a warp for every continuation: interval j and symbol s at j * symbols + s.
struct Taken {
    // End of the last occurrence taken.
    Tick* last_ends;
    u32* counts;
};

// Credits the events after the chain that ends at `end` and starts at `start` latest. `event` is the
// lane's own of the first 32, from index `first` on.
static __device__ void credit(const Stream& stream, u64 event, u32 first, Tick end, Tick start,
                              const Tick* lows, const Tick* highs, u32 intervals, Tick longest,
                              u32 symbols, const Taken& taken) {
    const u32 lane = threadIdx.x % 32;
    while (true) {
        const Tick tick = stream.tick(event), delay = tick - end;
        const bool inside = first + lane < stream.count && delay <= longest;
        // The intervals that the delay is in.
        u32 within = 0;
        for (u32 j = 0; inside && j < intervals; ++j) {
            within |= (u32)(lows[j] < delay && delay <= highs[j]) << j;
        }
        while (__any_sync(ALL, within != 0)) {
            // All events of a continuation must have their turn together, so that the first decides:
            // at once where no event is in several intervals, else one interval after another.
            const bool several = __any_sync(ALL, (within & (within - 1)) != 0);
            const u32 lowest = within != 0 ? __ffs((int)within) - 1 : 32;
            const u32 j = several ? __reduce_min_sync(ALL, lowest) : lowest;
            const bool own = j < 32 && (within >> j & 1);
            const u32 leaf = own ? j * symbols + stream.symbol(event) : ~lane;
            const u32 same = __match_any_sync(ALL, leaf);
            if (own && __ffs((int)same) - 1 == (int)lane && start > taken.last_ends[leaf]) {
                taken.last_ends[leaf] = tick;
                ++taken.counts[leaf];
            }
            __syncwarp();
            within &= own ? ~(1u << j) : ALL;
        }
        if (!__shfl_sync(ALL, inside, 31)) {
            return;
        }
        first += 32;
        event = stream.events[min(first + lane, stream.count - 1)];
    }
}

// All continuations of prefixes at once, one warp per prefix.
// Prefix p has links[p * size] to links[(p + 1) * size]; all last `span` at most. The time is cut as
// for episode_walk. `lists` has 2 * capacity ticks per level below the first for each warp; shared
// memory a tick and a number for each continuation and warp. counts[(p * intervals + j) * symbols +
// s] becomes the count of prefix p continued by symbol s at interval j.
//: cuts: in, cells + 1
//: events: in, event_count
//: links: in, prefixes * size
//: lows: in, intervals
//: highs: in, intervals
//: lists: in-out
//: counts: out, prefixes * intervals * symbols
extern "C" __global__ void episode_siblings(
    const Tick* __restrict__ ticks, const Tick* __restrict__ cuts, const u32* __restrict__ index,
    u32 cells, u32 parts, const u64* __restrict__ events, u32 event_count, u32 symbol_bits,
    long long origin, const Link* __restrict__ links, u32 size, u32 prefixes, long long span,
    const Tick* __restrict__ lows, const Tick* __restrict__ highs, u32 intervals, u32 symbols,
    u32 capacity, Tick* lists, u32* counts) {
    extern __shared__ Tick shared[];
    const u32 lane = threadIdx.x % 32, own = threadIdx.x / 32, block_warps = blockDim.x / 32;
    const u32 leaves = intervals * symbols;
    const Taken taken = {shared + own * leaves,
                         (u32*)(shared + block_warps * leaves) + own * leaves};
    const Stream stream = {events, event_count, symbol_bits, origin};
    const u32 warp = blockIdx.x * block_warps + own, warps = gridDim.x * block_warps;
    lists += (u64)warp * (size - 1) * 2 * capacity;
    Tick shortest = lows[0], longest = highs[0];
    for (u32 j = 1; j < intervals; ++j) {
        shortest = min(shortest, lows[j]);
        longest = max(longest, highs[j]);
    }
    for (u32 p = warp; p < prefixes; p += warps) {
        for (u32 leaf = lane; leaf < leaves; leaf += 32) {
            taken.last_ends[leaf] = NEVER;
            taken.counts[leaf] = 0;
        }
        __syncwarp();
        for (u32 part = 0; part < parts; ++part) {
            const u32 cell = (u64)part * cells / parts, end_cell = (u64)(part + 1) * cells / parts;
            const Tick begin = cuts[cell];
            const Tick oldest = begin - (Tick)span;
            u32 first_cell = cell;
            while (first_cell > 0 && cuts[first_cell] > oldest) {
                --first_cell;
            }
            const Tick *ends = nullptr, *starts = nullptr;
            u32 count = 0;
            for (u32 depth = 0; depth < size; ++depth) {
                const Link link = links[(u64)p * size + depth];
                const u32* places = index + (u64)link.symbol * (cells + 1);
                const u32 from = places[first_cell], to = places[end_cell];
                if (depth == 0) {
                    const u32 root = not_before(ticks, from, to, oldest);
                    ends = starts = ticks + root;
                    count = to - root;
                } else {
                    Tick* level = lists + (u64)(depth - 1) * 2 * capacity;
                    count = extend(ends, starts, count, ticks, from, to, link.low, link.high,
                                   level, level + capacity);
                    ends = level;
                    starts = level + capacity;
                }
            }
            for (u32 base = not_before(ends, 0, count, begin); base < count; base += 32) {
                const bool here = base + lane < count;
                const Tick end = here ? ends[base + lane] : 0;
                const Tick start = here ? starts[base + lane] : 0;
                const u32 first = here ? stream.after(end + shortest) : 0;
                const u32 number = min(32u, count - base);
                // The next chain's events are fetched while one's are credited.
                auto fetch = [&](u32 from) { return events[min(from + lane, event_count - 1)]; };
                u64 next = fetch(__shfl_sync(ALL, first, 0));
                for (u32 k = 0; k < number; ++k) {
                    const u64 event = next;
                    next = fetch(__shfl_sync(ALL, first, min(k + 1, 31u)));
                    credit(stream, event, __shfl_sync(ALL, first, k), __shfl_sync(ALL, end, k),
                           __shfl_sync(ALL, start, k), lows, highs, intervals, longest, symbols,
                           taken);
                }
            }
        }
        for (u32 leaf = lane; leaf < leaves; leaf += 32) {
            counts[(u64)p * leaves + leaf] = taken.counts[leaf];
        }
        __syncwarp();
    }
}
