//! A decoder of place: Bayes' rule on a grid (Brown et al. 1998; on a grid as Zhang et al. 1998).
//!
//! Latents are the log-likelihood of a step's spikes in each cell, Σₖ nₖ·log λₖ(cell) − Σₖ λₖ(cell): a linear
//! engine of the counts with log λ for weights, so that a spike adds one row of cells and a silent channel
//! costs nothing. Behind it, between two steps, the animal walks at random.

use alloc::vec::Vec;
use betz_base::float;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use super::arithmetic::exponential;
use super::{FORGOTTEN, Kind, HeadStep, check_finite, expect, refuse};
use betz_base::wire::{Reader, Writer};
use crate::model::{MAX_OUTPUTS, MAX_WEIGHT};
use betz_base::error::Result;
use betz_base::hash::Fnv1a;

/// Largest number of cells that a decoder of place tells apart.
pub const MAX_CELLS: usize = MAX_OUTPUTS;

/// Most places of a grid, cells or not.
const MAX_GRID: u64 = 1 << 16;

/// Most cells that a walk reaches in a step, either way.
const MAX_REACH: usize = 64;

/// Least share that jumps.
const LEAST_JUMP: f64 = 1e-9;

/// Probabilities below this are none: their f32 would be too small to be fast.
const NONE: f64 = 1e-30;

/// p ← (1 − u)·pK + u/cells, then p ← p·e^latents / Σ; x̂ = Σ p·values. K: a walk by `walk` along every axis, to
/// cells alone. p at a trial's first step: `start`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Place {
    /// Places of the grid along each of 1 to 3 axes; the last counts fastest.
    pub shape: Vec<u64>,
    /// Which of the grid's places is a cell, one a latent, ascending.
    pub cells: Vec<u64>,
    /// p before the first observation, one per cell.
    pub start: Vec<f64>,
    /// Share that stays, goes one place to either side, two …: weights of a step along an axis.
    pub walk: Vec<f32>,
    /// u, the share that jumps anywhere in a step.
    pub jump: f64,
    /// The outputs in each cell, row-major (cell, output).
    pub values: Vec<f64>,
}

impl Kind for Place {
    type StepForm = PreparedPlace;
    const NAME: &'static str = "place";
    const TAG: [u8; 4] = *b"PLAC";
    const MOST_LATENTS: usize = MAX_CELLS;

    fn check(&self, latents: usize, outputs: usize) -> Result<()> {
        let places = (self.shape.iter()).try_fold(1_u64, |all, n| all.checked_mul(*n));
        let places = places.unwrap_or(u64::MAX);
        if !(1..=3).contains(&self.shape.len()) || !(1..=MAX_GRID).contains(&places) {
            return refuse(format!(
                "shape: expected 1 to 3 axes and 1 to {MAX_GRID} places, got {:?}",
                self.shape
            ));
        }
        expect("cells, one per latent,", self.cells.len(), latents)?;
        let ascend = self.cells.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascend || self.cells.last().is_some_and(|last| *last >= places) {
            return refuse(format!(
                "cells: expected ascending places of the grid's {places}, got others"
            ));
        }
        expect("start, one per cell,", self.start.len(), latents)?;
        expect("values, cells × outputs,", self.values.len(), latents * outputs)?;
        check_finite("values", &self.values, MAX_WEIGHT)?;
        check_finite("start", &self.start, 1.0)?;
        check_finite("walk", &self.walk, 1.0)?;
        let total: f64 = self.start.iter().sum();
        if self.start.iter().any(|p| *p < 0.0) || (total - 1.0).abs() > 1e-6 {
            return refuse(format!(
                "start: expected probabilities that add to 1, got a sum of {total}"
            ));
        }
        let stays = self.walk.first().is_some_and(|stays| *stays >= 1e-6);
        if !stays || self.walk.len() > MAX_REACH + 1 || self.walk.iter().any(|w| *w < 0.0) {
            return refuse(format!(
                "walk: expected a share that stays and up to {MAX_REACH} that go, none below 0, got {:?}",
                self.walk
            ));
        }
        if !(LEAST_JUMP..=1.0).contains(&self.jump) {
            return refuse(format!(
                "jump: expected {LEAST_JUMP:e} to 1, got {}",
                self.jump
            ));
        }
        Ok(())
    }

