//! Mixtures of runs: what a movement between two others would have looked like if counts and labels followed the
//! direction of movement linearly. A network that has seen them decodes directions that training left out.
//!
//! ```text
//! x = x̄(t) + a·(x₁(t) − x̄(t)) + b·(x₂(t) − x̄(t))      labels alike; t: steps since the run's start
//! ```
//!
//! The partner moves in time with the run: of several, the one whose distance from the mean has the likest course.
//! a and b are scaled so that the mixture is as long as the run.

use betz_base::float;
use std::ops::Range;

use super::random::Random;
use super::samples::{Samples, Scaling};

/// Partners among which a run's is chosen.
const PARTNERS: usize = 24;

/// Least squared length of a mixture that is scaled to the run's, in parts of it.
const LEAST_SQUARE: f32 = 0.15;

/// Fewest runs of which the mean at a time is taken, if there are so many.
const FEWEST_RUNS: usize = 10;

/// Statistics of `runs` that mixtures of them are made from.
pub(super) struct Mixer {
    runs: Vec<Range<usize>>,
    /// Mean inputs at each time since a run's start, (time, channel).
    pub(super) mean_inputs: Vec<f32>,
    /// Mean standardised labels, (time, output).
    pub(super) mean_labels: Vec<f32>,
    channels: usize,
    outputs: usize,
    /// Times that have means; later ones take the last.
    times: usize,
    /// Labels about their mean, of length 1: (run, time, output), 0 after the end.
    courses: Vec<f32>,
    /// Their lengths at each time, of length 1: (run, time).
    profiles: Vec<f32>,
    longest: usize,
}

/// The mixtures of one epoch.
pub(super) struct Mixes<'a> {
    mixing: &'a Mixer,
    /// Of each run, its partner and both parts.
    of_runs: Vec<Option<(usize, [f32; 2])>>,
}

/// A step of a mixture.
pub(super) struct Mix<'a> {
    step: usize,
    /// The step of the partner.
    pub(super) partner: usize,
    /// a and b.
    pub(super) parts: [f32; 2],
    /// Time of the means.
    pub(super) time: usize,
    mean_inputs: &'a [f32],
    mean_labels: &'a [f32],
}

impl Mixer {
    /// The means and courses of `runs`, ascending; `None` without any.
    pub(super) fn new(
        samples: &Samples<'_>,
        scaling: &Scaling,
        runs: &[Range<usize>],
    ) -> Option<Self> {
        let (channels, outputs) = (samples.data.channels(), samples.data.outputs.len());
        let longest = runs.iter().map(Range::len).max()?;
        let reach = |time: usize| runs.iter().filter(|run| run.len() > time).count();
        let fewest = FEWEST_RUNS.min(runs.len());
        let times = (0..longest)
            .take_while(|&time| reach(time) >= fewest)
            .count();
        if times == 0 {
            return None;
        }
        let mut mean_inputs = vec![0.0; times * channels];
        let mut mean_labels = Vec::new();
        let mut labels = Vec::new();
        for time in 0..times {
            let steps = || {
                runs.iter()
                    .filter(|run| run.len() > time)
                    .map(|run| run.start + time)
            };
            let share = 1.0 / steps().count() as f32;
            let row = &mut mean_inputs[time * channels..][..channels];
            for (channel, count) in steps().flat_map(|step| samples.counts(step)) {
                row[channel] += share * scaling.input(channel, count);
            }
            labels.clear();
            steps().for_each(|step| samples.extend_targets(step, scaling, &mut labels));
            mean_labels.extend((0..outputs).map(|o| {
                let of_output = labels.iter().skip(o).step_by(outputs);
                let found = of_output.filter(|label| !label.is_nan());
                let (sum, count) = found.fold((0.0, 0.0f32), |(s, n), label| (s + label, n + 1.0));
                sum / count.max(1.0)
            }));
        }
        let mut mixing = Self {
            runs: runs.to_vec(),
            mean_inputs,
            mean_labels,
            channels,
            outputs,
            times,
            courses: Vec::new(),
            profiles: Vec::new(),
            longest,
        };
        mixing.add_courses(samples, scaling);
        Some(mixing)
    }

    fn add_courses(&mut self, samples: &Samples<'_>, scaling: &Scaling) {
        let (outputs, longest) = (self.outputs, self.longest);
        let mut row = Vec::new();
        for run in &self.runs {
            let (mut course, mut profile) = (vec![0.0; longest * outputs], vec![0.0; longest]);
            for (time, step) in run.clone().enumerate() {
                row.clear();
                samples.extend_targets(step, scaling, &mut row);
                let mean = self.mean_labels(time);
                let to = &mut course[time * outputs..][..outputs];
                for ((to, label), mean) in to.iter_mut().zip(&row).zip(mean) {
                    *to = if label.is_nan() { 0.0 } else { label - mean };
                }
                profile[time] = dot(to, to).sqrt();
            }
            for list in [&mut course, &mut profile] {
                let length = dot(list, list).sqrt().max(1e-6);
                list.iter_mut().for_each(|v| *v /= length);
            }
            self.courses.extend(course);
            self.profiles.extend(profile);
        }
    }

    fn mean_labels(&self, time: usize) -> &[f32] {
        &self.mean_labels[time.min(self.times - 1) * self.outputs..][..self.outputs]
    }

