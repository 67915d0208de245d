//! A filter as a curve over time and over frequency.

use betz::psc::FilterBank;
use betz::train::filters::FittedFilter;
use serde::Serialize;

/// Share of a recursive filter's sum behind the curve that is drawn.
const TAIL: f64 = 1e-3;

/// Longest curve of a recursive filter, in steps.
const LONGEST: usize = 100_000;

/// Frequencies of a response.
const FREQUENCIES: usize = 240;

/// A filter's impulse response, on steps.
#[derive(Debug, Clone)]
pub(super) struct Curve {
    pub(super) name: String,
    pub(super) step_seconds: f64,
    /// Step of the first value, from the spike on.
    pub(super) start: i64,
    pub(super) values: Vec<f64>,
}

/// A filter in numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct FilterSummary {
    pub(super) name: String,
    /// Time from the spike to the largest value, and from the first value to the last (of a recursive filter, to where a
    /// thousandth of its sum is left).
    pub(super) peak_seconds: f64,
    pub(super) length_seconds: f64,
    /// Centre of mass of its magnitude: by how much it delays a slow signal, if it does not change sign.
    pub(super) delay_seconds: f64,
    /// Sum of its values: the gain of what does not change.
    pub(super) gain: f64,
    /// Highest frequency whose gain is within 3 dB of the largest.
    pub(super) cutoff_hz: f64,
    /// Seconds that it looks ahead.
    pub(super) ahead_seconds: f64,
}

impl Curve {
    /// The filters of `bank` in feature order.
    pub(super) fn of_bank(bank: &FilterBank, step_seconds: f64) -> Vec<Self> {
        let recursive = bank.filters().iter().map(|filter| {
            let length = filter.taps(step_seconds, TAIL).clamp(2, LONGEST);
            Self {
                name: format!(
                    "{}:{}",
                    crate::report::number(filter.tau_seconds),
                    filter.order
                ),
                step_seconds,
                start: 0,
                values: filter.impulse(step_seconds, length),
            }
        });
        let sampled = bank.sampled().iter().map(|filter| Self {
            name: filter.name().to_owned(),
            step_seconds,
            start: filter.start(),
            values: filter.samples().to_vec(),
        });
        recursive.chain(sampled).collect()
    }

    /// The sum that stands for this filter, for half as long again.
    pub(super) fn fitted(&self, sum: &FittedFilter) -> Self {
        let end = (self.start.max(0) as usize + self.values.len()) * 3 / 2;
        Self {
            name: format!("{}, fitted", self.name),
            start: 0,
            values: sum.impulse(self.step_seconds, end),
            ..self.clone()
        }
    }

    /// Seconds from the spike and value of every step.
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let time = |i: usize| (self.start + i as i64) as f64 * self.step_seconds;
        self.values
            .iter()
            .enumerate()
            .map(move |(i, v)| (time(i), *v))
    }

    /// Frequencies in Hz, from a quarter of the slowest that the curve tells apart up to half the rate of steps, and the
    /// gain at each.
    pub(super) fn response(&self) -> Vec<(f64, f64)> {
        let highest = 0.5 / self.step_seconds;
        let lowest = (0.25 * highest / self.values.len() as f64).max(highest * 1e-6);
        let at = |i: usize| {
            let share = i as f64 / (FREQUENCIES - 1) as f64;
            let hz = lowest * (highest / lowest).powf(share);
            (hz, self.gain(hz))
        };
        (0..FREQUENCIES).map(at).collect()
    }

    fn gain(&self, hz: f64) -> f64 {
        let (mut re, mut im) = (0.0, 0.0);
        for (i, value) in self.values.iter().enumerate() {
            let turn = (hz * self.step_seconds * i as f64).fract();
            let (sin, cos) = (std::f64::consts::TAU * turn).sin_cos();
            re += value * cos;
            im -= value * sin;
        }
        re.hypot(im)
    }

    pub(super) fn summary(&self) -> FilterSummary {
        let response = self.response();
        let largest = response.iter().fold(0.0f64, |m, (_, gain)| m.max(*gain));
        let within = response
            .iter()
            .rfind(|(_, gain)| *gain >= largest / 2f64.sqrt());
        let peak = self.points().fold((0.0, 0.0f64), |most, (t, v)| {
            if v.abs() > most.1.abs() { (t, v) } else { most }
        });
        let size: f64 = self.values.iter().map(|v| v.abs()).sum();
        let moment: f64 = self.points().map(|(t, v)| t * v.abs()).sum();
        FilterSummary {
            name: self.name.clone(),
            peak_seconds: peak.0,
            length_seconds: self.values.len() as f64 * self.step_seconds,
            delay_seconds: moment / size,
            gain: self.values.iter().sum(),
            cutoff_hz: within.map_or(0.0, |(hz, _)| *hz),
            ahead_seconds: (-self.start).max(0) as f64 * self.step_seconds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known numbers: an exponential's cut-off is 1/(2πτ), a boxcar's delay half its length.
    #[test]
    fn numbers_of_known_filters() {
        let texts = [
            "50ms:0".to_owned(),
            "boxcar:100ms".to_owned(),
            "gauss:20ms".to_owned(),
        ];
        let bank = betz::train::filters::bank(&texts, 0.001, false).unwrap();
        let curves = Curve::of_bank(&bank, 0.001);
        let told: Vec<FilterSummary> = curves.iter().map(Curve::summary).collect();
        let near =
            |a: f64, b: f64, share: f64| assert!((a - b).abs() <= share * b.abs(), "{a} {b}");
        near(
            told[0].cutoff_hz,
            1.0 / (std::f64::consts::TAU * 0.05),
            0.05,
        );
        near(told[0].delay_seconds, 0.05, 0.05);
        near(told[1].delay_seconds, 0.0495, 1e-9);
        near(told[1].cutoff_hz, 4.43, 0.05);
        near(told[1].gain, 1.0, 1e-9);
        assert_eq!(told[2].peak_seconds, 0.0);
        near(told[2].ahead_seconds, 0.08, 0.02);
        // A Gaussian's response is one, too: e^(−(2πfσ)²/2) = 1/√2.
        near(
            told[2].cutoff_hz,
            2f64.ln().sqrt() / (std::f64::consts::TAU * 0.02),
            0.05,
        );
    }
}
