// Measures that follow from f64 sums over a window, for sliding windows: Euclidean distances, covariances, and the phase
// locking of phases. A tile of 64 x 64 pairs of nodes stays in registers, 4 x 4 per thread, and goes through a run of windows:
// the first one's samples are added up, then those that come and leave. A bound of the sums' rounding goes with every value:
// a pair that it leaves open gets NaN for its value, and the host decides.
//
// A slot is that of `network_walk.cu`.
//
// INPUT: u8, u16, i16, float or double. MEASURE: 0 Euclidean distance, 1 covariance, 2 phase-locking value, 3 the corrected
// imaginary one, 4 pairwise phase consistency.
//: variants -DINPUT=double -DMEASURE=0 | -DINPUT=float -DMEASURE=1 | -DINPUT=float -DMEASURE=2 | -DINPUT=i16 -DMEASURE=3 | -DINPUT=double -DMEASURE=4

typedef unsigned char u8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef unsigned long long u64;

#include "network_slots.cuh"

constexpr int EUCLIDEAN = 0, COVARIANCE = 1, LOCKING = 2, IMAGINARY = 3, CONSISTENCY = 4;
constexpr int SIDE = 64, THREADS = 256;
// Threads along a side of a tile, and pairs of a thread along it.
constexpr int ACROSS = 16, OWN = 4;
// Values of a node at an instant: a sample, or a phase's cosine and sine. Sums of a pair likewise.
constexpr int PARTS = MEASURE >= LOCKING ? 2 : 1;
// Samples in shared memory at a time.
constexpr int STEPS = 16;
constexpr float NO_VALUE = 2e38f;
constexpr u8 NOT_FINITE = 2;
// Rounding near a threshold, relative and absolute; the host knows how ties count.
constexpr double NEAR = 1e-12;
// A value is good for f32 if it is off by no more than this part of it.
constexpr double FINE = 1e-7;

// Entries of `tally`; CAPACITY is given, the others are counted.
constexpr int NEXT = 0, SLOTS = 1, KEPT = 3, DOUBTFUL = 5, CAPACITY = 6;

// Samples of the windows of a run as they are summed.
struct Run {
    int begin, end, length, step, direct;

    __device__ Run(int run, int at_once, int windows, int length, int step, int direct)
        : begin(run * at_once), end(min(windows, begin + at_once)), length(length), step(step), direct(direct) {}
    // Samples that are added or taken away.
    __device__ int count() const {
        const int further = direct ? length : 2 * step;
        return length + (end - begin - 1) * further;
    }
    // The instant of number `at`, and +1, or -1 where it leaves.
    __device__ int instant(int at, double& sign) const {
        sign = 1;
        if (direct) {
            return (begin + at / length) * step + at % length;
        }
        if (at < length) {
            return begin * step + at;
        }
        const int rest = at - length, own = rest % (2 * step);
        const int before = (begin + rest / (2 * step)) * step;
        if (own < step) {
            return before + length + own;
        }
        sign = -1;
        return before + own - step;
    }
    // True if a window is whole after number `at`.
    __device__ bool whole(int at) const {
        return direct ? (at + 1) % length == 0 : at + 1 >= length && (at + 1 - length) % (2 * step) == 0;
    }
};

