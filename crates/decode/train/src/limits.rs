//! Limits of the recording that a decoder is made for: usual counts, and the range of its outputs.

use rayon::prelude::*;

use super::blank::blanking;
use betz_base::error::Result;
use betz_recording::DatasetView;
use betz_runtime::model::{Decoder, Head, Limits, OutputRange};

/// Width of an output's range, relative to that of the labels.
const WIDER: f64 = 1.2;

/// The limits of a decoder of `data` and the channels for which `takes_part` is true, without blanking if it is to
/// `keep_artefacts`.
pub(crate) fn limits(data: &DatasetView<'_>, takes_part: &[bool], keep_artefacts: bool) -> Limits {
    Limits {
        blanking: match keep_artefacts {
            true => None,
            false => blanking(data, takes_part),
        },
        ranges: extremes(data).into_iter().map(range).collect(),
        ..Limits::default()
    }
}

/// `decoder` without blanking.
///
/// # Errors
/// The same as for [`Decoder::new`].
pub(crate) fn without_blanking(decoder: Decoder) -> Result<Decoder> {
    let mut parts = decoder.into_parts();
    parts.limits.blanking = None;
    parts.head = with_members(parts.head, without_blanking)?;
    Decoder::new(parts)
}

/// `head` with every other member of a blend changed by `change`.
///
/// # Errors
/// Returns the errors of `change`.
pub(crate) fn with_members(
    mut head: Head,
    mut change: impl FnMut(Decoder) -> Result<Decoder>,
) -> Result<Head> {
    if let Head::ModelBlend(blend) = &mut head {
        for member in &mut blend.members {
            member.decoder = change(member.decoder.clone())?;
        }
    }
    Ok(head)
}

/// The least and the greatest label of an output; those of several recordings are the least and the greatest
/// of theirs.
pub(crate) type Extremes = (f32, f32);

/// Range of outputs without labels.
pub(crate) const NO_LABEL: Extremes = (f32::INFINITY, f32::NEG_INFINITY);

/// Labels that a thread goes through at a time.
const AT_ONCE: usize = 1 << 16;

/// Rows that are looked at side by side, so that the compiler makes vectors of them.
const ROWS: usize = 8;

/// Of the labels inside segments, one per output.
pub(crate) fn extremes(data: &DatasetView<'_>) -> Vec<Extremes> {
    let outputs = data.outputs.len();
    let none = || vec![NO_LABEL; outputs];
    if outputs == 0 {
        return none();
    }
    let parts = data.segments.par_iter().flat_map(|segment| {
        let rows = segment.start as usize * outputs..segment.stop as usize * outputs;
        data.behavior[rows].par_chunks((AT_ONCE / outputs).max(1) * outputs)
    });
    parts
        .map(|labels| extremes_of(labels, outputs))
        .reduce(none, |mut all, part| {
            widen(&mut all, part.into_iter());
            all
        })
}

/// Extremes of whole rows of labels. A label that is no number changes neither.
fn extremes_of(labels: &[f32], outputs: usize) -> Vec<Extremes> {
    let (low, high) = NO_LABEL;
    let mut lows = vec![low; ROWS * outputs];
    let mut highs = vec![high; ROWS * outputs];
    for rows in labels.chunks(ROWS * outputs) {
        for ((lowest, highest), &label) in lows.iter_mut().zip(&mut highs).zip(rows) {
            *lowest = if label < *lowest { label } else { *lowest };
            *highest = if label > *highest { label } else { *highest };
        }
    }
    let mut extremes = vec![NO_LABEL; outputs];
    for (lows, highs) in lows.chunks(outputs).zip(highs.chunks(outputs)) {
        widen(
            &mut extremes,
            lows.iter().copied().zip(highs.iter().copied()),
        );
    }
    extremes
}

/// Takes `others` in, in any order.
pub(crate) fn widen(extremes: &mut [Extremes], others: impl Iterator<Item = Extremes>) {
    for ((low, high), (lower, higher)) in extremes.iter_mut().zip(others) {
        *low = low.min(lower);
        *high = high.max(higher);
    }
}

/// The range between `low` and `high` about its middle, 1.2 times as wide; without bounds where labels do not
/// change, or are not known.
pub(crate) fn range((low, high): Extremes) -> OutputRange {
    let (low, high) = (f64::from(low), f64::from(high));
    let (middle, half) = (0.5 * (low + high), 0.5 * WIDER * (high - low));
    let (low, high) = ((middle - half) as f32, (middle + half) as f32);
    if half > 0.0 && low.is_finite() && high.is_finite() {
        OutputRange { low, high }
    } else {
        OutputRange {
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More labels than a thread's part, of numbers of rows that no vector divides.
    #[test]
    fn extremes_are_those_of_a_plain_loop() {
        for (outputs, segments) in [
            (1, vec![(0, 200_003)]),
            (3, vec![(5, 70_000), (70_001, 70_002)]),
        ] {
            let steps = 200_003;
            let mut data = betz_gram::cases::dataset(1, &segments, vec![], outputs);
            data.steps = steps;
            data.behavior = (0..steps * outputs)
                .map(|i| {
                    if i % 97 == 0 {
                        f32::NAN
                    } else {
                        ((i * 7919) % 100_003) as f32
                    }
                })
                .collect();
            let mut expected = vec![NO_LABEL; outputs];
            for &(start, stop) in &segments {
                for row in
                    data.behavior[start as usize * outputs..stop as usize * outputs].chunks(outputs)
                {
                    widen(&mut expected, row.iter().map(|&label| (label, label)));
                }
            }
            assert_eq!(extremes(&data.view()), expected, "{outputs} outputs");
        }
    }

    #[test]
    fn a_range_is_that_of_the_labels_inside_segments_and_a_fifth_more() {
        let mut data = betz_gram::cases::dataset(1, &[(1, 4), (6, 8)], vec![], 3);
        data.behavior.fill(99.0);
        for (step, x) in [(1, -1.0), (2, f32::NAN), (3, 4.0), (6, 9.0), (7, 0.0)] {
            data.behavior[step * 3..][..3].copy_from_slice(&[x, 5.0, f32::NAN]);
        }
        let got: Vec<OutputRange> = extremes(&data.view()).into_iter().map(range).collect();
        let none = OutputRange {
            low: f32::NEG_INFINITY,
            high: f32::INFINITY,
        };
        let x = OutputRange {
            low: -2.0,
            high: 10.0,
        };
        assert_eq!(got, [x, none, none]);
    }
}
