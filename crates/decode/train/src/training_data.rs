//! Recognises data that a model was trained on.
//!
//! A model keeps a sample of hashes of the spikes that it was trained on. Each hash stands for a run of about twenty
//! consecutive spikes inside one segment: their channels, weights and distances in steps. Neither the file, nor the
//! position of the run, nor the choice of segments enters the hash. So the sample recognises a part of a recording, a
//! recording in another format, and a recording that was cut differently.
//!
//! The sample holds the smallest hashes ("bottom-k sketch": Cohen & Kaplan 2007). The runs of other data whose hash is
//! below its largest are a random sample of them, and those of them that it contains estimate the share that was
//! trained on.

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::wire::{Reader, Writer};
use betz_recording::{DatasetView, SpikesView};
use betz_runtime::model::{Attachment, Decoder};

/// Section of a model file. Readers that do not know it keep it.
const TAG: [u8; 4] = *b"hash";

/// Spikes of a run, at least. Runs end with whole steps.
const RUN: u64 = 20;

/// One run in so many is hashed, chosen by its first spikes.
const ONE_IN: u64 = 4;

/// Hashes that a sample holds, at most.
const MOST: usize = 1024;

/// The sample of a model's training data: the smallest hashes of its runs of spikes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrainingData {
    /// Ascending, all different, at most [`MOST`].
    hashes: Vec<u64>,
    /// Total of runs that were hashed.
    runs: u64,
}

/// Overlap of a dataset with what a model was trained on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overlap {
    /// Number of the dataset's runs of spikes that were compared with the sample.
    pub compared: u64,
    /// Number of these that the sample holds.
    pub known: u64,
}

impl Overlap {
    /// Adds the overlap of another part of the dataset.
    pub const fn add(&mut self, other: Self) {
        self.compared += other.compared;
        self.known += other.known;
    }

    /// Estimated share of the dataset's spikes that the model was trained on, 0 to 1.
    pub fn share(&self) -> f64 {
        self.known as f64 / self.compared.max(1) as f64
    }

    /// A warning if there is any overlap: such scores say nothing about other data.
    pub fn warning(&self) -> Option<String> {
        let percent = match (100.0 * self.share()).round() as u32 {
            _ if self.known == 0 => return None,
            _ if self.known == self.compared => "100".to_owned(),
            percent => format!("about {}", percent.clamp(1, 99)),
        };
        Some(format!(
            "the model was trained on {percent} % of what is scored: scores are better than on new data. Score segments or a recording that it was not trained on"
        ))
    }
}

impl TrainingData {
    /// The sample of the spikes inside the segments of `data`. Allocates 16 kB, and reads every spike about five times.
    pub fn new<'d>(data: impl Into<DatasetView<'d>>) -> Self {
        let mut sample = Self::default();
        let runs = each_hash(&data.into(), |hash| sample.insert(hash));
        sample.runs = runs;
        sample.shrink();
        sample
    }

    /// Adds the sample of other data.
    pub fn merge(&mut self, other: &Self) {
        self.hashes.extend_from_slice(&other.hashes);
        self.runs = self.runs.saturating_add(other.runs);
        self.shrink();
    }

    /// The sample that `decoder` keeps; `None` if it has none, such as a model of an earlier version.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] if the section is damaged.
    pub fn read(decoder: &Decoder) -> Result<Option<Self>> {
        let Some(bytes) = decoder.attachment(TAG) else {
            return Ok(None);
        };
        let mut from = Reader::new(
            bytes,
            ErrorKind::InvalidModel,
            "the sample of the training data does not decode",
        );
        Self::read_from(&mut from).map(Some)
    }

    /// The inverse of [`write_to`](Self::write_to); reads `from` to its end.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for bytes that are no sample.
    pub(crate) fn read_from(from: &mut Reader<'_>) -> Result<Self> {
        let runs = from.at("runs").u64()?;
        let mut hashes = Vec::new();
        while !from.rest().is_empty() {
            hashes.push(from.at("hashes").u64()?);
        }
        if hashes.len() > MOST || !hashes.is_sorted_by(|a, b| a < b) {
            return Err(Error::new(
                ErrorKind::InvalidModel,
                format!(
                    "hashes of the training data: expected at most {MOST}, ascending, got {} or another order",
                    hashes.len()
                ),
            ));
        }
        Ok(Self { hashes, runs })
    }

    /// Appends the sample to the bytes of a file.
    pub(crate) fn write_to(&self, to: &mut Writer) {
        to.u64(self.runs);
        self.hashes.iter().for_each(|&hash| to.u64(hash));
    }

    /// Number of bytes that [`write_to`](Self::write_to) appends.
    pub(crate) fn written_bytes(&self) -> usize {
        8 * (1 + self.hashes.len())
    }

    /// `decoder` with this sample in place of its own.
    ///
    /// # Errors
    /// The errors of [`Decoder::new`].
    pub fn attach(&self, decoder: Decoder) -> Result<Decoder> {
        let mut to = Writer::default();
        self.write_to(&mut to);
        let mut parts = decoder.into_parts();
        parts.attachments.retain(|a| a.tag != TAG);
        if self.runs > 0 {
            parts.attachments.push(Attachment {
                tag: TAG,
                bytes: to.bytes,
            });
        }
        Decoder::new(parts)
    }

    /// The overlap of `data` with what this is a sample of. `data` has the channels and the step of the model.
    pub fn overlap<'d>(&self, data: impl Into<DatasetView<'d>>) -> Overlap {
        let mut overlap = Overlap::default();
        // A sample that is not full has every hash.
        let largest = match self.hashes.last() {
            Some(&largest) if self.hashes.len() == MOST => largest,
            Some(_) => u64::MAX,
            None => return overlap,
        };
        each_hash(&data.into(), |hash| {
            if hash <= largest {
                overlap.compared += 1;
                overlap.known += u64::from(self.hashes.binary_search(&hash).is_ok());
            }
        });
        overlap
    }

    /// All of it, to be sent.
    pub(crate) fn to_words(&self) -> Vec<u64> {
        [&[self.runs][..], &self.hashes].concat()
    }

    /// The inverse of [`to_words`](Self::to_words).
    pub(crate) fn from_words(words: &[u64]) -> Self {
        match words.split_first() {
            Some((&runs, hashes)) => Self {
                hashes: hashes.to_vec(),
                runs,
            },
            None => Self::default(),
        }
    }

    fn insert(&mut self, hash: u64) {
        self.hashes.push(hash);
        if self.hashes.len() >= 2 * MOST {
            self.shrink();
        }
    }

    fn shrink(&mut self) {
        self.hashes.sort_unstable();
        self.hashes.dedup();
        self.hashes.truncate(MOST);
    }
}

