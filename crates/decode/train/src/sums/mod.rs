//! Sums as files: what training needs of a recording, without the recording.
//!
//! Γ, Υ and the plain sums are additive over recordings, so days, machines or laboratories can be summed
//! apart and solved together. Floating-point addition depends on its order; the weights of a decoder must
//! not. So every value is rounded once, to a whole number of 2⁻⁶⁴, where a recording is summed, and whole
//! numbers of 128 bits are added from there on: merging is associative and commutative, bit for bit.

mod bytes;
mod classes;
pub(crate) mod fixed;
mod held_out;
mod part_names;
mod scale;
mod solve;
#[cfg(test)]
mod tests;
mod validate;

use super::blank::CleanData;
use super::centre::{self, CentredSignal};
use super::choice::{Choice, choose};
use super::folds::Part;
use super::limits::{Extremes, extremes, widen};
use super::options::TrainOptions;
use super::training_data::TrainingData;
use super::usual_counts::UsualCounts;
use super::validate::Study;
use super::{device, fit};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::Progress;
use betz_base::text::count;
use betz_device::{Device, Ran};
use betz_gram::NormalEquations;
use betz_gram::largest_response;
use betz_recording::{DatasetView, OutputInfo};
use betz_runtime::psc::{FilterBank, LowPass};

pub use bytes::MAGIC;
use scale::Scale;
pub use solve::{RidgeScore, SolveOptions};

/// Form of the sums: channels, filters and outputs. Sums of another form cannot be added.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    /// Length of one step in seconds.
    pub step_seconds: f64,
    /// The PSC filters.
    pub bank: FilterBank,
    /// Low-pass behind them.
    pub low_pass: Option<LowPass>,
    /// a(t) is paired with x(t − delay).
    pub delay_steps: i64,
    /// One name per channel.
    pub channel_names: Vec<String>,
    /// Name and unit of each output.
    pub outputs: Vec<OutputInfo>,
}

impl Form {
    /// Number of features, channels × filters.
    pub fn features(&self) -> usize {
        self.channel_names.len() * self.bank.len()
    }

    /// The sums `values` at `scale` over so many steps in f64, of channels' values without `means`.
    fn equations(
        &self,
        (values, scale): (&[i128], &Scale),
        steps: u64,
        means: Option<&[f64]>,
    ) -> NormalEquations {
        let shape = (self.features(), self.outputs.len());
        let mut sums = fixed::to_equations(values, shape, steps);
        scale.apply(&mut sums, -1);
        if let Some(means) = means {
            centre::shift(&mut sums, &self.bank, means, -1.0);
        }
        sums
    }

    /// Refuses sums of another form, by the name of what differs.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`].
    pub fn same(&self, other: &Self) -> Result<()> {
        let differ = |what: &str, expected: String, got: String| {
            Err(Error::mismatch(format!(
                "sums: expected those of the same {what}, {expected}, got {got}"
            )))
        };
        let list = |names: &[String]| count(names.len() as u128, "channel");
        let (mine, theirs) = (&self.channel_names, &other.channel_names);
        if mine.len() != theirs.len() {
            return differ("channels", list(mine), list(theirs));
        }
        if let Some((channel, (a, b))) =
            (mine.iter().zip(theirs).enumerate()).find(|(_, (a, b))| a != b)
        {
            let what = format!("channels (number {channel})");
            return differ(&what, format!("'{a}'"), format!("'{b}'"));
        }
        // Before the bank: sampled filters differ by their step, too, and not by their names.
        if self.step_seconds.to_bits() != other.step_seconds.to_bits() {
            let step = |form: &Self| format!("{} s", form.step_seconds);
            return differ("step", step(self), step(other));
        }
        let bank = |form: &Self| {
            let filters = form.bank.filters().iter();
            let filters = filters.map(|f| format!("{}:{}", f.tau_seconds, f.order));
            let sampled = form.bank.sampled().iter().map(|f| f.name().to_owned());
            let shapes: Vec<String> = filters.chain(sampled).collect();
            shapes.join(" ")
        };
        if self.bank != other.bank {
            let (mine, theirs) = (bank(self), bank(other));
            let theirs = match mine == theirs {
                true => "filters of these names with other samples".to_owned(),
                false => theirs,
            };
            return differ("bank", mine, theirs);
        }
        if self.delay_steps != other.delay_steps {
            let delay = |form: &Self| match form.delay_steps {
                1 => "1 step".to_owned(),
                steps => format!("{steps} steps"),
            };
            return differ("delay", delay(self), delay(other));
        }
        if self.low_pass != other.low_pass {
            let low_pass = |form: &Self| {
                form.low_pass.map_or_else(
                    || "none".to_owned(),
                    |l| format!("{} Hz of order {}", l.cutoff_hz, l.order),
                )
            };
            return differ("low-pass", low_pass(self), low_pass(other));
        }
        if self.outputs != other.outputs {
            let outputs = |form: &Self| {
                let outputs = form.outputs.iter();
                let named: Vec<String> = outputs
                    .map(|o| format!("'{}' in '{}'", o.name, o.unit))
                    .collect();
                named.join(", ")
            };
            return differ("outputs", outputs(self), outputs(other));
        }
        Ok(())
    }
}

