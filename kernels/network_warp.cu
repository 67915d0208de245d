// Dynamic time warping of the pairs of a window's nodes within a band, in f64: every sum is that of the CPU, to the last
// bit. Lower bounds (Keogh's, both ways) leave out pairs whose sum is beyond `most`.
//
// A warp aligns one pair. A cell of the band has a lag s - t and lies on the diagonal s + t. The lags are shared out to the
// lanes, CELLS to each, in registers; a step is a diagonal, which has every second lag. A cell follows from its own lag two
// diagonals before, and from the lags on either side one diagonal before.
//: variants -DCELLS=2 | -DCELLS=8 | -DCELLS=32

typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 ALL = 0xffffffffu;
// Later nodes that a warp takes at a time.
constexpr int GROUP = 8;
// Steps after which a warp looks whether any sum is still within reach.
constexpr int OFTEN = 32;
// Samples after which it looks at the sum of a bound.
constexpr int STRIDE = 128;
// Rounding of the bounds' sums, with room to spare.
constexpr double SLACK = 1 + 1e-9;

// Entries of `tally`: the next item, pairs within `most`, pairs that were aligned.
constexpr int NEXT = 0, KEPT = 1, ALIGNED = 2;

__device__ __forceinline__ double far_away() { return __longlong_as_double(0x7ff0000000000000ll); }

// True if samples are so far outside another node's envelope that no path stays within `most`. All threads of the warp.
__device__ __forceinline__ bool outside(const double* x, const double* upper, const double* lower, int length,
                                        double most, int lane) {
    double own = 0;
    for (int from = 0; from < length; from += STRIDE) {
        const int to = min(length, from + STRIDE);
        for (int t = from + lane; t < to; t += 32) {
            const double apart = fmax(x[t] - upper[t], 0.0) + fmax(lower[t] - x[t], 0.0);
            own += apart * apart;
        }
        double sum = own;
        for (int d = 16; d; d /= 2) {
            sum += __shfl_xor_sync(ALL, sum, d);
        }
        if (sum > most * SLACK) {
            return true;
        }
    }
    return false;
}

// The cells of diagonal `d` of the lags of this parity.
template <int PARITY>
__device__ __forceinline__ void step_on(double (&sums)[CELLS], const double* x, const double* y, int length, int band,
                                        int d, int lane) {
    // The one neighbour that is another lane's.
    double other = PARITY == 0 ? __shfl_up_sync(ALL, sums[CELLS - 1], 1) : __shfl_down_sync(ALL, sums[0], 1);
    if (lane == (PARITY == 0 ? 0 : 31)) {
        other = far_away();
    }
#pragma unroll
    for (int e = PARITY; e < CELLS; e += 2) {
        const double below = e > 0 ? sums[e > 0 ? e - 1 : 0] : other;
        const double above = e < CELLS - 1 ? sums[e < CELLS - 1 ? e + 1 : 0] : other;
        const int lag = lane * CELLS + e - band;
        const int s = (d + lag) >> 1, t = (d - lag) >> 1;
        double sum = far_away();
        if (lag <= band && s >= 0 && t >= 0 && s < length && t < length) {
            const double apart = x[s] - y[t];
            // Not fused: the CPU's sums are not.
            sum = __dadd_rn(fmin(fmin(sums[e], below), above), __dmul_rn(apart, apart));
        }
        sums[e] = sum;
    }
}

// The least sum of squares along a path; infinite if all are beyond `most`. All threads of the warp.
__device__ __forceinline__ double align(const double* x, const double* y, int length, int band, double most, int lane) {
    double sums[CELLS];
#pragma unroll
    for (int e = 0; e < CELLS; ++e) {
        // Paths begin with nothing.
        sums[e] = lane * CELLS + e == band ? 0 : far_away();
    }
#pragma unroll 1
    for (int d = 0; d <= 2 * (length - 1); ++d) {
        if ((d + band) % 2) {
            step_on<1>(sums, x, y, length, band, d, lane);
        } else {
            step_on<0>(sums, x, y, length, band, d, lane);
        }
        // A path passes through one of two diagonals that follow each other.
        if (d % OFTEN == OFTEN - 1) {
            bool within = false;
#pragma unroll
            for (int e = 0; e < CELLS; ++e) {
                within |= sums[e] <= most;
            }
            if (!__any_sync(ALL, within)) {
                return far_away();
            }
        }
    }
    double sum = far_away();
#pragma unroll
    for (int e = 0; e < CELLS; ++e) {
        sum = lane * CELLS + e == band ? sums[e] : sum;
    }
    return __shfl_sync(ALL, sum, band / CELLS);
}

// Pairs of the nodes from `first` to before `last` with later ones.
// pairs: the two nodes of each pair whose sum is at most `most`, in any order, and squares: these sums; tally[KEPT] are
// there. `samples`, `upper` and `lower` have one node after the other. `band` is below `length`, and 2 band + 1 are at most
// 32 CELLS. tally is 0. Any number of blocks.
//: samples: in, nodes * length
//: upper: in, nodes * length
//: lower: in, nodes * length
//: pairs: in-out, last.saturating_sub(first) * nodes * 2
//: squares: in-out, last.saturating_sub(first) * nodes
//: tally: in-out, WARP_TALLY
extern "C" __global__ void __launch_bounds__(128)
network_warp(const double* __restrict__ samples, const double* __restrict__ upper, const double* __restrict__ lower,
             int nodes, int length, int band, double most, int first, int last, u32* pairs, double* squares,
             u64* tally) {
    const int lane = threadIdx.x % 32;
    const int groups = (nodes + GROUP - 1) / GROUP;
    const u64 items = (u64)(last - first) * groups;
    u64 aligned = 0;
    for (;;) {
        u64 item = 0;
        if (lane == 0) {
            item = atomicAdd(tally + NEXT, 1ull);
        }
        item = __shfl_sync(ALL, item, 0);
        if (item >= items) {
            break;
        }
        const int i = first + (int)(item / groups), from = (int)(item % groups) * GROUP;
        const u64 row = (u64)i * length;
        const double* x = samples + row;
        const int end = min(from + GROUP, nodes);
        for (int j = max(from, i + 1); j < end; ++j) {
            const u64 other = (u64)j * length;
            const double* y = samples + other;
            const double a = x[0] - y[0], b = x[length - 1] - y[length - 1];
            if (a * a + b * b > most * SLACK || outside(y, upper + row, lower + row, length, most, lane) ||
                outside(x, upper + other, lower + other, length, most, lane)) {
                continue;
            }
            ++aligned;
            const double sum = align(x, y, length, band, most, lane);
            if (lane == 0 && sum <= most) {
                const u64 at = atomicAdd(tally + KEPT, 1ull);
                pairs[2 * at] = i;
                pairs[2 * at + 1] = j;
                squares[at] = sum;
            }
        }
    }
    if (lane == 0) {
        atomicAdd(tally + ALIGNED, aligned);
    }
}
