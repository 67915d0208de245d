//! Batch decoding of a whole dataset.

mod beliefs;
pub mod cost;
pub(crate) mod cuda;

pub use beliefs::{Beliefs, beliefs};
pub use cost::choose as choose_device;

use std::iter::Peekable;
use std::ops::Range;

use crate::psc::SampledSums;
use betz_base::error::{Error, Result};
use betz_base::text::count;
use betz_device::{Device, Ran};
use betz_recording::DatasetView;
use betz_runtime::model::{Decoder, Head, OutputRange};
use betz_runtime::psc::{LowPassFilter, RecursiveFilter};
use betz_runtime::stream::{Session, SessionConfig};

/// Estimates of `decoder` at every step of `data`, row-major (steps, outputs): row t estimates the
/// behaviour at step t − `delay_steps`. Filters are at rest at each segment's start, or at the decoder's
/// [channel means](Decoder::channel_means); rows outside segments are NaN.
///
/// The filter commutes with the readout: x̂ = Σ_k φ_k·(h ∗ s_k) = h ∗ Σ_k φ_k·s_k. So each filter runs once per output,
/// on the weighted train of all channels, in f64. The cost depends on the number of spikes and on filters × outputs ×
/// steps, not on the number of channels. Allocates the result.
///
/// # Errors
/// The errors of [`channel_order`]; [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if the steps differ in
/// length or the weights do not fit the channels;
/// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording) for a spike of an unknown channel or out of
/// time order; errors of the low-pass.
pub fn decode<'d>(decoder: &Decoder, data: impl Into<DatasetView<'d>>) -> Result<Vec<f32>> {
    let data = &data.into();
    let (outputs, filters) = (decoder.outputs().len(), decoder.bank().len());
    check_shape(decoder, data)?;
    let order = channel_order(decoder, data)?;
    data.spikes.check(data.steps as i64, data.channels())?;
    if !decodes_linearly(decoder, data) {
        return step_through(decoder, data, &order);
    }
    let mut low_pass = decoder
        .low_pass()
        .map(|l| LowPassFilter::new(l, decoder.step_seconds(), outputs))
        .transpose()?;
    let mut bank: Vec<RecursiveFilter> = decoder
        .bank()
        .filters()
        .iter()
        .map(|&f| RecursiveFilter::new(f, decoder.step_seconds(), outputs))
        .collect();
    let mut sampled = SampledSums::new(decoder.bank(), outputs, decoder.low_pass())?;
    let mut estimates = vec![f32::NAN; data.steps * outputs];
    let mut weighted = vec![0.0; filters * outputs];
    let (mut response, mut sum) = (vec![0.0; outputs], vec![0.0; outputs]);
    let ranges = &decoder.limits().ranges;
    let rest = weighted_means(decoder, weighted.len());
    for segment in data.segments {
        bank.iter_mut().for_each(RecursiveFilter::reset);
        if let Some(low_pass) = &mut low_pass {
            low_pass.reset();
        }
        let weigh = |spikes: &mut Peekable<Range<usize>>, step: i64, weighted: &mut [f64]| {
            weighted.copy_from_slice(&rest);
            while let Some(i) = spikes.next_if(|&i| data.spikes.ticks[i] == step) {
                let channel = order[data.spikes.channels[i] as usize];
                let row = &decoder.weights()[channel * weighted.len()..][..weighted.len()];
                let count = f64::from(data.spikes.weight(i));
                weighted
                    .iter_mut()
                    .zip(row)
                    .for_each(|(w, phi)| *w += count * phi);
            }
        };
        let spikes = || data.spikes.range(segment.start, segment.stop).peekable();
        if let Some(sampled) = &mut sampled {
            let mut spikes = spikes();
            sampled.run(segment.len(), |t, weighted| {
                weigh(&mut spikes, segment.start + t as i64, weighted);
            });
        }
        let mut spikes = spikes();
        for step in segment.start..segment.stop {
            weigh(&mut spikes, step, &mut weighted);
            sum.fill(0.0);
            for (filter, input) in bank.iter_mut().zip(weighted.chunks_exact(outputs)) {
                filter.step(input, &mut response);
                sum.iter_mut().zip(&response).for_each(|(s, y)| *s += y);
            }
            if let Some(low_pass) = &mut low_pass {
                low_pass.step(&mut sum);
            }
            if let Some(sampled) = &sampled {
                sampled.add_to((step - segment.start) as usize, &mut sum);
            }
            for (s, intercept) in sum.iter_mut().zip(decoder.intercept()) {
                *s += intercept;
            }
            OutputRange::keep(ranges, &mut sum);
            let row = &mut estimates[step as usize * outputs..][..outputs];
            for (estimate, s) in row.iter_mut().zip(&sum) {
                *estimate = *s as f32;
            }
        }
    }
    Ok(estimates)
}

