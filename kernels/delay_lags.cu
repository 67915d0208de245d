// Correlations of responses with outputs at many lags, by transforms of overlapping blocks.
//
// `lag_window` puts a round's responses behind those of the rounds before, one window per feature. cuFFT transforms blocks of the
// windows, and of the outputs. `lag_products` adds the products of their spectra, block by block, for every feature and
// output. cuFFT transforms these sums back: value i is the sum at lag i - most. `lag_squares` squares and adds them.
//
//: module gram

typedef unsigned int u32;

#include "mask.cuh"

#define THREADS 256
#define AT_ONCE 4  // outputs whose sums are in registers

// The next window of every feature, and Σa and Σa² of the round's responses.
// grid: x = feature; THREADS threads. A window of `stride` steps begins with the last `kept` steps of the window `before`,
// whose round had `advance` steps. Behind them come `steps` steps of the round, then zeros. Responses outside segments are
// left out: rows of `responses` are `length` steps apart and may have some.
//: before: in, rows(grid.x, stride, advance + kept)
//: responses: in, rows(grid.x, length, steps)
//: mask: in, steps.div_ceil(32)
//: window: out, grid.x * stride
//: totals: in-out, grid.x * 2
extern "C" __global__ void __launch_bounds__(THREADS)
    lag_window(const float *before, int kept, int advance, const float *responses, size_t length,
               const Mask *mask, int steps, size_t stride, float *window, double *totals) {
    __shared__ double sums[THREADS], squares[THREADS];
    const float *old = before + blockIdx.x * stride + advance;
    const float *from = responses + blockIdx.x * length;
    float *to = window + blockIdx.x * stride;
    double sum = 0, square = 0;
    for (size_t i = threadIdx.x; i < stride; i += THREADS) {
        float a = 0;
        if (i < (size_t)kept) {
            a = old[i];
        } else if (i - kept < (size_t)steps) {
            size_t step = i - kept;
            if (mask[step / 32].inside >> step % 32 & 1) {
                a = from[step];
                sum += a;
                square += (double)a * a;
            }
        }
        to[i] = a;
    }
    sums[threadIdx.x] = sum;
    squares[threadIdx.x] = square;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            sums[threadIdx.x] += sums[threadIdx.x + half];
            squares[threadIdx.x] += squares[threadIdx.x + half];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) {
        totals[2 * blockIdx.x] += sums[0];
        totals[2 * blockIdx.x + 1] += squares[0];
    }
}

// Adds A · conj(X) of every block, as pairs of floats.
// grid: x = pairs of a spectrum by THREADS threads, y = feature. A feature has `each` blocks, of which the first `used` count;
// every output has `used`. products[feature][output].
//: windows: in, grid.y * each * 2 * pairs
//: behavior: in, outputs * used * 2 * pairs
//: products: in-out, grid.y * outputs * 2 * pairs
extern "C" __global__ void __launch_bounds__(THREADS)
    lag_products(const float *windows, const float *behavior, int pairs, int each, int used, int outputs,
                 float *products) {
    int k = blockIdx.x * THREADS + threadIdx.x;
    if (k >= pairs) return;
    const float2 *a = (const float2 *)windows + (size_t)blockIdx.y * each * pairs + k;
    const float2 *x = (const float2 *)behavior + k;
    float2 *to = (float2 *)products + (size_t)blockIdx.y * outputs * pairs + k;
    for (int first = 0; first < outputs; first += AT_ONCE) {
        float2 sum[AT_ONCE];
#pragma unroll
        for (int o = 0; o < AT_ONCE; ++o) sum[o] = make_float2(0, 0);
        for (int b = 0; b < used; ++b) {
            float2 y = a[(size_t)b * pairs];
#pragma unroll
            for (int o = 0; o < AT_ONCE; ++o) {
                if (first + o >= outputs) continue;
                float2 z = x[((size_t)(first + o) * used + b) * pairs];
                sum[o].x += y.x * z.x + y.y * z.y;
                sum[o].y += y.y * z.x - y.x * z.y;
            }
        }
#pragma unroll
        for (int o = 0; o < AT_ONCE; ++o) {
            if (first + o >= outputs) continue;
            float2 *at = to + (size_t)(first + o) * pairs;
            at->x += sum[o].x;
            // A real signal has no imaginary part there.
            at->y = k == 0 || k == pairs - 1 ? 0.0f : at->y + sum[o].y;
        }
    }
}

// Adds weight · sum² over a part of the rows, at every lag.
// grid: x = lags by THREADS threads, y = part of `part_rows` rows of `sums`, which are 2 · pairs values apart.
//: sums: in, rows(rows_in_all, 2 * pairs, lags)
//: weight: in, rows_in_all
//: squares: in-out, grid.y * lags
extern "C" __global__ void __launch_bounds__(THREADS)
    lag_squares(const float *sums, int pairs, const double *weight, int rows_in_all, int part_rows, int lags,
                double *squares) {
    int lag = blockIdx.x * THREADS + threadIdx.x;
    if (lag >= lags) return;
    int first = blockIdx.y * part_rows, stop = min(rows_in_all, first + part_rows);
    double total = 0;
    for (int row = first; row < stop; ++row) {
        double sum = sums[(size_t)row * 2 * pairs + lag];
        total += weight[row] * sum * sum;
    }
    squares[(size_t)blockIdx.y * lags + lag] += total;
}
