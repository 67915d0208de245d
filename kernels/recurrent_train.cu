// Training of a recurrent decoder: a batch's disturbed inputs, its way through a layer of gated recurrent units and
// back (Cho et al. 2014, as PyTorch's nn.GRU), all weights' gradients, and AdamW (Loshchilov and Hutter 2019).
//
// Sequences are packed by time: step t of sequence b is row first[t] + b, for b below count[t]. The recurrence of a
// sequence is one block's: sequences do not know each other, so no block waits for another. All work numbers of a batch
// lie in one array, at offsets that the host lays out. Random numbers are those of the CPU's generator, splitmix64, at
// their place in its sequence: number k after state s is a function of s + (k + 1)·GOLDEN.
//: variants -DUNITS=16 | -DUNITS=64 | -DUNITS=80 | -DUNITS=256

typedef unsigned int u32;
typedef unsigned long long u64;

#ifndef UNITS
#define UNITS 64
#endif

constexpr u32 ALL = 0xffffffffu;
constexpr u64 GOLDEN = 0x9E3779B97F4A7C15ull;
constexpr int COLUMNS = 3 * UNITS;
// A thread's share of the state's weights stays in registers.
constexpr bool IN_REGISTERS = UNITS <= 64;
// Threads of a block of recurrent_forward and recurrent_backward: one per column, or whole warps.
constexpr int LAYER_THREADS = IN_REGISTERS ? COLUMNS : COLUMNS < 768 ? COLUMNS / 32 * 32 : 768;
// Rows and columns of a tile of a product, and the depth that is loaded at once.
constexpr int TILE = 32;
constexpr int THREADS = 256;
// A product's depth is cut into slices, which a block's threads take side by side.
constexpr int SLICES = 4;
constexpr int PRODUCT_THREADS = SLICES * THREADS;

