//! Channels that fire: Γ is of those alone, whatever numbers they have.

use crate::limits::with_members;
use betz_base::error::Result;
use betz_base::memory;
use betz_recording::{Dataset, Spikes};
use betz_runtime::model::{Decoder, DecoderParts};

/// The channels of a dataset that fire in one of its segments.
pub(crate) struct Active {
    /// The dataset of those channels alone, spikes outside segments left out.
    pub data: Dataset,
    /// Their numbers in the dataset they come from, ascending.
    pub channels: Vec<u32>,
}

/// The channels of `data` that fire in a segment; `None` where all do, or none.
///
/// A silent channel has no part in Γ but a row and a column of zeros: features² of them cost memory and
/// time when channel numbers are sparse (ten channels numbered up to 65,535). Train on
/// [`Active::data`], then let [`spread`] put the weights where they belong.
///
/// Allocates the smaller dataset: 12 bytes per spike (16 with weights), 4 per behaviour value.
///
/// # Errors
/// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory).
pub(crate) fn active(data: &Dataset) -> Result<Option<Active>> {
    const SILENT: u32 = u32::MAX;
    let mut number = memory::filled("channel numbers", SILENT, data.channels())?;
    for s in &data.segments {
        for &c in &data.spikes.channels[data.spikes.range(s.start, s.stop)] {
            if let Some(fires) = number.get_mut(c as usize) {
                *fires = 0;
            }
        }
    }
    let channels: Vec<u32> = (0..)
        .zip(&number)
        .filter(|&(_, &fires)| fires != SILENT)
        .map(|(c, _)| c)
        .collect();
    if channels.is_empty() || channels.len() == data.channels() {
        return Ok(None);
    }
    for (new, &c) in channels.iter().enumerate() {
        number[c as usize] = new as u32;
    }
    let total: usize = (data.segments.iter())
        .map(|s| data.spikes.range(s.start, s.stop).len())
        .sum();
    memory::plan(
        "the channels that fire",
        total as u128 * 16 + data.behavior.len() as u128 * 4,
    )?;
    let mut spikes = Spikes {
        ticks: memory::room("spikes", total)?,
        channels: memory::room("spikes", total)?,
        weights: memory::room("spikes", total.min(data.spikes.weights.len()))?,
    };
    for s in &data.segments {
        spikes.extend_from(&data.spikes, data.spikes.range(s.start, s.stop));
    }
    for channel in &mut spikes.channels {
        *channel = number[*channel as usize];
    }
    let name = |&c: &u32| data.channel_names[c as usize].clone();
    Ok(Some(Active {
        data: Dataset {
            step_seconds: data.step_seconds,
            steps: data.steps,
            channel_names: channels.iter().map(name).collect(),
            spikes,
            segments: data.segments.clone(),
            outputs: data.outputs.clone(),
            behavior: data.behavior.clone(),
        },
        channels,
    }))
}

/// `model`, trained on the channels numbered `channels` of a recording with `names`, as a model of all its
/// channels: those that are not among them are masked, with weights of 0.
///
/// # Errors
/// The same as for [`Decoder::new`].
pub(crate) fn spread(model: Decoder, names: &[String], channels: &[u32]) -> Result<Decoder> {
    let width = model.bank().len() * model.latents();
    memory::plan(
        format_args!("a model of {} channels", names.len()),
        // The model, and the file that is made of it.
        2 * (memory::of_names(names) + names.len() as u128 * (8 * width as u128 + 2)),
    )?;
    let mut parts = model.into_parts();
    parts.head = with_members(parts.head, |member| spread(member, names, channels))?;
    if let Some(blanking) = &mut parts.limits.blanking {
        let mut mean_counts = vec![0.0; names.len()];
        for (&mean, &c) in blanking.mean_counts.iter().zip(channels) {
            mean_counts[c as usize] = mean;
        }
        blanking.mean_counts = mean_counts;
    }
    if !parts.limits.count_caps.is_empty() {
        let mut count_caps = vec![f32::INFINITY; names.len()];
        for (&cap, &c) in parts.limits.count_caps.iter().zip(channels) {
            count_caps[c as usize] = cap;
        }
        parts.limits.count_caps = count_caps;
    }
    if !parts.channel_means.is_empty() {
        let mut channel_means = vec![0.0; names.len()];
        for (&mean, &c) in parts.channel_means.iter().zip(channels) {
            channel_means[c as usize] = mean;
        }
        parts.channel_means = channel_means;
    }
    let mut weights = memory::filled("weights", 0.0, names.len() * width)?;
    let mut channel_mask = vec![false; names.len()];
    for (new, &c) in channels.iter().enumerate() {
        let (from, to) = (new * width, c as usize * width);
        weights[to..to + width].copy_from_slice(&parts.weights[from..from + width]);
        channel_mask[c as usize] = parts.channel_mask[new];
    }
    Decoder::new(DecoderParts {
        channel_names: names.to_vec(),
        channel_mask,
        weights,
        ..parts
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::train;
    use crate::options::TrainOptions;
    use betz_recording::Segment;
    use betz_runtime::psc::{Filter, FilterBank};

    /// Three channels that fire, numbered as given, of `channels`.
    fn data(channels: usize, numbers: [u32; 3]) -> Dataset {
        let steps = 400;
        let mut spikes = Spikes::default();
        for t in 0..steps as i64 {
            for (k, &c) in numbers.iter().enumerate() {
                if (t * (7 + 4 * k as i64)) % (11 + k as i64) < 4 {
                    spikes.ticks.push(t);
                    spikes.channels.push(c);
                }
            }
        }
        Dataset {
            step_seconds: 0.01,
            steps,
            channel_names: (0..channels).map(|c| format!("ch{c}")).collect(),
            spikes,
            segments: vec![Segment {
                start: 0,
                stop: 400,
            }],
            outputs: vec!["x".into()],
            behavior: (0..steps).map(|t| (t as f32 * 0.05).sin()).collect(),
        }
    }

    #[test]
    fn sparse_numbers_give_the_weights_of_contiguous_ones() {
        let bank = FilterBank::new(vec![Filter {
            tau_seconds: 0.05,
            order: 1,
        }])
        .unwrap();
        let options = TrainOptions::new(bank);
        let sparse = data(60_000, [5, 700, 59_999]);
        let found = active(&sparse).unwrap().unwrap();
        assert_eq!(found.channels, [5, 700, 59_999]);
        let model = train(&found.data, &options, &()).unwrap();
        let model = spread(model, &sparse.channel_names, &found.channels).unwrap();
        let plain = train(&data(3, [0, 1, 2]), &options, &()).unwrap();
        assert_eq!(model.channels(), 60_000);
        assert_eq!(model.channel_mask().iter().filter(|used| **used).count(), 3);
        for (k, &c) in found.channels.iter().enumerate() {
            assert_eq!(model.weights()[c as usize], plain.weights()[k]);
        }
        assert_eq!(model.intercept(), plain.intercept());
        assert!(active(&data(3, [0, 1, 2])).unwrap().is_none());
        let mut silent = data(3, [0, 1, 2]);
        silent.spikes = Spikes::default();
        assert!(active(&silent).unwrap().is_none());
    }
}
