// Edges in order: by window, then i, then j. Slots of the walk's edge buffer are counted by (window, i),
// which is a row; placed in their rows; and every row is brought into order by j.
//
// A placed edge: j << 32 | the bits of its value.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u64 EMPTY = ~0ull;
constexpr u32 ALL = 0xffffffffu;
constexpr int NODE_BITS = 27;
constexpr u32 NODE = (1u << NODE_BITS) - 1;
// A row of a warp; longer ones are a block's.
constexpr u32 SHORT = 32;
constexpr int THREADS = 256;
// Words of a block's map of columns.
constexpr u32 MAP = 4096;

__device__ __forceinline__ u64 row_of(u64 key, int nodes) {
    return (key >> (2 * NODE_BITS)) * nodes + (key >> NODE_BITS & NODE);
}

// Slots per row, a row being a window and a first node.
// rows[r] += the slots of row r. One thread per slot, any number of blocks.
//: keys: in, slots
//: rows: in-out
extern "C" __global__ void __launch_bounds__(256)
network_rows(const u64* __restrict__ keys, u64 slots, int nodes, u32* rows) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 slot = (u64)blockIdx.x * blockDim.x + threadIdx.x; slot < slots; slot += threads) {
        const u64 key = keys[slot];
        if (key != EMPTY) {
            atomicAdd(rows + row_of(key, nodes), 1u);
        }
    }
}

// Places every slot in its row, in any order; rows holds where each begins, and where it ends after that.
//: keys: in, slots
//: values: in, slots
//: rows: in-out
//: placed: out
extern "C" __global__ void __launch_bounds__(256)
network_place(const u64* __restrict__ keys, const float* __restrict__ values, u64 slots, int nodes,
              u32* rows, u64* placed) {
    const u64 threads = (u64)gridDim.x * blockDim.x;
    for (u64 slot = (u64)blockIdx.x * blockDim.x + threadIdx.x; slot < slots; slot += threads) {
        const u64 key = keys[slot];
        if (key != EMPTY) {
            const u32 at = atomicAdd(rows + row_of(key, nodes), 1u);
            placed[at] = (key & NODE) << 32 | __float_as_uint(values[slot]);
        }
    }
}

// Rows of up to `SHORT_ROW` edges by their second node; the numbers of the others.
// ordered: placed, each row by j, for rows of up to 32 edges; the others' numbers go to `long_rows`, and number of samples
// they are to count[0]. ends: where each row ends. One warp per row, any number of blocks.
//: ends: in, all
//: ordered: out, placed.len()
//: long_rows: out, placed.len() / (SHORT_ROW + 1)
//: count: in-out, 1
extern "C" __global__ void __launch_bounds__(256)
network_short_rows(const u32* __restrict__ ends, u64 all, const u64* __restrict__ placed,
                   u64* ordered, u32* long_rows, u32* count) {
    const u32 lane = threadIdx.x % 32;
    const u64 warps = (u64)gridDim.x * blockDim.x / 32;
    const u64 warp = ((u64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    // A warp looks at 32 rows at once: most have few edges or none.
    for (u64 first = warp * 32; first < all; first += warps * 32) {
        const u64 row = first + lane;
        const u32 end = row < all ? ends[row] : 0;
        const u32 begin = row < all && row > 0 ? ends[row - 1] : 0;
        const u32 own = row < all ? end - begin : 0;
        if (own == 1) {
            ordered[begin] = placed[begin];
        } else if (own > SHORT) {
            long_rows[atomicAdd(count, 1u)] = (u32)row;
        }
        u32 several = __ballot_sync(ALL, own > 1 && own <= SHORT);
        while (several) {
            const int who = __ffs(several) - 1;
            several &= several - 1;
            const u32 from = __shfl_sync(ALL, begin, who), many = __shfl_sync(ALL, own, who);
            const u64 edge = lane < many ? placed[from + lane] : EMPTY;
            const u32 column = edge >> 32;
            u32 before = 0;
            for (u32 other = 0; other < many; ++other) {
                before += __shfl_sync(ALL, column, other) < column;
            }
            if (lane < many) {
                ordered[from + before] = edge;
            }
        }
    }
}

// The rows of more than 32 edges: one block per row marks its columns in a map of bits, and an edge's place is the
// number of bits before its own. Any number of blocks.
//: count: in, 1
//: ordered: out, placed.len()
extern "C" __global__ void __launch_bounds__(256)
network_long_rows(const u32* __restrict__ ends, const u64* __restrict__ placed, int nodes,
                  const u32* __restrict__ long_rows, const u32* __restrict__ count, u64* ordered) {
    __shared__ u32 map[MAP], before[MAP];
    __shared__ u32 sums[THREADS / 32], done;
    const u32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    constexpr u32 EACH = MAP / THREADS;
    for (u32 which = blockIdx.x; which < *count; which += gridDim.x) {
        const u32 row = long_rows[which];
        const u32 end = ends[row], begin = row > 0 ? ends[row - 1] : 0;
        if (threadIdx.x == 0) {
            done = 0;
        }
        for (u32 first = 0; first < (u32)nodes; first += 32 * MAP) {
            __syncthreads();
            for (u32 word = threadIdx.x; word < MAP; word += THREADS) {
                map[word] = 0;
            }
            __syncthreads();
            for (u32 at = begin + threadIdx.x; at < end; at += THREADS) {
                const u32 column = (u32)(placed[at] >> 32) - first;
                if (column < 32 * MAP) {
                    atomicOr(map + column / 32, 1u << (column % 32));
                }
            }
            __syncthreads();
            u32 own = 0;
            for (u32 word = 0; word < EACH; ++word) {
                own += __popc(map[threadIdx.x * EACH + word]);
            }
            u32 through = own;
            for (u32 d = 1; d < 32; d *= 2) {
                const u32 less = __shfl_up_sync(ALL, through, d);
                through += lane >= d ? less : 0;
            }
            if (lane == 31) {
                sums[warp] = through;
            }
            __syncthreads();
            u32 base = done + through - own, total = 0;
            for (u32 other = 0; other < THREADS / 32; ++other) {
                base += other < warp ? sums[other] : 0;
                total += sums[other];
            }
            for (u32 word = 0; word < EACH; ++word) {
                before[threadIdx.x * EACH + word] = base;
                base += __popc(map[threadIdx.x * EACH + word]);
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                done += total;
            }
            for (u32 at = begin + threadIdx.x; at < end; at += THREADS) {
                const u64 edge = placed[at];
                const u32 column = (u32)(edge >> 32) - first;
                if (column < 32 * MAP) {
                    const u32 less = map[column / 32] & ((1u << (column % 32)) - 1);
                    ordered[begin + before[column / 32] + __popc(less)] = edge;
                }
            }
        }
        __syncthreads();
    }
}