__device__ __forceinline__ u64 random_bits(u64 state, u64 k) {
    u64 z = state + (k + 1) * GOLDEN;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

__device__ __forceinline__ float uniform(u64 bits) {
    return (float)(u32)(bits >> 40) * (1.0f / 16777216.0f);
}

// Mean 0, variance 1: the sum of four 16-bit uniforms, rounded as the CPU's.
__device__ __forceinline__ float noise_of(u64 z) {
    const u32 sum = (u32)(z & 0xFFFF) + (u32)((z >> 16) & 0xFFFF) + (u32)((z >> 32) & 0xFFFF) + (u32)(z >> 48);
    return __fsub_rn(__fmul_rn((float)sum, 1.7320508f / 65536.0f), 2.0f * 1.7320508f);
}

// Dropout's factor of number i after `state`: four to a draw.
__device__ __forceinline__ float mask_of(u64 state, size_t i, int threshold, float kept) {
    const u64 bits = random_bits(state, i / 4);
    return (int)((bits >> (16 * (i % 4))) & 0xFFFF) < threshold ? 0.0f : kept;
}

// Each within 1e-6, and much quicker than expf, a division and tanhf: a step waits for all of them.
__device__ __forceinline__ float sigmoid(float x) {
    return __fdividef(1.0f, 1.0f + __expf(-x));
}

__device__ __forceinline__ float tanh_of(float x) {
    return 2.0f * sigmoid(2.0f * x) - 1.0f;
}

__device__ __forceinline__ float sum_of_warp(float value) {
    for (int step = 16; step > 0; step /= 2) {
        value += __shfl_xor_sync(ALL, value, step);
    }
    return value;
}

// Adds `part` of a step's counts to a row, thinned and scaled; the row is one warp's. Returns the state of the random
// numbers behind those that it drew.
__device__ u64 add_counts(const u32* __restrict__ entry_channels, const float* __restrict__ entry_counts,
                          const float* __restrict__ factors, const float* __restrict__ caps,
                          const u32* __restrict__ lost, u32 begin, u32 end, float part, float probability, u64 state,
                          float* x) {
    const int lane = threadIdx.x % 32;
    const bool thins = probability > 0.0f;
    for (u32 e = begin; e < end; e += 32) {
        const u32 i = e + lane;
        bool is_there = i < end;
        u32 channel = 0;
        float count = 0.0f;
        if (is_there) {
            channel = entry_channels[i];
            count = entry_counts[i];
            is_there = !lost[channel];
        }
        const u32 draws = is_there && thins ? (u32)count : 0;
        u32 before = draws;
        for (int distance = 1; distance < 32; distance *= 2) {
            const u32 other = __shfl_up_sync(ALL, before, distance);
            before += lane >= distance ? other : 0;
        }
        const u32 all = __shfl_sync(ALL, before, 31);
        before -= draws;
        if (is_there) {
            if (thins) {
                count = 0.0f;
                for (u32 k = 0; k < draws; ++k) {
                    count += uniform(random_bits(state, before + k)) >= probability ? 1.0f : 0.0f;
                }
            }
            x[channel] = __fadd_rn(x[channel], __fmul_rn(part, __fmul_rn(fminf(count, caps[channel]), factors[channel])));
        }
        state += all * GOLDEN;
    }
    __syncwarp();
    return state;
}

// Mixture of a row: four numbers per row, the first of which is ALL for a row of its own step alone.
struct Mix {
    u32 partner;
    // Parts of the step, of the partner, and of the mean at this time since the run's start.
    float own, other, rest;
    u32 time;
};

__device__ __forceinline__ Mix mix_of(const u32* __restrict__ mixes, int is_mixed, int row) {
    if (!is_mixed || mixes[4 * row] == ALL) {
        return Mix{ALL, 1.0f, 0.0f, 0.0f, 0};
    }
    const float own = __uint_as_float(mixes[4 * row + 1]), other = __uint_as_float(mixes[4 * row + 2]);
    return Mix{mixes[4 * row], own, other, __fsub_rn(__fsub_rn(1.0f, own), other), mixes[4 * row + 3]};
}

// Scaled counts of each row as training disturbs them: mixed with another step's and the mean, lost channels, thinned
// spikes, noise, inputs left out. The random numbers of row i follow the state in bases[2i] (low half) and
// bases[2i + 1]. One warp per row.
//: entries: in
//: entry_channels: in
//: entry_counts: in, entry_channels.len()
//: factors: in, channels
//: caps: in, channels
//: means: in
//: steps: in, rows
//: sequences: in, rows
//: bases: in, 2 * rows
//: thinned: in
//: lost: in
//: mixes: in, 4 * rows * is_mixed
//: inputs: in-out, rows * channels
extern "C" __global__ void __launch_bounds__(256)
recurrent_inputs(const u32* __restrict__ entries, const u32* __restrict__ entry_channels,
                 const float* __restrict__ entry_counts, const float* __restrict__ factors,
                 const float* __restrict__ caps, const float* __restrict__ means, const u32* __restrict__ steps,
                 const u32* __restrict__ sequences, const u32* __restrict__ bases, const u32* __restrict__ thinned,
                 const u32* __restrict__ lost, const u32* __restrict__ mixes, int is_mixed, int rows, int channels,
                 float noise, int threshold, float kept, float* inputs) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (row >= rows) {
        return;
    }
    u64 state = bases[2 * row] | (u64)bases[2 * row + 1] << 32;
    const u32 sequence = sequences[row];
    const float probability = __uint_as_float(thinned[sequence]);
    const u32* lost_here = lost + (size_t)sequence * channels;
    const Mix mix = mix_of(mixes, is_mixed, row);
    float* x = inputs + (size_t)row * channels;
    for (int c = lane; c < channels; c += 32) {
        x[c] = 0.0f;
    }
    __syncwarp();
    const auto add = [&](u32 step, float part) {
        state = add_counts(entry_channels, entry_counts, factors, caps, lost_here, entries[step], entries[step + 1], part,
                           probability, state, x);
    };
    add(steps[row], mix.own);
    if (mix.partner != ALL) {
        add(mix.partner, mix.other);
    }
    for (int c = lane; c < channels; c += 32) {
        float value = x[c];
        if (mix.partner != ALL && !lost_here[c]) {
            value = __fadd_rn(value, __fmul_rn(mix.rest, means[(size_t)mix.time * channels + c]));
        }
        if (noise > 0.0f) {
            value = __fadd_rn(value, __fmul_rn(noise, noise_of(random_bits(state, c))));
        }
        if (threshold >= 0) {
            value *= mask_of(state + (noise > 0.0f ? (u64)channels : 0) * GOLDEN, c, threshold, kept);
        }
        x[c] = value;
    }
}

