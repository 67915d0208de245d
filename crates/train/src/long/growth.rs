//! What a training costs by so many processes, before it is run.

use std::time::Instant;

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::team::share;
use betz_device::Device;
use betz_device::cost::Calibration;
use betz_recording::Dataset;
use betz_runtime::psc::FilterBank;

use super::job::lead;
use super::stretch::retain;
use super::{File, LongOptions, Read};
use crate::choice::{SOLVE_CPU, solve_terms};
use crate::sums::fixed;
use crate::{train_on, train_validated_on};
use betz_gram::MaskPolicy;
use betz_gram::gram::GramPath;
use betz_gram::gram::cost::{Place, Work};

/// Bytes that an exchange sends at once, each after the other has come.
const BLOCK: f64 = 8e6;

/// Steps of the recording's beginning that are trained on to be timed, and half of them,
const SAMPLE: i64 = 100_000;
/// of so many entries (spikes, or values of a matrix) at most,
const MOST_ENTRIES: u64 = 1 << 24;
/// and on so many features: with more, channels are left out, and seconds reckoned.
const MOST_FEATURES: usize = 1_500;

/// Processes, and what is between them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cluster {
    /// Processes, each on as many threads as this one has.
    pub ranks: usize,
    /// Bytes a second from one to another.
    pub link: f64,
    /// Seconds until what is sent begins to come.
    pub latency: f64,
}

/// The parts of a training's cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Stretches that are shared out.
    pub stretches: usize,
    /// Bytes of spikes and behaviour that all processes read together, over all passes.
    pub read_bytes: f64,
    /// Multiply-adds and additions of Γ, all banks.
    pub sum_operations: f64,
    /// Seconds of summing and scoring on one process' threads, leads included.
    pub sum_seconds: f64,
    /// Steps that are summed again since stretches begin with a lead, twice each, in parts of all steps.
    pub lead: f64,
    /// Whether that was timed; otherwise models say it.
    pub timed: bool,
    /// Bytes of sums that a process sends up, over all banks.
    pub exchange_bytes: f64,
    /// How often.
    pub exchanges: usize,
    /// Seconds of solving, which the first process does.
    pub solve_seconds: f64,
    /// Bytes of one Γ, features × features in f64, or of one fold's sums, of the largest bank.
    pub gram_bytes: u64,
    /// Folds.
    pub folds: usize,
    /// Folds whose sums are held at once.
    pub at_once: usize,
}

impl Growth {
    /// Of training on `file` by the CPU: the beginning of the recording is trained on, all of a sample and half of it, which
    /// tells what a step takes on this machine and what does not depend on steps. Where that cannot be trained on
    /// (it holds too little), models say it.
    pub fn of(file: &mut File, options: &LongOptions) -> Self {
        let outline = file.outline();
        let banks = match &options.search {
            Some(search) if !search.banks.is_empty() => search.banks.clone(),
            _ => vec![options.train.bank.clone()],
        };
        let folds = options.search.as_ref().map_or(1, |search| search.folds);
        let solutions = options.search.as_ref().map_or(1, |s| folds * s.solutions());
        let steps: usize = file.whole_steps().iter().map(|s| s.len()).sum();
        let calibration = Calibration::current();
        let mut growth = Self {
            stretches: file.cuts().len().saturating_sub(1),
            read_bytes: 0.0,
            sum_operations: 0.0,
            sum_seconds: 0.0,
            lead: 0.0,
            timed: false,
            exchange_bytes: 0.0,
            exchanges: banks.len(),
            solve_seconds: 0.0,
            gram_bytes: 0,
            folds,
            at_once: 1,
        };
        // A survey, a pass for each bank, and the scores.
        let passes = banks.len() as f64 + 1.0 + f64::from(u8::from(folds > 1));
        let behavior = steps as f64 * outline.outputs.len() as f64 * 4.0;
        growth.read_bytes = passes * (file.entries() as f64 * 12.0 + behavior);
        for bank in &banks {
            let work = Work {
                channels: outline.channel_names.len() as f64,
                filters: bank.len() as f64,
                spikes: file.entries() as f64,
                weighted: false,
                steps: steps as f64,
                outputs: outline.outputs.len() as f64,
                threads: rayon::current_num_threads() as f64,
            };
            let paths: &[GramPath] = match options.train.gram {
                GramPath::Auto if options.train.low_pass.is_some() => &[GramPath::Dense],
                GramPath::Auto => &[GramPath::Event, GramPath::Dense],
                GramPath::Event => &[GramPath::Event],
                GramPath::Dense => &[GramPath::Dense],
            };
            let seconds = |&path: &GramPath| work.gram_seconds(&calibration, Place::Cpu, path);
            let (path, least) = paths.iter().map(|path| (*path, seconds(path))).fold(
                (GramPath::Event, f64::INFINITY),
                |best, next| {
                    if next.1 < best.1 { next } else { best }
                },
            );
            growth.sum_seconds += least;
            growth.sum_operations += match path {
                GramPath::Dense => work.steps * work.features().powi(2) / 2.0,
                _ => work.spikes * work.filters * work.features(),
            };
            let (model, terms) = solve_terms(&work, Place::Cpu);
            debug_assert_eq!(model.name, SOLVE_CPU.name);
            growth.solve_seconds += solutions as f64 * calibration.seconds(model, &terms);
            let values = fixed::len(work.features() as usize, outline.outputs.len());
            let features = work.features() as u64;
            growth.gram_bytes = growth.gram_bytes.max(8 * features * features);
            growth.exchange_bytes += values.unwrap_or(usize::MAX) as f64 * 16.0 * folds as f64;
        }
        let at_once = file.memory() / growth.gram_bytes.max(1);
        growth.at_once = usize::try_from(at_once)
            .unwrap_or(usize::MAX)
            .clamp(1, folds.max(1));
        growth.lead = 2.0 * lead_steps(file, &banks, options) / (steps as f64).max(1.0);
        if let Ok(pace) = Pace::timed(file, &banks, options) {
            growth.timed = true;
            growth.sum_seconds = pace.step_seconds * steps as f64;
            growth.solve_seconds = pace.solve_seconds;
        }
        growth.sum_seconds *= 1.0 + growth.lead;
        growth
    }

