// Inputs of the walk of rank measures (`network_rank_walk.cu`): the ranks of a window's samples, or the signs of all
// pairs of them, as small whole numbers. One warp per node, which slides through a run of windows.
//
// Panels are (block of nodes, stage, node, 64 bytes). Samples, and pairs of samples, may lie in any order that is the
// same for all nodes; bytes behind the last are 0.
//
// INPUT: u8, u16, i16, float or double; tests compile two of them.
//: variants -DINPUT=i16 | -DINPUT=double

typedef unsigned char u8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Nodes of a block of panels, and of a block of threads.
constexpr int BLOCK = 128, WARPS = 8;
// Words of a node in a stage.
constexpr int WORDS = 16;
// Nodes of a bound.
constexpr int GROUP = 64;
constexpr u32 ALL = 0xffffffffu;

// Why a node has no value in a window.
constexpr u8 CONSTANT = 1, NOT_FINITE = 2;

__device__ __forceinline__ int sign_of(INPUT a, INPUT b) { return (a > b) - (a < b); }

template <class Number>
__device__ __forceinline__ Number sum_of_warp(Number value) {
    for (int d = 16; d; d /= 2) {
        value += __shfl_xor_sync(ALL, value, d);
    }
    return value;
}

// A node's samples; one that is not finite counts as 0.
struct Column {
    const INPUT* values;
    int nodes;
    // The instant behind the last that was not finite, of those that this lane has read.
    int bad;

    __device__ INPUT read(int t) {
        const INPUT value = values[(u64)t * nodes];
        if (isfinite((double)value)) {
            return value;
        }
        bad = max(bad, t + 1);
        return 0;
    }
    __device__ bool finite_from(int from) const { return !__any_sync(ALL, bad > from); }
};

// Numbers of a window that the walk takes.
struct Windows {
    double* squares;
    float* bound;
    u8* state;
    u32* odd;
    int padded, node;

    // By one lane.
    __device__ void put(int k, bool finite, u64 sum, bool there) const {
        const u64 at = (u64)k * padded + node;
        const u8 why = !there ? 0 : !finite ? NOT_FINITE : sum == 0 ? CONSTANT : 0;
        const double value = why || !there ? 0 : (double)sum;
        squares[at] = value;
        state[at] = why;
        if (why) {
            atomicAdd(odd, 1u);
        }
        if (value > 0) {
            // Positive numbers are in the order of their bits.
            u32* most = (u32*)(bound + (u64)k * (padded / GROUP) + node / GROUP);
            atomicMax(most, __float_as_uint((float)(1 / sqrt(value))));
        }
    }
};

// Where a word of a node's panel lies. A lane of the walk reads four words at once: two of the first half of a stage, two
// of the second.
__device__ __forceinline__ u64 place(int node, u64 stages, u64 first, int word) {
    const int own = word % WORDS, half = own / (WORDS / 2), lane = own % (WORDS / 2) / 2;
    const u64 stage = node / BLOCK * stages + first + word / WORDS;
    return (stage * BLOCK + node % BLOCK) * WORDS + 4 * lane + 2 * half + own % 2;
}

__device__ __forceinline__ u32 f16(int value) {
    u16 half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"((float)value));
    return half;
}

// Twice the ranks about their mean: the sum of sgn(x - y) over the window's samples y.
struct Ranks {
    // Instant t lies at t % length.
    INPUT* ring;
    short* ranks;
    int length, lane;

    __device__ void anew(Column& x, int from) const {
        __syncwarp();
        for (int t = from + lane; t < from + length; t += 32) {
            ring[t % length] = x.read(t);
        }
        __syncwarp();
        for (int p = lane; p < length; p += 32) {
            const INPUT own = ring[p];
            int rank = 0;
            for (int q = 0; q < length; ++q) {
                rank += sign_of(own, ring[q]);
            }
            ranks[p] = (short)rank;
        }
        __syncwarp();
    }

    // From the window at `from` to that at from + 1.
    __device__ void slide(Column& x, int from) const {
        // No lane may still be reading the ranks of the window before.
        __syncwarp();
        const int slot = from % length;
        const INPUT gone = ring[slot], come = x.read(from + length);
        int entered = 0;
        for (int p = lane; p < length; p += 32) {
            if (p != slot) {
                const INPUT own = ring[p];
                const int above = sign_of(own, come);
                ranks[p] = (short)(ranks[p] + above - sign_of(own, gone));
                entered -= above;
            }
        }
        entered = sum_of_warp(entered);
        __syncwarp();
        if (lane == 0) {
            ring[slot] = come;
            ranks[slot] = (short)entered;
        }
        __syncwarp();
    }

    __device__ int at(int p) const { return p < length ? ranks[p] : 0; }

