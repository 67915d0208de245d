// Inputs of the walk through a chunk of windows (`network_walk.cu`): moments of every window and
// node, scales, where blocks start anew, panels. One thread per node, nodes side by side: samples are
// (instant, node). Every sum is f64, and the window's mean is subtracted before anything is rounded.
//
// INPUT: u8, u16, i16, float or double; tests compile two of them.
//: variants -DINPUT=i16 | -DINPUT=double

typedef unsigned char u8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef unsigned long long u64;

// Nodes of a block of panels.
constexpr int BLOCK = 128;
constexpr u32 ALL = 0xffffffffu;
#define INFINITE __longlong_as_double(0x7ff0000000000000ll)

// Why a node has no correlation in a window, or none that f32 sums could give.
constexpr u8 CONSTANT = 1, NOT_FINITE = 2, EXTREME = 3;

// A sum of squares this much smaller than what has gone through its running sum is summed anew.
constexpr double REFRESH = 1e-6;
// Scaled sums of squares beyond this do not go through f32 sums.
constexpr double LARGEST_SQUARES = 1e24;
// A scaled number of a step that is larger is not for f16: its block begins anew.
constexpr double LARGEST_STEP = 32768;
// A node's sum of squares may fall by DRIFT / sqrt(steps since its block began anew), and by no more
// than MOST_FALL: rounding then stays below 2^-25 DRIFT of what there is, and what two f16 leave of a
// step, 2^-22, below 2^-22 MOST_FALL.
constexpr double DRIFT = 256, MOST_FALL = 16;
// From one stretch's scale to the next one's.
constexpr double MOST_RATIO = 1e18;

struct Samples {
    const INPUT* values;
    int nodes, node;
    double fill;

    __device__ double raw(int t) const { return (double)values[(u64)t * nodes + node]; }
    // One that is not finite counts as the node's first finite one.
    __device__ double at(int t) const {
        const double value = raw(t);
        return isfinite(value) ? value : fill;
    }
};

// Running sums about a point near the mean.
struct Running {
    double origin, sum, squares, peak;

    __device__ void anew(const Samples& x, int from, int to) {
        const double first = x.at(from);
        sum = 0;
        for (int t = from; t < to; ++t) {
            sum += x.at(t) - first;
        }
        origin = first + sum / (to - from);
        sum = squares = 0;
        for (int t = from; t < to; ++t) {
            const double v = x.at(t) - origin;
            sum += v;
            squares += v * v;
        }
        peak = squares;
    }

    __device__ void enter(double value) {
        const double v = value - origin;
        sum += v;
        squares += v * v;
        peak = fmax(peak, squares);
    }

    __device__ void leave(double value) {
        const double v = value - origin;
        sum -= v;
        squares -= v * v;
    }
};

// Mean and sum of squares of every window and node.
// mean and squares are (window, node); squares is -0 where the node is constant, negative where it is
// not finite, its size kept for the rule of the anchors; state says which; fill is what stands for
// samples that are not finite. Block (b, r): nodes of block b, windows r * run and on. `odd` counts
// states that are not 0.
//: samples: in, (windows.saturating_sub(1) * step + length).max(instants) * nodes
//: fill: out, padded
//: mean: out, padded * windows
//: squares: out, padded * windows
//: state: out, padded * windows
//: odd: in-out, 1
extern "C" __global__ void __launch_bounds__(128)
network_moments(const INPUT* __restrict__ samples, int instants, int nodes, int padded, int length,
                int step, int windows, int run, double* __restrict__ fill,
                double* __restrict__ mean, double* __restrict__ squares, u8* __restrict__ state,
                u32* odd) {
    const int node = blockIdx.x * BLOCK + threadIdx.x;
    const int first = blockIdx.y * run, last = min(windows, first + run);
    if (node >= nodes) {
        for (int k = first; k < last; ++k) {
            const u64 at = (u64)k * padded + node;
            mean[at] = 0;
            squares[at] = -0.0;
            state[at] = 0;
        }
        if (first == 0) {
            fill[node] = 0;
        }
        return;
    }
    Samples x{samples, nodes, node, 0};
    for (int t = 0; t < instants; ++t) {
        if (isfinite(x.raw(t))) {
            x.fill = x.raw(t);
            break;
        }
    }
    if (first == 0) {
        fill[node] = x.fill;
    }
    Running now;
    // Equal samples that end here, and the instant after the last that was not finite.
    int equal = 0, bad = 0, seen = 0;
    for (int k = first; k < last; ++k) {
        const int from = k * step, to = from + length;
        for (int t = max(seen, from); t < to; ++t) {
            const bool begins = t == from && (k == first || seen < from);
            equal = !begins && x.at(t) == x.at(t - 1) ? equal + 1 : 1;
            if (!isfinite(x.raw(t))) {
                bad = t + 1;
            }
        }
        seen = to;
        if (k == first || 2 * (u64)step >= (u64)length) {
            now.anew(x, from, to);
        } else {
            for (int t = to - step; t < to; ++t) {
                now.enter(x.at(t));
            }
            for (int t = from - step; t < from; ++t) {
                now.leave(x.at(t));
            }
        }
        double shift = now.sum / length;
        double about_mean = now.squares - now.sum * shift;
        const bool constant = equal >= length;
        // Written so that NaN counts as stale.
        if (!constant && !(about_mean >= REFRESH * now.peak)) {
            now.anew(x, from, to);
            shift = now.sum / length;
            about_mean = now.squares - now.sum * shift;
        }
        u8 why = 0;
        if (bad > from) {
            why = NOT_FINITE;
        } else if (constant) {
            why = CONSTANT;
        } else if (!isfinite(about_mean)) {
            why = NOT_FINITE;
        } else if (about_mean <= 0) {
            why = CONSTANT;
        }
        if (why == CONSTANT) {
            about_mean = -0.0;
        } else if (why == NOT_FINITE) {
            about_mean = isnan(about_mean) ? -INFINITE : -fmax(fabs(about_mean), 1e-300);
        }
        const u64 at = (u64)k * padded + node;
        mean[at] = now.origin + shift;
        squares[at] = about_mean;
        state[at] = why;
        if (why) {
            atomicAdd(odd, 1);
        }
    }
}

