// The papers' parallel local tracking, a thread an occurrence (Feng et al., §1.3.1, Algorithms 3 and
// 2; Patnaik et al., §IV): every partial occurrence looks up the events that can continue it, and
// the finds of all are compacted into the list that the next symbol starts from. At the end the
// interval scheduling counts.
//
// Many episodes of one size go through a launch side by side. An entry of the list is a partial
// occurrence: the event it has reached (`at`), the event at its other, fixed end (`other`), both as
// places in `ticks`, and its episode. The list is in the order of episodes, except after the atomic
// compaction.
//
//: variants -DWIDE=0 -DFORWARD=0 | -DWIDE=1 -DFORWARD=0 | -DWIDE=0 -DFORWARD=1 | -DWIDE=1 -DFORWARD=1

#include "episode_tick.cuh"

// Groups of 32 occurrences that are loaded together.
constexpr u32 AHEAD = 8;

// Content of a slot before any entry.
constexpr u32 NOTHING = 0;

// The next symbol of an episode: its events are `from..to` of the ticks, the delay to it in (low, high].
struct Step {
    Tick low;   // lower bound of the delay, not included
    Tick high;  // upper bound, included
    u32 from;   // its first event
    u32 to;     // behind its last event
};

// Total over the entries of a launch.
struct Tally {
    u64 total;   // the sum
    u32 most;    // the most of one
    u32 unused;  // padding
};

static __device__ u32 this_thread() {
    return blockIdx.x * blockDim.x + threadIdx.x;
}

// The events that continue a partial occurrence: `count` from place `first` on.
struct Finds {
    u32 first, count;
};

static __device__ Finds find(const Tick* ticks, const Step* steps, u32 at, u32 episode) {
    const Step step = steps[episode];
    const Tick tick = ticks[at];
#if FORWARD
    const Tick from = tick + step.low + 1, to = tick + step.high + 1;
#else
    const Tick from = tick - step.high, to = tick - step.low;
#endif
    const u32 first = not_before(ticks, step.from, step.to, from);
    u32 last = first;
    while (last < step.to && ticks[last] < to) {
        ++last;
    }
    return Finds{first, last - first};
}

// Adds what each thread found. By whole warps.
static __device__ void add_up(u32 count, Tally* tally) {
    u64 sum = count;
    for (u32 step = 16; step > 0; step /= 2) {
        sum += __shfl_xor_sync(ALL, sum, step);
        count = max(count, __shfl_xor_sync(ALL, count, step));
    }
    if (threadIdx.x % 32 == 0 && sum > 0) {
        atomicAdd(&tally->total, sum);
        atomicMax(&tally->most, count);
    }
}

// The first list: every event of each episode's first step. Episode e has entries firsts[e] to
// firsts[e + 1].
//: steps: in, episodes
//: firsts: in, episodes
//: at: out, entries
//: other: out, entries
//: episode: out, entries
extern "C" __global__ void track_begin(const Step* __restrict__ steps,
                                       const u32* __restrict__ firsts, u32 episodes, u32 entries,
                                       u32* at, u32* other, u32* episode) {
    const u32 i = this_thread();
    if (i < entries) {
        const u32 e = not_before(firsts, 0u, episodes, i + 1) - 1;
        at[i] = other[i] = steps[e].from + (i - firsts[e]);
        episode[i] = e;
    }
}

// Number of finds of each entry.
// counts[i]: how many finds entry i has; *tally (zeroed) their sum and the largest.
//: at: in, entries
//: episode: in, entries
//: counts: out, entries
//: tally: in-out, 1
extern "C" __global__ void track_count(const Tick* __restrict__ ticks,
                                       const Step* __restrict__ steps, u32 entries,
                                       const u32* __restrict__ at, const u32* __restrict__ episode,
                                       u32* counts, Tally* tally) {
    const u32 i = this_thread();
    u32 count = 0;
    if (i < entries) {
        count = find(ticks, steps, at[i], episode[i]).count;
        counts[i] = count;
    }
    add_up(count, tally);
}

