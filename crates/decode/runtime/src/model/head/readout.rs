//! The last stage that the nonlinear heads share: a linear readout, and one with per filter behind it.

use super::{FORGOTTEN, check_finite, expect, refuse};
use crate::model::MAX_WEIGHT;
use crate::psc::flush;
use alloc::vec::Vec;
use betz_base::error::Result;
use betz_base::float;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use betz_base::hash::Fnv1a;
use betz_base::wire::{Reader, Writer};

/// x̂ = y₀ + s + intercept with y₀ = Φ₀(g − centre), y₁ = Φ₁(g − centre) and s ← ρ·s + (1 − ρ)·y₁, the
/// newest y₁ included; ρ = e^(−dt/τ), s = 0 at rest.
///
/// It equals a readout of [g; h ∗ g] with an order-0 PSC filter h of time constant τ: the filter
/// commutes with the readout, so it runs on as many numbers as there are outputs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FilteredReadout {
    /// τ of the filter in seconds; `None` for none.
    pub tau_seconds: Option<f64>,
    /// Mean of each feature over the steps trained on.
    pub centre: Vec<f64>,
    /// Φ₀, row-major (feature, output).
    pub direct: Vec<f64>,
    /// Φ₁, row-major (feature, output); empty without a filter.
    pub filtered: Vec<f64>,
    /// One intercept per output.
    pub intercept: Vec<f64>,
}

