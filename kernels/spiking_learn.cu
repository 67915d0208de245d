// Synapses that learn, between launches of a network's steps.
//: variants -fmad=false

typedef unsigned int u32;
typedef unsigned long long u64;

#include "spiking_learn.cuh"

// Brings all synapses to `step`, before dopamine changes. One thread per synapse, any number of blocks.
//: rules: in
//: synapses: in-out, 4 * count
//: more: in-out
extern "C" __global__ void __launch_bounds__(256)
spiking_learn_advance(const LearnRule* __restrict__ rules, u32 step, u32 count, float* synapses, float* more) {
    const Learning learning = {rules, 0, nullptr, nullptr, 0, (float4*)synapses, (float2*)more};
    const u32 threads = gridDim.x * blockDim.x;
    for (u32 k = blockIdx.x * blockDim.x + threadIdx.x; k < count; k += threads) {
        Learner synapse = fetch_learner(learning, k);
        advance_learner(rules[synapse.key >> PLACE_BITS], synapse, step);
        put_learner(learning, k, synapse);
    }
}
