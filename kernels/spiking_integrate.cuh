// Neurons that are integrated: a step of any model, operation by operation as on the CPU
// (`crates/lab/spiking/src/engine/integrate.rs`). A new model is a file, and a line in `integrate`.
//
// Compile-time: those of spiking_neuron.cuh; STATE, the numbers of a neuron besides its potential and silence.

#pragma once

#include "spiking_neuron.cuh"
#include "spiking_math.cuh"
#include "spiking_channels.cuh"
#include "spiking_model_lif.cuh"
#include "spiking_model_izhikevich.cuh"
#include "spiking_model_adex.cuh"
#include "spiking_model_hh.cuh"
#include "spiking_model_qif.cuh"
#include "spiking_model_theta.cuh"

// A population of a model: how it is integrated, its receptors and its parameters.
struct ModelCells {
    u32 model;           // 0: none; number in the list of models + 1; RANDOM: a source that fires at random
    u32 parts;           // sub-steps of a step
    float part_ms;       // length of one in ms
    u32 early;           // 1: arrivals act in the step they arrive in
    u32 jumps;           // 1: the potential jumps by what arrives
    u32 refractory;      // place of the refractory time in steps among the parameters; NONE: none
    u32 receptors;       // receptors
    u32 effect[4];       // JUMP, CURRENT, CONDUCTANCE or BLOCKED, by receptor
    u32 traces[4];       // traces of each receptor
    float half[8];       // decay over half a sub-step: (receptor, trace)
    float whole[8];      // decay over a sub-step: (receptor, trace)
    float gain[4];       // from units to traces
    float reversal[4];   // reversal potential in mV
    float magnesium[4];  // concentration of magnesium in mM
    u32 values[12];      // where the values of each parameter begin
    u32 drawn[12];       // 1: a value per neuron of the population, otherwise one for all
};

constexpr u32 RANDOM = 255, NONE = 255;
constexpr u32 JUMP = 0, CURRENT = 1, CONDUCTANCE = 2, BLOCKED = 3;
// Potentials beyond are no numbers any more.
constexpr float LARGEST_POTENTIAL = 1e6f;

// Current of stimuli and receptors at the potential v, `halves` half sub-steps after the traces.
__device__ __forceinline__ float current_at(const ModelCells& cells, const float* traces, float held, float v,
                                            int halves) {
    float sum = held;
#pragma unroll
    for (u32 r = 0; r < RECEPTORS; ++r) {
        if (r < cells.receptors) {
            float value = 0.0f;
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                if (k < cells.traces[r]) {
                    const float decay = halves == 0 ? 1.0f : (halves == 1 ? cells.half[2 * r + k] : cells.whole[2 * r + k]);
                    value = fmaf(traces[2 * r + k], k == 0 ? decay : -decay, value);
                }
            }
            if (cells.effect[r] == CURRENT) {
                sum = sum + value;
            } else if (cells.effect[r] == CONDUCTANCE) {
                sum = fmaf(value, cells.reversal[r] - v, sum);
            } else if (cells.effect[r] == BLOCKED) {
                const float open = value * magnesium_gate(cells.magnesium[r], v);
                sum = fmaf(open, cells.reversal[r] - v, sum);
            }
        }
    }
    return sum;
}

// Traces take in what arrives.
__device__ __forceinline__ void arrive_at(const ModelCells& cells, const int (&input)[RECEPTORS], float* traces) {
#pragma unroll
    for (u32 r = 0; r < RECEPTORS; ++r) {
#pragma unroll
        for (u32 k = 0; k < 2; ++k) {
            if (r < cells.receptors && k < cells.traces[r]) {
                traces[2 * r + k] = fmaf(__int2float_rn(input[r]), cells.gain[r], traces[2 * r + k]);
            }
        }
    }
}