// Count, scan, write: entry i looks its finds up again and writes them from offsets[i] on.
//: at: in, entries
//: other: in, entries
//: episode: in, entries
//: offsets: in, entries
//: new_at: out
//: new_other: out, new_at.len()
//: new_episode: out, new_at.len()
extern "C" __global__ void track_write(const Tick* __restrict__ ticks,
                                       const Step* __restrict__ steps, u32 entries,
                                       const u32* __restrict__ at, const u32* __restrict__ other,
                                       const u32* __restrict__ episode,
                                       const u32* __restrict__ offsets, u32* new_at, u32* new_other,
                                       u32* new_episode) {
    const u32 i = this_thread();
    if (i < entries) {
        const Finds finds = find(ticks, steps, at[i], episode[i]);
        for (u32 k = 0; k < finds.count; ++k) {
            const u32 place = offsets[i] + k;
            new_at[place] = finds.first + k;
            new_other[place] = other[i];
            new_episode[place] = episode[i];
        }
    }
}

// Flag and compact, first half: entry i fills its portion of `places` from i * portion on, and
// flags what it filled. *tally (zeroed) becomes the sum of all finds, and the most of an entry.
//: at: in, entries
//: episode: in, entries
//: places: out, entries * portion
//: flags: out, entries * portion
//: tally: in-out, 1
extern "C" __global__ void track_fill(const Tick* __restrict__ ticks,
                                      const Step* __restrict__ steps, u32 entries,
                                      const u32* __restrict__ at, const u32* __restrict__ episode,
                                      u32 portion, u32* places, u32* flags, Tally* tally) {
    const u32 i = this_thread();
    u32 count = 0;
    if (i < entries) {
        const Finds finds = find(ticks, steps, at[i], episode[i]);
        count = finds.count;
        for (u32 k = 0; k < portion; ++k) {
            places[i * portion + k] = finds.first + k;
            flags[i * portion + k] = k < count;
        }
    }
    add_up(count, tally);
}

// Second half, with the flags' exclusive sums: the flagged places become the new list.
//: places: in, filled
//: sums: in, filled + 1
//: other: in, filled / portion.max(1)
//: episode: in, filled / portion.max(1)
//: new_at: out
//: new_other: out
//: new_episode: out
extern "C" __global__ void track_pick(u32 filled, u32 portion, const u32* __restrict__ places,
                                      const u32* __restrict__ sums, const u32* __restrict__ other,
                                      const u32* __restrict__ episode, u32* new_at, u32* new_other,
                                      u32* new_episode) {
    const u32 i = this_thread();
    if (i < filled && sums[i + 1] > sums[i]) {
        const u32 entry = i / portion, place = sums[i];
        new_at[place] = places[i];
        new_other[place] = other[entry];
        new_episode[place] = episode[entry];
    }
}

// Atomic: a block reserves room for the finds of its entries by one addition to the tally (zeroed);
// what would lie beyond `room` is not written.
//: at: in, entries
//: other: in, entries
//: episode: in, entries
//: tally: in-out, 1
//: new_at: out, room
//: new_other: out, room
//: new_episode: out, room
extern "C" __global__ void track_reserve(const Tick* __restrict__ ticks,
                                         const Step* __restrict__ steps, u32 entries,
                                         const u32* __restrict__ at, const u32* __restrict__ other,
                                         const u32* __restrict__ episode, u32 room, Tally* tally,
                                         u32* new_at, u32* new_other, u32* new_episode) {
    __shared__ u32 block_count;
    __shared__ u64 block_offset;
    if (threadIdx.x == 0) {
        block_count = 0;
    }
    __syncthreads();
    const u32 i = this_thread();
    Finds finds = {0, 0};
    u32 offset = 0;
    if (i < entries) {
        finds = find(ticks, steps, at[i], episode[i]);
        offset = atomicAdd(&block_count, finds.count);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        block_offset = atomicAdd(&tally->total, (u64)block_count);
    }
    __syncthreads();
    for (u32 k = 0; k < finds.count; ++k) {
        const u64 place = block_offset + offset + k;
        if (place < room) {
            new_at[place] = finds.first + k;
            new_other[place] = other[i];
            new_episode[place] = episode[i];
        }
    }
}

// An entry's other end as a number that is the larger the better: tracking forward the start that
// comes last, tracking backward the end that comes first. Above NOTHING.
static __device__ u32 worth(u32 other) {
#if FORWARD
    return other + 1;
#else
    return ~other;
#endif
}