// Values, sums of squares and states of the nodes of a run of windows each.
// values: (instant, part, node), 0 where a sample is not finite, and for nodes behind the last. squares: of each run, a bound
// of a node's sum of squares in its windows. means: of each window, for covariances. One thread per node and run: blocks of
// 128 threads, grid.y runs.
//: samples: in, (windows.saturating_sub(1) * step + length) * nodes
//: values: out, (windows.saturating_sub(1) * step + length) * padded * parts
//: squares: out, padded * windows.div_ceil(at_once.max(1))
//: means: out, padded * windows
//: state: out, padded * windows
//: odd: in-out, 1
extern "C" __global__ void __launch_bounds__(128)
network_sum_prepare(const INPUT* __restrict__ samples, int nodes, int padded, int parts, int length, int step,
                    int windows, int at_once, double* values, double* squares, double* means, u8* state, u32* odd) {
    const int node = blockIdx.x * blockDim.x + threadIdx.x;
    const int begin = blockIdx.y * at_once, end = min(windows, begin + at_once);
    if (node >= padded || begin >= end || parts != PARTS) {
        return;
    }
    const bool there = node < nodes;
    const auto raw = [&](int t) { return there ? (double)samples[(u64)t * nodes + node] : 0.0; };
    // Sums of small numbers round less: distances are about one sample, covariances about one of the node's own.
    double origin = 0;
    if (MEASURE == EUCLIDEAN || MEASURE == COVARIANCE) {
        const double first = (double)samples[MEASURE == COVARIANCE && there ? node : 0];
        origin = isfinite(first) ? first : 0;
    }
    const auto value = [&](int t) {
        const double x = raw(t);
        return there && isfinite(x) ? x - origin : 0.0;
    };
    double sum = 0;
    for (int t = begin * step; t < (end - 1) * step + length; ++t) {
        const double x = value(t);
        double* to = values + (u64)t * PARTS * padded + node;
        if (MEASURE >= LOCKING) {
            const bool fits = there && isfinite(raw(t));
            double sine, cosine;
            sincos(x, &sine, &cosine);
            to[0] = fits ? cosine : 0;
            to[(PARTS - 1) * padded] = fits ? sine : 0;
            sum += 1;
        } else {
            to[0] = x;
            sum += x * x;
        }
    }
    squares[(u64)blockIdx.y * padded + node] = sum;
    for (int k = begin; k < end; ++k) {
        bool finite = true;
        double total = 0;
        for (int t = k * step; t < k * step + length; ++t) {
            finite = finite && isfinite(raw(t));
            total += value(t);
        }
        means[(u64)k * padded + node] = total / length;
        state[(u64)k * padded + node] = finite ? 0 : NOT_FINITE;
        if (!finite) {
            atomicAdd(odd, 1u);
        }
    }
}

// A pair's value, and the least and the largest that its size may be; NaN for what is not known.
struct Value {
    double value, low, high;
    bool fine;
};

__device__ __forceinline__ double size_of(double value, int sign) {
    if (MEASURE != COVARIANCE) {
        return MEASURE == EUCLIDEAN ? -value : value;
    }
    return sign == 0 ? fabs(value) : sign > 0 ? value : -value;
}

// The number that `is_far` compares sums with, in a window with this threshold.
__device__ __forceinline__ double bar_of(double threshold, int length) {
    // Far more than sums of cosines and sines are off by.
    constexpr double MARGIN = 1e-6;
    if (MEASURE == EUCLIDEAN) {
        // No distance has a size above 0.
        return threshold > 0 ? -1 : threshold * threshold * (1 + 4 * NEAR) + NEAR * NEAR;
    }
    if (MEASURE == COVARIANCE) {
        return (threshold - NEAR * (1 + threshold)) * (length - 1);
    }
    if (MEASURE == CONSISTENCY) {
        return length * ((threshold - MARGIN) * (length - 1) + 1);
    }
    const double least = fmax(threshold - MARGIN, 0.0);
    return least * least * (MEASURE == LOCKING ? (double)length * length : 1);
}

// True if a pair is far from the threshold, without a root; `a` and `b`: as for `value_of`.
__device__ __forceinline__ bool is_far(const double (&sums)[PARTS], double a, double b, double mean, int length,
                                       double unit, int sign, double bar) {
    if (MEASURE == EUCLIDEAN) {
        // At least the square of the threshold and what is near it.
        return sums[0] - unit * (a + b) > bar + 4 * NEAR * (1 + bar);
    }
    if (MEASURE == COVARIANCE) {
        return size_of(sums[0] - length * mean, sign) + 2 * unit * a * b < bar;
    }
    const double re = sums[0] * sums[0], im = sums[PARTS - 1] * sums[PARTS - 1];
    if (MEASURE == IMAGINARY) {
        const double rest = (double)length * length - re;
        return rest > 2e-4 * length * length && im < bar * rest;
    }
    return re + im < bar;
}