/// Facts of a recording besides its sums.
pub(crate) struct RecordingFacts {
    pub(crate) segments: u64,
    pub(crate) spikes: u64,
    pub(crate) artefacts: u64,
    /// The largest response before any low-pass.
    pub(crate) largest: f64,
    pub(crate) usual: UsualCounts,
    pub(crate) extremes: Vec<Extremes>,
    pub(crate) sample: TrainingData,
    /// Means that were taken off the channels' values.
    pub(crate) means: Option<Vec<f64>>,
    /// Place and path of the computation.
    pub(crate) ran: Ran,
}

/// Sums over one recording or several, exact under merging.
///
/// ```
/// use betz_device::Device;
/// use betz_runtime::psc::{Filter, FilterBank};
/// use betz_train::sums::{SolveOptions, Sums};
/// use betz_train::{RidgeChoice, TrainOptions};
///
/// # fn main() -> betz_base::Result<()> {
/// let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 1 }])?;
/// let options = TrainOptions::new(bank);
/// let day = |seed| betz_simulate::poisson(10, 20.0, 2_000, 0.01, seed);
/// let [monday, tuesday] = [day(1)?, day(2)?];
/// let mut both = Sums::over(&Device::cpu(), &monday, &options, &())?;
/// both.merge(&Sums::over(&Device::cpu(), &tuesday, &options, &())?)?;
/// let decoder = both.solve(&SolveOptions::with(RidgeChoice::Fixed(10.0)))?;
/// assert_eq!((both.parts(), decoder.training().steps), (2, 4_000));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Sums {
    form: Form,
    /// Names of the recordings' sums that are in here, ascending: none is added twice ([`part_names`]).
    parts: Vec<u64>,
    steps: u64,
    segments: u64,
    spikes: u64,
    artefacts: u64,
    /// The largest response before any low-pass.
    largest: f64,
    /// Γ's lower triangle row by row, Σa, Υ, Σx, Σx², in units of 2⁻⁶⁴. Filters of a signal have heard each part's means
    /// before its segments.
    values: Vec<i128>,
    /// Powers of two that `values` were multiplied by.
    scale: Scale,
    /// Sum of each channel's means over the steps, in the same units, of a signal whose filters start there; `None` if
    /// filters start from rest.
    levels: Option<Vec<i128>>,
    usual: UsualCounts,
    /// Of the labels, one per output; ±∞ where they are not known.
    extremes: Vec<Extremes>,
    /// Hashes of spikes, by which decoders of the sums recognise the recordings; empty of sums of earlier versions.
    sample: TrainingData,
    /// `event`, `dense`, or `both` of sums that were computed differently.
    path: String,
    ran: Option<Ran>,
}

