// A tile of responses, 32 columns × STEPS steps, on its way to the products.
//
// Operands are responses less a constant of each column: where that is near the mean, products nearly
// cancel off the diagonal, and sums that round toward zero lose little (src/train/gram/cuda/centre.rs
// chooses it, and puts back what was taken). Steps that are not summed stay zero.
//
// Two forms of such a difference a. Split: a ≈ high + low with high = bf16(a), low = bf16(a − high), 16 bits
// of a. Whole: a rounded to TF32. Either way an operand takes four bytes a response.
//
// To be included behind spike_states.cuh.

#define TILE_COLUMNS 32
#define TILE_STRIDE 33  // floats from one step to the next, so that columns are read without conflicts

// Destination of a tile. The host makes it by hand, with the same fields.
struct Target {
    void *operand;          // split: high[column][step], then low[column][step]; whole: one such array
    const float *behavior;  // [step][outputs], zero where nothing is summed
    double *upsilon;        // [chunk][outputs + 1][column]: Υ and Σa of a chunk alone; null: not wanted
    const float *centre;    // what is taken from the responses of each column
    int columns;            // columns of the operand
    int stride;             // steps from one column to the next
    int outputs;            // outputs of the behaviour
    int whole;              // 1: TF32, 0: split
};

// The nearest bf16 (ties to even) of a finite x, as its bits.
__device__ __forceinline__ u32 to_bf16(float x) {
    u32 bits = __float_as_uint(x);
    return (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
}

// The nearest TF32 (ties away from zero), as a float's bits.
__device__ __forceinline__ u32 to_tf32(float x) {
    u32 bits;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
    return bits;
}

// The k-th of the steps that a lane writes: pairs of neighbours for two bf16 a word, else every 32nd.
static_assert(BLOCKS % 2 == 0, "steps are written in pairs");
__device__ __forceinline__ int step_of(int lane, int k, bool whole) {
    return whole ? lane + 32 * k : 2 * lane + 64 * (k / 2) + k % 2;
}

// Writes tile `tile` of chunk `chunk` (both counted from the operand's first) from y[step][column]
// in shared memory, and sums Υ and Σa over it in f64. By all threads of the block, after a barrier.
// `block` is the first of the round's.
__device__ __forceinline__ void write_tile(const float *y, const Target &target, int tile, int chunk,
                                           const Block *block) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    size_t low = (size_t)target.columns * target.stride;
    // One bit per step of this lane: set if the step is summed.
    u32 summed = 0;
#pragma unroll
    for (int k = 0; k < BLOCKS; ++k) {
        int t = step_of(lane, k, target.whole);
        const Block &here = block[(size_t)chunk * BLOCKS + t / 32];
        int i = t % 32;
        summed |= (u32)(here.before - i <= 0 && here.left - i > 0) << k;
    }
    for (int c = warp; c < TILE_COLUMNS; c += BLOCKS) {
        int column = tile * TILE_COLUMNS + c;
        if (column >= target.columns) break;
        size_t base = (size_t)column * target.stride + (size_t)chunk * STEPS;
        float centre = target.centre[column];
        auto centred = [&](int k) {
            float a = y[step_of(lane, k, target.whole) * TILE_STRIDE + c];
            return a - (summed >> k & 1u ? centre : 0.0f);
        };
        if (target.whole) {
            u32 *row = (u32 *)target.operand + base;
#pragma unroll
            for (int k = 0; k < BLOCKS; ++k) row[step_of(lane, k, true)] = to_tf32(centred(k));
        } else {
            u32 *high_row = (u32 *)((u16 *)target.operand + base);
            u32 *low_row = (u32 *)((u16 *)target.operand + low + base);
#pragma unroll
            for (int k = 0; k < BLOCKS; k += 2) {
                int t = step_of(lane, k, false);
                float a = centred(k), b = centred(k + 1);
                u32 ah = to_bf16(a), bh = to_bf16(b);
                high_row[t / 2] = ah | bh << 16;
                low_row[t / 2] = to_bf16(a - __uint_as_float(ah << 16)) |
                                 to_bf16(b - __uint_as_float(bh << 16)) << 16;
            }
        }
        if (target.upsilon == nullptr) continue;
        const float *x = target.behavior + (size_t)chunk * STEPS * target.outputs;
        for (int o = 0; o <= target.outputs; ++o) {
            double sum = 0.0;
            for (int t = lane; t < STEPS; t += 32) {
                float partner = o == target.outputs ? 1.0f : x[(size_t)t * target.outputs + o];
                sum += (double)y[t * TILE_STRIDE + c] * (double)partner;
            }
#pragma unroll
            for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
            if (lane == 0) {
                size_t row = (size_t)chunk * (target.outputs + 1) + o;
                target.upsilon[row * target.columns + column] = sum;
            }
        }
    }
}
