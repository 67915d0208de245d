// Synapses that learn: what arrives and what their targets fire changes them, operation by operation as on the CPU
// (`crates/lab/spiking/src/engine/learn.rs`).
//
// Files that include it are compiled without contraction (-fmad=false).

#pragma once

#include "spiking_math.cuh"

// Numbers of a rule per step.
struct LearnRule {
    float plus;           // decay of r: step / τ+
    float minus;          // of o
    float x;              // of r2
    float y;              // of o2
    float eligibility;    // of the eligibility
    float dopamine;       // of dopamine
    float seconds;        // seconds of a step
    float low;            // least weight
    float high;           // largest weight
    float a_plus;         // A+
    float a_minus;        // A−
    float triplet_plus;   // A3+
    float triplet_minus;  // A3−
    u32 multiplicative;   // 1: changes are in proportion to the distance to the bound
    u32 triplet;          // 1: r2 and o2 act
    u32 reward;           // 1: changes are eligibility, which dopamine turns into weight
    float level;          // dopamine at step `at`
    u32 at;               // that step
};

// A synapse in 16 bytes, `Learner`'s four numbers; those of triplets and rewards are 8 more.
constexpr u32 PLACE_BITS = 24, PLACE_MASK = (1u << PLACE_BITS) - 1;

struct Learner {
    float weight;
    float fast;  // r at step `seen`
    u32 seen;
    u32 key;  // rule << PLACE_BITS | receptor · neurons + neuron
    float slow;
    float waiting;  // eligibility
};

// All synapses that learn, and what they learn from.
struct Learning {
    const LearnRule* rules;
    u32 rule_count;
    // Rows by (source, delay): synapses rows[source · delay_count + d]..rows[… + 1]; the delays in steps.
    const u32* rows;
    const u32* delays;
    u32 delay_count;
    float4* synapses;
    float2* more;
    // Synapses onto each neuron.
    const u32* onto_offsets;
    const u32* onto;
    // o and o2 of each (rule, neuron) at its last spike, and the step of that.
    float2* traces;
    u32* fired;
    // Spikes of the last `slots` steps: their number by slot, then (slot, spike).
    u32* history;
    u32 slots;
    u32 neurons;
    // Unit of the fixed point.
    float unit;
};

__device__ __forceinline__ Learner fetch_learner(const Learning& learning, u32 number) {
    const float4 four = __ldcg(learning.synapses + number);
    Learner synapse = {four.x, four.y, __float_as_uint(four.z), __float_as_uint(four.w), 0.0f, 0.0f};
    const LearnRule& rule = learning.rules[synapse.key >> PLACE_BITS];
    if (rule.triplet || rule.reward) {
        const float2 two = __ldcg(learning.more + number);
        synapse.slow = two.x;
        synapse.waiting = two.y;
    }
    return synapse;
}

__device__ __forceinline__ void put_learner(const Learning& learning, u32 number, const Learner& synapse) {
    __stcg(learning.synapses + number, make_float4(synapse.weight, synapse.fast, __uint_as_float(synapse.seen),
                                                   __uint_as_float(synapse.key)));
    const LearnRule& rule = learning.rules[synapse.key >> PLACE_BITS];
    if (rule.triplet || rule.reward) {
        __stcg(learning.more + number, make_float2(synapse.slow, synapse.waiting));
    }
}

__device__ __forceinline__ void add_to_weight(const LearnRule& rule, float& weight, float change) {
    float sum = weight + change;
    sum = sum < rule.low ? rule.low : sum;
    weight = sum > rule.high ? rule.high : sum;
}

// Brings a synapse's traces to `step`, and its weight where dopamine acts on it.
__device__ __forceinline__ void advance_learner(const LearnRule& rule, Learner& synapse, u32 step) {
    if (step == synapse.seen) {
        return;
    }
    const float lag = __uint2float_rn(step - synapse.seen);
    if (rule.reward) {
        const float begin = rule.level * exponential(-__uint2float_rn(synapse.seen - rule.at) * rule.dopamine);
        const float both = rule.eligibility + rule.dopamine;
        const float area = rule.seconds * (1.0f - exponential(-lag * both)) / both;
        add_to_weight(rule, synapse.weight, synapse.waiting * begin * area);
        synapse.waiting = synapse.waiting * exponential(-lag * rule.eligibility);
    }
    synapse.fast = synapse.fast * exponential(-lag * rule.plus);
    if (rule.triplet) {
        synapse.slow = synapse.slow * exponential(-lag * rule.x);
    }
    synapse.seen = step;
}

// Changes a synapse by `part` of what its bounds allow, at once or as eligibility.
__device__ __forceinline__ void change_learner(const LearnRule& rule, Learner& synapse, float part) {
    float room = rule.high;
    if (rule.multiplicative) {
        room = part > 0.0f ? rule.high - synapse.weight : synapse.weight - rule.low;
    }
    if (rule.reward) {
        synapse.waiting = synapse.waiting + part * room;
    } else {
        add_to_weight(rule, synapse.weight, part * room);
    }
}

