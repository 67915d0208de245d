// An epoch of a self-organising map's batch training (Kohonen 2001, section 3.6), around cuBLAS's x·w: nodes laid
// out for the product, the winner of each sample, sums by winner in the order of the samples, and the sums spread
// over the map by a Gaussian in two passes.
//
// Node k is the nearest of x where x·w_k − ½‖w_k‖² is the largest; of equals the lowest.

typedef unsigned int u32;

constexpr u32 ALL = 0xffffffffu;
// Threads of a block of map_nearest, map_sums and map_total.
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / 32;
// Dimensions that a block of map_sums sums, two per thread.
constexpr int SUM_DIMS = 2 * THREADS;
// Half of f32's distance from 1 to the next number.
constexpr double ROUNDING = 5.9604644775390625e-8;

__device__ __forceinline__ float infinity() {
    return __int_as_float(0x7f800000);
}

struct Best {
    float score;
    float second;
    u32 node;
};

// The better of two, and the best of what is left.
__device__ __forceinline__ Best better(const Best a, const Best b) {
    const bool first = a.score > b.score || (a.score == b.score && a.node < b.node);
    Best best;
    best.score = first ? a.score : b.score;
    best.node = first ? a.node : b.node;
    best.second = fmaxf(fminf(a.score, b.score), fmaxf(a.second, b.second));
    return best;
}

__device__ __forceinline__ double sum_of_warp(double value) {
    for (int step = 16; step > 0; step /= 2) {
        value += __shfl_xor_sync(ALL, value, step);
    }
    return value;
}

// The sum over a block's threads, for all of them. `parts`: a number a warp.
__device__ double sum_of_block(double value, double* parts) {
    value = sum_of_warp(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = value;
    }
    __syncthreads();
    double sum = 0.0;
    for (int warp = 0; warp < WARPS; ++warp) {
        sum += parts[warp];
    }
    return sum;
}

// Nodes as the product takes them, and ½‖w‖² of each.
// transposed[d][k] = weights[k][d], halves[k] = ½‖w_k‖². One warp per node, any number of blocks.
//: weights: in, nodes * dims
//: transposed: out, nodes * dims
//: halves: out, nodes
extern "C" __global__ void __launch_bounds__(256)
map_prepare(const float* __restrict__ weights, int nodes, int dims, float* transposed, float* halves) {
    const int lane = threadIdx.x % 32;
    const int warps = gridDim.x * (blockDim.x / 32);
    for (int node = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; node < nodes; node += warps) {
        double sum = 0.0;
        for (int d = lane; d < dims; d += 32) {
            const float w = weights[(size_t)node * dims + d];
            transposed[(size_t)d * nodes + node] = w;
            sum += (double)w * w;
        }
        sum = sum_of_warp(sum);
        if (lane == 0) {
            halves[node] = (float)(0.5 * sum);
        }
    }
}

