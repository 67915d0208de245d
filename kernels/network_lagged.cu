// Correlations of a window's pairs of nodes at every lag, in f64: the largest one and its lag. All sums are added up in the
// order of the samples, product by product, so that values, edges and lags are those of plain loops to the last bit.
//
// A tile of 64 x 64 pairs stays in registers, 4 x 4 per thread. Lags come in the order 0, -1, 1, -2, 2 and so on: step s is
// lag (s + 1) / 2, negative where s is odd.

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr int SIDE = 64, THREADS = 256;
// Threads along a side of a tile, and pairs of a thread along it.
constexpr int ACROSS = 16, OWN = 4;
// Samples that are in shared memory at a time.
constexpr int STEPS = 32;
constexpr u32 ALL = 0xffffffffu;

// Two sizes this near are the same.
constexpr double TIE = 0x1p-50;

// `root` of a node that is constant in its window, and of one with a value that is not finite.
constexpr double CONSTANT = 0, NOT_FINITE = -1;

// Entries of `tally`: the next tile, pairs that are kept.
constexpr int NEXT = 0, KEPT = 1;

__device__ __forceinline__ int lag_of(int step) { return step % 2 ? -((step + 1) / 2) : step / 2; }

// Means and roots of the sums of squared deviations of every node, in the window of `length` samples from `start` and in
// those shifted by every lag. samples: (instant, node). grid: x = parts of the nodes, y = steps.
//: samples: in, instants * nodes
//: means: out, grid.y * nodes
//: roots: out, grid.y * nodes
extern "C" __global__ void network_lag_moments(const double* __restrict__ samples, int instants, int nodes, int start,
                                               int length, double* means, double* roots) {
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    if (node >= nodes) {
        return;
    }
    const double* own = samples + (u64)(start + lag_of(blockIdx.y)) * nodes + node;
    bool constant = true, finite = true;
    double sum = -0.0;
    const double first = own[0];
#pragma unroll 4
    for (int t = 0; t < length; ++t) {
        const double value = own[(u64)t * nodes];
        finite &= isfinite(value) != 0;
        constant &= value == first;
        sum = __dadd_rn(sum, value);
    }
    const double mean = __ddiv_rn(sum, (double)length);
    double squares = -0.0;
#pragma unroll 4
    for (int t = 0; t < length; ++t) {
        const double apart = __dsub_rn(own[(u64)t * nodes], mean);
        squares = __dadd_rn(squares, __dmul_rn(apart, apart));
    }
    double root = __dsqrt_rn(squares);
    if (!finite) {
        root = NOT_FINITE;
    } else if (constant || squares == 0) {
        root = CONSTANT;
    } else if (!isfinite(squares)) {
        root = NOT_FINITE;
    }
    means[(u64)blockIdx.y * nodes + node] = mean;
    roots[(u64)blockIdx.y * nodes + node] = root;
}