// One tile of to[m][n] = Σ_k left[m][k]·right[k][n] + bias[n]: four numbers per thread. `LEFT_TRANSPOSED`: left is (k, m),
// and m = `width` is a row of ones. `RIGHT_TRANSPOSED`: right is (n, k). Loads a tile while it multiplies the one before.
template <bool LEFT_TRANSPOSED, bool RIGHT_TRANSPOSED>
__device__ void product(const float* __restrict__ left, const float* __restrict__ right,
                        const float* __restrict__ bias, int height, int width, int depth, int columns, float* to) {
    __shared__ float all_lefts[SLICES][TILE][TILE + 1];
    __shared__ float all_rights[SLICES][TILE][TILE + 1];
    const int first_row = blockIdx.x * TILE, first_column = blockIdx.y * TILE;
    const int slice = threadIdx.x / THREADS;
    const int along = threadIdx.x % TILE, across = threadIdx.x % THREADS / TILE;
    auto& lefts = all_lefts[slice];
    auto& rights = all_rights[slice];
    constexpr int STRIDE = THREADS / TILE;
    constexpr int EACH = TILE / STRIDE;
    float sums[EACH] = {};
    float next_left[EACH], next_right[EACH];
    const auto load = [&](int k) {
#pragma unroll
        for (int n = 0; n < EACH; ++n) {
            const int i = across + n * STRIDE;
            if (LEFT_TRANSPOSED) {
                const int row = first_row + along;
                const bool is_there = k + i < depth;
                next_left[n] = !is_there      ? 0.0f
                               : row < width  ? left[(size_t)(k + i) * width + row]
                               : row == width ? 1.0f
                                              : 0.0f;
            } else {
                const int row = first_row + i;
                next_left[n] = row < height && k + along < depth ? left[(size_t)row * depth + k + along] : 0.0f;
            }
            if (RIGHT_TRANSPOSED) {
                const int column = first_column + i;
                next_right[n] = column < columns && k + along < depth ? right[(size_t)column * depth + k + along] : 0.0f;
            } else {
                const int column = first_column + along;
                next_right[n] = column < columns && k + i < depth ? right[(size_t)(k + i) * columns + column] : 0.0f;
            }
        }
    };
    load(slice * TILE);
    for (int begin = 0; begin < depth; begin += SLICES * TILE) {
        const int k = begin + (SLICES + slice) * TILE;
#pragma unroll
        for (int n = 0; n < EACH; ++n) {
            const int i = across + n * STRIDE;
            (LEFT_TRANSPOSED ? lefts[along][i] : lefts[i][along]) = next_left[n];
            (RIGHT_TRANSPOSED ? rights[along][i] : rights[i][along]) = next_right[n];
        }
        __syncthreads();
        load(k);
#pragma unroll
        for (int d = 0; d < TILE; ++d) {
            const float value = rights[d][along];
#pragma unroll
            for (int i = 0; i < EACH; ++i) {
                sums[i] += lefts[across + i * STRIDE][d] * value;
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        lefts[across + i * STRIDE][along] = sums[i];
    }
    __syncthreads();
    for (int i = threadIdx.x / TILE; i < TILE; i += PRODUCT_THREADS / TILE) {
        const int row = first_row + i, column = first_column + along;
        if (row < height && column < columns) {
            float sum = bias ? bias[column] : 0.0f;
            for (int s = 0; s < SLICES; ++s) {
                sum += all_lefts[s][i][along];
            }
            to[(size_t)row * columns + column] = sum;
        }
    }
}

// The input side of a layer's gates, or a projection: work[to][row][c] = Σ_i work[from][row][i]·W[i][c] + b[c], with W
// and, behind it where `has_bias` is 1, b at `at` of the weights. One block per tile of rows (x) and columns (y).
//: weights: in, at + (inputs + has_bias) * columns
//: work: in-out, to + rows * columns
extern "C" __global__ void __launch_bounds__(1024)
recurrent_input_side(const float* __restrict__ weights, int at, int has_bias, int from, int to, int rows, int inputs,
                     int columns, float* work) {
    const float* own = weights + at;
    const float* bias = has_bias ? own + (size_t)inputs * columns : nullptr;
    product<false, false>(work + from, own, bias, rows, 0, inputs, columns, work + to);
}

// Derivatives by a layer's inputs: work[to][row][i] = Σ_c work[from][row][c]·W[i][c]. As above otherwise.
//: weights: in, at + inputs * columns
//: work: in-out, to + rows * inputs
extern "C" __global__ void __launch_bounds__(1024)
recurrent_below(const float* __restrict__ weights, int at, int from, int to, int rows, int inputs, int columns,
                float* work) {
    product<false, true>(work + from, weights + at, nullptr, rows, 0, columns, inputs, work + to);
}

// Derivatives by all weights. jobs[6·z]: where the side's left values are in `work`, how many to a row, where its
// derivatives are, how many to a row, where the gradient goes, (height, derivatives), and its height: the number of left
// values, or one more, whose row is the bias. One block per tile and job (z).
//: jobs: in, 6 * grid.z
//: work: in
//: gradient: in-out
extern "C" __global__ void __launch_bounds__(1024)
recurrent_gradients(const u32* __restrict__ jobs, const float* __restrict__ work, int rows, float* gradient) {
    const u32* job = jobs + 6 * blockIdx.z;
    const int width = job[1], columns = job[3], height = job[5];
    if (blockIdx.x * TILE >= height || blockIdx.y * TILE >= columns) {
        return;
    }
    product<true, false>(work + job[0], work + job[2], nullptr, height, width, rows, columns, gradient + job[4]);
}

// Steps of a sequence, in every thread of its block: the longest sequences come first.
__device__ int length_of(const u32* __restrict__ count, int steps, int sequence) {
    int length = 0;
    for (int t = 0; t < steps; t += LAYER_THREADS) {
        const int step = t + threadIdx.x;
        length += __syncthreads_count(step < steps && sequence < count[step]);
    }
    return length;
}

// Σ values[k]·held[k] over UNITS values in shared memory, four sums side by side.
template <int HELD>
__device__ __forceinline__ float dot_of(const float* values, const float (&held)[HELD]) {
    float sums[4] = {};
#pragma unroll
    for (int k = 0; k < HELD; k += 4) {
        const float4 four = *reinterpret_cast<const float4*>(values + k);
        sums[0] += four.x * held[k];
        sums[1] += four.y * held[k + 1];
        sums[2] += four.z * held[k + 2];
        sums[3] += four.w * held[k + 3];
    }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// Values of a unit that a step back reads.
struct UnitStep {
    float by_output, mask, r, z, n, of_n, before;
};

// A layer's states, from the input side of its gates at work[of_input]. Writes r, z, n and the state side of n to
// work[gates], (row, 4, unit); states before each step to work[before]; states after it, times dropout's factors, to
// work[after]. W_h, then b_h, lie at `at` of the weights. One block per sequence.
//: first: in, steps
//: count: in, steps
//: weights: in
//: work: in-out
extern "C" __global__ void __launch_bounds__(LAYER_THREADS)
recurrent_forward(const u32* __restrict__ first, const u32* __restrict__ count, int steps,
                  const float* __restrict__ weights, int at, int of_input, int gates, int before, int after,
                  u64 random, int threshold, float kept, float* work) {
    __shared__ __align__(16) float h[UNITS];
    __shared__ float side[COLUMNS];
    const int sequence = blockIdx.x;
    const int length = length_of(count, steps, sequence);
    const float* own = weights + at;
    for (int j = threadIdx.x; j < UNITS; j += LAYER_THREADS) {
        h[j] = 0.0f;
    }
    if (IN_REGISTERS) {
        // One thread per column. Those of n also have the unit's state. A step's input was asked for a step before.
        const int column = threadIdx.x, unit = column % UNITS;
        const bool is_n = column >= 2 * UNITS;
        float held[IN_REGISTERS ? UNITS : 4];
#pragma unroll
        for (int k = 0; k < (IN_REGISTERS ? UNITS : 0); ++k) {
            held[k] = own[k * COLUMNS + column];
        }
        const float bias = own[UNITS * COLUMNS + column];
        float was = 0.0f;
        size_t row = length > 0 ? first[0] + sequence : 0;
        size_t next_row = length > 1 ? first[1] + sequence : row;
        float next_input = length > 0 ? work[of_input + row * COLUMNS + column] : 0.0f;
        __syncthreads();
        for (int t = 0; t < length; ++t) {
            const float input = next_input;
            const size_t i = row * UNITS + unit;
            float* out = work + gates + row * 4 * UNITS + unit;
            row = next_row;
            next_row = t + 2 < length ? first[t + 2] + sequence : row;
            next_input = work[of_input + row * COLUMNS + column];
            const float sum = bias + dot_of(h, held);
            const float mask = is_n && threshold >= 0 ? mask_of(random, i, threshold, kept) : 1.0f;
            if (!is_n) {
                side[column] = sigmoid(input + sum);
            }
            __syncthreads();
            if (is_n) {
                const float r = side[unit], z = side[UNITS + unit];
                const float n = tanh_of(input + r * sum);
                const float is = n + z * (was - n);
                out[0] = r;
                out[UNITS] = z;
                out[2 * UNITS] = n;
                out[3 * UNITS] = sum;
                work[before + i] = was;
                work[after + i] = is * mask;
                h[unit] = was = is;
            }
            __syncthreads();
        }
        return;
    }
    __syncthreads();
    for (int t = 0; t < length; ++t) {
        const size_t row = first[t] + sequence;
        for (int c = threadIdx.x; c < COLUMNS; c += LAYER_THREADS) {
            float sum = own[UNITS * COLUMNS + c];
#pragma unroll 8
            for (int k = 0; k < UNITS; ++k) {
                sum += h[k] * own[(size_t)k * COLUMNS + c];
            }
            side[c] = sum;
        }
        __syncthreads();
        const float* input = work + of_input + row * COLUMNS;
        float* out = work + gates + row * 4 * UNITS;
        for (int j = threadIdx.x; j < UNITS; j += LAYER_THREADS) {
            const float r = sigmoid(input[j] + side[j]);
            const float z = sigmoid(input[UNITS + j] + side[UNITS + j]);
            const float of_n = side[2 * UNITS + j];
            const float n = tanh_of(input[2 * UNITS + j] + r * of_n);
            out[j] = r;
            out[UNITS + j] = z;
            out[2 * UNITS + j] = n;
            out[3 * UNITS + j] = of_n;
            const float was = h[j], is = n + z * (was - n);
            const size_t i = row * UNITS + j;
            work[before + i] = was;
            work[after + i] = threshold < 0 ? is : is * mask_of(random, i, threshold, kept);
            h[j] = is;
        }
        __syncthreads();
    }
}

// The readout of rows, and the loss's derivatives by it and by the last layer's output: the loss is the mean, over steps
// with labels, of the squared errors; 2 over their number is `factor`. An output's label is NaN at a step without; a mixed
// row's is mixed of two steps' and the mean. Readout
// weights, (unit, columns), then the bias, lie at `at`. One warp per row.
//: weights: in, at + (units + 1) * columns
//: labels: in
//: means: in
//: steps: in, rows
//: mixes: in, 4 * rows * is_mixed
//: work: in-out
extern "C" __global__ void __launch_bounds__(256)
recurrent_loss(const float* __restrict__ weights, int at, const float* __restrict__ labels,
               const float* __restrict__ means, const u32* __restrict__ steps, const u32* __restrict__ mixes, int is_mixed,
               int rows, int units, int outputs, int columns, float factor, int top, int by_estimate, int by_top,
               float* work) {
    const int lane = threadIdx.x % 32;
    const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    if (row >= rows) {
        return;
    }
    const float* own = weights + at;
    const float* h = work + top + (size_t)row * units;
    float* by_h = work + by_top + (size_t)row * units;
    float* by_row = work + by_estimate + (size_t)row * columns;
    for (int u = lane; u < units; u += 32) {
        by_h[u] = 0.0f;
    }
    for (int o = lane; o < columns; o += 32) {
        by_row[o] = 0.0f;
    }
    __syncwarp();
    const Mix mix = mix_of(mixes, is_mixed, row);
    for (int o = 0; o < outputs; ++o) {
        float sum = 0.0f;
        for (int u = lane; u < units; u += 32) {
            sum += h[u] * own[(size_t)u * columns + o];
        }
        const float estimate = sum_of_warp(sum) + own[(size_t)units * columns + o];
        float label = labels[(size_t)steps[row] * outputs + o];
        if (mix.partner != ALL) {
            label = mix.own * label + mix.other * labels[(size_t)mix.partner * outputs + o] +
                    mix.rest * means[(size_t)mix.time * outputs + o];
        }
        const float derivative = label == label ? factor * (estimate - label) : 0.0f;
        if (lane == 0) {
            by_row[o] = derivative;
        }
        for (int u = lane; u < units; u += 32) {
            by_h[u] += derivative * own[(size_t)u * columns + o];
        }
    }
}

// Back through a layer's gates: derivatives by both sides of them, (row, gate, unit), at work[by_input] and
// work[by_state], from those by the layer's output at work[by_output]. One block per sequence.
//: first: in, steps
//: count: in, steps
//: weights: in
//: work: in-out
extern "C" __global__ void __launch_bounds__(LAYER_THREADS)
recurrent_backward(const u32* __restrict__ first, const u32* __restrict__ count, int steps,
                   const float* __restrict__ weights, int at, int gates, int before, int by_output, int by_input,
                   int by_state, u64 random, int threshold, float kept, float* work) {
    __shared__ __align__(16) float side[COLUMNS];
    __shared__ float parts[IN_REGISTERS ? COLUMNS : 1];
    // A unit's carry: one thread's own, or shared.
    __shared__ float carry[IN_REGISTERS ? 1 : UNITS];
    float carried = 0.0f;
    const int sequence = blockIdx.x;
    const int length = length_of(count, steps, sequence);
    const float* own = weights + at;
    const int unit = threadIdx.x % UNITS, gate = threadIdx.x / UNITS;
    float held[IN_REGISTERS ? UNITS : 4];
    if (IN_REGISTERS) {
#pragma unroll
        for (int k = 0; k < (IN_REGISTERS ? UNITS : 0); ++k) {
            held[k] = own[(size_t)unit * COLUMNS + gate * UNITS + k];
        }
    }
    for (int j = threadIdx.x; !IN_REGISTERS && j < UNITS; j += LAYER_THREADS) {
        carry[j] = 0.0f;
    }
    // A step's values were asked for at the start of the one before it.
    UnitStep next = {};
    size_t next_row = length > 0 ? first[length - 1] + sequence : 0;
    size_t row_after = length > 1 ? first[length - 2] + sequence : next_row;
    const auto load = [&](size_t row, int j) {
        const float* in = work + gates + row * 4 * UNITS + j;
        const size_t i = row * UNITS + j;
        const float mask = threshold < 0 ? 1.0f : mask_of(random, i, threshold, kept);
        return UnitStep{work[by_output + i], mask, in[0], in[UNITS], in[2 * UNITS], in[3 * UNITS], work[before + i]};
    };
    if (IN_REGISTERS && threadIdx.x < UNITS && length > 0) {
        next = load(next_row, threadIdx.x);
    }
    __syncthreads();
    for (int t = length - 1; t >= 0; --t) {
        const size_t row = next_row;
        const UnitStep now = next;
        next_row = row_after;
        row_after = t > 1 ? first[t - 2] + sequence : next_row;
        if (IN_REGISTERS && threadIdx.x < UNITS) {
            next = load(next_row, threadIdx.x);
        }
        float* input_side = work + by_input + row * COLUMNS;
        float* state_side = work + by_state + row * COLUMNS;
        for (int j = threadIdx.x; j < UNITS; j += LAYER_THREADS) {
            const UnitStep s = IN_REGISTERS ? now : load(row, j);
            const float d = s.by_output * s.mask + (IN_REGISTERS ? carried : carry[j]);
            const float by_n = d * (1.0f - s.z) * (1.0f - s.n * s.n);
            const float by_z = d * (s.before - s.n) * s.z * (1.0f - s.z);
            const float by_r = by_n * s.of_n * s.r * (1.0f - s.r);
            input_side[j] = by_r;
            input_side[UNITS + j] = by_z;
            input_side[2 * UNITS + j] = by_n;
            state_side[j] = side[j] = by_r;
            state_side[UNITS + j] = side[UNITS + j] = by_z;
            state_side[2 * UNITS + j] = side[2 * UNITS + j] = by_n * s.r;
            (IN_REGISTERS ? carried : carry[j]) = d * s.z;
        }
        __syncthreads();
        if (IN_REGISTERS) {
            parts[threadIdx.x] = dot_of(side + gate * UNITS, held);
            __syncthreads();
            if (threadIdx.x < UNITS) {
                carried += parts[unit] + parts[UNITS + unit] + parts[2 * UNITS + unit];
            }
        } else {
            const int lane = threadIdx.x % 32;
            for (int j = threadIdx.x / 32; j < UNITS; j += LAYER_THREADS / 32) {
                float sum = 0.0f;
                for (int c = lane; c < COLUMNS; c += 32) {
                    sum += side[c] * own[(size_t)j * COLUMNS + c];
                }
                sum = sum_of_warp(sum);
                if (lane == 0) {
                    carry[j] += sum;
                }
            }
            __syncthreads();
        }
    }
}

__device__ double sum_of_block(double value) {
    __shared__ double parts[THREADS / 32];
    for (int step = 16; step > 0; step /= 2) {
        value += __shfl_xor_sync(ALL, value, step);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        parts[threadIdx.x / 32] = value;
    }
    __syncthreads();
    double sum = 0.0;
    for (int warp = 0; warp < THREADS / 32; ++warp) {
        sum += parts[warp];
    }
    return sum;
}

// squares[block] = the sum of squares of the block's part of `gradient`.
//: gradient: in, length
//: squares: out, grid.x
extern "C" __global__ void __launch_bounds__(256)
recurrent_squares(const float* __restrict__ gradient, int length, double* squares) {
    double sum = 0.0;
    for (int i = blockIdx.x * THREADS + threadIdx.x; i < length; i += gridDim.x * THREADS) {
        sum += (double)gradient[i] * gradient[i];
    }
    sum = sum_of_block(sum);
    if (threadIdx.x == 0) {
        squares[blockIdx.x] = sum;
    }
}

// A step of AdamW over all weights, and their exponential mean. The gradient is shortened to a norm of `longest`; one whose
// squared norm is not below `overflow` is left out. overflows[0] counts those in a row, overflows[1] their longest row.
//: squares: in, parts
//: gradient: in, length
//: weights: in-out, length
//: mean: in-out, length
//: first: in-out, length
//: second: in-out, length
//: overflows: in-out, 2
extern "C" __global__ void __launch_bounds__(256)
recurrent_update(const double* __restrict__ squares, int parts, const float* __restrict__ gradient, int length,
                 double longest, double overflow, float first_decay, float second_decay, float first_part,
                 float second_part, float kept, float mean_kept, float tiny, float* weights, float* mean, float* first,
                 float* second, u32* overflows) {
    const double square = sum_of_block(threadIdx.x < parts ? squares[threadIdx.x] : 0.0);
    const bool fits = square < overflow;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        overflows[0] = fits ? 0 : overflows[0] + 1;
        overflows[1] = max(overflows[0], overflows[1]);
    }
    const int i = blockIdx.x * THREADS + threadIdx.x;
    if (!fits || i >= length) {
        return;
    }
    const float shorten = (float)fmin(longest / (sqrt(square) + 1e-6), 1.0);
    const float g = gradient[i] * shorten;
    const float m = first[i] = first_decay * first[i] + (1.0f - first_decay) * g;
    const float v = second[i] = second_decay * second[i] + (1.0f - second_decay) * g * g;
    const float w = weights[i] = weights[i] * kept - first_part * m / (sqrtf(v * second_part) + tiny);
    mean[i] = mean_kept * mean[i] + (1.0f - mean_kept) * w;
}