    /// Bytes that a process holds beside its stretch: of the first one, which solves, and of any other.
    pub fn held_bytes(&self) -> [u64; 2] {
        let grams = |count: usize| self.gram_bytes.saturating_mul(count as u64);
        let others = self.at_once + 2;
        [grams(others + self.folds + 10), grams(others)]
    }

    /// Seconds on `cluster`: the longest share of summing, sums up a tree, and what is not shared.
    /// Reading is left out: it depends on where the recording lies.
    pub fn seconds(&self, cluster: &Cluster) -> f64 {
        let ranks = cluster.ranks.max(1);
        let longest = (0..ranks)
            .map(|rank| share(self.stretches, rank, ranks).len())
            .max();
        let part = longest.unwrap_or(0) as f64 / self.stretches.max(1) as f64;
        self.sum_seconds * part + self.exchange_seconds(cluster) + self.solve_seconds
    }

    /// Seconds of putting sums together, of those.
    pub fn exchange_seconds(&self, cluster: &Cluster) -> f64 {
        let levels = f64::from(cluster.ranks.max(1).next_power_of_two().ilog2());
        let blocks = (self.exchange_bytes / BLOCK).ceil();
        levels * (self.exchange_bytes / cluster.link + blocks * cluster.latency)
    }
}

/// Steps before cuts that stretches begin with, all together: no filter's memory goes beyond where a segment begins.
fn lead_steps(file: &File, banks: &[FilterBank], options: &LongOptions) -> f64 {
    let longest = lead(banks, &options.train, file.outline().step_seconds);
    let segments = file.whole_steps();
    let before = |&cut: &i64| {
        let here = segments.partition_point(|s| s.stop <= cut);
        let from = segments.get(here).map_or(cut, |s| s.start.min(cut));
        (cut - from).min(longest) as f64
    };
    file.cuts().iter().map(before).sum()
}

/// What training took on a sample of the recording.
struct Pace {
    step_seconds: f64,
    solve_seconds: f64,
}

impl Pace {
    fn timed(file: &mut File, banks: &[FilterBank], options: &LongOptions) -> Result<Self> {
        let filters = banks.iter().map(FilterBank::len).max().unwrap_or(1);
        let all = file.outline().channel_names.len();
        let channels = (MOST_FEATURES / filters.max(1)).clamp(1, all.max(1));
        // Seconds, and how many steps it was that lie in segments.
        let run = |steps: i64, file: &mut File| -> Result<(f64, f64)> {
            let data = first_channels(file.read(0..steps)?, channels);
            let inside = data.view().steps_in_segments() as f64;
            let train = crate::TrainOptions {
                mask: MaskPolicy::Mask,
                ..options.train.clone()
            };
            let started = Instant::now();
            match &options.search {
                Some(search) => train_validated_on(&Device::cpu(), &data, &train, search, &())?,
                None => train_on(&Device::cpu(), &data, &train, &())?,
            };
            Ok((started.elapsed().as_secs_f64(), inside))
        };
        let steps = file.outline().steps;
        let room = u128::from(MOST_ENTRIES) * steps.unsigned_abs() as u128
            / u128::from(file.entries().max(1));
        let whole = SAMPLE
            .min(steps)
            .min(i64::try_from(room).unwrap_or(i64::MAX));
        // The first run meets what has to be made once.
        run(whole / 2, file)?;
        let (long, short) = (run(whole, file)?, run(whole / 2, file)?);
        let a_step = (long.0 - short.0) / (long.1 - short.1);
        let rest = long.0 - a_step * long.1;
        // Too few steps, or none in the sample's other half, tell nothing.
        if !(a_step > 0.0 && a_step.is_finite() && rest >= 0.0) {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "a sample: expected the longer one to take longer",
            ));
        }
        // Γ has features squared, solving takes features cubed.
        let more = all as f64 / channels as f64;
        Ok(Self {
            step_seconds: a_step * more.powi(2),
            solve_seconds: rest * more.powi(3),
        })
    }
}

/// `data` without the channels from `count` on.
fn first_channels(mut data: Dataset, count: usize) -> Dataset {
    if count < data.channels() {
        let number: Vec<u32> = (0..count as u32).collect();
        retain(&mut data.spikes, &number);
        data.channel_names.truncate(count);
    }
    data
}