    fn write(&self, to: &mut Writer) {
        for list in [&self.shape, &self.cells] {
            to.u64(list.len() as u64);
            list.iter().for_each(|v| to.u64(*v));
        }
        to.f64s(&self.start);
        to.f32s(&self.walk);
        to.f64(self.jump);
        to.f64s(&self.values);
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        let mut list = |what: &'static str, most: usize| -> Result<Vec<u64>> {
            let count = from.at(what).u64()?;
            if count > most as u64 {
                return refuse(format!("{what}: expected at most {most}, got {count}"));
            }
            (0..count).map(|_| from.at(what).u64()).collect()
        };
        Ok(Self {
            shape: list("shape", 3)?,
            cells: list("cells", MAX_CELLS)?,
            start: from.at("start").f64s()?,
            walk: from.at("walk").f32s()?,
            jump: from.at("jump").f64()?,
            values: from.at("values").f64s()?,
        })
    }

    fn prepare(&self, _: f64) -> Result<PreparedPlace> {
        let places: u64 = self.shape.iter().product();
        let mut prepared = PreparedPlace {
            places: places as usize,
            outputs: self.values.len() / self.cells.len().max(1),
            kept: vec![1.0; self.cells.len()],
            memory_steps: (float::ln(FORGOTTEN) / float::ln_1p(-self.jump)).ceil().max(1.0) as u64,
            place: self.clone(),
        };
        // A walk from a cell that would end outside all of them is not taken: what is left is 1.
        let mut scratch = vec![0.0; 2 * prepared.places];
        for &cell in &self.cells {
            scratch[cell as usize] = 1.0;
        }
        let reached = prepared.walk(&mut scratch);
        let kept: Vec<f64> = (self.cells.iter())
            .map(|&cell| 1.0 / f64::from(reached[cell as usize]))
            .collect();
        prepared.kept = kept;
        Ok(prepared)
    }
}

/// [`Place`] in the form that steps use.
#[derive(Debug, Clone)]
pub(crate) struct PreparedPlace {
    place: Place,
    places: usize,
    outputs: usize,
    /// One over the share of a walk from each cell that ends in cells.
    kept: Vec<f64>,
    memory_steps: u64,
}

impl PreparedPlace {
    /// The walk of what the first half of `scratch` holds, along every axis.
    #[inline]
    fn walk<'a>(&self, scratch: &'a mut [f32]) -> &'a [f32] {
        let (mut from, mut to) = scratch.split_at_mut(self.places);
        let mut inner = self.places;
        for &length in &self.place.shape {
            let length = length as usize;
            inner /= length;
            let blocks = from.chunks_exact(length * inner);
            for (from, to) in blocks.zip(to.chunks_exact_mut(length * inner)) {
                to.fill(0.0);
                for (reach, weight) in self.place.walk.iter().enumerate().take(length) {
                    // Both sides one after the other, so that every place adds its neighbours in the same order.
                    let far = reach * inner;
                    let add = |to: &mut [f32], from: &[f32]| {
                        (to.iter_mut().zip(from)).for_each(|(to, p)| *to += weight * p);
                    };
                    add(&mut to[far..], from);
                    if reach > 0 {
                        add(to, &from[far..]);
                    }
                }
            }
            core::mem::swap(&mut from, &mut to);
        }
        from
    }

    /// p before this step's spikes, of p after the last one's.
    #[inline]
    fn predict(&self, p: &mut [f64], scratch: &mut [f32]) {
        if p.iter().all(|p| *p == 0.0) {
            p.copy_from_slice(&self.place.start);
            return;
        }
        scratch[..self.places].fill(0.0);
        for ((cell, kept), p) in self.place.cells.iter().zip(&self.kept).zip(&*p) {
            let moves = p * kept;
            scratch[*cell as usize] = if moves < NONE { 0.0 } else { moves as f32 };
        }
        let walked = self.walk(scratch);
        let (jump, anywhere) = (self.place.jump, self.place.jump / p.len() as f64);
        for (p, cell) in p.iter_mut().zip(&self.place.cells) {
            *p = (1.0 - jump) * f64::from(walked[*cell as usize]) + anywhere;
        }
    }
}

