//! One model at work: the arithmetic of a step.
//!
//! x̂ = Σ_k φ_k·(h ∗ s_k) = h ∗ (Σ_k φ_k·s_k): the filter commutes with the readout. So the states
//! kept are those of the *weighted* train, order + 1 of them for each filter and latent, and none per
//! channel. A spike costs one row of filters × latents; a tick costs filters × latents × (order + 1);
//! channels that are silent cost nothing. In a linear decoder the latents are the outputs; else the head
//! makes the outputs of them.

use std::sync::Arc;

use wide::u16x8;

use super::PreparedModel;
use crate::model::head::PreparedHead;
use crate::psc::{LowPassFilter, advance};

/// Spikes of one tick: how many were of channels the model has, and how many were not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    pub(super) known: u64,
    pub(super) unknown: u64,
}

/// A model, its filter states and room for one tick. Steps do not allocate.
#[derive(Debug, Clone)]
pub(super) struct Engine {
    model: Arc<PreparedModel>,
    /// Sum of the rows of this tick's spikes, (filter, latent).
    drive: Vec<f64>,
    /// For each filter: (latent, order + 1).
    states: Vec<f64>,
    low_pass: Option<LowPassFilter>,
    /// Latents of this tick: the estimates, where there is no head.
    latents: Vec<f64>,
    /// States of the head.
    head: Vec<f64>,
    scratch: Vec<f32>,
    /// What the head made of the latents; empty without one.
    outputs: Vec<f64>,
    blanked: bool,
    outside: bool,
}

impl Engine {
    /// `model` at rest.
    pub(super) fn new(model: Arc<PreparedModel>) -> Self {
        let states = (model.stages.iter())
            .map(|stage| (stage.order as usize + 1) * model.latents())
            .sum();
        let outputs = match model.head {
            PreparedHead::Linear => 0,
            _ => model.outputs(),
        };
        Self {
            drive: vec![0.0; model.lanes()],
            states: vec![0.0; states],
            low_pass: model.low_pass.clone(),
            latents: vec![0.0; model.latents()],
            head: vec![0.0; model.head.states()],
            scratch: vec![0.0; model.head.scratch()],
            outputs: vec![0.0; outputs],
            blanked: false,
            outside: false,
            model,
        }
    }

    pub(super) fn model(&self) -> &Arc<PreparedModel> {
        &self.model
    }

    /// Takes a tick's spikes as a list of channels, one entry a spike.
    #[inline]
    pub(super) fn take_spikes(&mut self, channels: &[u32]) -> Taken {
        if let Some(blanking) = &self.model.blanking {
            let spikes = channels.iter().map(|&channel| (channel as usize, 1));
            self.blanked = blanking.is_artefact(spikes);
        }
        let (rows, drive) = (&self.model.rows, &mut self.drive);
        match drive.len() {
            1 => sum_spikes::<1>(rows, drive, channels),
            2 => sum_spikes::<2>(rows, drive, channels),
            3 => sum_spikes::<3>(rows, drive, channels),
            4 => sum_spikes::<4>(rows, drive, channels),
            8 => sum_spikes::<8>(rows, drive, channels),
            16 => sum_spikes::<16>(rows, drive, channels),
            _ => sum_long_rows(rows, drive, channels.iter().map(|&c| (c as usize, 1))),
        }
    }

    /// Takes a tick's spikes as counts, one a channel.
    #[inline]
    pub(super) fn take_counts(&mut self, counts: &[u16]) -> Taken {
        if let Some(blanking) = &self.model.blanking {
            self.blanked = blanking.is_artefact(non_zero(counts));
        }
        let (rows, drive) = (&self.model.rows, &mut self.drive);
        match drive.len() {
            1 => sum_counts::<1>(rows, drive, counts),
            2 => sum_counts::<2>(rows, drive, counts),
            3 => sum_counts::<3>(rows, drive, counts),
            4 => sum_counts::<4>(rows, drive, counts),
            8 => sum_counts::<8>(rows, drive, counts),
            16 => sum_counts::<16>(rows, drive, counts),
            _ => sum_long_rows(rows, drive, non_zero(counts)),
        }
    }