    fn course(&self, run: usize) -> &[f32] {
        let length = self.longest * self.outputs;
        &self.courses[run * length..][..length]
    }

    fn profile(&self, run: usize) -> &[f32] {
        &self.profiles[run * self.longest..][..self.longest]
    }

    /// Partners of the runs of an epoch, each with `probability`.
    pub(super) fn draw(&self, probability: f32, random: &mut Random) -> Mixes<'_> {
        let draw = |run: usize| {
            let mixed = random.uniform() < probability;
            let mut best = (f32::NEG_INFINITY, 0);
            for _ in 0..PARTNERS {
                let partner = random.below(self.runs.len());
                let likeness = dot(self.profile(run), self.profile(partner));
                if likeness > best.0 {
                    best = (likeness, partner);
                }
            }
            let angle = f64::from(random.uniform()) * std::f64::consts::FRAC_PI_2;
            let (sin, cos) = (float::sin(angle) as f32, float::cos(angle) as f32);
            let (_, partner) = mixed.then_some(best)?;
            let cosine = dot(self.course(run), self.course(partner));
            let length = (1.0 + 2.0 * sin * cos * cosine).max(LEAST_SQUARE).sqrt();
            Some((partner, [cos / length, sin / length]))
        };
        Mixes {
            mixing: self,
            of_runs: (0..self.runs.len()).map(draw).collect(),
        }
    }
}

impl Mixes<'_> {
    /// The mixture that `step` is part of.
    pub(super) fn of(&self, step: usize) -> Option<Mix<'_>> {
        let mixing = self.mixing;
        let run = mixing.runs.partition_point(|run| run.end <= step);
        let (partner, parts) = self.of_runs.get(run).copied().flatten()?;
        let time = step.checked_sub(mixing.runs[run].start)?;
        let partner = &mixing.runs[partner];
        let mean = time.min(mixing.times - 1);
        Some(Mix {
            step,
            partner: partner.start + time.min(partner.len() - 1),
            parts,
            time: mean,
            mean_inputs: &mixing.mean_inputs[mean * mixing.channels..][..mixing.channels],
            mean_labels: mixing.mean_labels(time),
        })
    }
}

impl Mix<'_> {
    /// Part of the mean.
    fn rest(&self) -> f32 {
        1.0 - self.parts[0] - self.parts[1]
    }

    /// Adds the mean's part to `row`, but for channels that are lost.
    pub(super) fn add_mean(&self, row: &mut [f32], lost: &[bool]) {
        let rest = self.rest();
        for ((to, mean), lost) in row.iter_mut().zip(self.mean_inputs).zip(lost) {
            if !lost {
                *to += rest * mean;
            }
        }
    }

    /// Appends the mixture's labels to `to`; NaN where either step has none.
    pub(super) fn extend_targets(
        &self,
        samples: &Samples<'_>,
        scaling: &Scaling,
        to: &mut Vec<f32>,
    ) {
        let start = to.len();
        samples.extend_targets(self.step, scaling, to);
        samples.extend_targets(self.partner, scaling, to);
        let (own, partner) = to[start..].split_at_mut(self.mean_labels.len());
        for ((own, partner), mean) in own.iter_mut().zip(partner).zip(self.mean_labels) {
            *own = self.parts[0] * *own + self.parts[1] * *partner + self.rest() * mean;
        }
        to.truncate(start + self.mean_labels.len());
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::super::samples::runs;
    use super::super::tests::wave;
    use super::*;

    #[test]
    fn mixtures_are_of_runs_that_move_in_time_and_as_long_as_the_run() {
        let data = wave(40);
        let samples = Samples::new(data.view(), 0);
        let all = runs(data.segments.iter().copied());
        let scaling = samples.scaling(&all);
        let mixing = Mixer::new(&samples, &scaling, &all).unwrap();
        let mut random = Random::new(1, 0);
        let mixes = mixing.draw(1.0, &mut random);
        let standard = |step: usize| {
            let mut row = Vec::new();
            samples.extend_targets(step, &scaling, &mut row);
            row
        };
        for run in &all {
            let (mut square, mut own) = (0.0, 0.0);
            for step in run.clone() {
                let mix = mixes.of(step).unwrap();
                let time = step - run.start;
                assert_eq!(mix.partner % 30, time);
                let mut row = Vec::new();
                mix.extend_targets(&samples, &scaling, &mut row);
                let mean = mixing.mean_labels(time);
                let [a, b] = mix.parts;
                let (x, partner) = (standard(step), standard(mix.partner));
                for o in 0..2 {
                    let about = a * (x[o] - mean[o]) + b * (partner[o] - mean[o]);
                    assert!((row[o] - mean[o] - about).abs() < 1e-4, "{row:?}");
                }
                // Both parts are of runs scaled to one length, so the mixture is measured on their courses.
                let (run, partner) = (step / 30, mix.partner / 30);
                let (x, y) = (mixing.course(run), mixing.course(partner));
                for o in 0..2 {
                    square += (a * x[time * 2 + o] + b * y[time * 2 + o]).powi(2);
                    own += x[time * 2 + o].powi(2);
                }
            }
            assert!(square < 1.001 && (own - 1.0).abs() < 1e-3, "{square} {own}");
        }
        assert!(mixing.draw(0.0, &mut random).of(5).is_none());
    }
}