    __device__ u64 squares() const {
        u64 sum = 0;
        for (int p = lane; p < length; p += 32) {
            sum += (u64)((int)ranks[p] * ranks[p]);
        }
        return sum_of_warp(sum);
    }

    // As f16, or as bytes: what is left of 256 times the ones in front, and then these.
    __device__ u32 word(int word, int split, int half) const {
        if (!split) {
            return f16(at(2 * word)) | f16(at(2 * word + 1)) << 16;
        }
        const bool high = word < half;
        u32 bytes = 0;
        for (int b = 0; b < 4; ++b) {
            const int rank = at(4 * (high ? word : word - half) + b), upper = (rank + 128) >> 8;
            bytes |= (u32)((high ? upper : rank - 256 * upper) & 0xff) << (8 * b);
        }
        return bytes;
    }
};

// Ranks of every window and node.
// panels: a window has `stages`; with `split` half of them for the upper bytes of ranks and half for the lower ones.
// squares (window, node): the sum of the squared ranks, 0 where undefined; state says why; bound (window, 64 nodes), given
// as zeros: the largest of their roots' inverses. `odd` counts states that are not 0. Block (b, r): eight nodes,
// windows r * run and on. Dynamic shared memory: eight samples and eight ranks per sample of a window.
//: samples: in, (windows.saturating_sub(1) * step + length) * nodes
//: panels: out, padded * windows * stages * NODE_WORDS
//: squares: out, padded * windows
//: bound: in-out, padded / BOUND_NODES * windows
//: state: out, padded * windows
//: odd: in-out, 1
extern "C" __global__ void __launch_bounds__(256)
network_ranks(const INPUT* __restrict__ samples, int nodes, int padded, int length, int step, int windows,
              int run, int split, int stages, u32* __restrict__ panels, double* __restrict__ squares,
              float* bound, u8* __restrict__ state, u32* odd) {
    extern __shared__ __align__(16) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int node = blockIdx.x * WARPS + warp;
    const int first = blockIdx.y * run, last = min(windows, first + run);
    const bool there = node < nodes;
    INPUT* rings = (INPUT*)shared;
    const Ranks ranks{rings + warp * length, (short*)(rings + WARPS * length) + warp * length, length, lane};
    const Windows out{squares, bound, state, odd, padded, node};
    Column x{samples + (there ? node : 0), nodes, 0};
    const int words = stages * WORDS;
    for (int k = first; k < last; ++k) {
        const int from = k * step;
        u64 sum = 0;
        if (there) {
            if (k == first || step >= length) {
                ranks.anew(x, from);
            } else {
                for (int t = from - step; t < from; ++t) {
                    ranks.slide(x, t);
                }
            }
            sum = ranks.squares();
        }
        const bool finite = x.finite_from(from);
        if (lane == 0) {
            out.put(k, finite, sum, there);
        }
        for (int word = lane; word < words; word += 32) {
            panels[place(node, (u64)windows * stages, (u64)k * stages, word)] =
                there ? ranks.word(word, split, words / 2) : 0;
        }
    }
}

// The row of a list of pairs that a pair lies in: row r has `count` + r of them.
struct Row {
    int count, row, start;

    __device__ void to(int pair) {
        while (pair >= start + count + row) {
            start += count + row;
            ++row;
        }
    }
};

// Samples of a window and of the step before it, in a ring.
struct Ring {
    INPUT* values;
    int room;

    // Where instant t lies.
    __device__ int slot(int t) const { return t % room; }
    // Where the instant lies that is `on` < room behind one.
    __device__ int behind(int slot, int on) const {
        const int at = slot + on;
        return at < room ? at : at - room;
    }
};

// All pairs of a window's samples, the later one with each before it; words are written if `rows` is given.
// The number of pairs that differ, of this lane's.
__device__ __forceinline__ int all_pairs(const Ring& ring, int from, int length, int lane, int node,
                                         u64 stages, u64 first, int words, u32* rows, u32* columns) {
    const int slot = ring.slot(from), pairs = length * (length - 1) / 2;
    const int most = rows ? words : (pairs + 3) / 4;
    Row row{1, 0, 0};
    int unequal = 0;
    for (int word = lane; word < most; word += 32) {
        u32 bytes = 0;
        for (int b = 0; b < 4; ++b) {
            const int pair = 4 * word + b;
            if (pair < pairs) {
                row.to(pair);
                const int sign = sign_of(ring.values[ring.behind(slot, row.row + 1)],
                                         ring.values[ring.behind(slot, pair - row.start)]);
                unequal += sign != 0;
                bytes |= (u32)(sign & 0xff) << (8 * b);
            }
        }
        if (rows) {
            const u64 at = place(node, stages, first, word);
            rows[at] = bytes;
            columns[at] = bytes;
        }
    }
    return unequal;
}

