// Magnitude-squared coherence of the pairs of a window's nodes, in f64, from spectra that the host has made: every value is
// that of the CPU, to the last bit.
//
// Spectra are (block of 64 nodes, frequency, segment, part, node of the block), real parts and imaginary ones; the squares of
// a node's numbers at a frequency add up to 1. A tile of 64 x 64 pairs stays in registers, 4 x 4 per thread.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int SIDE = 64, THREADS = 256;
// Threads along a side of a tile, and pairs of a thread along it.
constexpr int ACROSS = 16, OWN = 4;
// Segments at a frequency that are in shared memory at a time.
constexpr int STEPS = 16;
constexpr u32 ALL = 0xffffffffu;

// Entries of `tally`: the next tile, pairs that are kept.
constexpr int NEXT = 0, KEPT = 1;

// Pairs of the blocks of nodes from `first` to before `last` with later nodes.
// pairs: the two nodes of each pair whose value is at least `least`, in any order, and values; tally[KEPT] are there. A
// value is the mean over the frequencies, or the largest with `peak`. tally is 0. Any number of blocks.
//: spectra: in, nodes.div_ceil(COHERENCE_SIDE) * COHERENCE_SIDE * bins * segments * 2
//: pairs: in-out, last.saturating_sub(first) * COHERENCE_SIDE * nodes * 2
//: values: in-out, last.saturating_sub(first) * COHERENCE_SIDE * nodes
//: tally: in-out, PAIR_TALLY
extern "C" __global__ void __launch_bounds__(256)
network_coherence(const double* __restrict__ spectra, int nodes, int bins, int segments, int peak, double least,
                  int first, int last, u32* pairs, double* values, u64* tally) {
    __shared__ double staged[2][STEPS][2][SIDE];
    __shared__ u64 current;
    const int column0 = threadIdx.x % ACROSS, row0 = threadIdx.x / ACROSS, lane = threadIdx.x % 32;
    const int blocks = (nodes + SIDE - 1) / SIDE, all = bins * segments;
    const u64 items = (u64)(last - first) * blocks;
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
        const double* rows = spectra + (u64)row_block * all * 2 * SIDE;
        const double* columns = spectra + (u64)column_block * all * 2 * SIDE;
        double value[OWN][OWN] = {}, re[OWN][OWN] = {}, im[OWN][OWN] = {};
        int left = segments;
        for (int from = 0; from < all; from += STEPS) {
            const int steps = min(STEPS, all - from);
            __syncthreads();
            for (int at = threadIdx.x; at < steps * 2 * SIDE; at += THREADS) {
                const u64 own = (u64)from * 2 * SIDE + at;
                (&staged[0][0][0][0])[at] = rows[own];
                (&staged[1][0][0][0])[at] = columns[own];
            }
            __syncthreads();
#pragma unroll 1
            for (int own = 0; own < steps; ++own) {
                double a[OWN], b[OWN], c[OWN], d[OWN];
#pragma unroll
                for (int e = 0; e < OWN; ++e) {
                    a[e] = staged[0][own][0][row0 + ACROSS * e];
                    b[e] = staged[0][own][1][row0 + ACROSS * e];
                    c[e] = staged[1][own][0][column0 + ACROSS * e];
                    d[e] = staged[1][own][1][column0 + ACROSS * e];
                }
#pragma unroll
                for (int i = 0; i < OWN; ++i) {
#pragma unroll
                    for (int j = 0; j < OWN; ++j) {
                        re[i][j] = fma(a[i], c[j], fma(b[i], d[j], re[i][j]));
                        im[i][j] = fma(b[i], c[j], fma(-a[i], d[j], im[i][j]));
                    }
                }
                if (--left > 0) {
                    continue;
                }
                left = segments;
#pragma unroll
                for (int i = 0; i < OWN; ++i) {
#pragma unroll
                    for (int j = 0; j < OWN; ++j) {
                        const double power = fma(re[i][j], re[i][j], __dmul_rn(im[i][j], im[i][j]));
                        value[i][j] = peak ? fmax(value[i][j], power) : __dadd_rn(value[i][j], power);
                        re[i][j] = im[i][j] = 0;
                    }
                }
            }
        }
        const double over = peak ? 1 : bins;
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const int row = row_block * SIDE + row0 + ACROSS * i;
#pragma unroll
            for (int j = 0; j < OWN; ++j) {
                const int column = column_block * SIDE + column0 + ACROSS * j;
                const double own = fmin(value[i][j] / over, 1.0);
                const bool keep = row < column && column < nodes && own >= least;
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
                    pairs[2 * at] = row;
                    pairs[2 * at + 1] = column;
                    values[at] = own;
                }
            }
        }
    }
}
