// Counts of non-overlapped serial episodes by latest starts, on any number of warps.
//
// A warp takes one run of patterns (a tree of prefixes in preorder) through one part of the time.
// For each prefix it lists the valid ends in ascending order, each with the latest start of a chain
// that ends there: a prefix's list is made from its parent's by looking up, for each chain, the
// events of the next symbol that it reaches and the next chain does not. A part begins early enough
// to see every chain that ends in it.
//
// The greedy choice depends on earlier parts only through the end of the last occurrence taken,
// which lies before the part. So of a part it suffices to know, for each occurrence that begins
// before the part, and for the first one that does not, what the greedy choice that begins with it
// takes and where it ends. `episode_greedy` then goes from part to part by these tables.
//
// Ticks count from the first event. All results are integers and independent of the schedule.
//
//: variants -DWIDE=0 | -DWIDE=1

#include "episode_chains.cuh"

constexpr u32 NO_LEAF = 0xffffffffu;

// A prefix of patterns in a tree in preorder: its last symbol and the interval (low, high] before it.
struct Node {
    Tick low;    // lower bound of the delay, not included
    Tick high;   // upper bound, included
    u32 symbol;  // the last symbol
    u32 depth;   // symbols in the prefix, less one
    u32 next;    // first node after this one's subtree
    u32 leaf;    // number of the pattern that this prefix is; all ones if none
};

// Result of the greedy choice in a part if it begins with the occurrence that starts at `start`.
struct Entry {
    Tick start;  // where that occurrence starts
    Tick end;    // end of the last occurrence taken
    u32 taken;   // number of occurrences taken
};

// Writes a pattern's table for the part that begins at tick `begin`; returns its length, which may
// be more than the `slots` that were written to.
static __device__ u32 tabulate(const Tick* ends, const Tick* starts, u32 count, Tick begin,
                               u32 slots, Entry* table) {
    const u32 lane = threadIdx.x % 32;
    const u32 first = not_before(ends, 0, count, begin);
    if (first == count) {
        return 0;
    }
    const u32 length = min(count, not_before(starts, first, count, begin) + 1) - first;
    if (length > slots) {
        return length;
    }
    for (u32 group = 0; group < length; group += 32) {
        const u32 own = first + group + lane;
        Tick last = NEVER;
        u32 taken = 0;
        for (u32 base = first + group; base < count; base += 32) {
            const bool inside = base + lane < count;
            const Tick end = inside ? ends[base + lane] : 0;
            const Tick start = inside ? starts[base + lane] : 0;
            const u32 here = min(32u, count - base);
            for (u32 k = 0; k < here; ++k) {
                const Tick next_end = __shfl_sync(ALL, end, k);
                const Tick next_start = __shfl_sync(ALL, start, k);
                const bool take = base + k >= own && next_start > last;
                last = take ? next_end : last;
                taken += take;
            }
        }
        if (group + lane < length) {
            table[group + lane] = Entry{starts[own], last, taken};
        }
    }
    return length;
}