    /// One tick of the filters and what is behind them, driven by what was taken.
    #[inline]
    pub(super) fn advance(&mut self) -> &[f64] {
        if self.blanked
            && let Some(blanking) = &self.model.blanking
        {
            self.drive.copy_from_slice(&blanking.mean_drive);
        }
        let width = self.latents.len();
        self.latents.fill(0.0);
        let mut states = self.states.as_mut_slice();
        for (stage, drive) in (self.model.stages.iter()).zip(self.drive.chunks_exact(width)) {
            let (mine, rest) = states.split_at_mut((stage.order as usize + 1) * width);
            states = rest;
            let latents = &mut self.latents;
            match stage.order {
                0 => advance_stage::<1>(mine, stage.decay, drive, latents),
                1 => advance_stage::<2>(mine, stage.decay, drive, latents),
                2 => advance_stage::<3>(mine, stage.decay, drive, latents),
                3 => advance_stage::<4>(mine, stage.decay, drive, latents),
                _ => advance_stage::<5>(mine, stage.decay, drive, latents),
            }
        }
        if let Some(low_pass) = &mut self.low_pass {
            low_pass.step(&mut self.latents);
        }
        for (latent, intercept) in self.latents.iter_mut().zip(&self.model.intercept) {
            *latent += intercept;
        }
        if let PreparedHead::Linear = self.model.head {
            return &self.latents;
        }
        self.outside = (self.model.head).step(
            &mut self.latents,
            &mut self.head,
            &mut self.scratch,
            &mut self.outputs,
        );
        &self.outputs
    }

    /// Whether the spikes taken last were an artefact, and mean counts were decoded in their place.
    pub(super) fn blanked(&self) -> bool {
        self.blanked
    }

    /// Whether the latents of the last tick lay outside what training saw.
    pub(super) fn outside(&self) -> bool {
        self.outside
    }

    /// Back to rest.
    pub(super) fn reset(&mut self) {
        self.states.fill(0.0);
        if let Some(low_pass) = &mut self.low_pass {
            low_pass.reset();
        }
        self.head.fill(0.0);
    }

    /// Every state there is, in a fixed order: what a checkpoint keeps.
    pub(super) fn states(&self) -> impl Iterator<Item = &f64> {
        let behind = self.low_pass.as_ref().map_or(&[][..], LowPassFilter::state);
        self.states.iter().chain(behind).chain(&self.head)
    }

    /// As [`states`](Self::states), to be overwritten.
    pub(super) fn states_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        let behind = (self.low_pass.as_mut()).map_or(&mut [][..], LowPassFilter::state_mut);
        (self.states.iter_mut().chain(behind)).chain(&mut self.head)
    }
}

/// Sums the rows of the spikes of `channels` into `drive` of length `LANES`.
#[inline(always)]
fn sum_spikes<const LANES: usize>(rows: &[f64], drive: &mut [f64], channels: &[u32]) -> Taken {
    let (rows, _) = rows.as_chunks::<LANES>();
    let mut sum = [0.0; LANES];
    let mut taken = Taken::default();
    for &channel in channels {
        match rows.get(channel as usize) {
            Some(row) => {
                taken.known += 1;
                add_row(&mut sum, 1, row);
            }
            None => taken.unknown += 1,
        }
    }
    drive.copy_from_slice(&sum);
    taken
}