// The winner of each sample from its products with all nodes, and its distance from it. With `exact`, where the best
// two scores are closer than their errors, distances in f64 decide; how often, is added to rechecked[0]. One block per
// sample.
//: samples: in, count * dims
//: products: in, count * nodes
//: transposed: in, nodes * dims
//: halves: in, nodes
//: winners: in-out, count
//: distances: in-out, count
//: rechecked: in-out, 1
extern "C" __global__ void __launch_bounds__(256)
map_nearest(const float* __restrict__ samples, const float* __restrict__ products,
            const float* __restrict__ transposed, const float* __restrict__ halves, int count, int nodes, int dims,
            int exact, u32* winners, double* distances, u32* rechecked) {
    __shared__ Best bests[WARPS];
    __shared__ double parts[WARPS];
    __shared__ float largest[WARPS];
    __shared__ double least[WARPS];
    __shared__ u32 nearest[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const size_t sample = blockIdx.x;
    if (sample >= count) {
        return;
    }
    const float* scores = products + sample * nodes;
    const float* x = samples + sample * dims;
    Best best = {-infinity(), -infinity(), ALL};
    float half = 0.0f;
    for (int node = threadIdx.x; node < nodes; node += THREADS) {
        half = fmaxf(half, halves[node]);
        const float score = scores[node] - halves[node];
        // Nodes ascend: only a larger score wins.
        if (score > best.score || best.node == ALL) {
            best.second = best.score;
            best.score = score;
            best.node = node;
        } else {
            best.second = fmaxf(best.second, score);
        }
    }
    for (int step = 16; step > 0; step /= 2) {
        Best other;
        other.score = __shfl_xor_sync(ALL, best.score, step);
        other.second = __shfl_xor_sync(ALL, best.second, step);
        other.node = __shfl_xor_sync(ALL, best.node, step);
        best = better(best, other);
        half = fmaxf(half, __shfl_xor_sync(ALL, half, step));
    }
    if (lane == 0) {
        bests[warp] = best;
        largest[warp] = half;
    }
    __syncthreads();
    best = bests[0];
    half = largest[0];
    for (int other = 1; other < WARPS; ++other) {
        best = better(best, bests[other]);
        half = fmaxf(half, largest[other]);
    }
    u32 winner = best.node;
    if (exact) {
        double squares = 0.0;
        for (int d = threadIdx.x; d < dims; d += THREADS) {
            squares += (double)x[d] * x[d];
        }
        const double length = sqrt(sum_of_block(squares, parts)), longest = sqrt(2.0 * half);
        // Bound for any order in which the product is summed: one rounding per term, and those around it.
        const double bound = 2.0 * (dims + 8) * ROUNDING * (length * longest + 0.5 * longest * longest);
        if ((double)best.score - best.second <= bound) {
            double closest = infinity();
            u32 found = ALL;
            for (int node = threadIdx.x; node < nodes; node += THREADS) {
                double squared = 0.0;
                // As the host's loop rounds: no product is fused with its sum.
                for (int d = 0; d < dims; ++d) {
                    const double apart = (double)x[d] - (double)transposed[(size_t)d * nodes + node];
                    squared = __dadd_rn(squared, __dmul_rn(apart, apart));
                }
                if (squared < closest) {
                    closest = squared;
                    found = node;
                }
            }
            for (int step = 16; step > 0; step /= 2) {
                const double other = __shfl_xor_sync(ALL, closest, step);
                const u32 whose = __shfl_xor_sync(ALL, found, step);
                if (other < closest || (other == closest && whose < found)) {
                    closest = other;
                    found = whose;
                }
            }
            if (lane == 0) {
                least[warp] = closest;
                nearest[warp] = found;
            }
            __syncthreads();
            closest = least[0];
            winner = nearest[0];
            for (int other = 1; other < WARPS; ++other) {
                if (least[other] < closest || (least[other] == closest && nearest[other] < winner)) {
                    closest = least[other];
                    winner = nearest[other];
                }
            }
            if (threadIdx.x == 0) {
                atomicAdd(rechecked, 1u);
            }
        }
    }
    double squares = 0.0;
    for (int d = threadIdx.x; d < dims; d += THREADS) {
        const float apart = x[d] - transposed[(size_t)d * nodes + winner];
        squares += apart * apart;
    }
    squares = sum_of_block(squares, parts);
    if (threadIdx.x == 0) {
        winners[sample] = winner;
        distances[sample] = sqrt(squares);
    }
}

// The sum of all values.
// total[0] = the sum of `count` values, in the same order whenever. One block.
//: values: in, count
//: total: out, 1
extern "C" __global__ void __launch_bounds__(256)
map_total(const double* __restrict__ values, int count, double* total) {
    __shared__ double parts[WARPS];
    double sum = 0.0;
    for (int i = threadIdx.x; i < count; i += THREADS) {
        sum += values[i];
    }
    sum = sum_of_block(sum, parts);
    if (threadIdx.x == 0) {
        total[0] = sum;
    }
}

// Sums and counts of samples by winner, a row of dims + 1 per node.
// sums[k][d] += Σ x_d of the samples that node k wins, in their order; sums[k][dims] += how many they are. Both begin
// with 0 for the `first` samples. One block per node (x) and SUM_DIMS dimensions (y).
//: samples: in, count * dims
//: winners: in, count
//: sums: in-out, nodes * (dims + 1)
extern "C" __global__ void __launch_bounds__(256)
map_sums(const float* __restrict__ samples, const u32* __restrict__ winners, int count, int nodes, int dims,
         int first_samples, double* sums) {
    // The samples of this node among THREADS in a row.
    __shared__ int own[THREADS];
    __shared__ int found[WARPS];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const u32 node = blockIdx.x;
    if (node >= nodes) {
        return;
    }
    const int first = blockIdx.y * SUM_DIMS + threadIdx.x, second = first + THREADS;
    double* row = sums + (size_t)node * (dims + 1);
    double sum = first < dims && !first_samples ? row[first] : 0.0;
    double other_sum = second < dims && !first_samples ? row[second] : 0.0;
    int all = 0;
    for (int base = 0; base < count; base += THREADS) {
        const int sample = base + threadIdx.x;
        const bool wins = sample < count && winners[sample] == node;
        // The barrier is also what keeps `own` until the last tile's sums are made.
        if (!__syncthreads_or(wins)) {
            continue;
        }
        const u32 which = __ballot_sync(ALL, wins);
        if (lane == 0) {
            found[warp] = __popc(which);
        }
        __syncthreads();
        int before = 0, many = 0;
        for (int w = 0; w < WARPS; ++w) {
            before += w < warp ? found[w] : 0;
            many += found[w];
        }
        if (wins) {
            own[before + __popc(which & ((1u << lane) - 1))] = sample;
        }
        __syncthreads();
        for (int i = 0; i < many; ++i) {
            const float* x = samples + (size_t)own[i] * dims;
            sum += first < dims ? (double)x[first] : 0.0;
            other_sum += second < dims ? (double)x[second] : 0.0;
        }
        all += many;
    }
    if (first < dims) {
        row[first] = sum;
    }
    if (second < dims) {
        row[second] = other_sum;
    }
    if (blockIdx.y == 0 && threadIdx.x == 0) {
        row[dims] = all + (first_samples ? 0.0 : row[dims]);
    }
}

// Along rows: to[r][c] = Σ_f kernel[c][f] · from[r][f], rounded, of `width` numbers each; rows of even number take the kernel
// `even`, the others `odd`. One block per node (x) and 128 of the numbers (y).
//: from: in, rows * columns * width
//: even: in, columns * columns
//: odd: in, columns * columns
//: to: out, rows * columns * width
extern "C" __global__ void __launch_bounds__(128)
map_spread_rows(const double* __restrict__ from, const float* __restrict__ even, const float* __restrict__ odd,
                int rows, int columns, int width, float* to) {
    const int row = blockIdx.x / columns, column = blockIdx.x % columns;
    const int d = blockIdx.y * blockDim.x + threadIdx.x;
    if (row >= rows || d >= width) {
        return;
    }
    const float* kernel = (row % 2 == 0 ? even : odd) + (size_t)column * columns;
    const double* values = from + (size_t)row * columns * width + d;
    float sum = 0.0f;
    for (int f = 0; f < columns; ++f) {
        const float weight = kernel[f];
        if (weight != 0.0f) {
            sum += weight * (float)values[(size_t)f * width];
        }
    }
    to[(size_t)blockIdx.x * width + d] = sum;
}

// Across rows: to[r][c] = Σ_f down[r][f] · like[f][c], from `unlike` where the parity of r and f differs. Blocks as
// map_spread_rows'.
//: like: in, rows * columns * width
//: unlike: in, rows * columns * width
//: down: in, rows * rows
//: to: out, rows * columns * width
extern "C" __global__ void __launch_bounds__(128)
map_spread_columns(const float* __restrict__ like, const float* __restrict__ unlike, const float* __restrict__ down,
                   int rows, int columns, int width, float* to) {
    const int row = blockIdx.x / columns, column = blockIdx.x % columns;
    const int d = blockIdx.y * blockDim.x + threadIdx.x;
    if (row >= rows || d >= width) {
        return;
    }
    const float* kernel = down + (size_t)row * rows;
    float sum = 0.0f;
    for (int f = 0; f < rows; ++f) {
        const float weight = kernel[f];
        if (weight != 0.0f) {
            const float* values = row % 2 == f % 2 ? like : unlike;
            sum += weight * values[((size_t)f * columns + column) * width + d];
        }
    }
    to[(size_t)blockIdx.x * width + d] = sum;
}

// The weights that the spread sums make.
// weights[k][d] = spread[k][d] / spread[k][dims], where a node has mass. One thread per weight.
//: spread: in, nodes * (dims + 1)
//: weights: in-out, nodes * dims
extern "C" __global__ void __launch_bounds__(256)
map_update(const float* __restrict__ spread, int nodes, int dims, float least, float* weights) {
    const size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= (size_t)nodes * dims) {
        return;
    }
    const float* row = spread + at / dims * (dims + 1);
    if (row[dims] > least) {
        weights[at] = row[at % dims] / row[dims];
    }
}