impl HeadStep for PreparedPlace {
    fn states(&self) -> usize {
        self.kept.len()
    }

    fn scratch(&self) -> usize {
        2 * self.places
    }

    fn memory_steps(&self) -> u64 {
        self.memory_steps
    }

    fn instructions(&self) -> u64 {
        let taps = self.place.shape.len() * (2 * self.place.walk.len() - 1);
        (1000 + 2 * self.places * taps + self.kept.len() * (160 + 5 * self.outputs)) as u64
    }

    fn hash(&self, hash: &mut Fnv1a) {
        let place = &self.place;
        for list in [&place.shape, &place.cells] {
            hash.word(list.len() as u64);
            list.iter().for_each(|v| hash.word(*v));
        }
        for list in [&place.start, &place.values] {
            list.iter().for_each(|v| hash.number(*v));
        }
        place.walk.iter().for_each(|v| hash.number(f64::from(*v)));
        hash.number(place.jump);
    }

    #[inline]
    fn step(
        &self,
        latents: &mut [f64],
        p: &mut [f64],
        scratch: &mut [f32],
        outputs: &mut [f64],
    ) -> bool {
        self.predict(p, scratch);
        let most = latents.iter().fold(f64::NEG_INFINITY, |m, l| m.max(*l));
        let mut total = 0.0;
        for (p, latent) in p.iter_mut().zip(latents.iter()) {
            *p *= f64::from(exponential((latent - most) as f32));
            total += *p;
        }
        // `start` may hold nothing where the spikes put it all: anywhere, then.
        if total < NONE {
            p.fill(1.0);
            total = p.len() as f64;
        }
        let factor = 1.0 / total;
        outputs.fill(0.0);
        let rows = self.place.values.chunks_exact(self.outputs.max(1));
        for (p, row) in p.iter_mut().zip(rows) {
            *p *= factor;
            for (output, value) in outputs.iter_mut().zip(row) {
                *output += *p * value;
            }
        }
        false
    }
}

/// A [`Place`] at work: the probability of every cell, step by step.
#[derive(Debug, Clone)]
pub struct Belief {
    prepared: PreparedPlace,
    latents: Vec<f64>,
    p: Vec<f64>,
    scratch: Vec<f32>,
    mean: Vec<f64>,
}

impl Belief {
    /// `place` with so many outputs, at rest. Allocates all that steps need.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) for a place that does not fit itself.
    pub fn new(place: &Place, outputs: usize) -> Result<Self> {
        place.check(place.cells.len(), outputs)?;
        let prepared = place.prepare(1.0)?;
        Ok(Self {
            latents: vec![0.0; prepared.states()],
            p: vec![0.0; prepared.states()],
            scratch: vec![0.0; prepared.scratch()],
            mean: vec![0.0; outputs],
            prepared,
        })
    }

    /// One step with the log-likelihood of its spikes in every cell, to a constant: the same arithmetic as in a
    /// session, bit for bit. Gives the probability of every cell, and the mean of the outputs under it. Cells
    /// beyond the shorter slice have a log-likelihood of 0. Allocates nothing.
    pub fn step(&mut self, log_likelihood: &[f64]) -> (&[f64], &[f64]) {
        self.latents.fill(0.0);
        let both = self.latents.iter_mut().zip(log_likelihood);
        both.for_each(|(own, given)| *own = *given);
        let Self {
            prepared,
            latents,
            p,
            scratch,
            mean,
        } = self;
        prepared.step(latents, p, scratch, mean);
        (p, mean)
    }

    /// Probability of every cell after the last step; all 0 at rest.
    pub fn posterior(&self) -> &[f64] {
        &self.p
    }