/// Sums the rows of `counts` into `drive` of length `LANES`.
///
/// Plain loops over blocks of 64, not [`non_zero`]: `sum` then stays in registers, where a closure
/// keeps it in memory and every spike waits for the one before to be stored (twice the time).
#[inline(always)]
fn sum_counts<const LANES: usize>(rows: &[f64], drive: &mut [f64], counts: &[u16]) -> Taken {
    let (rows, _) = rows.as_chunks::<LANES>();
    let (counts, beyond) = counts.split_at(counts.len().min(rows.len()));
    let mut sum = [0.0; LANES];
    let mut known = 0;
    for (counts, rows) in counts.chunks(64).zip(rows.chunks(64)) {
        let mut fired = fired(counts);
        while let (Some(count), Some(row)) = at_lowest_bit(fired, counts, rows) {
            fired &= fired - 1;
            known += u64::from(*count);
            add_row(&mut sum, *count, row);
        }
    }
    drive.copy_from_slice(&sum);
    Taken {
        known,
        unknown: beyond.iter().map(|&count| u64::from(count)).sum(),
    }
}

/// The count and the row of the lowest bit that is set; `None` where none is.
#[inline(always)]
fn at_lowest_bit<'a, T>(
    bits: u64,
    counts: &'a [u16],
    rows: &'a [T],
) -> (Option<&'a u16>, Option<&'a T>) {
    let j = bits.trailing_zeros() as usize;
    (counts.get(j), rows.get(j))
}

#[inline(always)]
fn add_row<const LANES: usize>(sum: &mut [f64; LANES], count: u16, row: &[f64; LANES]) {
    for (sum, weight) in sum.iter_mut().zip(row) {
        *sum += f64::from(count) * weight;
    }
}

/// Sums the rows of `spikes`, (channel, how many), into `drive` of any length.
fn sum_long_rows(
    rows: &[f64],
    drive: &mut [f64],
    spikes: impl Iterator<Item = (usize, u16)>,
) -> Taken {
    let lanes = drive.len();
    let channels = rows.len() / lanes;
    let mut taken = Taken::default();
    drive.fill(0.0);
    for (channel, count) in spikes {
        if channel >= channels {
            taken.unknown += u64::from(count);
            continue;
        }
        taken.known += u64::from(count);
        let row = &rows[channel * lanes..][..lanes];
        for (sum, weight) in drive.iter_mut().zip(row) {
            *sum += f64::from(count) * weight;
        }
    }
    taken
}

/// The channels that fired and how often, ascending. Counts are looked at 64 at a time: blocks that
/// are silent cost a few instructions, and a bit mask of those that fired spares a branch a channel.
#[inline(always)]
pub fn non_zero(counts: &[u16]) -> impl Iterator<Item = (usize, u16)> {
    counts.chunks(64).enumerate().flat_map(|(i, block)| {
        let mut fired = fired(block);
        std::iter::from_fn(move || {
            let j = fired.trailing_zeros() as usize;
            let count = *block.get(j)?;
            fired &= fired - 1;
            Some((i * 64 + j, count))
        })
    })
}

/// Bit j is set where `block[j]` is not zero; at most 64 counts.
#[inline(always)]
fn fired(block: &[u16]) -> u64 {
    let (eights, rest) = block.as_chunks::<8>();
    let mut mask = 0;
    for (i, eight) in eights.iter().enumerate() {
        let silent = u16x8::from(*eight).simd_eq(u16x8::ZERO).to_bitmask();
        mask |= u64::from(!silent & 0xFF) << (8 * i);
    }
    for (j, count) in rest.iter().enumerate() {
        mask |= u64::from(*count != 0) << (8 * eights.len() + j);
    }
    mask
}

/// One tick of one filter for every latent; adds its responses to `latents`.
#[inline(always)]
fn advance_stage<const STATES: usize>(
    states: &mut [f64],
    decay: f64,
    drive: &[f64],
    latents: &mut [f64],
) {
    let (states, _) = states.as_chunks_mut::<STATES>();
    for ((state, input), latent) in states.iter_mut().zip(drive).zip(latents) {
        advance(state, decay, *input);
        *latent += state[STATES - 1];
    }
}