/// The weighted train of a step without entries, one value per filter and output: that of the means with a minus sign.
fn weighted_means(decoder: &Decoder, width: usize) -> Vec<f64> {
    let mut rest = vec![0.0; width];
    let rows = decoder.weights().chunks_exact(width);
    for (mean, row) in decoder.channel_means().iter().zip(rows) {
        rest.iter_mut()
            .zip(row)
            .for_each(|(rest, phi)| *rest -= mean * phi);
    }
    rest
}

/// True if estimates of `data` are a linear map of its filtered spikes: the decoder has no head and no limits on
/// counts, and no step of `data` counts as an artefact. Channels are matched by name; if that fails, the answer is
/// true.
pub(crate) fn decodes_linearly(decoder: &Decoder, data: &DatasetView<'_>) -> bool {
    if *decoder.head() != Head::Linear || !decoder.limits().count_caps.is_empty() {
        return false;
    }
    blanked_steps(decoder, data) == 0
}

/// A warning if `decoder` takes steps of `data` for artefacts: it decodes mean counts in their place. `None` if there are
/// none. Channels are matched by name.
///
/// ```
/// use betz_gram::decode::blanking_warning;
/// use betz_recording::{Dataset, Segment, Spikes};
/// use betz_runtime::model::{Blanking, Decoder, DecoderParts, Limits};
/// use betz_runtime::psc::{Filter, FilterBank};
///
/// # fn main() -> betz_base::Result<()> {
/// let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
/// let blanking = Blanking { least: 0, most: 5, mean_counts: vec![1.0] };
/// let decoder = Decoder::new(DecoderParts {
///     limits: Limits { blanking: Some(blanking), ..Limits::default() },
///     ..DecoderParts::linear(0.02, bank, vec!["a".into()], vec!["x".into()])
/// })?;
/// let data = Dataset {
///     step_seconds: 0.02,
///     steps: 100,
///     channel_names: vec!["a".into()],
///     spikes: Spikes::new(vec![3; 30], vec![0; 30]),
///     segments: vec![Segment { start: 0, stop: 100 }],
///     outputs: Vec::new(),
///     behavior: Vec::new(),
/// };
/// let warning = blanking_warning(&decoder, &data).unwrap_or_default();
/// assert!(warning.starts_with("1 step of 100 (1.00 %) holds more than 5 spikes"), "{warning}");
/// # Ok(())
/// # }
/// ```
pub fn blanking_warning<'d>(decoder: &Decoder, data: impl Into<DatasetView<'d>>) -> Option<String> {
    let data = &data.into();
    let members = match decoder.head() {
        Head::ModelBlend(blend) => blend.members.as_slice(),
        _ => &[],
    };
    let all = std::iter::once(decoder).chain(members.iter().map(|member| &member.decoder));
    let (steps, most) = all
        .filter_map(|decoder| {
            let most = decoder.limits().blanking.as_ref()?.most;
            Some((blanked_steps(decoder, data), most))
        })
        .max()?;
    (steps > 0).then(|| {
        let all = data.steps_in_segments();
        format!(
            "{} of {all} ({:.2} %) {} more than {most} spikes over all channels, the most of a usual step in training: \
             {} decoded as {} of mean counts. Train with artefacts kept (keep_artefacts) if they are data",
            count(u128::from(steps), "step"),
            100.0 * steps as f64 / all.max(1) as f64,
            if steps == 1 { "holds" } else { "hold" },
            if steps == 1 { "it is" } else { "they are" },
            if steps == 1 { "one" } else { "steps" },
        )
    })
}