    /// Back to rest, as at a trial's start.
    pub fn reset(&mut self) {
        self.p.fill(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An L of five cells in a grid of 3 × 3.
    fn place() -> Place {
        Place {
            shape: vec![3, 3],
            cells: vec![0, 3, 6, 7, 8],
            start: vec![0.5, 0.125, 0.125, 0.25, 0.0],
            walk: vec![0.6, 0.2, 0.05],
            jump: 0.01,
            values: (0..10).map(|i| f64::from(i * i)).collect(),
        }
    }

    /// Bayes' rule by matrices.
    fn formula(place: &Place, latents: &[[f64; 5]]) -> Vec<[f64; 5]> {
        let at = |cell: u64| [(cell / 3) as i64, (cell % 3) as i64];
        let weight = |d: i64| {
            let share = place.walk.get(d.unsigned_abs() as usize);
            share.map_or(0.0, |w| f64::from(*w))
        };
        let mut k = [[0.0; 5]; 5];
        for (from, row) in k.iter_mut().enumerate() {
            for (to, k) in row.iter_mut().enumerate() {
                let (a, b) = (at(place.cells[from]), at(place.cells[to]));
                *k = weight(a[0] - b[0]) * weight(a[1] - b[1]);
            }
            let sum: f64 = row.iter().sum();
            row.iter_mut().for_each(|k| *k /= sum);
        }
        let mut p: [f64; 5] = core::array::from_fn(|c| place.start[c]);
        let mut all = Vec::new();
        for (step, latents) in latents.iter().enumerate() {
            if step > 0 {
                let walked: [f64; 5] =
                    core::array::from_fn(|to| (0..5).map(|from| p[from] * k[from][to]).sum());
                p = walked.map(|w| (1.0 - place.jump) * w + place.jump / 5.0);
            }
            p = core::array::from_fn(|c| p[c] * latents[c].exp());
            let total: f64 = p.iter().sum();
            p = p.map(|p| p / total);
            all.push(p);
        }
        all
    }

    #[test]
    fn steps_are_bayes_rule() {
        let latents: Vec<[f64; 5]> = (0..60)
            .map(|t| core::array::from_fn(|c| (f64::from(t) * 0.7 + c as f64 * 1.9).sin() * 3.0))
            .collect();
        let place = place();
        let mut belief = Belief::new(&place, 2).unwrap();
        for round in 0..2 {
            for (step, (latents, expected)) in
                latents.iter().zip(formula(&place, &latents)).enumerate()
            {
                let (p, mean) = belief.step(latents);
                for (c, expected) in expected.iter().enumerate() {
                    assert!((p[c] - expected).abs() < 2e-6, "{round} {step} {c}");
                }
                for (o, mean) in mean.iter().enumerate() {
                    let expected: f64 = (0..5).map(|c| expected[c] * place.values[c * 2 + o]).sum();
                    assert!((mean - expected).abs() < 1e-4);
                }
            }
            belief.reset();
        }
    }

    #[test]
    fn what_was_thought_impossible_is_possible_when_seen() {
        let mut place = place();
        place.start = vec![0.0, 0.0, 0.0, 0.0, 1.0];
        let mut belief = Belief::new(&place, 2).unwrap();
        let (p, _) = belief.step(&[0.0, -1e300, -1e300, -1e300, -1e300]);
        assert!(p.iter().all(|p| (p - 0.2).abs() < 1e-12), "{p:?}");
        let (p, _) = belief.step(&[0.0, -1e300, -1e300, -1e300, -1e300]);
        assert!(p[0] > 0.999);
    }

    #[test]
    fn places_that_make_no_sense_are_refused() {
        type Spoil = fn(&mut Place);
        let cases: [(&str, Spoil); 12] = [
            ("shape", |p| p.shape = vec![]),
            ("shape", |p| p.shape = vec![u64::MAX, 2]),
            ("shape", |p| p.shape = vec![3, 0]),
            ("cells, one per latent", |p| p.cells.truncate(4)),
            ("cells: expected ascending", |p| p.cells[4] = 9),
            ("cells: expected ascending", |p| p.cells[1] = 0),
            ("start", |p| p.start[0] = 0.6),
            ("start", |p| p.start[0] = f64::NAN),
            ("walk", |p| p.walk.clear()),
            ("walk", |p| p.walk[1] = -0.1),
            ("jump", |p| p.jump = 0.0),
            ("values", |p| p.values[3] = f64::INFINITY),
        ];
        place().check(5, 2).unwrap();
        for (words, spoil) in cases {
            let mut place = place();
            spoil(&mut place);
            let error = place.check(5, 2).unwrap_err();
            assert!(error.message().contains(words), "{words}: {error}");
        }
        assert!(place().check(5, 3).is_err());
    }
}