// Pairs of the blocks of nodes from `first` to before `last` with later nodes, in the window of `length` samples from
// `start`: correlations of the one node's window with the other's at `2 * lags + 1` steps. means and roots: those of
// `network_lag_moments`. sign: of the values that count, 0 for both.
// pairs: the two nodes and the step of each pair whose size is at least `least`, in any order, and values; tally[KEPT] are
// there. Of equal sizes the earlier step counts. tally is 0. Any number of blocks.
//: samples: in, instants * nodes
//: means: in, (2 * lags + 1) * nodes
//: roots: in, (2 * lags + 1) * nodes
//: pairs: in-out, last.saturating_sub(first) * LAGGED_SIDE * nodes * 3
//: values: in-out, last.saturating_sub(first) * LAGGED_SIDE * nodes
//: tally: in-out, PAIR_TALLY
extern "C" __global__ void __launch_bounds__(256, 2)
network_lagged(const double* __restrict__ samples, const double* __restrict__ means, const double* __restrict__ roots,
               int instants, int nodes, int start, int length, int lags, int sign, double least, int first, int last,
               u32* pairs, double* values, u64* tally) {
    // Deviations from the means of the rows' nodes and the columns'.
    __shared__ double staged[2][STEPS][SIDE];
    __shared__ double mean[2][SIDE], root[2][SIDE];
    __shared__ u64 current;
    const int column0 = threadIdx.x % ACROSS, row0 = threadIdx.x / ACROSS, lane = threadIdx.x % 32;
    const int blocks = (nodes + SIDE - 1) / SIDE;
    const u64 items = (u64)(last - first) * blocks;
    const auto size = [sign](double value) { return sign == 0 ? fabs(value) : sign > 0 ? value : -value; };
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
        double best[OWN][OWN] = {};
        int at_step[OWN][OWN];
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
#pragma unroll
            for (int j = 0; j < OWN; ++j) {
                at_step[i][j] = -1;
            }
        }
        for (int step = 0; step <= 2 * lags; ++step) {
            __syncthreads();
            if (threadIdx.x < 2 * SIDE) {
                const int side = threadIdx.x / SIDE, place = threadIdx.x % SIDE;
                // Nodes behind the last are left out in the end.
                const int node = min((side ? column_block : row_block) * SIDE + place, nodes - 1);
                const u64 own = (u64)(side ? step : 0) * nodes + node;
                mean[side][place] = means[own];
                root[side][place] = roots[own];
            }
            const double* rows = samples + (u64)start * nodes;
            const double* columns = samples + (u64)(start + lag_of(step)) * nodes;
            double sum[OWN][OWN];
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
#pragma unroll
                for (int j = 0; j < OWN; ++j) {
                    sum[i][j] = -0.0;
                }
            }
            for (int from = 0; from < length; from += STEPS) {
                const int steps = min(STEPS, length - from);
                __syncthreads();
                for (int at = threadIdx.x; at < steps * SIDE; at += THREADS) {
                    const int t = at / SIDE, place = at % SIDE;
                    const u64 instant = (u64)(from + t) * nodes;
                    const int row = min(row_block * SIDE + place, nodes - 1);
                    const int column = min(column_block * SIDE + place, nodes - 1);
                    staged[0][t][place] = __dsub_rn(rows[instant + row], mean[0][place]);
                    staged[1][t][place] = __dsub_rn(columns[instant + column], mean[1][place]);
                }
                __syncthreads();
#pragma unroll 2
                for (int t = 0; t < steps; ++t) {
                    double x[OWN], y[OWN];
#pragma unroll
                    for (int e = 0; e < OWN; ++e) {
                        x[e] = staged[0][t][row0 + ACROSS * e];
                        y[e] = staged[1][t][column0 + ACROSS * e];
                    }
#pragma unroll
                    for (int i = 0; i < OWN; ++i) {
#pragma unroll
                        for (int j = 0; j < OWN; ++j) {
                            sum[i][j] = __dadd_rn(sum[i][j], __dmul_rn(x[i], y[j]));
                        }
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < OWN; ++i) {
                const double x = root[0][row0 + ACROSS * i];
#pragma unroll
                for (int j = 0; j < OWN; ++j) {
                    const double y = root[1][column0 + ACROSS * j];
                    if (!(x > 0 && y > 0)) {
                        continue;
                    }
                    double value = __ddiv_rn(sum[i][j], __dmul_rn(x, y));
                    value = value < -1 ? -1 : value > 1 ? 1 : value;
                    if (at_step[i][j] < 0 || size(value) > __dadd_rn(size(best[i][j]), TIE)) {
                        best[i][j] = value;
                        at_step[i][j] = step;
                    }
                }
            }
        }
#pragma unroll
        for (int i = 0; i < OWN; ++i) {
            const int row = row_block * SIDE + row0 + ACROSS * i;
#pragma unroll
            for (int j = 0; j < OWN; ++j) {
                const int column = column_block * SIDE + column0 + ACROSS * j;
                const bool keep = at_step[i][j] >= 0 && row < column && column < nodes && size(best[i][j]) >= least;
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
                    pairs[3 * at] = row;
                    pairs[3 * at + 1] = column;
                    pairs[3 * at + 2] = at_step[i][j];
                    values[at] = best[i][j];
                }
            }
        }
    }
}
