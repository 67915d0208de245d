//! One step of neurons that are integrated: a chunk at a time, each loop over its lanes.
//!
//! Arithmetic is that of `kernels/spiking_integrate.cuh`, operation by operation.

#![allow(clippy::needless_range_loop)]

use std::hint::select_unpredictable as select;

use super::update::flush_tiny;
use crate::channels::{Gate, magnesium};
use crate::dynamics::Dynamics;
use crate::model_population::{Effect, ModelPopulation, Receptor};
use crate::plan::CHUNK;

/// Largest potential that is one.
const LARGEST: f32 = 1e6;

/// Half sub-steps from a sub-step's beginning to each stage of the Runge-Kutta method.
const HALVES: [usize; 4] = [0, 1, 1, 2];

/// A chunk's arrays.
pub(super) struct ModelLanes<'a> {
    pub(super) v: &'a mut [f32; CHUNK],
    pub(super) silent: &'a mut [i32; CHUNK],
    /// Currents by call and stimulus in pA.
    pub(super) current: &'a [f32; CHUNK],
    /// The rounding error of the potential's sum, then the other states, then the receptors' traces.
    pub(super) state: &'a mut [[f32; CHUNK]],
    /// Parameters that differ between neurons, in their order.
    pub(super) drawn: &'a [[f32; CHUNK]],
    /// Arrivals of the step in units, by receptor.
    pub(super) arrived: &'a [[i32; CHUNK]],
    /// Factor from units to traces, by receptor.
    pub(super) gains: &'a [f32],
}

/// Lanes that fire, and lanes whose potential is no number any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outcome {
    pub(super) fired: u64,
    pub(super) lost: u64,
}

/// One step of a chunk. Loops are by index over arrays of known length: closures and iterators would leave the processor's
/// wide registers.
#[inline(always)]
pub(super) fn step<M: Dynamics<S, P>, const S: usize, const P: usize>(
    model: &ModelPopulation,
    lanes: &mut ModelLanes<'_>,
) -> Outcome {
    let mut p = [[0f32; CHUNK]; P];
    let mut drawn = 0;
    for k in 0..P {
        match model.constants[k] {
            Some(value) => p[k] = [value; CHUNK],
            None => {
                p[k] = lanes.drawn[drawn];
                drawn += 1;
            }
        }
    }
    let mut y = [[0f32; CHUNK]; S];
    y[0] = *lanes.v;
    y[1..S].copy_from_slice(&lanes.state[1..S]);
    let mut rounded = lanes.state[0];
    let (_, traces) = lanes.state.split_at_mut(S);
    if model.early {
        arrive(&model.receptors, lanes.gains, lanes.arrived, traces);
    }
    let mut free = [false; CHUNK];
    let mut done = [false; CHUNK];
    for i in 0..CHUNK {
        free[i] = lanes.silent[i] == 0;
    }
    for _ in 0..model.parts {
        let before = y[0];
        let change = runge_kutta::<M, S, P>(model, &p, &y, lanes.current, traces, &free);
        for i in 0..CHUNK {
            // The potential is large and its changes are small: what a sum loses is added to the next one.
            let exact = change[0][i] + rounded[i];
            let next = y[0][i] + exact;
            let lost = exact - (next - y[0][i]);
            let rests = M::RESETS & done[i];
            rounded[i] = select(rests, rounded[i], lost);
            y[0][i] = select(rests, y[0][i], next);
            for s in 1..S {
                y[s][i] = select(rests, y[s][i], y[s][i] + change[s][i]);
            }
        }
        decay(&model.receptors, traces);
        for i in 0..CHUNK {
            let pi = column(&p, i);
            done[i] |= free[i] & M::fires(&pi, before[i], y[0][i]);
        }
    }
    jump(model, lanes.gains, lanes.arrived, &free, &mut y[0]);
    let mut outcome = Outcome { fired: 0, lost: 0 };
    for i in 0..CHUNK {
        let pi = column(&p, i);
        // A jump may cross the threshold, too.
        let fires = done[i] | (model.jumps & free[i] & M::fires(&pi, lanes.v[i], y[0][i]));
        let after = M::reset(&pi, column(&y, i));
        for s in 0..S {
            y[s][i] = select(fires, after[s], y[s][i]);
        }
        rounded[i] = select(M::RESETS & fires, 0.0, rounded[i]);
        let silence = match model.refractory {
            Some(place) => pi[place] as i32,
            None => 0,
        };
        lanes.silent[i] = select(fires, silence, (lanes.silent[i] - 1).max(0));
        outcome.fired |= u64::from(fires) << i;
        let is_number = y[0][i].abs() < LARGEST;
        outcome.lost |= u64::from(!is_number) << i;
    }
    *lanes.v = y[0];
    let (states, traces) = lanes.state.split_at_mut(S);
    states[0] = rounded;
    states[1..S].copy_from_slice(&y[1..S]);
    if !model.early {
        arrive(&model.receptors, lanes.gains, lanes.arrived, traces);
    }
    outcome
}