// `a`, `b`: the nodes' sums of squares for distances, otherwise their roots. `unit`: the part of these that sums are off by at
// most.
__device__ __forceinline__ Value value_of(const double (&sums)[PARTS], double a, double b, double mean, int length,
                                          double unit, int sign) {
    if (MEASURE == EUCLIDEAN) {
        const double error = unit * (a + b), value = sqrt(fmax(sums[0], 0.0));
        return {value, -sqrt(sums[0] + error), -sqrt(fmax(sums[0] - error, 0.0)), error <= FINE * sums[0]};
    }
    double value, error;
    bool fine = true;
    if (MEASURE == COVARIANCE) {
        value = (sums[0] - length * mean) / (length - 1);
        error = 2 * unit * a * b / (length - 1);
        fine = error <= FINE * fabs(value);
    } else {
        const double re = sums[0] / length, im = sums[PARTS - 1] / length;
        const double off = unit * a * b / length;
        if (MEASURE == LOCKING) {
            value = fmin(sqrt(re * re + im * im), 1.0);
            error = 2 * off;
        } else if (MEASURE == CONSISTENCY) {
            value = (length * (re * re + im * im) - 1) / (length - 1);
            error = 8 * off;
        } else {
            const double rest = 1 - re * re;
            // Close to 0 the quotient magnifies what the sums are off by; at 0 there is none.
            const bool open = !(rest > 1e-4);
            value = open ? 0 : fmin(fabs(im) / sqrt(rest), 1.0);
            error = open ? 2 : 4 * off / rest;
        }
    }
    const double size = size_of(value, sign);
    return {value, size - error, size + error, fine};
}