impl FilteredReadout {
    /// Checks shapes and numbers, and that no output can overflow f32 where feature i is at most
    /// `bound(i)` in size.
    pub(super) fn check(
        &self,
        features: usize,
        outputs: usize,
        bound: impl Fn(usize) -> f64,
    ) -> Result<()> {
        expect(
            "readout.centre, one per feature",
            self.centre.len(),
            features,
        )?;
        expect(
            "readout.intercept, one per output",
            self.intercept.len(),
            outputs,
        )?;
        let weights = features * outputs;
        expect("readout.direct", self.direct.len(), weights)?;
        let filtered = if self.tau_seconds.is_some() {
            weights
        } else {
            0
        };
        expect("readout.filtered", self.filtered.len(), filtered)?;
        if let Some(tau) = self.tau_seconds
            && !(tau.is_finite() && tau > 0.0)
        {
            return refuse(format!(
                "readout.tau_seconds: expected a finite tau > 0 s, got {tau}"
            ));
        }
        for (what, values) in [
            ("readout.centre", &self.centre),
            ("readout.direct", &self.direct),
            ("readout.filtered", &self.filtered),
            ("readout.intercept", &self.intercept),
        ] {
            check_finite(what, values, MAX_WEIGHT)?;
        }
        for output in 0..outputs {
            let largest: f64 = (0..features)
                .map(|i| {
                    let direct = self.direct[i * outputs + output].abs();
                    let filtered = self.filtered.get(i * outputs + output);
                    (direct + filtered.map_or(0.0, |w| w.abs())) * (bound(i) + self.centre[i].abs())
                })
                .sum();
            let largest = largest + self.intercept[output].abs();
            // Below half the range also the sums of f32 on the way cannot overflow.
            if largest.is_nan() || largest >= MAX_WEIGHT / 2.0 {
                return refuse(format!(
                    "readout of output {output}: expected weights whose outputs f32 can hold, got outputs of up to {largest:e}"
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn write(&self, to: &mut Writer) {
        to.flag(self.tau_seconds.is_some());
        if let Some(tau) = self.tau_seconds {
            to.f64(tau);
        }
        for list in [&self.centre, &self.direct, &self.filtered, &self.intercept] {
            to.f64s(list);
        }
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            tau_seconds: if from.at("readout.tau_seconds").flag()? {
                Some(from.at("readout.tau_seconds").f64()?)
            } else {
                None
            },
            centre: from.at("readout.centre").f64s()?,
            direct: from.at("readout.direct").f64s()?,
            filtered: from.at("readout.filtered").f64s()?,
            intercept: from.at("readout.intercept").f64s()?,
        })
    }

    /// The form that steps use.
    pub(super) fn prepare(&self, step_seconds: f64) -> PreparedReadout {
        let outputs = self.intercept.len();
        let (decay, gain, memory_steps) = match self.tau_seconds {
            None => (0.0, 1.0, 0),
            Some(tau) => {
                let steps = step_seconds / tau;
                let memory = (-float::ln(FORGOTTEN) / steps).ceil() as u64;
                (float::exp(-steps), -float::exp_m1(-steps), memory)
            }
        };
        let weights = (self.direct.chunks_exact(outputs))
            .map(|row| row.iter().copied())
            .enumerate()
            .flat_map(|(i, direct)| {
                let filtered = self.filtered.get(i * outputs..(i + 1) * outputs);
                direct.chain(filtered.unwrap_or(&[]).iter().map(|w| w * gain))
            })
            .collect();
        let mut prepared = PreparedReadout {
            decay,
            gain,
            outputs,
            columns: outputs * (1 + usize::from(self.tau_seconds.is_some())),
            memory_steps,
            offsets: Vec::new(),
            weights,
        };
        prepared.offsets = (0..prepared.columns)
            .map(|column| {
                let centre: f64 = (self.centre.iter().enumerate())
                    .map(|(i, centre)| centre * prepared.weight(i, column))
                    .sum();
                self.intercept.get(column).unwrap_or(&0.0) - centre
            })
            .collect();
        prepared
    }
}

/// A readout in the form that steps use. Its columns are the outputs of Φ₀ and then, with a filter, those
/// of (1 − ρ)·Φ₁, which add to the filter's states.
#[derive(Debug, Clone)]
pub(super) struct PreparedReadout {
    decay: f64,
    /// 1 − ρ.
    gain: f64,
    outputs: usize,
    pub(super) columns: usize,
    pub(super) memory_steps: u64,
    /// The start of each column: intercept − Φ·centre.
    pub(super) offsets: Vec<f64>,
    /// (feature, column)
    pub(super) weights: Vec<f64>,
}

impl PreparedReadout {
    /// Weight of feature `i` in `column`.
    pub(super) fn weight(&self, i: usize, column: usize) -> f64 {
        self.weights[i * self.columns + column]
    }

    pub(super) fn decay(&self) -> f64 {
        self.decay
    }

    pub(super) fn gain(&self) -> f64 {
        self.gain
    }

    pub(super) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Adds `values`, the features from `first` on, in f64.
    #[inline(always)]
    pub(super) fn add(
        &self,
        first: usize,
        values: &[f64],
        states: &mut [f64],
        outputs: &mut [f64],
    ) {
        let rows = self.weights.chunks_exact(self.columns).skip(first);
        for (value, row) in values.iter().zip(rows) {
            let (direct, filtered) = row.split_at(outputs.len());
            for (output, weight) in outputs.iter_mut().zip(direct) {
                *output += value * weight;
            }
            for (state, weight) in states.iter_mut().zip(filtered) {
                *state += value * weight;
            }
        }
    }

    /// Begins a step: outputs and states hold all but what the features add.
    #[inline(always)]
    pub(super) fn begin(&self, states: &mut [f64], outputs: &mut [f64]) {
        let (direct, filtered) = self.offsets.split_at(outputs.len());
        outputs.copy_from_slice(direct);
        for (state, offset) in states.iter_mut().zip(filtered) {
            *state = flush(self.decay * *state) + offset;
        }
    }

    /// Ends a step: the states join the outputs.
    #[inline(always)]
    pub(super) fn end(states: &[f64], outputs: &mut [f64]) {
        for (output, state) in outputs.iter_mut().zip(states) {
            *output += state;
        }
    }

    pub(super) fn hash(&self, hash: &mut Fnv1a) {
        hash.number(self.decay);
        hash.word(self.columns as u64);
        (self.offsets.iter().chain(&self.weights)).for_each(|v| hash.number(*v));
    }
}
