//! Population-count blanking: which steps of a recording are artefacts, by their spikes over all channels.
//!
//! Stimulation, a cable that moves, a loss of ground: bins with several times the usual spikes on all
//! channels at once. One of them drives a decoder's filters for seconds. It takes no label to see them, and
//! a decoder that takes them for mean counts hardly notices.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;

use super::options::TrainOptions;
use super::step_totals::{AT_ONCE, counts, has_more, histogram, is_signal, limit_of, totals};
use betz_base::error::Result;
use betz_base::text::count;
use betz_recording::{DatasetView, Segment, Spikes, check_segments};
use betz_runtime::model::{Blanking, Decoder};

/// Limits that recognise artefacts in `data`, from the channels for which `takes_part` is true. A step is an
/// artefact if it exceeds the 99.9 % quantile q of spikes in usual steps by more than the larger of q/4 and 2√q.
/// `None` if there are too few steps or no spikes, or if the data are a signal.
pub(crate) fn blanking(data: &DatasetView<'_>, takes_part: &[bool]) -> Option<Blanking> {
    if is_signal(data) {
        return None;
    }
    let histogram = histogram(data, takes_part);
    let most = limit_of(&histogram)?;
    let totals = has_more(&histogram, most).then(|| totals(data, takes_part));
    let counts = counts(data, |tick| {
        totals
            .as_ref()
            .is_none_or(|totals| totals[tick as usize] <= most)
    });
    let usual = histogram.range(..=most);
    let steps: u64 = usual.map(|(_, steps)| steps).sum();
    let mean = |(count, takes_part): (u64, &bool)| {
        let mean = count as f64 / steps.max(1) as f64;
        if *takes_part {
            mean.min(f64::from(u16::MAX))
        } else {
            0.0
        }
    };
    Some(Blanking {
        least: 0,
        most,
        mean_counts: counts.into_iter().zip(takes_part).map(mean).collect(),
    })
}

/// Steps that training takes for artefacts: their spikes are replaced by those of the nearest usual step, and the
/// decoder takes such steps for mean counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Artefacts {
    /// Steps inside segments with more spikes than `most`.
    pub steps: u64,
    /// Spikes in these steps.
    pub spikes: u64,
    /// Spikes in all steps inside segments.
    pub all_spikes: u64,
    /// Most spikes of a usual step over all channels; `None`: no step counts as an artefact, whatever it holds.
    pub most: Option<u64>,
}

impl Artefacts {
    /// A warning that tells the share of artefacts among `steps` steps; `None` if there are none.
    pub fn warning(&self, steps: u64) -> Option<String> {
        let most = self.most.filter(|_| self.steps > 0)?;
        Some(format!(
            "{} of {steps} ({:.2} %) hold more than {most} spikes over all channels, far more than usual: they count as \
             artefacts, and are trained on and decoded as if they were usual. Keep artefacts (keep_artefacts) if they are data",
            count(u128::from(self.steps), "step"),
            100.0 * self.steps as f64 / steps.max(1) as f64
        ))
    }

    /// Of steps whose numbers of spikes `histogram` counts.
    pub(crate) fn new(histogram: &BTreeMap<u64, u64>) -> Self {
        let most = limit_of(histogram);
        let mut artefacts = Self {
            most,
            ..Self::default()
        };
        for (&of_a_step, &steps) in histogram {
            let spikes = of_a_step.saturating_mul(steps);
            artefacts.all_spikes = artefacts.all_spikes.saturating_add(spikes);
            if most.is_some_and(|most| of_a_step > most) {
                artefacts.steps += steps;
                artefacts.spikes = artefacts.spikes.saturating_add(spikes);
            }
        }
        artefacts
    }
}

/// A recording without artefacts, for training: the spikes of each artefact are replaced by those of the nearest
/// usual step of its segment, or of the earlier one if two are equally near. A segment that consists of artefacts
/// keeps no spikes.
pub(crate) struct CleanData {
    /// `None`: there are no artefacts.
    spikes: Option<Spikes>,
    /// The artefacts.
    pub(crate) artefacts: Artefacts,
}

impl CleanData {
    /// # Errors
    /// [`ErrorKind::InvalidRecording`](betz_base::ErrorKind::InvalidRecording) for segments or spikes that
    /// do not fit the recording.
    pub(crate) fn new(data: &DatasetView<'_>, options: &TrainOptions) -> Result<Self> {
        Self::check(data)?;
        Ok(Self::search(data, options.keep_artefacts))
    }