// A warp takes one run of patterns through one part of the time and leaves tables.
// Time is cut in `cells`, cell c from cuts[c] to cuts[c + 1]; ticks[index[s * (cells + 1) + c]] is
// the first event of symbol s at or after cuts[c]. The `parts` are made of neighbouring cells.
// Run r holds the nodes from run_nodes[r] to run_nodes[r + 1], of patterns that last span[r] at most.
// `lists` has 2 * capacity ticks per level below the first for each warp; `tables` has `slots` entries
// for each pattern and part, `lengths` (zeroed) a length; *longest (zeroed) is the longest of those
// that do not fit.
//: cuts: in, cells + 1
//: run_nodes: in, runs + 1
//: span: in, runs
//: lists: in-out
//: tables: out
//: lengths: in-out
//: longest: in-out, 1
extern "C" __global__ void episode_walk(const Tick* __restrict__ ticks,
                                        const Tick* __restrict__ cuts,
                                        const u32* __restrict__ index, u32 cells, u32 parts,
                                        const Node* __restrict__ nodes,
                                        const u32* __restrict__ run_nodes,
                                        const long long* __restrict__ span, u32 runs, u32 levels,
                                        u32 capacity, Tick* lists, u32 slots, Entry* tables,
                                        u32* lengths, u32* longest) {
    extern __shared__ u32 shared[];
    const u32 lane = threadIdx.x % 32;
    // Number of chains at each level.
    u32* chains = shared + threadIdx.x / 32 * levels;
    const u32 warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    const u32 warps = gridDim.x * blockDim.x / 32;
    lists += (u64)warp * (levels - 1) * 2 * capacity;
    for (u64 item = warp; item < (u64)runs * parts; item += warps) {
        const u32 run = item / parts, part = item % parts;
        const u32 cell = (u64)part * cells / parts, end_cell = (u64)(part + 1) * cells / parts;
        const Tick begin = cuts[cell];
        const Tick oldest = begin - (Tick)span[run];
        u32 first_cell = cell;
        while (first_cell > 0 && cuts[first_cell] > oldest) {
            --first_cell;
        }
        u32 root = 0;
        const u32 end_node = run_nodes[run + 1];
        for (u32 n = run_nodes[run]; n < end_node;) {
            const Node node = nodes[n];
            const u32* places = index + (u64)node.symbol * (cells + 1);
            u32 from = places[first_cell];
            const u32 to = places[end_cell];
            const Tick *ends, *starts;
            u32 count;
            if (node.depth == 0) {
                root = not_before(ticks, from, to, oldest);
                ends = starts = ticks + root;
                count = to - root;
            } else {
                Tick* level = lists + (u64)(node.depth - 1) * 2 * capacity;
                const Tick* parent = level - 2 * (u64)capacity;
                const bool first_edge = node.depth == 1;
                count = extend(first_edge ? ticks + root : parent,
                               first_edge ? ticks + root : parent + capacity,
                               chains[node.depth - 1], ticks, from, to, node.low, node.high, level,
                               level + capacity);
                ends = level;
                starts = level + capacity;
            }
            if (node.leaf != NO_LEAF) {
                const u64 place = (u64)node.leaf * parts + part;
                const u32 length =
                    tabulate(ends, starts, count, begin, slots, tables + place * slots);
                if (lane == 0) {
                    lengths[place] = length;
                    if (length > slots) {
                        atomicMax(longest, length);
                    }
                }
            }
            if (lane == 0) {
                chains[node.depth] = count;
            }
            __syncwarp();
            // A node that nothing reaches has no longer chains.
            n = count > 0 ? n + 1 : node.next;
        }
    }
}

// The counts from the tables: one warp per pattern, a lane a part. Every lane supposes where the part
// before it ends, until all suppositions agree with the outcome; then they are right, because the
// first one's is known.
//: tables: in, patterns * parts * slots
//: lengths: in, patterns * parts
//: counts: out, patterns
extern "C" __global__ void episode_greedy(const Entry* __restrict__ tables,
                                          const u32* __restrict__ lengths, u32 slots, u32 parts,
                                          u32 patterns, u32* counts) {
    const u32 lane = threadIdx.x % 32;
    const u32 pattern = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (pattern >= patterns) {
        return;
    }
    Tick last = NEVER;
    u32 total = 0;
    for (u32 base = 0; base < parts; base += 32) {
        const u64 place = (u64)pattern * parts + base + lane;
        const u32 length = base + lane < parts ? min(lengths[place], slots) : 0;
        const Entry* table = tables + place * slots;
        const u32 busy = __ballot_sync(ALL, length > 0);
        if (busy == 0) {
            continue;
        }
        // The nearest part before this one that may take anything.
        const u32 before = busy & ((1u << lane) - 1);
        const int source = 31 - __clz((int)before);
        Tick end = length > 0 ? table[length - 1].end : NEVER;
        u32 taken = 0;
        bool changed;
        do {
            const Tick supposed = __shfl_sync(ALL, end, max(source, 0));
            const Tick entered = source < 0 ? last : supposed;
            Tick left = entered;
            taken = 0;
            u32 from = 0, to = length;
            while (from < to) {
                const u32 middle = (from + to) / 2;
                if (table[middle].start <= entered) {
                    from = middle + 1;
                } else {
                    to = middle;
                }
            }
            if (from < length) {
                left = table[from].end;
                taken = table[from].taken;
            }
            changed = length > 0 && left != end;
            end = left;
        } while (__any_sync(ALL, changed));
        for (u32 step = 16; step > 0; step /= 2) {
            taken += __shfl_xor_sync(ALL, taken, step);
        }
        total += taken;
        last = __shfl_sync(ALL, end, 31 - __clz((int)busy));
    }
    if (lane == 0) {
        counts[pattern] = total;
    }
}