/// Number of steps of `data` inside segments that `decoder` takes for artefacts. Channels are matched by name; 0 if that
/// fails.
fn blanked_steps(decoder: &Decoder, data: &DatasetView<'_>) -> u64 {
    let Some(blanking) = &decoder.limits().blanking else {
        return 0;
    };
    let Ok(order) = channel_order(decoder, data) else {
        return 0;
    };
    let mut totals = vec![0_u64; data.steps];
    let entries = data.spikes.ticks.iter().zip(data.spikes.channels);
    for (i, (&tick, &channel)) in entries.enumerate() {
        let takes_part = order
            .get(channel as usize)
            .map(|&c| decoder.channel_mask()[c]);
        let total = usize::try_from(tick).ok().and_then(|t| totals.get_mut(t));
        if let (Some(true), Some(total)) = (takes_part, total) {
            *total += data.spikes.weight(i).round() as u64;
        }
    }
    let believed = blanking.least..=blanking.most;
    let inside = data.segments.iter().flat_map(|segment| {
        let steps = segment.start.max(0) as usize..(segment.stop.max(0) as usize).min(data.steps);
        &totals[steps.start.min(steps.end)..steps.end]
    });
    inside.filter(|total| !believed.contains(total)).count() as u64
}

/// Decodes by stepping a session, with bit-identical results. Decoders with a head or with limits need this.
fn step_through(decoder: &Decoder, data: &DatasetView<'_>, order: &[usize]) -> Result<Vec<f32>> {
    let outputs = decoder.outputs().len();
    let mut estimates = vec![f32::NAN; data.steps * outputs];
    each_step(decoder, data, order, |step, _, row| {
        estimates[step * outputs..][..outputs].copy_from_slice(row);
    })?;
    Ok(estimates)
}

/// Steps a session through the segments of `data`, starting each at rest. Passes on each step, a flag for the first
/// step of a segment, and the outputs.
pub(crate) fn each_step(
    decoder: &Decoder,
    data: &DatasetView<'_>,
    order: &[usize],
    mut each: impl FnMut(usize, bool, &[f32]),
) -> Result<()> {
    let config = SessionConfig {
        statistics: false,
        ..SessionConfig::default()
    };
    let mut session = Session::open(decoder, config)?;
    let mut row = vec![0.0; decoder.outputs().len()];
    let mut fired = Vec::new();
    // Count of each channel in a step, if spikes have weights.
    let counted = match data.spikes.is_weighted() {
        true => data.channels(),
        false => 0,
    };
    let mut counts = betz_base::memory::filled("a step", 0.0_f32, counted)?;
    for segment in data.segments {
        session.reset();
        let mut spikes = data.spikes.range(segment.start, segment.stop).peekable();
        for step in segment.start..segment.stop {
            fired.clear();
            while let Some(i) = spikes.next_if(|&i| data.spikes.ticks[i] == step) {
                let channel = order[data.spikes.channels[i] as usize];
                fired.push(channel as u32);
                if let Some(count) = counts.get_mut(channel) {
                    *count += data.spikes.weight(i);
                }
            }
            if counts.is_empty() {
                session.step_spikes(&fired, &mut row)?;
            } else {
                session.step_values(&counts, &mut row)?;
                fired.iter().for_each(|&c| counts[c as usize] = 0.0);
            }
            each(step as usize, step == segment.start, &row);
        }
    }
    Ok(())
}

/// Estimates, and the device that computed them.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// Estimates in the layout of [`decode`].
    pub estimates: Vec<f32>,
    /// Device that ran the decoding, and the reason if it was not another.
    pub ran: Ran,
}

