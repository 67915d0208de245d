// Sums that R², RMSE and NRMSE are made from, over the rows that count: Σx, Σ(x − x̄)², Σ(x − x̂)² and the
// range of x, for each output and part of the steps. f64, always summed in the same order.
//: module decode

typedef unsigned int u32;

#include "mask.cuh"

#define THREADS 256

// Sums over a part of the steps, about the part's own mean.
struct Part {
    double count;     // rows that count
    double sum;       // Σx
    double squares;   // Σ(x − x̄)²
    double residual;  // Σ(x − x̂)²
    double low;       // the smallest x
    double high;      // the largest x
};

template <class Join>
__device__ double join(double value, double *cells, Join both) {
    cells[threadIdx.x] = value;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            cells[threadIdx.x] = both(cells[threadIdx.x], cells[threadIdx.x + half]);
        }
        __syncthreads();
    }
    double all = cells[0];
    __syncthreads();
    return all;
}

// True when the row counts: paired, and neither truth nor estimate of any output is missing.
__device__ __forceinline__ bool counts(const float *truth, const float *estimate, const Mask *paired,
                                       int step, int outputs) {
    if (!(paired[step / 32].inside >> step % 32 & 1)) return false;
    for (int o = 0; o < outputs; ++o) {
        float x = truth[(size_t)step * outputs + o], e = estimate[(size_t)step * outputs + o];
        if (x != x || e != e) return false;
    }
    return true;
}

// Sums that scores are made from, over parts of the steps.
// grid: x = part of `part_steps` steps, y = output; THREADS threads. Row `step` of `truth` is what row
// `step` of `estimate` stands for. parts[part][output], each about its own mean.
//: truth: in, steps * outputs
//: estimate: in, steps * outputs
//: paired: in, steps.div_ceil(32)
//: parts: out, grid.x * grid.y
extern "C" __global__ void __launch_bounds__(THREADS)
    score_parts(const float *truth, const float *estimate, const Mask *paired, int steps, int part_steps,
                int outputs, Part *parts) {
    __shared__ double cells[THREADS];
    int output = blockIdx.y, first = blockIdx.x * part_steps;
    int stop = min(steps, first + part_steps);
    auto add = [](double a, double b) { return a + b; };
    Part p = {0, 0, 0, 0, __longlong_as_double(0x7ff0000000000000LL),
              __longlong_as_double(0xfff0000000000000LL)};
    for (int step = first + threadIdx.x; step < stop; step += THREADS) {
        if (!counts(truth, estimate, paired, step, outputs)) continue;
        double x = truth[(size_t)step * outputs + output];
        double error = x - estimate[(size_t)step * outputs + output];
        p.count += 1;
        p.sum += x;
        p.residual += error * error;
        p.low = fmin(p.low, x);
        p.high = fmax(p.high, x);
    }
    p.count = join(p.count, cells, add);
    p.sum = join(p.sum, cells, add);
    p.residual = join(p.residual, cells, add);
    p.low = join(p.low, cells, [](double a, double b) { return fmin(a, b); });
    p.high = join(p.high, cells, [](double a, double b) { return fmax(a, b); });
    double mean = p.count > 0 ? p.sum / p.count : 0;
    for (int step = first + threadIdx.x; step < stop; step += THREADS) {
        if (!counts(truth, estimate, paired, step, outputs)) continue;
        double off = truth[(size_t)step * outputs + output] - mean;
        p.squares += off * off;
    }
    p.squares = join(p.squares, cells, add);
    if (threadIdx.x == 0) parts[(size_t)blockIdx.x * gridDim.y + output] = p;
}