/// A warning if `data` was, in whole or in part, among the data that `decoder` was trained on: such scores say nothing
/// about other data.
///
/// # Errors
/// The errors of [`TrainingData::read`].
pub fn overlap_warning<'d>(
    decoder: &Decoder,
    data: impl Into<DatasetView<'d>>,
) -> Result<Option<String>> {
    let sample = TrainingData::read(decoder)?;
    Ok(sample.and_then(|sample| sample.overlap(data).warning()))
}

/// Calls `each` with the hash of every chosen run of spikes in the segments of `data`; returns their number.
fn each_hash(data: &DatasetView<'_>, mut each: impl FnMut(u64)) -> u64 {
    let mut runs = 0;
    let mut steps: Vec<Step> = Vec::new();
    for segment in data.segments {
        let spikes = data
            .spikes
            .part(data.spikes.range(segment.start, segment.stop));
        steps.clear();
        steps_of(&spikes, &mut steps);
        for first in 0..steps.len() {
            if let Some(hash) = run_hash(&steps[first..]) {
                runs += 1;
                each(hash);
            }
        }
    }
    runs
}

/// The spikes of one step.
struct Step {
    tick: i64,
    spikes: u64,
    /// Sum over its spikes, so that their order does not matter.
    hash: u64,
}

fn steps_of(spikes: &SpikesView<'_>, steps: &mut Vec<Step>) {
    for (i, (&tick, &channel)) in spikes.ticks.iter().zip(spikes.channels).enumerate() {
        // A bin of two spikes equals two spikes in the same bin.
        let weight = f64::from(spikes.weight(i));
        let (times, value) = match weight >= 1.0 && weight.fract() == 0.0 {
            true => (weight as u64, 1.0),
            false => (1, weight),
        };
        let hash = mix(u64::from(channel) ^ mix(f64::to_bits(value))).wrapping_mul(times);
        if steps.last().is_none_or(|step| step.tick != tick) {
            let (spikes, hash) = (0, 0);
            steps.push(Step { tick, spikes, hash });
        }
        if let Some(step) = steps.last_mut() {
            step.spikes = step.spikes.saturating_add(times);
            step.hash = step.hash.wrapping_add(hash);
        }
    }
}

/// The hash of the run that begins with the first of `steps`; `None` if that run is too short or not chosen.
fn run_hash(steps: &[Step]) -> Option<u64> {
    let [first, second, ..] = steps else {
        return None;
    };
    let start = |hash: u64, step: &Step| mix(hash ^ step.hash ^ ((step.tick - first.tick) as u64));
    if start(start(0, first), second) % ONE_IN != 0 {
        return None;
    }
    let (mut hash, mut spikes) = (0, 0_u64);
    for (i, step) in steps.iter().enumerate() {
        hash = start(hash, step);
        spikes = spikes.saturating_add(step.spikes);
        if spikes >= RUN && i > 0 {
            return Some(hash);
        }
    }
    None
}