impl Sums {
    /// The sums over every segment of `data`, computed on `device` with the bank, low-pass, delay and path
    /// to Γ of `options`; the rest of them is for [`solve`](Self::solve) to know. Artefacts count as in
    /// [`train_on`](super::train_on).
    ///
    /// Allocates Γ twice over in f64 and once in 128 bits.
    ///
    /// # Errors
    /// As [`train_on`](super::train_on); [`ErrorKind::InvalidArgument`] for values so small or so large
    /// that whole numbers of 2⁻⁶⁴ do not hold them to nine digits.
    pub fn over<'d>(
        device: &Device,
        data: impl Into<DatasetView<'d>>,
        options: &TrainOptions,
        progress: &dyn Progress,
    ) -> Result<Self> {
        Self::over_parts(device, &data.into(), options, progress, None)
    }

    /// The sums over `parts` of `data`; `None`: over every segment.
    fn over_parts(
        device: &Device,
        data: &DatasetView<'_>,
        options: &TrainOptions,
        progress: &dyn Progress,
        parts: Option<&[Part]>,
    ) -> Result<Self> {
        fit::check_part(data, std::slice::from_ref(&options.bank), usize::MAX)?;
        let features = data.channels() as u128 * options.bank.len() as u128;
        betz_base::memory::plan(
            format_args!("sums over {features} features"),
            features.pow(2) * (8 + 8),
        )?;
        let sample = TrainingData::new(*data);
        let cleaned = CleanData::new(data, options)?;
        let whole = &cleaned.view(data);
        let centred = CentredSignal::new(*whole, options)?;
        let data = &(centred.as_ref()).map_or(*whole, |centred| centred.data.view());
        let Choice {
            placement, paths, ..
        } = choose(device, data, options, None);
        let (bank, paths) = (&options.bank, paths[0]);
        let mut found = match parts {
            None => device::normal_equations(&placement, paths, data, options, bank, progress)?,
            Some(parts) => Study {
                placement: &placement,
                data: *data,
                options,
                search_ridge: false,
                progress,
            }
            .sums_of((bank, None), parts, paths)?,
        };
        if found.sums.steps == 0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "sums: expected a delay that leaves steps of a segment with their partners, got one of {}; choose one shorter than the segments",
                    count(options.delay_steps.unsigned_abs(), "step")
                ),
            ));
        }
        let form = Form {
            step_seconds: data.step_seconds,
            bank: options.bank.clone(),
            low_pass: options.low_pass,
            delay_steps: options.delay_steps,
            channel_names: data.channel_names.to_vec(),
            outputs: data.outputs.to_vec(),
        };
        let beside = RecordingFacts {
            segments: data.segments.len() as u64,
            spikes: whole.spikes_in_segments().abs().round() as u64,
            artefacts: cleaned.artefacts.steps,
            largest: largest_response(data, &options.bank),
            usual: match options.keep_artefacts {
                true => UsualCounts::new(data).without_limit(),
                false => UsualCounts::new(data),
            },
            extremes: extremes(data),
            sample,
            means: centred.map(|centred| centred.means),
            ran: placement.ran(found.path.name()),
        };
        let scale = Scale::of(&found.sums, form.channel_names.len());
        if let Some(means) = &beside.means {
            centre::shift(&mut found.sums, &form.bank, means, 1.0);
        }
        scale.apply(&mut found.sums, 1);
        fixed::check_squares(fixed::squares_of(&found.sums))?;
        let values = fixed::units(&found.sums)?;
        let mut sums = Self::of_whole(form, found.sums.steps, values, beside)?;
        sums.scale = scale;
        Ok(sums)
    }

    /// The sums of one recording.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for means that whole numbers do not hold.
    pub(crate) fn of_whole(
        form: Form,
        steps: u64,
        values: Vec<i128>,
        beside: RecordingFacts,
    ) -> Result<Self> {
        let level = |mean: &f64| fixed::unit_of(mean * steps as f64);
        let levels = (beside.means.as_ref()).map(|means| means.iter().map(level).collect());
        let mut sums = Self {
            levels: levels.transpose()?,
            scale: Scale::none(form.channel_names.len(), form.outputs.len()),
            values,
            form,
            parts: Vec::new(),
            steps,
            segments: beside.segments,
            spikes: beside.spikes,
            artefacts: beside.artefacts,
            largest: beside.largest,
            usual: beside.usual,
            extremes: beside.extremes,
            sample: beside.sample,
            path: beside.ran.path.to_owned(),
            ran: Some(beside.ran),
        };
        sums.parts = vec![sums.name()];
        Ok(sums)
    }

    /// Adds `other`'s. The result does not depend on the order in which sums are merged.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for sums of other channels, another bank, step, delay, low-pass or other
    /// outputs, by name, for sums that keep artefacts with such that do not, and for a recording's sums that are in here already; [`ErrorKind::NonFinite`] when
    /// a sum leaves its range. Nothing has been added then.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        self.form.same(&other.form)?;
        // A signal has no artefacts: its sums go with either.
        let both_are_counts = !self.usual.signal && !other.usual.signal;
        if both_are_counts && self.keeps_artefacts() != other.keeps_artefacts() {
            let treat = |sums: &Self| match sums.keeps_artefacts() {
                true => "sums that keep artefacts",
                false => "sums without artefacts",
            };
            return Err(Error::mismatch(format!(
                "sums: expected {}, as the others, got {}; sum all recordings with keep_artefacts, or none",
                treat(self),
                treat(other)
            )));
        }
        if self.shares(other) {
            return Err(Error::mismatch(
                "sums: expected recordings that are not in them yet, got the same sums twice",
            ));
        }
        let add = |a: &[i128], b: &[i128]| -> Option<Vec<i128>> {
            let both = a.iter().zip(b);
            both.map(|(a, b)| a.checked_add(*b)).collect()
        };
        // A part whose filters start from rest has no means, and leaves none.
        let levels = match (&self.levels, &other.levels) {
            (Some(mine), Some(theirs)) => add(mine, theirs).map(Some),
            _ => Some(None),
        };
        let scale = self.scale.max(&other.scale);
        let features = self.form.features();
        let values = add(
            &self.scale.raised(&self.values, features, &scale)?,
            &other.scale.raised(&other.values, features, &scale)?,
        );
        let counts = (
            values,
            levels,
            self.steps.checked_add(other.steps),
            self.segments.checked_add(other.segments),
            self.spikes.checked_add(other.spikes),
            self.artefacts.checked_add(other.artefacts),
        );
        let (
            Some(values),
            Some(levels),
            Some(steps),
            Some(segments),
            Some(spikes),
            Some(artefacts),
        ) = counts
        else {
            return Err(Error::new(
                ErrorKind::NonFinite,
                "sums: expected them to stay below 2⁶³ together, got more",
            ));
        };
        self.values = values;
        self.scale = scale;
        self.levels = levels;
        self.steps = steps;
        self.segments = segments;
        self.spikes = spikes;
        self.artefacts = artefacts;
        self.largest = self.largest.max(other.largest);
        self.usual.add(&other.usual);
        widen(&mut self.extremes, other.extremes.iter().copied());
        self.sample.merge(&other.sample);
        part_names::add(&mut self.parts, &other.parts);
        if self.path != other.path {
            "both".clone_into(&mut self.path);
        }
        self.ran = None;
        Ok(())
    }

    /// True if both contain a recording's sums. Equal sums of fewer than 32 steps do not show that they are of the same
    /// recording: a few rows of counts may well come twice. They count as different recordings.
    pub fn shares(&self, other: &Self) -> bool {
        part_names::share(&self.parts, &other.parts)
    }

    /// Form of the sums.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Number of recordings' sums that were merged.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Paired steps.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Segments.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Spikes inside segments.
    pub fn spikes(&self) -> u64 {
        self.spikes
    }

    /// True if steps with far more spikes than usual were summed as they are, and decoders of the sums decode them so.
    pub fn keeps_artefacts(&self) -> bool {
        self.usual.has_no_limit()
    }

    /// Steps that were taken for artefacts.
    pub fn artefacts(&self) -> u64 {
        self.artefacts
    }

    /// Place and path of the computation; `None` for sums that were merged or read from a file.
    pub fn ran(&self) -> Option<&Ran> {
        self.ran.as_ref()
    }

    /// The sums in f64, each rounded once: of values without their means, for a signal that has such. Allocates Γ.
    pub fn equations(&self) -> NormalEquations {
        self.equations_without(self.means().as_deref())
    }

    /// The sums of values without `means`.
    fn equations_without(&self, means: Option<&[f64]>) -> NormalEquations {
        (self.form).equations((&self.values, &self.scale), self.steps, means)
    }

    /// Mean of each channel of a signal whose filters start there.
    fn means(&self) -> Option<Vec<f64>> {
        let levels = self.levels.as_ref()?;
        let mean = |level: &i128| fixed::value_of(*level) / self.steps as f64;
        Some(levels.iter().map(mean).collect())
    }
}
