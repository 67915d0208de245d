// Around the dense path's products: states handed from chunk to chunk, and sums over rounds in f64.
//
//: variants -DORDER=1 -DBLOCKS=8 | -DORDER=1 -DBLOCKS=8 -DBRIEF | -DORDER=4 -DBLOCKS=8 -DBRIEF

#include "spike_states.cuh"

// Turns the states that each chunk leaves by itself into those at its start, in place:
// `states[chunk][i][column]`. `carry[i][column]` are the states at the first chunk's start, and then
// those behind the last. One thread per column (columns are counted from `first_column`), in f64.
//: filter: in, filters
//: states: in-out, chunks * columns
//: carry: in-out, columns
extern "C" __global__ void carry_states(const Block *block, const Filter *filter, int filters,
                                        int first_column, int columns, int chunks, float *states,
                                        double *carry) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= columns) return;
    double rate = filter[(first_column + at) % filters].exact_rate;
    double x = rate * STEPS, kept = exp(-x);
    const int AHEAD = 8;  // chunks whose loads are in flight together
    ExactStates s;
    for (int i = 0; i <= ORDER; ++i) s.s[i] = carry[(size_t)i * columns + at];
    for (int first = 0; first < chunks; first += AHEAD) {
        float own[AHEAD][ORDER + 1];
        int since[AHEAD];
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            int chunk = min(first + a, chunks - 1);
            since[a] = block[(size_t)(chunk + 1) * BLOCKS].since;
#pragma unroll
            for (int i = 0; i <= ORDER; ++i) {
                own[a][i] = states[((size_t)chunk * (ORDER + 1) + i) * columns + at];
            }
        }
#pragma unroll
        for (int a = 0; a < AHEAD; ++a) {
            if (first + a >= chunks) break;
            size_t row = (size_t)(first + a) * (ORDER + 1);
#pragma unroll
            for (int i = 0; i <= ORDER; ++i) states[(row + i) * columns + at] = (float)s.s[i];
            // Earlier states reach the chunk's end if the segment that is open there is older than the chunk.
            if (since[a] > STEPS && kept > 0.0) {
                s.shift(x);
#pragma unroll
                for (int i = 0; i <= ORDER; ++i) s.s[i] *= kept;
            } else {
                s.clear();
            }
#pragma unroll
            for (int i = 0; i <= ORDER; ++i) s.s[i] += own[a][i];
        }
    }
    for (int i = 0; i <= ORDER; ++i) carry[(size_t)i * columns + at] = s.s[i];
}

// Adds a round's products in f64.
// sum(i, j) += Σ over parts of products[part](i, j), in f64, rows × columns; with `panel` > 0 only
// where it was computed: panels of `panel` rows, each up to its own diagonal block. grid.y = i.
//: products: in, parts * rows * columns
//: sum: in-out, rows * columns
extern "C" __global__ void add_products(const float *products, int parts, int rows, int columns,
                                        int panel, double *sum) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= (panel > 0 ? min(columns, (i / panel + 1) * panel) : columns)) return;
    size_t at = (size_t)i * columns + j, count = (size_t)rows * columns;
    double total = 0.0;
    for (int p = 0; p < parts; ++p) total += products[p * count + at];
    sum[at] += total;
}

// Adds products of which only one triangle was computed, and their mirror image.
// gram = lower triangle of `gram` mirrored + Σ over parts of (cross + its transpose), n × n.
// 32 × 8 threads a tile of 32 × 32; tiles on or below the diagonal write both halves.
//: cross: in, parts * n * n
//: gram: in-out, n * n
extern "C" __global__ void finish_gram(const float *cross, int parts, int n, double *gram) {
    __shared__ double tile[32][33];
    int x = threadIdx.x % 32, y0 = threadIdx.x / 32;
    int i0 = blockIdx.y * 32, j0 = blockIdx.x * 32;
    if (j0 > i0) return;
    for (int y = y0; y < 32; y += 8) {
        double sum = 0.0;
        int i = j0 + y, j = i0 + x;  // the transposed tile
        if (i < n && j < n) {
            for (int p = 0; p < parts; ++p) sum += cross[((size_t)p * n + i) * n + j];
        }
        tile[y][x] = sum;
    }
    __syncthreads();
    double value[4];
    for (int k = 0, y = y0; y < 32; y += 8, ++k) {
        int i = i0 + y, j = j0 + x;
        value[k] = 0.0;
        if (i < n && j < n && i >= j) {
            double sum = gram[(size_t)i * n + j] + tile[x][y];
            for (int p = 0; p < parts; ++p) sum += cross[((size_t)p * n + i) * n + j];
            value[k] = sum;
            gram[(size_t)i * n + j] = sum;
        }
    }
    __syncthreads();
    for (int k = 0, y = y0; y < 32; y += 8, ++k) tile[y][x] = value[k];
    __syncthreads();
    for (int y = y0; y < 32; y += 8) {
        int i = j0 + y, j = i0 + x;  // above the diagonal: its mirror image is (j, i)
        if (i < n && j < n && j > i) gram[(size_t)i * n + j] = tile[x][y];
    }
}

