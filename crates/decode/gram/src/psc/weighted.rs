//! Sampled filters behind the readout, for a whole segment: each runs once per output, on the weighted train.
//!
//! A low-pass runs before them: behind filters that look ahead it would miss what came before a segment.

use betz_base::error::Result;
use betz_runtime::psc::{Convolution, FilterBank, LowPass, LowPassFilter};

/// Sums over the sampled filters of a bank, per output, of the weighted trains of a segment.
#[derive(Debug)]
pub struct SampledSums {
    convolution: Convolution,
    /// Steps that the convolution is late, for filters that look ahead.
    ahead: usize,
    low_pass: Option<LowPassFilter>,
    outputs: usize,
    /// Start of the sampled filters' part of a weighted train.
    first: usize,
    /// (filter, output) of all filters.
    weighted: Vec<f64>,
    /// (step, output) of the segment.
    sums: Vec<f64>,
}

impl SampledSums {
    /// At rest, for `outputs` outputs; `None` for a bank without sampled filters.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory), and the errors of the low-pass.
    pub fn new(
        bank: &FilterBank,
        outputs: usize,
        low_pass: Option<LowPass>,
    ) -> Result<Option<Self>> {
        let Some(filter) = bank.sampled().first() else {
            return Ok(None);
        };
        let lanes = bank.sampled().len() * outputs;
        let low_pass = low_pass.map(|l| LowPassFilter::new(l, filter.step_seconds(), lanes));
        let ahead = bank.ahead();
        Ok(Some(Self {
            convolution: Convolution::new(bank.sampled(), outputs, ahead)?,
            ahead,
            low_pass: low_pass.transpose()?,
            outputs,
            first: bank.filters().len() * outputs,
            weighted: vec![0.0; bank.len() * outputs],
            sums: Vec::new(),
        }))
    }

    /// Runs through a segment of `steps` steps from rest. `weigh` writes the weighted train of a step, counted from the
    /// segment's start, (filter, output) of all filters; it is called once per step, in order.
    pub fn run(&mut self, steps: usize, mut weigh: impl FnMut(usize, &mut [f64])) {
        self.convolution.reset();
        if let Some(low_pass) = &mut self.low_pass {
            low_pass.reset();
        }
        self.sums.clear();
        self.sums.resize(steps * self.outputs, 0.0);
        let all = if steps == 0 { 0 } else { steps + self.ahead };
        for t in 0..all {
            self.weighted.fill(0.0);
            if t < steps {
                weigh(t, &mut self.weighted);
                if let Some(low_pass) = &mut self.low_pass {
                    low_pass.step(&mut self.weighted[self.first..]);
                }
            }
            // The first of them, of steps before the segment, come to nothing.
            let late = t.saturating_sub(self.ahead) * self.outputs;
            let sum = &mut self.sums[late..late + self.outputs];
            sum.fill(0.0);
            self.convolution.step(&self.weighted[self.first..], sum);
        }
    }

    /// Adds the sums at a step of the segment to `to`, one per output.
    pub fn add_to(&self, step: usize, to: &mut [f64]) {
        let sums = &self.sums[step * self.outputs..][..self.outputs];
        to.iter_mut().zip(sums).for_each(|(to, sum)| *to += sum);
    }
}

#[cfg(test)]
mod tests {
    use crate::cases;
    use crate::decode::decode;
    use crate::psc::oracle;
    use betz_runtime::model::{Decoder, DecoderParts, LowPass};
    use betz_runtime::stream::{Session, SessionConfig};

    /// Batch decoding is the weighted responses, for filters that look ahead, too; where a session runs the model, it
    /// says the same.
    #[test]
    fn decoding_is_the_weighted_responses_and_what_a_session_says() {
        let low_pass = LowPass {
            order: 2,
            cutoff_hz: 40.0,
        };
        let mut sessions = 0;
        for case in cases::sampled()
            .iter()
            .filter(|c| !c.data.outputs.is_empty())
        {
            for low_pass in [None, Some(low_pass)] {
                let (data, bank) = (&case.data, &case.bank);
                let (features, outputs) = (data.channels() * bank.len(), data.outputs.len());
                let weight = |i: usize| ((i * 7 + 3) % 11) as f64 / 11.0 - 0.4;
                let decoder = Decoder::new(DecoderParts {
                    low_pass,
                    weights: (0..features * outputs).map(weight).collect(),
                    ..DecoderParts::linear(
                        data.step_seconds,
                        bank.clone(),
                        data.channel_names.clone(),
                        data.outputs.clone(),
                    )
                })
                .unwrap();
                let got = decode(&decoder, data).unwrap();
                let responses = oracle::responses(data, bank, low_pass).unwrap();
                let columns = data.steps_in_segments();
                let steps = data.segments.iter().flat_map(|s| s.start..s.stop);
                let largest = got.iter().filter(|v| v.is_finite());
                let largest = largest.fold(1e-3, |m: f32, v| m.max(v.abs()));
                for (column, step) in steps.enumerate() {
                    for o in 0..outputs {
                        let expected: f64 = (0..features)
                            .map(|f| responses[f * columns + column] * weight(f * outputs + o))
                            .sum();
                        let got = got[step as usize * outputs + o];
                        let off = (f64::from(got) - expected).abs();
                        assert!(off < 1e-5 * f64::from(largest), "{}: {off:e}", case.name);
                    }
                }
                let Ok(mut session) = Session::open(&decoder, SessionConfig::default()) else {
                    assert!(bank.ahead() > 0, "{}", case.name);
                    continue;
                };
                if !data.spikes.weights.is_empty() {
                    continue;
                }
                sessions += 1;
                let mut out = vec![0.0; outputs];
                for segment in &data.segments {
                    session.reset();
                    for step in segment.start..segment.stop {
                        let range = data.spikes.view().range(step, step + 1);
                        session
                            .step_spikes(&data.spikes.channels[range], &mut out)
                            .unwrap();
                        for (a, b) in out.iter().zip(&got[step as usize * outputs..]) {
                            assert!((a - b).abs() <= 1e-5 * largest, "{}", case.name);
                        }
                    }
                }
            }
        }
        assert!(sessions > 4);
    }
}
