//! Positions of spikes inside the steps of a model's clock.

use super::{Dataset, Spikes};
use betz_base::error::{Error, Result};

impl Dataset {
    /// Fraction of its step, 0 ≤ f < 1, at which each of this dataset's spikes lies, in the dataset's order.
    ///
    /// `original` holds the spikes of the recording that was aligned, at times k · `tick_seconds`. Binned counts have
    /// no finer times: the result is then empty. Allocates 4 bytes per spike.
    ///
    /// # Errors
    /// [`Mismatch`](betz_base::error::ErrorKind::Mismatch) if a spike of the dataset is not among the original ones.
    pub fn offsets_in_steps(&self, original: &Spikes, tick_seconds: f64) -> Result<Vec<f32>> {
        if !original.weights.is_empty() || !self.spikes.weights.is_empty() {
            return Ok(Vec::new());
        }
        // The dataset's spikes are the original ones in order, without those of times that were left out.
        let (mut next, mut offsets) = (0, Vec::with_capacity(self.spikes.len()));
        for (&step, &channel) in self.spikes.ticks.iter().zip(&self.spikes.channels) {
            let offset = loop {
                let (Some(&tick), Some(&of)) =
                    (original.ticks.get(next), original.channels.get(next))
                else {
                    return Err(Error::mismatch(format!(
                        "spikes of a dataset: expected the spike of channel {channel} in step {step} among {} original spikes, found none",
                        original.len()
                    )));
                };
                next += 1;
                let offset = tick as f64 * tick_seconds / self.step_seconds - step as f64;
                // Rounding may move a time on the border of two steps to either step.
                if of == channel && (-1e-6..1.0 + 1e-6).contains(&offset) {
                    break offset;
                }
            };
            offsets.push((offset as f32).clamp(0.0, 1.0 - f32::EPSILON));
        }
        Ok(offsets)
    }
}

#[cfg(test)]
mod tests {
    use crate::{Recording, Segment, SpikeForm, Spikes};

    fn recording(ticks: Vec<i64>, channels: Vec<u32>, tick_seconds: f64) -> Recording {
        Recording {
            tick_seconds,
            ticks: 1_000_000,
            form: SpikeForm::Events,
            segments: vec![
                Segment {
                    start: 0,
                    stop: 300_000,
                },
                Segment {
                    start: 400_000,
                    stop: 1_000_000,
                },
            ],
            spikes: Spikes::new(ticks, channels),
            channel_names: vec!["a".into(), "b".into()],
            electrode_um: None,
            behavior: None,
            meta: None,
        }
    }

    #[test]
    fn every_spike_keeps_its_time_whatever_is_left_out() {
        // 10 microseconds per tick, three spikes of one channel in one step, some between the segments.
        let ticks: Vec<i64> = (0..20_000).map(|k| k * 50 + (k * k) % 37).collect();
        let channels: Vec<u32> = (0..20_000).map(|k| u32::from(k % 3 == 0)).collect();
        for tick_seconds in [1e-5, 1.0 / 30_000.0] {
            let recording = recording(ticks.clone(), channels.clone(), tick_seconds);
            for step in [0.005, 0.1, 0.0123] {
                let whole = recording.align(step).unwrap();
                for dataset in [whole.select(&[1]), whole] {
                    let offsets = dataset
                        .offsets_in_steps(&recording.spikes, tick_seconds)
                        .unwrap();
                    assert_eq!(offsets.len(), dataset.spikes.len());
                    let times = dataset.spikes.ticks.iter().zip(&offsets);
                    let found: Vec<f64> = times
                        .map(|(&s, &o)| (s as f64 + f64::from(o)) * step)
                        .collect();
                    // Original times of the spikes in the remaining steps, by a plain loop.
                    let kept = |t: f64| {
                        dataset
                            .spikes
                            .ticks
                            .binary_search(&((t / step + 1e-9).floor() as i64))
                            .is_ok()
                    };
                    let expected: Vec<f64> = recording
                        .spikes
                        .ticks
                        .iter()
                        .map(|&t| t as f64 * tick_seconds)
                        .filter(|&t| kept(t))
                        .collect();
                    assert_eq!(found.len(), expected.len(), "{tick_seconds} {step}");
                    for (f, e) in found.iter().zip(&expected) {
                        assert!((f - e).abs() < 2e-7 * step.max(1e-3) + 1e-9, "{f} {e}");
                    }
                }
            }
        }
    }

    #[test]
    fn counts_have_no_finer_times_and_foreign_spikes_are_refused() {
        let mut own = recording(vec![5, 400_100], vec![0, 1], 1e-5);
        let dataset = own.align(0.005).unwrap();
        let foreign = Spikes::new(vec![5], vec![0]);
        let error = dataset.offsets_in_steps(&foreign, 1e-5).unwrap_err();
        assert!(error.message().contains("channel 1 in step 800"), "{error}");
        own.spikes.weights = vec![2.0, 1.0];
        assert!(
            dataset
                .offsets_in_steps(&own.spikes, 1e-5)
                .unwrap()
                .is_empty()
        );
    }
}
