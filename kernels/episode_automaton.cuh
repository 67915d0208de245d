// Algorithm 1 of the papers for one episode in one thread: an automaton that takes the stream's
// events one after another. For every symbol of the episode it keeps the ticks at which a valid
// chain up to that symbol ends; an event that ends a chain of the whole episode counts, and empties
// all lists.
//
// Lists have a fixed capacity. One that would need more says so (`overflow`), and the episode is
// counted again with more.

#pragma once

typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long Tick;

// Before every event.
constexpr Tick NEVER = -1;

// Stands for the count of an episode that needs longer lists.
constexpr u32 OVERFLOWN = 0xffffffffu;

// Events that are looked at together: as many as a word has bits.
constexpr u32 GROUP = 32;

// One bit for each symbol, modulo 64: most events are dismissed by it.
static __device__ u64 bit_of(u32 symbol) {
    return 1ull << (symbol & 63);
}

// The stream: `tick << symbol_bits | symbol` in ascending order.
struct Stream {
    const u64* events;
    u32 count;
    u32 symbol_bits;

    __device__ Tick tick(u64 event) const { return (Tick)(event >> symbol_bits); }
    __device__ u32 symbol(u64 event) const { return (u32)event & ((1u << symbol_bits) - 1); }

    // Index of the first event at or after `bound`.
    __device__ u32 position(Tick bound) const {
        u32 from = 0, to = count;
        while (from < to) {
            const u32 middle = from + (to - from) / 2;
            if (tick(events[middle]) < bound) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        return from;
    }

    // Calls visit(tick, symbol) for the events of [from, to) whose symbol may be in `present`, until
    // it returns false. A group of events is sifted first, which takes no branch and overlaps their
    // loads; each thread then visits its own.
    template <class Visit>
    __device__ void walk(u32 from, u32 to, u64 present, Visit visit) const {
        for (; from < to; from += GROUP) {
            u32 hits = 0;
#pragma unroll
            for (u32 k = 0; k < GROUP; ++k) {
                const u64 event = events[min(from + k, to - 1)];
                hits |= (u32)(present >> (symbol(event) & 63) & 1) << k;
            }
            if (to - from < GROUP) {
                hits &= (1u << (to - from)) - 1;
            }
            while (hits != 0) {
                const u64 event = events[from + __ffs((int)hits) - 1];
                hits &= hits - 1;
                if (!visit(tick(event), symbol(event))) {
                    return;
                }
            }
        }
    }
};

// Episodes side by side: place p of episode e is at [p * count + e]. The interval (low, high] at
// place p lies before it; place 0 has none.
struct Episodes {
    const u32* sizes;
    const u32* symbols;
    const Tick* lows;
    const Tick* highs;
    u32 count;
};

// An automaton's place in shared memory: `step` automata side by side, of at most `places` places.
struct Automaton {
    u32 size, step, capacity;
    Tick *lows, *highs;
    u32 *symbols, *firsts, *lengths;
    // Slot s of place p is at [(p * capacity + s) * stride].
    Tick* lists;
    u64 stride;
    // The episode's symbols.
    u64 present;
    Tick last_end;
    bool overflow;

    // Shared memory that each automaton takes for each place.
    static constexpr u32 BYTES = 2 * sizeof(Tick) + 3 * sizeof(u32);

    // The `own`-th automaton of the block, for episode `e`, with lists at `lists`.
    __device__ void open(void* shared, u32 own, u32 automata, u32 places, const Episodes& episodes,
                         u32 e, Tick* own_lists, u64 lists_stride, u32 list_capacity) {
        step = automata;
        lows = (Tick*)shared + own;
        highs = lows + step * places;
        symbols = (u32*)((Tick*)shared + 2 * step * places) + own;
        firsts = symbols + step * places;
        lengths = firsts + step * places;
        lists = own_lists;
        stride = lists_stride;
        capacity = list_capacity;
        size = episodes.sizes[e];
        present = 0;
        for (u32 p = 0; p < size; ++p) {
            const u64 from = (u64)p * episodes.count + e;
            symbols[p * step] = episodes.symbols[from];
            lows[p * step] = episodes.lows[from];
            highs[p * step] = episodes.highs[from];
            present |= bit_of(episodes.symbols[from]);
        }
        overflow = false;
        restart_after(NEVER);
    }

    // The state just after an occurrence that ended at `end`.
    __device__ void restart_after(Tick end) {
        for (u32 p = 0; p < size; ++p) {
            firsts[p * step] = 0;
            lengths[p * step] = 0;
        }
        last_end = end;
    }

    // Takes the next event; true when it completes an occurrence.
    __device__ bool push(Tick tick, u32 symbol) {
        if (tick <= last_end) {
            return false;
        }
        for (u32 p = size; p-- > 0;) {
            if (symbols[p * step] != symbol) {
                continue;
            }
            if (p > 0 && !follows(p - 1, tick, lows[p * step], highs[p * step])) {
                continue;
            }
            if (p + 1 == size) {
                restart_after(tick);
                return true;
            }
            append(p, tick, tick - highs[(p + 1) * step]);
        }
        return false;
    }

   private:
    __device__ Tick& slot(u32 p, u32 s) {
        return lists[((u64)p * capacity + (s & (capacity - 1))) * stride];
    }

    // True when a chain that ends at place `p` lies within (low, high] before `tick`.
    __device__ bool follows(u32 p, Tick tick, Tick low, Tick high) {
        const u32 first = firsts[p * step];
        for (u32 k = lengths[p * step]; k-- > 0;) {
            const Tick delay = tick - slot(p, first + k);
            if (delay > high) {
                return false;
            }
            if (delay > low) {
                return true;
            }
        }
        return false;
    }

    // Adds `tick` to the list of place `p`, and forgets what is before `oldest`.
    __device__ void append(u32 p, Tick tick, Tick oldest) {
        u32 first = firsts[p * step], length = lengths[p * step];
        while (length > 0 && slot(p, first) < oldest) {
            ++first;
            --length;
        }
        if (length == capacity) {
            overflow = true;
            return;
        }
        slot(p, first + length) = tick;
        firsts[p * step] = first;
        lengths[p * step] = length + 1;
    }
};