/// Runs [`decode`] on `device`, in slices if a recording does not fit its memory; only spikes are uploaded and
/// estimates downloaded. [`choose_device`] resolves [`Device::auto`]; the CPU then takes over if the device runs out of
/// resources ([`Placement::or_cpu`](betz_device::Placement::or_cpu)).
///
/// The device sums in f64 like the CPU, but in another order: estimates agree to f32's rounding.
///
/// # Errors
/// The errors of [`decode`] and of the device.
pub fn decode_on<'d>(
    device: &Device,
    decoder: &Decoder,
    data: impl Into<DatasetView<'d>>,
) -> Result<Decoded> {
    let data = &data.into();
    let placement = cost::choose(device, decoder, data);
    if let Some(context) = placement.contexts().first()
        && let Some(estimates) = placement.or_cpu(cuda::decode(context, decoder, data))?
    {
        return Ok(Decoded {
            estimates,
            ran: placement.ran(""),
        });
    }
    Ok(Decoded {
        estimates: decode(decoder, data)?,
        ran: placement.ran(""),
    })
}

/// Maps each channel of `data` to the decoder's channel of the same name.
///
/// # Errors
/// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) unless both have the same channels, in any order; the
/// message names the first that has no partner.
pub fn channel_order<'d>(
    decoder: &Decoder,
    data: impl Into<DatasetView<'d>>,
) -> Result<Vec<usize>> {
    let data = &data.into();
    let (model, recording) = (decoder.channel_names(), data.channel_names);
    if model.len() != recording.len() {
        return Err(Error::mismatch(format!(
            "recording: expected the model's {} channels, got {}",
            model.len(),
            recording.len()
        )));
    }
    if model == recording {
        return Ok((0..model.len()).collect());
    }
    let places = model.iter().enumerate().map(|(i, name)| (name, i));
    let mut places: std::collections::HashMap<_, _> = places.collect();
    recording
        .iter()
        .enumerate()
        .map(|(i, name)| {
            places.remove(name).ok_or_else(|| {
                Error::mismatch(format!(
                    "recording: channel {i} ('{name}') is not among the model's channels, or is there twice"
                ))
            })
        })
        .collect()
}