    /// The data that `decoder`, which was trained on it, was trained on.
    ///
    /// # Errors
    /// The same as for [`new`](Self::new).
    pub(crate) fn for_decoder(data: &DatasetView<'_>, decoder: &Decoder) -> Result<Self> {
        Self::check(data)?;
        Ok(Self::search(data, decoder.limits().blanking.is_none()))
    }

    /// Refuses segments and spikes as [`new`](Self::new) does.
    pub(crate) fn check(data: &DatasetView<'_>) -> Result<()> {
        check_segments(data.segments, data.steps as i64)?;
        check_spikes(data)
    }

    /// [`new`](Self::new) for data that were checked, which keep their artefacts on request.
    pub(crate) fn search(data: &DatasetView<'_>, keep_artefacts: bool) -> Self {
        if is_signal(data) {
            return Self::nothing();
        }
        if keep_artefacts {
            let mut kept = Self::nothing();
            kept.artefacts.all_spikes = data.spikes_in_segments().round() as u64;
            return kept;
        }
        let histogram = histogram(data, &vec![true; data.channels()]);
        let most = limit_of(&histogram).filter(|&most| has_more(&histogram, most));
        let found = most.and_then(|most| without_artefacts(data, most, 0..data.steps as i64));
        let mut found = found.unwrap_or_else(Self::nothing);
        found.artefacts = Artefacts::new(&histogram);
        found
    }

    /// Of data whose usual steps hold at most `most` spikes; artefacts are counted inside the steps `own`.
    ///
    /// # Errors
    /// The same as for [`new`](Self::new).
    pub(crate) fn beyond(data: &DatasetView<'_>, most: u64, own: Range<i64>) -> Result<Self> {
        Self::check(data)?;
        Ok(without_artefacts(data, most, own).unwrap_or_else(Self::nothing))
    }

    fn nothing() -> Self {
        Self {
            spikes: None,
            artefacts: Artefacts::default(),
        }
    }

    /// True if the data hold no artefact, and are trained on as they are.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.spikes.is_none()
    }

    /// The spikes without artefacts, where there were any.
    pub(crate) fn into_spikes(self) -> Option<Spikes> {
        self.spikes
    }

    /// `data`, the recording this was made of, with these spikes.
    pub(crate) fn view<'a>(&'a self, data: &DatasetView<'a>) -> DatasetView<'a> {
        let spikes = self.spikes.as_ref().map_or(data.spikes, Spikes::view);
        DatasetView { spikes, ..*data }
    }
}

/// [`check`](betz_recording::SpikesView::check), on all threads; where there is a fault, it is looked for again,
/// to be named.
fn check_spikes(data: &DatasetView<'_>) -> Result<()> {
    let spikes = &data.spikes;
    let (steps, channels) = (data.steps as i64, data.channels());
    let sound = |first: usize| {
        // One more than a part: the next begins no earlier.
        let inside = first..(first + AT_ONCE + 1).min(spikes.len());
        let part = spikes.part(inside);
        part.check(steps, channels).is_ok()
    };
    let entries = spikes.len();
    let fit = entries == spikes.channels.len()
        && (!spikes.is_weighted() || entries == spikes.weights.len());
    let parts = entries.div_ceil(AT_ONCE);
    if fit && (0..parts).into_par_iter().all(|part| sound(part * AT_ONCE)) {
        return Ok(());
    }
    spikes.check(steps, channels)
}