static __device__ u32 other_of(u32 worth) {
#if FORWARD
    return worth - 1;
#else
    return ~worth;
#endif
}

// Of the entries that have reached one event only the best can matter. best[slots[e] + k] (zeroed)
// becomes its worth, for the k-th event of episode e's step.
//: at: in, entries
//: other: in, entries
//: episode: in, entries
//: best: in-out
extern "C" __global__ void track_best(const Step* __restrict__ steps,
                                      const u32* __restrict__ slots, u32 entries,
                                      const u32* __restrict__ at, const u32* __restrict__ other,
                                      const u32* __restrict__ episode, u32* best) {
    const u32 i = this_thread();
    if (i < entries) {
        const u32 e = episode[i];
        atomicMax(best + slots[e] + (at[i] - steps[e].from), worth(other[i]));
    }
}

// Which events have a best entry.
// kept[s] is 1 where the s-th event has a best entry, 0 elsewhere.
//: best: in, slot_count
//: kept: out, slot_count
extern "C" __global__ void track_keep(u32 slot_count, const u32* __restrict__ best, u32* kept) {
    const u32 s = this_thread();
    if (s < slot_count) {
        kept[s] = best[s] != NOTHING;
    }
}

// The best entries, in the order of episodes and events, by the exclusive sums of `kept`.
//: steps: in, episodes
//: slots: in, episodes
//: best: in, slot_count
//: sums: in, slot_count
//: at: out
//: other: out
//: episode: out
extern "C" __global__ void track_collect(const Step* __restrict__ steps,
                                         const u32* __restrict__ slots, u32 episodes,
                                         u32 slot_count, const u32* __restrict__ best,
                                         const u32* __restrict__ sums, u32* at, u32* other,
                                         u32* episode) {
    const u32 s = this_thread();
    if (s < slot_count && best[s] != NOTHING) {
        const u32 e = not_before(slots, 0u, episodes, s + 1) - 1, place = sums[s];
        at[place] = steps[e].from + (s - slots[e]);
        other[place] = other_of(best[s]);
        episode[place] = e;
    }
}

// Interval scheduling (Algorithm 2), one warp per episode: its occurrences come in the order of their
// ends; of those that start after the last one taken ended, the next is taken.
//: at: in, entries
//: other: in, entries
//: episode: in, entries
//: counts: out, episodes
extern "C" __global__ void track_schedule(const Tick* __restrict__ ticks, u32 entries,
                                          const u32* __restrict__ at,
                                          const u32* __restrict__ other,
                                          const u32* __restrict__ episode, u32 episodes,
                                          u32* counts) {
    const u32 lane = threadIdx.x % 32, e = this_thread() / 32;
    if (e >= episodes) {
        return;
    }
#if FORWARD
    const u32 *starts = other, *ends = at;
#else
    const u32 *starts = at, *ends = other;
#endif
    const u32 first = not_before(episode, 0u, entries, e);
    const u32 last = not_before(episode, first, entries, e + 1);
    // Not time 0, which would drop an occurrence that starts there.
    Tick taken_end = -1;
    u32 count = 0;
    for (u32 base = first; base < last; base += 32 * AHEAD) {
        // Loads overlap; what is beyond the last starts before anything.
        Tick start[AHEAD], end[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            const u32 i = base + 32 * k + lane;
            start[k] = i < last ? ticks[starts[i]] : -1;
            end[k] = i < last ? ticks[ends[i]] : -1;
        }
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            const Tick before = __shfl_up_sync(ALL, end[k], 1);
            if (__all_sync(ALL, start[k] > (lane == 0 ? taken_end : before))) {
                // None overlaps the one before.
                taken_end = __shfl_sync(ALL, end[k], 31);
                count += 32;
                continue;
            }
            // Those before the last one taken start before it ended.
            u32 able;
            while ((able = __ballot_sync(ALL, start[k] > taken_end)) != 0) {
                taken_end = __shfl_sync(ALL, end[k], __ffs((int)able) - 1);
                ++count;
            }
        }
    }
    if (lane == 0) {
        counts[e] = count;
    }
}