// One step of a neuron of the model M; whether it fires. m.chain: what the potential's sum has lost, the other states, the
// traces (receptor, trace).
template <class M>
__device__ __forceinline__ bool integrate_model(Membrane& m, const ModelCells& cells, const float* values, u32 own,
                                                float held, const int (&input)[RECEPTORS]) {
    constexpr int S = M::STATES;
    float p[M::PARAMETERS];
#pragma unroll
    for (int k = 0; k < M::PARAMETERS; ++k) {
        p[k] = __ldg(values + cells.values[k] + (cells.drawn[k] ? own : 0));
    }
    float y[S];
    y[0] = m.v;
#pragma unroll
    for (int s = 1; s < S; ++s) {
        y[s] = m.chain[s];
    }
    float rounded = m.chain[0];
    float* const traces = m.chain + S;
    if (cells.early) {
        arrive_at(cells, input, traces);
    }
    const bool free = m.silent == 0;
    const float h = cells.part_ms;
    bool done = false;
    for (u32 part = 0; part < cells.parts; ++part) {
        const float before = y[0];
        float at[S], sum[S];
#pragma unroll
        for (int s = 0; s < S; ++s) {
            at[s] = y[s];
            sum[s] = 0.0f;
        }
#pragma unroll
        for (int stage = 0; stage < 4; ++stage) {
            const float current = current_at(cells, traces, held, at[0], stage == 0 ? 0 : (stage == 3 ? 2 : 1));
            float slope[S];
            M::slope(p, at, current, slope);
            slope[0] = free ? slope[0] : 0.0f;
            const float weight = stage == 1 || stage == 2 ? 2.0f : 1.0f;
            const float ahead = stage == 2 ? h : 0.5f * h;
#pragma unroll
            for (int s = 0; s < S; ++s) {
                sum[s] = fmaf(slope[s], weight, sum[s]);
                at[s] = fmaf(slope[s], ahead, y[s]);
            }
        }
        const float sixth = h / 6.0f;
        if (!M::RESETS || !done) {
            const float exact = sum[0] * sixth + rounded;
            const float next = y[0] + exact;
            rounded = exact - (next - y[0]);
            y[0] = next;
#pragma unroll
            for (int s = 1; s < S; ++s) {
                y[s] = y[s] + sum[s] * sixth;
            }
        }
#pragma unroll
        for (u32 r = 0; r < RECEPTORS; ++r) {
#pragma unroll
            for (u32 k = 0; k < 2; ++k) {
                if (r < cells.receptors && k < cells.traces[r]) {
                    traces[2 * r + k] = kept(traces[2 * r + k] * cells.whole[2 * r + k]);
                }
            }
        }
        done = done || (free && M::fires(p, before, y[0]));
    }
    if (cells.jumps && free) {
        y[0] = fmaf(__int2float_rn(input[0]), cells.gain[0], y[0]);
    }
    const bool fires = done || (cells.jumps && free && M::fires(p, m.v, y[0]));
    if (fires) {
        M::reset(p, y);
        rounded = M::RESETS ? 0.0f : rounded;
        m.silent = cells.refractory == NONE ? 0 : (int)p[cells.refractory < M::PARAMETERS ? cells.refractory : 0];
    } else {
        m.silent = m.silent > 0 ? m.silent - 1 : 0;
    }
    m.v = y[0];
    m.chain[0] = rounded;
#pragma unroll
    for (int s = 1; s < S; ++s) {
        m.chain[s] = y[s];
    }
    if (!cells.early) {
        arrive_at(cells, input, traces);
    }
    return fires;
}

// One step of a neuron of any model, in the order of the list of models.
__device__ __forceinline__ bool integrate(Membrane& m, const ModelCells& cells, const float* values, u32 own, float held,
                                          const int (&input)[RECEPTORS]) {
    switch (cells.model) {
        case 1: return integrate_model<LeakyIntegrator>(m, cells, values, own, held, input);
        case 2: return integrate_model<Izhikevich>(m, cells, values, own, held, input);
        case 3: return integrate_model<Adex>(m, cells, values, own, held, input);
        case 4: return integrate_model<HodgkinHuxley>(m, cells, values, own, held, input);
        case 5: return integrate_model<Quadratic>(m, cells, values, own, held, input);
        default: return integrate_model<Theta>(m, cells, values, own, held, input);
    }
}