/// The spikes that [`CleanData`] keeps and the number of artefacts inside `own`; `None` where there are none at all.
fn without_artefacts(data: &DatasetView<'_>, most: u64, own: Range<i64>) -> Option<CleanData> {
    let totals = totals(data, &vec![true; data.channels()]);
    let artefact = |step: i64| totals[step as usize] > most;
    let inside = |s: &Segment| s.start..s.stop;
    let found = || {
        data.segments
            .iter()
            .flat_map(inside)
            .filter(|&s| artefact(s))
    };
    found().next()?;
    let artefacts = found().filter(|step| own.contains(step)).count();
    let mut spikes = Spikes::default();
    for segment in data.segments {
        let usual: Vec<i64> = inside(segment).filter(|&s| !artefact(s)).collect();
        for step in inside(segment) {
            // The first usual step at or after this one, and the last before it.
            let at = usual.partition_point(|&s| s < step);
            let (after, before) = (usual.get(at), at.checked_sub(1).map(|i| usual[i]));
            let source = match (before, after) {
                (_, Some(&after)) if after == step => after,
                (Some(before), Some(&after)) if after - step < step - before => after,
                (Some(before), _) => before,
                (None, Some(&after)) => after,
                (None, None) => continue,
            };
            let of = data.spikes.range(source, source + 1);
            spikes.ticks.extend(std::iter::repeat_n(step, of.len()));
            spikes
                .channels
                .extend_from_slice(&data.spikes.channels[of.clone()]);
            if data.spikes.is_weighted() {
                spikes.weights.extend_from_slice(&data.spikes.weights[of]);
            }
        }
    }
    Some(CleanData {
        spikes: Some(spikes),
        artefacts: Artefacts {
            steps: artefacts as u64,
            ..Artefacts::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_recording::Dataset;
    use rand::{RngExt, SeedableRng};

    /// 20 channels, Poisson-like counts of mean 2 per channel and step, `artefacts` at 3 times that.
    fn data(artefacts: &[i64]) -> Dataset {
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(5);
        let mut spikes = Vec::new();
        for step in 0..2000_i64 {
            let more = if artefacts.contains(&step) { 3 } else { 1 };
            for channel in 0..20_u32 {
                for _ in 0..more * 10 {
                    if random.random::<f64>() < 0.2 {
                        spikes.push((step, channel));
                    }
                }
            }
        }
        betz_gram::cases::dataset(20, &[(0, 900), (1000, 2000)], spikes, 1)
    }

    fn options(keep_artefacts: bool) -> TrainOptions {
        TrainOptions {
            keep_artefacts,
            ..TrainOptions::new(betz_gram::cases::bank(&[(20.0, 1)]))
        }
    }

    #[test]
    fn artefacts_are_found_and_usual_steps_are_not() {
        let artefacts = [10, 11, 12, 500, 1999];
        let data = data(&artefacts);
        let found = blanking(&data.view(), &[true; 20]).unwrap();
        let totals = totals(&data.view(), &[true; 20]);
        for step in (0..900).chain(1000..2000) {
            let is = totals[step as usize] > found.most;
            assert_eq!(
                is,
                artefacts.contains(&step),
                "step {step}: {}",
                totals[step as usize]
            );
        }
        // Mean counts are those of usual steps.
        assert!(
            found.mean_counts.iter().all(|m| (m - 2.0).abs() < 0.15),
            "{found:?}"
        );
        let mut mask = [true; 20];
        mask[3] = false;
        let masked = blanking(&data.view(), &mask).unwrap();
        assert_eq!(masked.mean_counts[3], 0.0);
        assert!(masked.most < found.most);
    }

    #[test]
    fn training_sees_neighbours_in_place_of_artefacts() {
        let data = data(&[0, 10, 11, 12, 1999]);
        let found = CleanData::new(&data.view(), &options(false)).unwrap();
        let spikes = |s: i64| data.spikes.range(s, s + 1).len() as u64;
        let expected = [0, 10, 11, 12, 1999].map(spikes).iter().sum::<u64>();
        let artefacts = found.artefacts;
        assert_eq!((artefacts.steps, artefacts.spikes), (5, expected));
        assert_eq!(
            artefacts.all_spikes,
            data.view().spikes_in_segments() as u64
        );
        let kept = CleanData::new(&data.view(), &options(true)).unwrap();
        assert!((kept.artefacts.steps, kept.artefacts.most) == (0, None) && kept.spikes.is_none());
        let cleaned = found.view(&data.view());
        let of = |data: &DatasetView<'_>, step| {
            data.spikes.channels[data.spikes.range(step, step + 1)].to_vec()
        };
        for (step, source) in [
            (0, 1),
            (9, 9),
            (10, 9),
            (11, 9),
            (12, 13),
            (13, 13),
            (1999, 1998),
        ] {
            assert_eq!(of(&cleaned, step), of(&data.view(), source), "step {step}");
        }
        let checked = cleaned
            .spikes
            .check(cleaned.steps as i64, cleaned.channels());
        checked.unwrap();
        let clean = self::data(&[]);
        let same = CleanData::new(&clean.view(), &options(false)).unwrap();
        assert!(same.artefacts.steps == 0 && same.spikes.is_none());
    }

    #[test]
    fn what_is_frequent_is_no_artefact() {
        let often: Vec<i64> = (0..2000).filter(|s| s % 5 == 0).collect();
        let data = data(&often);
        let found = CleanData::new(&data.view(), &options(false)).unwrap();
        assert_eq!(found.artefacts.steps, 0);
        let few = betz_gram::cases::dataset(2, &[(0, 50)], vec![(3, 0)], 1);
        assert_eq!(blanking(&few.view(), &[true; 2]), None);
        let silent = betz_gram::cases::dataset(2, &[(0, 500)], vec![], 1);
        assert_eq!(blanking(&silent.view(), &[true; 2]), None);
    }
}