/// Row `i` of arrays by lane.
#[inline(always)]
fn column<const N: usize>(arrays: &[[f32; CHUNK]; N], i: usize) -> [f32; N] {
    let mut column = [0f32; N];
    for k in 0..N {
        column[k] = arrays[k][i];
    }
    column
}

/// Change of the state in a sub-step.
#[inline(always)]
fn runge_kutta<M: Dynamics<S, P>, const S: usize, const P: usize>(
    model: &ModelPopulation,
    p: &[[f32; CHUNK]; P],
    y: &[[f32; CHUNK]; S],
    held: &[f32; CHUNK],
    traces: &[[f32; CHUNK]],
    free: &[bool; CHUNK],
) -> [[f32; CHUNK]; S] {
    let h = model.part_ms;
    let mut at = *y;
    let mut sum = [[0f32; CHUNK]; S];
    for stage in 0..4 {
        let current = current(&model.receptors, traces, held, &at[0], HALVES[stage]);
        let weight = if stage == 1 || stage == 2 { 2.0 } else { 1.0 };
        let ahead = if stage == 2 { h } else { 0.5 * h };
        for i in 0..CHUNK {
            let mut slope = M::slope(&column(p, i), &column(&at, i), current[i]);
            slope[0] = select(free[i], slope[0], 0.0);
            for s in 0..S {
                sum[s][i] = slope[s].mul_add(weight, sum[s][i]);
                at[s][i] = slope[s].mul_add(ahead, y[s][i]);
            }
        }
    }
    let sixth = h / 6.0;
    for s in 0..S {
        for i in 0..CHUNK {
            sum[s][i] *= sixth;
        }
    }
    sum
}

/// Current of stimuli and receptors at the potential `v`, `halves` half sub-steps after the traces.
#[inline(always)]
fn current(
    receptors: &[Receptor],
    traces: &[[f32; CHUNK]],
    held: &[f32; CHUNK],
    v: &[f32; CHUNK],
    halves: usize,
) -> [f32; CHUNK] {
    let mut sum = *held;
    let mut first = 0;
    for receptor in receptors {
        let mut value = [0f32; CHUNK];
        for k in 0..receptor.traces {
            let factor = match halves {
                0 => 1.0,
                1 => receptor.half[k],
                _ => receptor.whole[k],
            };
            // The rise's trace is taken away.
            let factor = if k == 0 { factor } else { -factor };
            let trace = &traces[first + k];
            for i in 0..CHUNK {
                value[i] = trace[i].mul_add(factor, value[i]);
            }
        }
        first += receptor.traces;
        match receptor.effect {
            Effect::Jump => {}
            Effect::Current => {
                for i in 0..CHUNK {
                    sum[i] += value[i];
                }
            }
            Effect::Conductance {
                reversal,
                gate: Gate::Open,
                ..
            } => {
                for i in 0..CHUNK {
                    sum[i] = value[i].mul_add(reversal - v[i], sum[i]);
                }
            }
            Effect::Conductance {
                reversal,
                gate: Gate::Magnesium,
                magnesium: concentration,
            } => {
                for i in 0..CHUNK {
                    let open = value[i] * magnesium(concentration, v[i]);
                    sum[i] = open.mul_add(reversal - v[i], sum[i]);
                }
            }
        }
    }
    sum
}

/// Traces go a sub-step on.
#[inline(always)]
fn decay(receptors: &[Receptor], traces: &mut [[f32; CHUNK]]) {
    let mut first = 0;
    for receptor in receptors {
        for k in 0..receptor.traces {
            let trace = &mut traces[first + k];
            for i in 0..CHUNK {
                trace[i] = flush_tiny(trace[i] * receptor.whole[k]);
            }
        }
        first += receptor.traces;
    }
}

/// Traces take in what arrives.
#[inline(always)]
fn arrive(
    receptors: &[Receptor],
    gains: &[f32],
    arrived: &[[i32; CHUNK]],
    traces: &mut [[f32; CHUNK]],
) {
    let mut first = 0;
    for (r, receptor) in receptors.iter().enumerate() {
        for k in 0..receptor.traces {
            let trace = &mut traces[first + k];
            for i in 0..CHUNK {
                trace[i] = (arrived[r][i] as f32).mul_add(gains[r], trace[i]);
            }
        }
        first += receptor.traces;
    }
}

/// Potentials jump by what arrives.
#[inline(always)]
fn jump(
    model: &ModelPopulation,
    gains: &[f32],
    arrived: &[[i32; CHUNK]],
    free: &[bool; CHUNK],
    v: &mut [f32; CHUNK],
) {
    if !model.jumps {
        return;
    }
    for i in 0..CHUNK {
        let jumped = (arrived[0][i] as f32).mul_add(gains[0], v[i]);
        v[i] = select(free[i], jumped, v[i]);
    }
}