/// The finaliser of SplitMix64 (Steele, Lea & Flood 2014).
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_recording::{Dataset, Segment};

    fn trials(seed: u64, trials: i64) -> Dataset {
        let mut data = betz_simulate::poisson(30, 10.0, trials as usize * 100, 0.01, seed).unwrap();
        data.segments = (0..trials)
            .map(|t| Segment {
                start: 100 * t,
                stop: 100 * t + 90,
            })
            .collect();
        data
    }

    fn share(sample: &TrainingData, data: &Dataset) -> f64 {
        sample.overlap(data).share()
    }

    #[test]
    fn parts_of_what_was_trained_on_are_recognised_and_new_data_are_not() {
        let (data, other) = (trials(1, 200), trials(2, 200));
        let even: Vec<usize> = (0..200).step_by(2).collect();
        let odd: Vec<usize> = (1..200).step_by(2).collect();
        let sample = TrainingData::new(&data.select(&even));
        assert_eq!(sample.hashes.len(), MOST);
        assert_eq!(share(&sample, &data.select(&even)), 1.0);
        assert_eq!(share(&sample, &data.select(&odd)), 0.0);
        assert_eq!(share(&sample, &other), 0.0);
        let half = share(&sample, &data);
        assert!((half - 0.5).abs() < 0.07, "{half}");
        let quarter = share(&sample, &data.select(&[0, 1, 3, 5]));
        assert!(quarter > 0.0 && quarter < 0.6, "{quarter}");
        // One trial of a hundred, and a part of one that begins elsewhere.
        assert_eq!(share(&sample, &data.select(&[38])), 1.0);
        let mut cut = data.select(&even);
        for segment in &mut cut.segments {
            segment.start += 30;
        }
        assert_eq!(share(&sample, &cut), 1.0);
    }

    #[test]
    fn neither_the_position_nor_the_order_within_a_step_nor_the_form_matters() {
        let data = trials(3, 20);
        let sample = TrainingData::new(&data);
        let mut later = data.clone();
        later.steps += 7;
        later.spikes.ticks.iter_mut().for_each(|tick| *tick += 7);
        for segment in &mut later.segments {
            segment.start += 7;
            segment.stop += 7;
        }
        assert_eq!(TrainingData::new(&later), sample);
        let mut turned = data.clone();
        let mut first = 0;
        for same in data.spikes.ticks.chunk_by(|a, b| a == b) {
            turned.spikes.channels[first..first + same.len()].reverse();
            first += same.len();
        }
        assert_eq!(TrainingData::new(&turned), sample);
    }

    #[test]
    fn the_sample_of_parts_is_the_sample_of_the_whole() {
        let data = trials(4, 300);
        let (a, b): (Vec<usize>, Vec<usize>) = (0..300).partition(|i| i % 3 == 0);
        let mut both = TrainingData::new(&data.select(&a));
        both.merge(&TrainingData::new(&data.select(&b)));
        assert_eq!(both, TrainingData::new(&data));
        assert_eq!(TrainingData::from_words(&both.to_words()), both);
    }

    #[test]
    fn a_model_keeps_its_sample_and_says_what_it_was_trained_on() {
        let data = trials(5, 40);
        let training = crate::Training {
            folds: 0,
            bank: Some(betz_gram::cases::bank(&[(50.0, 1)])),
            ..crate::Training::default()
        };
        let first: Vec<usize> = (0..20).collect();
        let trained = training
            .run(&data.select(&first), &betz_device::Device::cpu(), &())
            .unwrap()
            .decoder;
        let decoder = Decoder::from_bytes(&trained.to_bytes().unwrap()).unwrap();
        let warning = |segments: std::ops::Range<usize>| {
            let segments: Vec<usize> = segments.collect();
            overlap_warning(&decoder, &data.select(&segments)).unwrap()
        };
        assert!(warning(0..20).unwrap().contains("trained on 100 %"));
        let half = warning(10..30).unwrap();
        assert!(half.contains("about ") && half.contains('%'), "{half}");
        assert_eq!(warning(20..40), None);
        let mut damaged = decoder.into_parts();
        for attachment in damaged.attachments.iter_mut().filter(|a| a.tag == TAG) {
            attachment.bytes.pop();
        }
        let damaged = Decoder::new(damaged).unwrap();
        assert!(overlap_warning(&damaged, &data).is_err());
    }
}