// A synapse takes an arrival, and adds its weight to the ring's `slot` of this step.
__device__ __forceinline__ void take_arrival(const Learning& learning, u32 number, int* slot, u32 step) {
    Learner synapse = fetch_learner(learning, number);
    const u32 place = synapse.key & PLACE_MASK, which = synapse.key >> PLACE_BITS;
    const LearnRule& rule = learning.rules[which];
    const u32 neuron = place % learning.neurons;
    const float o = __ldcg(&learning.traces[(u64)which * learning.neurons + neuron].x);
    const u32 fired = __ldcg(learning.fired + neuron);
    advance_learner(rule, synapse, step);
    const float post = o * exponential(-__uint2float_rn(step - fired) * rule.minus);
    const float part = post * (rule.a_minus + rule.triplet_minus * synapse.slow);
    change_learner(rule, synapse, -part);
    synapse.fast = synapse.fast + 1.0f;
    synapse.slow = synapse.slow + 1.0f;
    put_learner(learning, number, synapse);
    atomicAdd(slot + place, (int)rintf(synapse.weight / learning.unit));
}

// All arrivals of a step, by all `threads` threads of the grid; `team` of them share a row.
__device__ __forceinline__ void take_arrivals(const Learning& learning, int* slot, u32 step, u32 thread, u32 threads,
                                              u32 team) {
    const u32 delays = learning.delay_count, all = threads / team;
    // Each team takes the rows of one delay, if there are enough of them.
    const u32 teams = all >= delays ? all - all % delays : all;
    const u32 own = thread / team, rank = thread % team;
    if (own >= teams) {
        return;
    }
    const u32 stride = max(teams / delays, 1u), next = max(teams, delays) == teams ? delays : teams;
    for (u32 d = own % delays; d < delays; d += next) {
        const u32 then = (step - __ldg(learning.delays + d)) & (learning.slots - 1);
        const u32 many = __ldcg(learning.history + then);
        const u32* const list = learning.history + learning.slots + (u64)then * learning.neurons;
        for (u32 which = teams >= delays ? own / delays : 0; which < many; which += stride) {
            const u32* const row = learning.rows + (u64)__ldcg(list + which) * delays + d;
            const u32 end = __ldg(row + 1);
            for (u32 k = __ldg(row) + rank; k < end; k += team) {
                take_arrival(learning, k, slot, step);
            }
        }
    }
}

// A synapse onto a neuron that fires learns.
__device__ __forceinline__ void learn_from(const Learning& learning, u32 number, Learner& synapse, u32 neuron, float age,
                                           u32 step) {
    const u32 which = synapse.key >> PLACE_BITS;
    const LearnRule& rule = learning.rules[which];
    const float o2 = rule.triplet ? __ldcg(&learning.traces[(u64)which * learning.neurons + neuron].y) : 0.0f;
    advance_learner(rule, synapse, step);
    const float slow = o2 * exponential(-age * rule.y);
    const float part = synapse.fast * (rule.a_plus + rule.triplet_plus * slow);
    change_learner(rule, synapse, part);
    put_learner(learning, number, synapse);
}

// The synapses onto a neuron that fires learn, by thread `rank` of `team`.
__device__ __forceinline__ void learn_spike(const Learning& learning, u32 neuron, u32 rank, u32 team, u32 step) {
    const u32 end = __ldg(learning.onto_offsets + neuron + 1);
    u32 k = __ldg(learning.onto_offsets + neuron) + rank;
    if (k >= end) {
        return;
    }
    const float age = __uint2float_rn(step - __ldcg(learning.fired + neuron));
    // Two at a time: memory is far away.
    for (; k < end; k += 2 * team) {
        const bool both = k + team < end;
        const u32 one = __ldg(learning.onto + k), two = both ? __ldg(learning.onto + k + team) : one;
        Learner first = fetch_learner(learning, one), second = fetch_learner(learning, two);
        learn_from(learning, one, first, neuron, age, step);
        if (both) {
            learn_from(learning, two, second, neuron, age, step);
        }
    }
}

// Then the traces of the neuron. One thread.
__device__ __forceinline__ void leave_traces(const Learning& learning, u32 neuron, u32 step) {
    const float age = __uint2float_rn(step - __ldcg(learning.fired + neuron));
    for (u32 which = 0; which < learning.rule_count; ++which) {
        const LearnRule& rule = learning.rules[which];
        float2* const at = learning.traces + (u64)which * learning.neurons + neuron;
        const float2 two = __ldcg(at);
        __stcg(at, make_float2(two.x * exponential(-age * rule.minus) + 1.0f, two.y * exponential(-age * rule.y) + 1.0f));
    }
    __stcg(learning.fired + neuron, step);
}

// Notes a spike for the arrivals that it leads to.
__device__ __forceinline__ void note_spike(const Learning& learning, u32 neuron, u32 step) {
    const u32 slot = step & (learning.slots - 1);
    const u32 at = atomicAdd(learning.history + slot, 1u);
    __stcg(learning.history + learning.slots + (u64)slot * learning.neurons + at, neuron);
}
