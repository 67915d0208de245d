//! The reasons for which channels take no part in a decoder.

use betz_gram::NormalEquations;
use betz_recording::DatasetView;

/// Channels that a warning names, at most.
const NAMED: usize = 5;

/// The reason for which a channel that is not silent is masked.
enum Reason {
    /// It holds the same value at every step.
    Constant,
    /// It equals an earlier channel.
    CopyOf(usize),
    /// Its responses follow from those of other channels, to within rounding.
    Combination,
}

/// A warning that names the channels of `data` that `takes_part` leaves out, with the reason for each; `None` if there are
/// none. Silent channels, which have nothing to lose, are not named.
pub(crate) fn warning(data: &DatasetView<'_>, takes_part: &[bool]) -> Option<String> {
    if takes_part.iter().all(|&takes_part| takes_part) {
        return None;
    }
    let contents = contents(data);
    let steps: u64 = data.segments.iter().map(|s| s.len() as u64).sum();
    let reasons = left_out(takes_part).filter_map(|channel| {
        let own = contents.get(channel)?;
        let copied = || contents[..channel].iter().position(|other| other == own);
        let reason = match own {
            own if own.is_silent => return None,
            own if own.is_constant && own.entries == steps => Reason::Constant,
            _ => copied().map_or(Reason::Combination, Reason::CopyOf),
        };
        Some((channel, reason))
    });
    told(data.channel_names, reasons)
}

/// [`warning`] from sums over the `filters` of every channel of `names`.
pub(crate) fn warning_of_sums(
    names: &[String],
    filters: usize,
    sums: &NormalEquations,
    takes_part: &[bool],
) -> Option<String> {
    let (n, mean) = (sums.features, sums.feature_mean());
    let gram = |i: usize, j: usize| sums.gram[i * n + j];
    let reasons = left_out(takes_part).filter_map(|channel| {
        let own = channel * filters..(channel + 1) * filters;
        let varies = |i: usize| gram(i, i) - sums.feature_sum[i] * mean[i] > 1e-14 * gram(i, i);
        let copies = |other: usize| {
            let mut pairs = own.clone().zip(other * filters..);
            pairs.all(|(i, j)| gram(i, i) == gram(j, j) && gram(i, i) == gram(i, j))
        };
        let is_silent = own.clone().all(|i| gram(i, i) == 0.0);
        if is_silent {
            return None;
        }
        let reason = match (0..channel).find(|&other| copies(other)) {
            _ if !own.clone().any(varies) => Reason::Constant,
            Some(other) => Reason::CopyOf(other),
            None => Reason::Combination,
        };
        Some((channel, reason))
    });
    told(names, reasons)
}

fn left_out(takes_part: &[bool]) -> impl Iterator<Item = usize> {
    let channels = takes_part.iter().enumerate();
    channels
        .filter(|(_, takes_part)| !**takes_part)
        .map(|(channel, _)| channel)
}

fn told(names: &[String], reasons: impl Iterator<Item = (usize, Reason)>) -> Option<String> {
    let name = |channel: usize| names.get(channel).map_or("", String::as_str);
    let mut texts: Vec<String> = reasons
        .map(|(channel, reason)| match reason {
            Reason::Constant => format!("'{}' never varies", name(channel)),
            Reason::CopyOf(other) => format!("'{}' is a copy of '{}'", name(channel), name(other)),
            Reason::Combination => {
                format!("'{}' follows from other channels", name(channel))
            }
        })
        .collect();
    let masked = texts.len();
    if masked == 0 {
        return None;
    }
    if masked > NAMED {
        texts.truncate(NAMED);
        texts.push(format!("and {} more", masked - NAMED));
    }
    Some(format!(
        "{masked} of {} channels that are not silent are masked, and have no weight: {}. Leave them out of the recording, or \
         check them",
        names.len(),
        texts.join(", ")
    ))
}

/// Contents of a channel inside segments.
#[derive(Clone, PartialEq)]
struct Content {
    entries: u64,
    /// Hash of every entry's step and weight.
    hash: u64,
    /// Every entry is 0, or there are none.
    is_silent: bool,
    /// Every entry has the same weight.
    is_constant: bool,
    first: f32,
}

fn contents(data: &DatasetView<'_>) -> Vec<Content> {
    let empty = Content {
        entries: 0,
        hash: 0xcbf2_9ce4_8422_2325,
        is_silent: true,
        is_constant: true,
        first: 0.0,
    };
    let mut contents = vec![empty; data.channels()];
    let spikes = &data.spikes;
    for segment in data.segments {
        for i in spikes.range(segment.start, segment.stop) {
            let Some(own) = contents.get_mut(spikes.channels[i] as usize) else {
                continue;
            };
            let weight = spikes.weight(i);
            if own.entries == 0 {
                own.first = weight;
            }
            own.entries += 1;
            own.is_silent &= weight == 0.0;
            own.is_constant &= weight == own.first;
            for word in [spikes.ticks[i] as u64, u64::from(weight.to_bits())] {
                own.hash = (own.hash ^ word)
                    .wrapping_mul(0x0000_0100_0000_01b3)
                    .rotate_left(29);
            }
        }
    }
    contents
}

#[cfg(test)]
mod tests {
    use crate::{RidgeChoice, Training};
    use betz_device::Device;
    use betz_gram::cases;
    use betz_recording::Dataset;

    /// Channels 0 and 2 are noise, 1 is constant, 3 copies 0, 4 is the sum of 0 and 2, 5 is silent.
    fn data() -> Dataset {
        let all = (0..2000).flat_map(|t| (0..5).map(move |c| (t, c)));
        let mut data = cases::dataset(6, &[(0, 2000)], all.collect(), 1);
        let noise = |t: i64, seed: i64| ((t * 7919 + seed * 104_729) % 1013) as f32 / 101.0 + 3.0;
        let entries = data.spikes.ticks.iter().zip(&data.spikes.channels);
        data.spikes.weights = entries
            .map(|(&t, &c)| match c {
                1 => 5.5,
                2 => noise(t * t, 2),
                4 => noise(t, 1) + noise(t * t, 2),
                _ => noise(t, 1),
            })
            .collect();
        data
    }

    #[test]
    fn masked_channels_are_named_with_the_real_reason() {
        let training = Training {
            bank: Some(cases::bank(&[(1.0 / 40.0, 0)])),
            folds: 0,
            ridge: Some(RidgeChoice::Fixed(0.0)),
            ..Training::default()
        };
        let outcome = training.run(&data(), &Device::cpu(), &()).unwrap();
        let mask = [true, false, true, false, false, false];
        assert_eq!(outcome.decoder.channel_mask(), mask);
        let [warning] = outcome.warnings.as_slice() else {
            panic!("{:?}", outcome.warnings)
        };
        for part in [
            "3 of 5 channels",
            "'c1' never varies",
            "'c3' is a copy of 'c0'",
            "'c4' follows from other channels",
        ] {
            assert!(warning.contains(part), "{warning}");
        }
        assert!(!warning.contains("'c5'"), "{warning}");
    }
}