// The pairs of samples that enter with the window at `from` > 0, and those that leave, for rows with the opposite sign.
// By how many the pairs that differ become more, of this lane's.
__device__ __forceinline__ int new_pairs(const Ring& ring, int from, int length, int step, int lane,
                                         int node, u64 stages, u64 first, int words, u32* rows,
                                         u32* columns) {
    const int before = ring.slot(from - step), pairs = step * (2 * length - step - 1) / 2;
    Row row{length - step, 0, 0};
    bool left = false;
    int more = 0;
    for (int word = lane; word < words; word += 32) {
        u32 of_rows = 0, of_columns = 0;
        for (int b = 0; b < 4; ++b) {
            int pair = 4 * word + b;
            if (pair >= 2 * pairs) {
                break;
            }
            const bool leaves = pair >= pairs;
            if (leaves) {
                pair -= pairs;
                if (!left) {
                    row = Row{length - step, 0, 0};
                    left = true;
                }
            }
            row.to(pair);
            // From the instant of the step before.
            const int own = leaves ? step - 1 - row.row : length + row.row;
            const int other = leaves ? own + 1 + pair - row.start : step + pair - row.start;
            const int sign =
                sign_of(ring.values[ring.behind(before, own)], ring.values[ring.behind(before, other)]);
            more += leaves ? -(sign != 0) : sign != 0;
            of_columns |= (u32)(sign & 0xff) << (8 * b);
            of_rows |= (u32)((leaves ? -sign : sign) & 0xff) << (8 * b);
        }
        const u64 at = place(node, stages, first, word);
        rows[at] = of_rows;
        columns[at] = of_columns;
    }
    return more;
}

// Signs of the differences of pairs of samples.
// rows and columns: the first window has `first_stages` of all its pairs; every further one `stages` of the pairs that
// enter and leave, or with `direct` of all of its own. The others as for ranks; squares is the number of pairs that differ. Dynamic shared
// memory: eight times the samples of a window and, unless `direct`, of a step.
//: samples: in, (windows.saturating_sub(1) * step + length) * nodes
//: rows: out, padded * (first_stages + windows.saturating_sub(1) * stages) * NODE_WORDS
//: columns: out, padded * (first_stages + windows.saturating_sub(1) * stages) * NODE_WORDS
//: squares: out, padded * windows
//: bound: in-out, padded / BOUND_NODES * windows
//: state: out, padded * windows
//: odd: in-out, 1
extern "C" __global__ void __launch_bounds__(256)
network_signs(const INPUT* __restrict__ samples, int nodes, int padded, int length, int step, int windows,
              int run, int direct, int first_stages, int stages, u32* __restrict__ rows,
              u32* __restrict__ columns, double* __restrict__ squares, float* bound,
              u8* __restrict__ state, u32* odd) {
    extern __shared__ __align__(16) u8 shared[];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int node = blockIdx.x * WARPS + warp;
    const int first = blockIdx.y * run, last = min(windows, first + run);
    const bool there = node < nodes;
    const int room = direct ? length : length + step;
    const Ring ring{(INPUT*)shared + warp * room, room};
    const Windows out{squares, bound, state, odd, padded, node};
    Column x{samples + (there ? node : 0), nodes, 0};
    const u64 all = first_stages + (u64)(windows - 1) * stages;
    long long unequal = 0;
    for (int k = first; k < last; ++k) {
        const int from = k * step;
        const int words = (k ? stages : first_stages) * WORDS;
        const u64 at = k ? first_stages + (u64)(k - 1) * stages : 0;
        const bool whole = direct || k == 0;
        if (there) {
            const bool begins = direct || k == first;
            // The pairs that enter and leave want the samples of the step before.
            const int since = !begins ? from + length - step : whole ? from : from - step;
            __syncwarp();
            for (int t = since + lane; t < from + length; t += 32) {
                ring.values[ring.slot(t)] = x.read(t);
            }
            __syncwarp();
            int more = 0, counted = 0;
            if (begins) {
                counted = all_pairs(ring, from, length, lane, node, all, at, words, whole ? rows : nullptr, columns);
            }
            if (!whole) {
                more = new_pairs(ring, from, length, step, lane, node, all, at, words, rows, columns);
            }
            unequal = begins ? sum_of_warp(counted) : unequal + sum_of_warp(more);
        } else {
            for (int word = lane; word < words; word += 32) {
                rows[place(node, all, at, word)] = 0;
                columns[place(node, all, at, word)] = 0;
            }
        }
        const bool finite = x.finite_from(from);
        if (lane == 0) {
            out.put(k, finite, (u64)unequal, there);
        }
    }
}