// Adds a round's Υ and Σa.
// upsilon[first_column + column][o] += Σ over chunks of partial[chunk][o][column], o in 0..=outputs.
// grid.y = o.
//: partial: in, chunks * columns * (outputs + 1)
//: upsilon: in-out, (first_column + columns) * (outputs + 1)
extern "C" __global__ void add_upsilon(const double *partial, int chunks, int columns,
                                       int first_column, int outputs, double *upsilon) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, o = blockIdx.y;
    if (at >= columns) return;
    double sum = 0.0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        sum += partial[((size_t)chunk * (outputs + 1) + o) * columns + at];
    }
    upsilon[(size_t)(first_column + at) * (outputs + 1) + o] += sum;
}

// The nearest bf16, as a float: every form of an operand holds it exactly, so that steps without a spike
// are all alike but not all rounded alike.
__device__ __forceinline__ float bf16_of(double x) {
    u32 bits = __float_as_uint((float)x);
    return __uint_as_float((bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u);
}

// The constant of a feature whose mean is x: `exact` to f32, or to what every form of an operand holds.
__device__ __forceinline__ float centre_at(double x, int exact) { return exact ? (float)x : bf16_of(x); }

// Centres from a round's Σa.
// centre[first_column + column] = Σ over chunks of Σa / steps, from partial[chunk][outputs][column].
//: partial: in, chunks * columns * (outputs + 1)
//: centre: in-out, first_column + columns
extern "C" __global__ void mean_responses(const double *partial, int chunks, int columns,
                                          int first_column, int outputs, double steps, int exact,
                                          float *centre) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= columns) return;
    double sum = 0.0;
    for (int chunk = 0; chunk < chunks; ++chunk) {
        sum += partial[((size_t)chunk * (outputs + 1) + outputs) * columns + at];
    }
    centre[first_column + at] = centre_at(sum / steps, exact);
}

// Sets `far` where the centre c of one of `rows` features, from `first_row` on, is so far from its mean
// that steps c² is more than MOST times its own Γ_ii. gram is rows × rows.
//: centre: in, first_row + rows
//: gram: in, rows * rows
//: far: in-out, 1
extern "C" __global__ void find_far_centre(const float *centre, const double *gram, double steps,
                                           int first_row, int rows, int *far) {
    const double MOST = 4.0;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    double c = centre[first_row + i];
    if (steps * c * c > MOST * gram[(size_t)i * rows + i]) *far = 1;
}

// Centres from Σa of all steps.
// centre = Σa / steps of `rows` features from `first_row` on; `sums[feature][outputs + 1]` ends with Σa.
//: sums: in, (first_row + rows) * (outputs + 1)
//: centre: in-out, first_row + rows
extern "C" __global__ void centre_at_mean(const double *sums, int outputs, double steps, int exact,
                                          int first_row, int rows, float *centre) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows) return;
    centre[first_row + i] = centre_at(sums[(size_t)(first_row + i) * (outputs + 1) + outputs] / steps, exact);
}

// From Σ (a_i − c_i)(a_j − c_j) to Σ a_i a_j: gram(i, j) += c_i Σa_j + c_j Σa_i − steps c_i c_j, with i
// counted from `first_row` and j from `first_column`. `sums[feature][outputs + 1]` ends with Σa. grid.y = i.
//: centre: in, (first_row + grid.y).max(first_column + columns)
//: sums: in, (first_row + grid.y).max(first_column + columns) * (outputs + 1)
//: gram: in-out, grid.y * columns
extern "C" __global__ void put_centre_back(const float *centre, const double *sums, int outputs,
                                           double steps, int first_row, int first_column,
                                           int columns, double *gram) {
    int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y;
    if (j >= columns) return;
    int row = first_row + i, column = first_column + j, stride = outputs + 1;
    double ci = centre[row], cj = centre[column];
    double si = sums[(size_t)row * stride + outputs], sj = sums[(size_t)column * stride + outputs];
    // Each operation by itself: a fused one would not give (j, i) the same.
    double both = __dadd_rn(__dmul_rn(ci, sj), __dmul_rn(cj, si));
    gram[(size_t)i * columns + j] += __dsub_rn(both, __dmul_rn(steps, __dmul_rn(ci, cj)));
}

// a += b, from element `first` of a on.
//: b: in, count
//: a: in-out, first + count
extern "C" __global__ void add_into(const double *b, size_t count, size_t first, double *a) {
    size_t at = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) a[first + at] += b[at];
}