// Scales, factors, and the blocks that begin anew.
// Every `stretch` consecutive windows have one scale: a node's samples are multiplied with scale (stretch, node), so
// that no defined window of it has a sum of squares below the square of `unit`: the sum of products of a
// pair is then no smaller than its correlation times that square. ratio: scale over that of the stretch before. factor (window, node)
// makes correlations of such sums, 0 where there is none; bound (window, 32 nodes): the largest.
// anchor (block, 32 windows): a bit for every window in which the block's pairs begin anew. One block of
// threads per block of nodes.
//: squares: in, padded * windows
//: scale: out, padded * windows.div_ceil(stretch.max(1))
//: ratio: out, padded * windows.div_ceil(stretch.max(1))
//: factor: out, padded * windows
//: bound: out, padded / 32 * windows
//: anchor: out, grid.x * windows.div_ceil(32)
//: state: in-out, padded * windows
//: odd: in-out, 1
extern "C" __global__ void __launch_bounds__(128)
network_scales(const double* __restrict__ squares, int padded, int step, int windows, int stretch,
               double unit, double* __restrict__ scale, float* __restrict__ ratio, float* __restrict__ factor,
               float* __restrict__ bound, u32* __restrict__ anchor, u8* __restrict__ state, u32* odd) {
    const int block = blockIdx.x;
    const int node = block * BLOCK + threadIdx.x;
    const int stretches = (windows + stretch - 1) / stretch;
    double least = INFINITE;
    for (int g = 0; g < stretches; ++g) {
        double low = INFINITE;
        const int last = min(windows, (g + 1) * stretch);
#pragma unroll 8
        for (int k = g * stretch; k < last; ++k) {
            const double v = squares[(u64)k * padded + node];
            low = v > 0 && v < low ? v : low;
        }
        least = fmin(least, low);
        scale[(u64)g * padded + node] = low;
    }
    double before = 0;
    for (int g = 0; g < stretches; ++g) {
        double low = scale[(u64)g * padded + node];
        low = low < INFINITE ? low : least;
        const double now = low < INFINITE ? unit / sqrt(low) : 1;
        scale[(u64)g * padded + node] = now;
        ratio[(u64)g * padded + node] = g > 0 ? (float)fmin(now / before, MOST_RATIO) : 1.f;
        before = now;
    }
    double peak = 0, squared = 0, size_before = 0;
    // True if the sums of this node are of no use until they begin anew.
    bool spoilt = false;
    u64 steps = 0;
    u32 word = 0;
    // A window ahead of its use, past the barrier.
    double ahead = squares[node];
    for (int k = 0; k < windows; ++k) {
        if (k % stretch == 0) {
            const double own = scale[(u64)(k / stretch) * padded + node];
            squared = own * own;
            // Sums of the window before, in the new scale.
            spoilt |= k > 0 && (!(size_before * squared <= LARGEST_SQUARES) ||
                                own > MOST_RATIO * before);
            before = own;
        }
        const u64 at = (u64)k * padded + node;
        const double v = ahead, size = fabs(v);
        ahead = k + 1 < windows ? squares[at + padded] : 0;
        const double scaled = v * squared;
        const bool within = scaled >= 1 / LARGEST_SQUARES && scaled <= LARGEST_SQUARES;
        const float own = within ? (float)(1 / sqrt(scaled)) : 0.f;
        factor[at] = own;
        if (v > 0 && !within) {
            state[at] = EXTREME;
            atomicAdd(odd, 1);
        }
        const u32 largest = __reduce_max_sync(ALL, __float_as_uint(own));
        if (threadIdx.x % 32 == 0) {
            bound[(u64)k * (padded / 32) + node / 32] = __uint_as_float(largest);
        }
        const bool too_large = !(size * squared <= LARGEST_SQUARES);
        peak = fmax(peak, size);
        const double fall = steps > 0 ? fmin(DRIFT / sqrt((double)steps), MOST_FALL) : MOST_FALL;
        const bool fell = own > 0 && (spoilt || peak > fall * size);
        spoilt |= too_large;
        const bool anew = __syncthreads_or(fell);
        if (anew || k == 0) {
            peak = size;
            spoilt = too_large;
            steps = 0;
        }
        // The first window begins anew anyway.
        word |= (u32)(anew && k > 0) << (k % 32);
        if (k % 32 == 31 || k + 1 == windows) {
            if (threadIdx.x == 0) {
                anchor[(u64)block * ((windows + 31) / 32) + k / 32] = word;
            }
            word = 0;
        }
        steps += 2 * (u64)step;
        size_before = size;
    }
}

