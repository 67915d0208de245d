// Responses that are on the device already, in f32, into the operands of the products.
//
//: variants -DORDER=0 -DBLOCKS=8
//: module gram

#include "spike_states.cuh"
#include "response_tile.cuh"

// Responses that are there, into a round's operand.
// `responses[column][step]` in the recording's steps, columns `length` apart, the first being
// `first_column`. The step of a block's first is its `origin` + delay. grid: x = tile of 32 columns,
// y = chunk (blocks are counted from the round's first). 32 · BLOCKS threads. Shared: STEPS × 33.
//: responses: in, rows( first_column + target.columns(), length, 0, )
//: target: value, grid.y
extern "C" __global__ void __launch_bounds__(32 * BLOCKS)
    responses_given(const float *responses, size_t length, const Block *block, int delay,
                    int first_column, Target target) {
    extern __shared__ float y[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, chunk = blockIdx.y;
    const Block here = block[(size_t)chunk * BLOCKS + warp];
    bool summed = here.before - lane <= 0 && here.left - lane > 0;
    int columns = min(32, target.columns - (int)blockIdx.x * 32);
    const float *at = responses + (size_t)(first_column + blockIdx.x * 32) * length +
                      (here.origin + delay + lane);
    for (int c = 0; c < columns; ++c) {
        y[(32 * warp + lane) * TILE_STRIDE + c] = summed ? at[c * length] : 0.0f;
    }
    __syncthreads();
    write_tile(y, target, blockIdx.x, chunk, block);
}