// Tiles of pairs through windows.
// All windows of the `count` tiles from `first` on (row block << 16 | column block), `at_once` windows of a tile at a time;
// tally[NEXT_TILE] is 0. With `direct` sums begin anew in every window. A pair is an edge of window k if its size reaches
// threshold[k]; distances have negative sizes. `unit`: the part of squares that sums are off by at most. `sign` of
// covariances: 0 both, 1 positive, -1 negative. Any number of blocks.
//: values: in, (windows.saturating_sub(1) * step + length) * padded * parts
//: squares: in, padded * windows.div_ceil(at_once.max(1))
//: means: in, padded * windows
//: state: in, padded * windows
//: tiles: in, first + count
//: threshold: in, windows
//: keys: in-out
//: slots: in-out, keys.len()
//: tally: in-out, TALLY
extern "C" __global__ void __launch_bounds__(256)
network_sums(const double* __restrict__ values, const double* __restrict__ squares, const double* __restrict__ means,
             const u8* __restrict__ state, int nodes, int padded, int parts, int length, int step, int windows,
             int at_once, int direct, const u32* __restrict__ tiles, u32 first, u32 count,
             const double* __restrict__ threshold, double unit, int sign, u64* keys, float* slots, u64* tally) {
    __shared__ double staged[2][STEPS][PARTS][SIDE];
    __shared__ double signs[STEPS];
    __shared__ u64 current;
    if (parts != PARTS) {
        return;
    }
    const int column0 = threadIdx.x % ACROSS, row0 = threadIdx.x / ACROSS;
    const u64 items = (u64)count * ((windows + at_once - 1) / at_once);
    Sink sink{keys, slots, tally + SLOTS, tally[CAPACITY], 0, 0, threadIdx.x % 32, 0};
    u32 doubtful = 0;
    for (;;) {
        __syncthreads();
        if (threadIdx.x == 0) {
            current = atomicAdd(tally + NEXT, 1ull);
        }
        __syncthreads();
        if (current >= items) {
            break;
        }
        const u32 tile = tiles[first + current % count];
        const int run_number = (int)(current / count);
        const Run run(run_number, at_once, windows, length, step, direct);
        const int i0 = (tile >> 16) * SIDE, j0 = (tile & 0xffff) * SIDE;
        const int all = run.count();
        double row_squares[OWN], column_squares[OWN];
#pragma unroll
        for (int e = 0; e < OWN; ++e) {
            const double a = squares[(u64)run_number * padded + i0 + row0 + ACROSS * e];
            const double b = squares[(u64)run_number * padded + j0 + column0 + ACROSS * e];
            row_squares[e] = MEASURE == EUCLIDEAN ? a : sqrt(a);
            column_squares[e] = MEASURE == EUCLIDEAN ? b : sqrt(b);
        }
        double sums[OWN][OWN][PARTS] = {};
        int k = run.begin;
        for (int from = 0; from < all; from += STEPS) {
            const int steps = min(STEPS, all - from);
            __syncthreads();
            for (int at = threadIdx.x; at < 2 * STEPS * PARTS * SIDE; at += THREADS) {
                const int node = at % SIDE, part = at / SIDE % PARTS;
                const int own = at / (SIDE * PARTS) % STEPS, side = at / (SIDE * PARTS * STEPS);
                if (own < steps) {
                    double leaves;
                    const u64 t = run.instant(from + own, leaves);
                    staged[side][own][part][node] = values[(t * PARTS + part) * padded + (side ? j0 : i0) + node];
                    if (node == 0 && part == 0 && side == 0) {
                        signs[own] = leaves;
                    }
                }
            }
            __syncthreads();
#pragma unroll 1
            for (int own = 0; own < steps; ++own) {
                const double leaves = signs[own];
                double x[OWN][PARTS], y[OWN][PARTS];
#pragma unroll
                for (int e = 0; e < OWN; ++e) {
#pragma unroll
                    for (int p = 0; p < PARTS; ++p) {
                        const double row = staged[0][own][p][row0 + ACROSS * e];
                        x[e][p] = MEASURE == EUCLIDEAN ? row : leaves * row;
                        y[e][p] = staged[1][own][p][column0 + ACROSS * e];
                    }
                }
#pragma unroll
                for (int i = 0; i < OWN; ++i) {
#pragma unroll
                    for (int j = 0; j < OWN; ++j) {
                        double(&sum)[PARTS] = sums[i][j];
                        if (MEASURE == EUCLIDEAN) {
                            const double apart = x[i][0] - y[j][0];
                            sum[0] = fma(leaves * apart, apart, sum[0]);
                        } else if (MEASURE == COVARIANCE) {
                            sum[0] = fma(x[i][0], y[j][0], sum[0]);
                        } else {
                            constexpr int SINE = PARTS - 1;
                            sum[0] = fma(x[i][0], y[j][0], fma(x[i][SINE], y[j][SINE], sum[0]));
                            sum[SINE] = fma(x[i][SINE], y[j][0], fma(-x[i][0], y[j][SINE], sum[SINE]));
                        }
                    }
                }
                if (!run.whole(from + own)) {
                    continue;
                }
                const double limit = threshold[k], slack = NEAR * (1 + fabs(limit));
                const double bar = bar_of(limit, length);
                const u64 window = (u64)k * padded;
#pragma unroll
                for (int i = 0; i < OWN; ++i) {
                    const int row = i0 + row0 + ACROSS * i;
#pragma unroll
                    for (int j = 0; j < OWN; ++j) {
                        const int column = j0 + column0 + ACROSS * j;
                        double mean = 0;
                        if (MEASURE == COVARIANCE) {
                            mean = means[window + row] * means[window + column];
                        }
                        // NaN is not far.
                        bool keep = row < column && column < nodes &&
                                    !is_far(sums[i][j], row_squares[i], column_squares[j], mean, length, unit, sign, bar);
                        keep = keep && !state[window + row] && !state[window + column];
                        if (__any_sync(ALL, keep)) {
                            const Value v =
                                value_of(sums[i][j], row_squares[i], column_squares[j], mean, length, unit, sign);
                            keep = keep && !(v.high < limit - slack);
                            const bool sure = v.fine && v.low > limit + slack;
                            const u64 key = (u64)k << 54 | (u64)row << 27 | (u64)column;
                            sink.put(keep, key, sure ? (float)v.value : __int_as_float(0x7fffffff));
                            doubtful += __popc(__ballot_sync(ALL, keep && !sure));
                        }
                        if (direct) {
#pragma unroll
                            for (int p = 0; p < PARTS; ++p) {
                                sums[i][j][p] = 0;
                            }
                        }
                    }
                }
                ++k;
            }
        }
    }
    sink.close(NO_VALUE, tally + KEPT);
    if (sink.lane == 0) {
        atomicAdd(tally + DOUBTFUL, (u64)doubtful);
    }
}