// A number as the sum of two f16: hi in the lower half of the word.
__device__ __forceinline__ u32 halves(float value) {
    u16 hi, lo;
    float back;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(hi) : "f"(value));
    asm("cvt.f32.f16 %0, %1;" : "=f"(back) : "h"(hi));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(lo) : "f"(value - back));
    return (u32)lo << 16 | hi;
}

// The steps from each window to the next, of the centred update by 2s vectors (crates/lab/network,
// `panel.rs`), each number in two halves. Step (window - 1) * step + e of a block is 256 words in the order
// in which the walk's lanes read them: [node / 64][node / 32 % 2][node % 8][side][node / 8 % 4], side 0
// what is added, 1 what is taken away. `steps` is the room of a block. Windows from 1 on. Where a number is
// too large, the block begins anew in the next window in which the node is defined.
//: samples: in, (windows.saturating_sub(1) * step + length) * nodes
//: fill: in, padded
//: mean: in, padded * windows
//: scale: in, padded * windows.div_ceil(stretch.max(1))
//: factor: in, padded * windows
//: anchor: in-out, grid.x * windows.div_ceil(32)
//: panels: out, grid.x * steps * STEP_WORDS
extern "C" __global__ void __launch_bounds__(128)
network_panels(const INPUT* __restrict__ samples, int nodes, int padded, int length, int step,
               int windows, int run, int stretch, const double* __restrict__ fill,
               const double* __restrict__ mean, const double* __restrict__ scale,
               const float* __restrict__ factor, int steps, u32* __restrict__ anchor,
               u32* __restrict__ panels) {
    const int own = threadIdx.x, node = blockIdx.x * BLOCK + own;
    const int first = 1 + blockIdx.y * run, last = min(windows, first + run);
    const Samples x{samples, nodes, node, fill[node]};
    const double g = (double)step / length, root = sqrt(1 + g * g);
    const double plus = root - g, minus = root + g;
    double alpha = g, beta = plus - 1 + g;
    const double norm = sqrt(alpha * alpha + beta * beta);
    alpha /= norm;
    beta /= norm;
    const double root_plus = sqrt(plus), root_minus = sqrt(minus);
    const double h = 1 / sqrt((double)step);
    const double f = step > 1 ? 2 / (2 - 2 * h) * h : 0;
    u32* const of_block = panels + (u64)blockIdx.x * steps * 2 * BLOCK;
    u32* const of_node = of_block + own / 32 * 64 + own % 8 * 8 + own / 8 % 4;
    for (int k = first; k < last; ++k) {
        u32* out = of_node + (u64)(k - 1) * step * 2 * BLOCK;
        const auto at = [&](int e, int side) -> u32& { return out[e * 2 * BLOCK + 4 * side]; };
        if (node >= nodes) {
            for (int e = 0; e < step; ++e) {
                at(e, 0) = at(e, 1) = 0;
            }
            continue;
        }
        const double centre = mean[(u64)(k - 1) * padded + node];
        const double unit = scale[(u64)(k / stretch) * padded + node];
        bool fits = true;
        const auto put = [&](int e, int side, double value) {
            const double scaled = value * unit;
            // Written so that NaN does not fit.
            const bool small = fabs(scaled) <= LARGEST_STEP;
            fits &= small;
            at(e, side) = small ? halves((float)scaled) : 0;
        };
        const int old = (k - 1) * step, entering = old + length;
        const double first_new = x.at(entering) - centre, first_old = x.at(old) - centre;
        double a = first_new, d = first_old;
        for (int e = 1; e < step; ++e) {
            a += x.at(entering + e) - centre;
            d += x.at(old + e) - centre;
        }
        for (int e = 1; e < step; ++e) {
            put(e, 0, x.at(entering + e) - centre - f * (a * h - first_new));
            put(e, 1, x.at(old + e) - centre - f * (d * h - first_old));
        }
        a *= h;
        d *= h;
        put(0, 0, root_plus * (alpha * a + beta * d));
        put(0, 1, root_minus * (alpha * d - beta * a));
        if (!fits) {
            int next = k;
            while (next < windows && !(factor[(u64)next * padded + node] > 0)) {
                ++next;
            }
            if (next < windows) {
                atomicOr(anchor + (u64)blockIdx.x * ((windows + 31) / 32) + next / 32, 1u << (next % 32));
            }
        }
    }
}
