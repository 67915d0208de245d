// Pairs of places that may have been near for a time within a window: all that the CPU keeps, and few others. The host
// decides them.
//
// A tile of 64 x 64 pairs is looked at by 256 threads, 4 x 4 pairs each. Every pair that is near for long enough is near at
// one of the instants that are looked at first; only such a pair is followed through the window.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int SIDE = 64;
// Threads along a side of a tile, and pairs of a thread along it.
constexpr int ACROSS = 16, OWN = 4;
constexpr u32 ALL = 0xffffffffu;

// Entries of `tally`: the next tile, pairs that are kept.
constexpr int NEXT = 0, KEPT = 1;

// Pairs of the blocks of 64 nodes from `first` to before `last` with later nodes.
// places: (instant, axis, node), three axes; NaN where a node has no place. `most`: the square of the distance that near
// ones do not exceed, a little enlarged. pairs: the two nodes of each pair that is near for `near` instants, with up to `gap`
// between near ones, in any order; tally[KEPT] are there. tally is 0. Any number of blocks.
//: places: in, instants * 3 * nodes
//: pairs: in-out, last.saturating_sub(first) * NEAR_SIDE * nodes * 2
//: tally: in-out, PAIR_TALLY
extern "C" __global__ void __launch_bounds__(256)
network_near(const double* __restrict__ places, int nodes, int instants, int near, int gap, double most, int first,
             int last, u32* pairs, u64* tally) {
    __shared__ u64 current;
    const int column0 = threadIdx.x % ACROSS, row0 = threadIdx.x / ACROSS, lane = threadIdx.x % 32;
    const int blocks = (nodes + SIDE - 1) / SIDE, stride = near - gap;
    const u64 items = (u64)(last - first) * blocks;
    const auto is_near = [&](int t, int i, int j) {
        const double* at = places + (u64)t * 3 * nodes;
        const double x = at[i] - at[j], y = at[nodes + i] - at[nodes + j], z = at[2 * nodes + i] - at[2 * nodes + j];
        return x * x + y * y + z * z <= most;
    };
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            current = atomicAdd(tally + NEXT, 1ull);
        }
        __syncthreads();
        if (current >= items) {
            break;
        }
        const int row_block = first + (int)(current / blocks), column_block = (int)(current % blocks);
        if (column_block < row_block) {
            continue;
        }
        int rows[OWN], columns[OWN];
#pragma unroll
        for (int e = 0; e < OWN; ++e) {
            // Nodes behind the last are left out in the end.
            rows[e] = min(row_block * SIDE + row0 + ACROSS * e, nodes - 1);
            columns[e] = min(column_block * SIDE + column0 + ACROSS * e, nodes - 1);
        }
        u32 seen = 0;
        for (int t = 0; t < instants; ++t) {
            if (t % stride > gap) {
                continue;
            }
            double x[OWN][3], y[OWN][3];
#pragma unroll
            for (int axis = 0; axis < 3; ++axis) {
                const double* at = places + ((u64)t * 3 + axis) * nodes;
#pragma unroll
                for (int e = 0; e < OWN; ++e) {
                    x[e][axis] = at[rows[e]];
                    y[e][axis] = at[columns[e]];
                }
            }
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
#pragma unroll
                for (int j = 0; j < OWN; ++j) {
                    double squares = 0;
#pragma unroll
                    for (int axis = 0; axis < 3; ++axis) {
                        const double apart = x[i][axis] - y[j][axis];
                        squares += apart * apart;
                    }
                    seen |= (u32)(squares <= most) << (OWN * i + j);
                }
            }
        }
#pragma unroll 1
        for (int own = 0; own < OWN * OWN; ++own) {
            const int i = row_block * SIDE + row0 + ACROSS * (own / OWN);
            const int j = column_block * SIDE + column0 + ACROSS * (own % OWN);
            bool keep = seen >> own & 1 && i < j && j < nodes;
            if (keep) {
                keep = false;
                // The run of near instants so far: its first one and its last.
                int begin = 0, before = -1;
                for (int t = 0; t < instants && !keep; ++t) {
                    if (is_near(t, i, j)) {
                        if (before < 0 || t - before - 1 > gap) {
                            begin = t;
                        }
                        before = t;
                        keep = t + 1 - begin >= near;
                    }
                }
            }
            const u32 those = __ballot_sync(ALL, keep);
            if (!those) {
                continue;
            }
            u64 at = 0;
            if (lane == 0) {
                at = atomicAdd(tally + KEPT, (u64)__popc(those));
            }
            at = __shfl_sync(ALL, at, 0) + __popc(those & ((1u << lane) - 1));
            if (keep) {
                pairs[2 * at] = i;
                pairs[2 * at + 1] = j;
            }
        }
    }
}
