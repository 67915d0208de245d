// Around cuSOLVER: centring, precision changes and refinement of the decoder's normal equations.

// a = gram − Σa Σaᵀ / steps + ridge on the diagonal, in f64 and, if `rounded` is given, in f32.
// `sums[feature][outputs + 1]` has Υ's row and then Σa. n × n, symmetric.
//: gram: in, n * n
//: sums: in, n * (outputs + 1)
//: a: out, n * n
//: rounded: out or null, n * n
extern "C" __global__ void centre_gram(const double *gram, const double *sums, int n, int outputs,
                                       double steps, double ridge, double *a, float *rounded) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= n) return;
    int stride = outputs + 1;
    double value = gram[(size_t)i * n + j] -
                   sums[(size_t)i * stride + outputs] * sums[(size_t)j * stride + outputs] / steps;
    if (i == j) value += ridge;
    a[(size_t)i * n + j] = value;
    if (rounded) rounded[(size_t)i * n + j] = (float)value;
}

// b = Υ − Σa · x̄, column-major n × outputs, likewise. `mean` has outputs values.
//: sums: in, n * (outputs + 1)
//: mean: in, outputs
//: b: out, n * outputs
//: rounded: out or null, n * outputs
extern "C" __global__ void centre_upsilon(const double *sums, const double *mean, int n,
                                          int outputs, double *b, float *rounded) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, o = blockIdx.y;
    if (i >= n) return;
    const double *row = sums + (size_t)i * (outputs + 1);
    double value = row[o] - row[outputs] * mean[o];
    b[(size_t)o * n + i] = value;
    if (rounded) rounded[(size_t)o * n + i] = (float)value;
}

// x += correction (x = correction the first time).
//: x: in-out, count
//: correction: in, count
extern "C" __global__ void correct(double *x, const float *correction, int count, int first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) x[i] = (first ? 0.0 : x[i]) + correction[i];
}

// residual = b − product, rounded to f32 for the next correction.
//: b: in, count
//: product: in, count
//: rounded: out, count
extern "C" __global__ void residual(const double *b, const double *product, int count,
                                    float *rounded) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) rounded[i] = (float)(b[i] - product[i]);
}

// norms = max |x|, max |correction|, min of pivot² / diagonal over `factor` (its diagonal are the
// pivots) and `a`; one thread block of 256. A value that is not finite gives an infinite correction.
template <class Real>
__device__ void measure(const double *x, const Real *correction, int count, const double *a,
                        const Real *factor, int n, double *norms) {
    __shared__ double shared[3][256];
    double largest = 0.0, change = 0.0, pivot = 1.0e300;
    for (int i = threadIdx.x; i < count; i += 256) {
        double value = fabs(x[i]), step = fabs((double)correction[i]);
        if (!(value <= 1.0e300) || !(step <= 1.0e300)) step = 1.0e308;
        largest = fmax(largest, value);
        change = fmax(change, step);
    }
    for (int i = threadIdx.x; i < n; i += 256) {
        size_t at = (size_t)i * n + i;
        double p = factor[at], ratio = p * p / a[at];
        pivot = fmin(pivot, ratio >= 0.0 ? ratio : 0.0);
    }
    shared[0][threadIdx.x] = largest;
    shared[1][threadIdx.x] = change;
    shared[2][threadIdx.x] = pivot;
    for (int d = 128; d > 0; d /= 2) {
        __syncthreads();
        if (threadIdx.x < d) {
            int other = threadIdx.x + d;
            shared[0][threadIdx.x] = fmax(shared[0][threadIdx.x], shared[0][other]);
            shared[1][threadIdx.x] = fmax(shared[1][threadIdx.x], shared[1][other]);
            shared[2][threadIdx.x] = fmin(shared[2][threadIdx.x], shared[2][other]);
        }
    }
    __syncthreads();
    if (threadIdx.x < 3) norms[threadIdx.x] = shared[threadIdx.x][0];
}

// Largest values of x and its correction, and the factor's smallest pivot.
//: x: in, count
//: correction: in, count
//: a: in, n * n
//: factor: in, n * n
//: norms: out, 3
extern "C" __global__ void __launch_bounds__(256)
    measure_f32(const double *x, const float *correction, int count, const double *a,
                const float *factor, int n, double *norms) {
    measure(x, correction, count, a, factor, n, norms);
}

// As `measure_f32`, for a factor in f64.
//: x: in, count
//: correction: in, count
//: a: in, n * n
//: factor: in, n * n
//: norms: out, 3
extern "C" __global__ void __launch_bounds__(256)
    measure_f64(const double *x, const double *correction, int count, const double *a,
                const double *factor, int n, double *norms) {
    measure(x, correction, count, a, factor, n, norms);
}

// Copies the triangle that cuSOLVER's inverse fills (column-major lower) onto the other.
//: a: in-out, n * n
extern "C" __global__ void mirror_lower(double *a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y;  // element (i, j), i > j
    if (i < n && i > j) a[(size_t)i * n + j] = a[(size_t)j * n + i];
}