/// Checks that a dataset's shape fits `decoder`, without looking at the spikes.
pub(crate) fn check_shape(decoder: &Decoder, data: &DatasetView<'_>) -> Result<()> {
    let ratio = data.step_seconds / decoder.step_seconds();
    if !((1.0 - 1e-9..1.0 + 1e-9).contains(&ratio)) {
        return Err(Error::mismatch(format!(
            "recording: expected the model's step of {} s, got {} s",
            decoder.step_seconds(),
            data.step_seconds
        )));
    }
    betz_recording::check_segments(data.segments, data.steps as i64)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::psc::oracle;
    use betz_base::ErrorKind;
    use betz_recording::{Dataset, OutputInfo, Segment};
    use betz_runtime::model::DecoderParts;
    use betz_runtime::psc::{Filter, FilterBank, LowPass};

    pub(super) fn data() -> Dataset {
        let spikes: Vec<(i64, u32)> = (0..900)
            .map(|i| (i64::from(i * i % 611), i as u32 * 7 % 5))
            .collect();
        let segments = vec![
            Segment { start: 3, stop: 4 },
            Segment {
                start: 10,
                stop: 300,
            },
            Segment {
                start: 300,
                stop: 611,
            },
        ];
        crate::psc::tests::dataset(0.001, 5, segments, 620, spikes)
    }

    pub(super) fn decoder(low_pass: Option<LowPass>) -> Decoder {
        let filters = [(0.004, 0), (0.02, 1), (0.05, 4)];
        let filters = filters.map(|(tau_seconds, order)| Filter { tau_seconds, order });
        let bank = FilterBank::new(filters.to_vec()).unwrap();
        let outputs = ["x", "y"].map(OutputInfo::from).to_vec();
        Decoder::new(DecoderParts {
            low_pass,
            weights: (0..30).map(|i| f64::from(i % 7) - 2.5).collect(),
            intercept: vec![5.0, -0.25],
            ..DecoderParts::linear(0.001, bank, data().channel_names, outputs)
        })
        .unwrap()
    }

    #[test]
    fn equals_the_readout_of_the_oracles_responses() {
        for low_pass in [
            None,
            Some(LowPass {
                order: 3,
                cutoff_hz: 40.0,
            }),
        ] {
            let (data, decoder) = (data(), decoder(low_pass));
            let a = oracle::responses(&data, decoder.bank(), low_pass).unwrap();
            let estimates = decode(&decoder, &data).unwrap();
            let columns = data.steps_in_segments();
            let mut column = 0;
            for step in 0..data.steps as i64 {
                let inside = data
                    .segments
                    .iter()
                    .any(|s| s.start <= step && step < s.stop);
                for o in 0..2 {
                    let got = f64::from(estimates[step as usize * 2 + o]);
                    if !inside {
                        assert!(got.is_nan());
                        continue;
                    }
                    let terms =
                        (0..15).map(|f| a[f * columns + column] * decoder.weights()[f * 2 + o]);
                    let expected = decoder.intercept()[o] + terms.sum::<f64>();
                    assert!((got - expected).abs() < 1e-6 * expected.abs().max(1.0));
                }
                column += usize::from(inside);
            }
        }
    }

    /// The dataset [`data`] with a weight per spike.
    pub(super) fn counted() -> Dataset {
        let mut data = data();
        data.spikes.weights = (0..data.spikes.len())
            .map(|i| [1.0, 3.0, 60_000.0, 12.0][i * i % 4])
            .collect();
        data
    }

    /// The dataset [`data`] with the spikes that [`counted`] counts, one by one.
    fn expanded(counted: &Dataset) -> Dataset {
        let mut data = counted.clone();
        let entries = (0..data.spikes.len()).flat_map(|i| {
            let times = counted.spikes.weights[i] as usize;
            std::iter::repeat_n((counted.spikes.ticks[i], counted.spikes.channels[i]), times)
        });
        (data.spikes.ticks, data.spikes.channels) = entries.unzip();
        data.spikes.weights.clear();
        data
    }

    #[test]
    fn counts_decode_as_the_spikes_they_count() {
        let counted = counted();
        let (decoder, expanded) = (decoder(None), expanded(&counted));
        let expected = decode(&decoder, &expanded).unwrap();
        let order: Vec<usize> = (0..5).collect();
        for got in [
            decode(&decoder, &counted).unwrap(),
            step_through(&decoder, &counted.view(), &order).unwrap(),
        ] {
            for (g, e) in got.iter().zip(&expected) {
                let same = (g - e).abs() <= 1e-5 * e.abs().max(1.0);
                assert!(same || g.is_nan() && e.is_nan(), "{g} against {e}");
            }
        }
    }

    #[test]
    fn channels_are_matched_by_name() {
        let (mut data, decoder) = (data(), decoder(None));
        let expected = decode(&decoder, &data).unwrap();
        data.channel_names.reverse();
        data.spikes.channels.iter_mut().for_each(|c| *c = 4 - *c);
        let got = decode(&decoder, &data).unwrap();
        // Spikes of one step are now added in the same order, so the sums are bit-identical.
        assert!(
            expected
                .iter()
                .zip(&got)
                .all(|(e, g)| e.to_bits() == g.to_bits())
        );
        data.channel_names[2] = "another".into();
        let error = decode(&decoder, &data).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Mismatch);
        assert!(error.message().contains("'another'"), "{error}");
        data.channel_names[2] = data.channel_names[1].clone();
        assert_eq!(
            decode(&decoder, &data).unwrap_err().kind(),
            ErrorKind::Mismatch
        );
        data.channel_names.pop();
        assert_eq!(
            decode(&decoder, &data).unwrap_err().kind(),
            ErrorKind::Mismatch
        );
    }

    #[test]
    fn spikes_out_of_order_or_of_no_channel_are_refused() {
        let decoder = decoder(None);
        let spoil: [fn(&mut Dataset); 3] = [
            |data| data.spikes.ticks.reverse(),
            |data| data.spikes.channels[3] = 99,
            |data| *data.spikes.ticks.last_mut().unwrap() = data.steps as i64,
        ];
        for spoil in spoil {
            let mut data = data();
            spoil(&mut data);
            let error = decode(&decoder, &data).unwrap_err();
            assert_eq!(
                error.kind(),
                betz_base::ErrorKind::InvalidRecording,
                "{error}"
            );
        }
    }

    #[test]
    fn another_step_is_refused() {
        let (mut data, decoder) = (data(), decoder(None));
        data.step_seconds = 0.002;
        assert_eq!(
            decode(&decoder, &data).unwrap_err().kind(),
            ErrorKind::Mismatch
        );
    }
}
