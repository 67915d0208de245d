//! One training in stretches: what is summed of each, and how a decoder is chosen from the sums.

use std::ops::Range;

use betz_base::error::{Error, ErrorKind, Result};
use betz_base::progress::{self, Progress};
use betz_base::team::add;
use betz_device::{Device, Placement};
use betz_recording::{Dataset, DatasetView, Segment, SpikesView};
use betz_runtime::model::{Decoder, MAX_DELAY_STEPS, TrainingRecord};
use betz_runtime::psc::{FilterBank, LowPass};

use super::partial::{Group, Partial};
use super::survey::Survey;
use super::{LongOptions, Outline, Read};
use crate::active::spread;
use crate::blank::{Cleaned, Usual};
use crate::choice::{Choice, Paths, choose_for};
use crate::decode::decode;
use crate::device::{Trained, normal_equations};
use crate::fit;
use crate::folds::{Folds, Part, folds};
use crate::gram::cost::Work;
use crate::gram::{GramPath, NormalEquations, paired_steps};
use crate::limits::{NO_LABEL, extremes};
use crate::noise::largest_response;
use crate::options::{RidgeChoice, TrainOptions};
use crate::score::ScoreSums;
use crate::search::Search;
use crate::sums::{Beside, Form, SolveOptions, Sums, fixed};
use crate::validate::{BankSums, Study, all_steps, spans};

/// An exponential is below f64's rounding after so many time constants,
const DECAYED: f64 = 45.0;
/// and a polynomial before it takes so many more for each power.
const PER_ORDER: f64 = 10.0;

/// Steps behind a stretch in which an artefact's nearest usual step is looked for.
const BEHIND: i64 = 1_000;

/// Which steps are summed apart from which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Groups {
    /// Each fold's, or all as one where there are no folds.
    Wanted,
    /// All as one.
    Whole,
}

/// A training in stretches, after its survey.
pub(super) struct Job {
    placement: Placement,
    paths: Vec<Paths>,
    options: TrainOptions,
    search: Option<Search>,
    banks: Vec<FilterBank>,
    outline: Outline,
    /// Names of the channels in Γ.
    names: Vec<String>,
    /// Their numbers; `None` where that is all of them.
    active: Option<Vec<u32>>,
    survey: Survey,
    /// Steps with more spikes are artefacts.
    most: Option<u64>,
    split: Option<Folds>,
    found: Option<Found>,
}

/// The best bank so far.
struct Found {
    number: usize,
    sums: Option<BankSums>,
    partial: Partial,
    /// Decoders of the folds, once they are to be scored.
    decoders: Vec<Decoder>,
}

/// A stretch in memory, with what lies around it.
struct Around {
    data: Dataset,
    /// The recording's number of its first step.
    first: i64,
    artefacts: u64,
}

/// A piece of a group inside a stretch: its steps, where its filters start from rest, and the segment or part that
/// it is of.
#[derive(Debug, Clone, Copy)]
struct Piece {
    group: usize,
    own: Segment,
    from: i64,
    of: Segment,
}

impl Job {
    /// The training of a recording of which `survey` is.
    ///
    /// # Errors
    /// As [`train_validated_on`](crate::train_validated_on) refuses data, names and options.
    pub(super) fn new(
        device: &Device,
        outline: &Outline,
        survey: Survey,
        options: &LongOptions,
    ) -> Result<Self> {
        let train = options.train.clone();
        let banks = match &options.search {
            Some(search) if !search.banks.is_empty() => search.banks.clone(),
            _ => vec![train.bank.clone()],
        };
        if survey.steps != (0..outline.steps) {
            return Err(Error::mismatch(format!(
                "a survey: expected that of the steps 0..{}, got {:?}",
                outline.steps, survey.steps
            )));
        }
        let firing: Vec<u32> = (0..)
            .zip(&survey.fires)
            .filter(|(_, fires)| **fires)
            .map(|(channel, _)| channel)
            .collect();
        let all = outline.channel_names.len();
        let some = options.leave_out_silent && !firing.is_empty() && firing.len() < all;
        let names = match some {
            true => firing
                .iter()
                .map(|&c| outline.channel_names[c as usize].clone())
                .collect(),
            false => outline.channel_names.clone(),
        };
        let mut job = Self {
            placement: Placement::cpu(),
            paths: Vec::new(),
            outline: outline.clone(),
            names,
            active: some.then_some(firing),
            most: survey.usual.most(),
            survey,
            split: None,
            found: None,
            options: train,
            search: options.search.clone(),
            banks,
        };
        job.check()?;
        if let Some(search) = &job.search {
            let view = job.view();
            let (guard, history) = spans(&job.banks, view.step_seconds, job.options.delay_steps);
            job.split = Some(folds(view.segments, search.folds, guard, history)?);
        }
        let works = job.banks.iter().map(|bank| Work {
            channels: job.names.len() as f64,
            filters: bank.len() as f64,
            spikes: job.survey.entries as f64,
            weighted: job.survey.weighted,
            steps: job.view().steps_in_segments() as f64,
            outputs: job.outline.outputs.len() as f64,
            threads: rayon::current_num_threads() as f64,
        });
        let Choice {
            placement, paths, ..
        } = choose_for(device, works.collect(), &job.options, job.search.as_ref());
        (job.placement, job.paths) = (placement, paths);
        Ok(job)
    }

    fn check(&self) -> Result<()> {
        let lacking = if self.outline.outputs.is_empty() {
            "behaviour to decode, got none"
        } else if self.survey.segments.is_empty() {
            "at least one segment, got none"
        } else if self.survey.entries == 0 {
            "spikes inside the segments, got none"
        } else {
            return fit::check_form(&self.view(), &self.banks);
        };
        Err(Error::new(
            ErrorKind::InsufficientData,
            format!("training: expected {lacking}"),
        ))
    }

    /// The recording without what it holds.
    fn view(&self) -> DatasetView<'_> {
        DatasetView {
            step_seconds: self.outline.step_seconds,
            steps: usize::try_from(self.outline.steps).unwrap_or(usize::MAX),
            channel_names: &self.names,
            spikes: SpikesView::new(&[], &[]),
            segments: &self.survey.segments,
            outputs: &self.outline.outputs,
            behavior: &[],
        }
    }

    /// Number of banks that are compared.
    pub(super) fn banks(&self) -> usize {
        self.banks.len()
    }

    /// How each bank's Γ is computed: what must be the same everywhere for the same bits.
    pub(super) fn gram(&self, bank: usize) -> GramPath {
        match self.placement.is_cpu() {
            true => self.paths[bank].cpu,
            false => self.paths[bank].cuda,
        }
    }

    /// Takes the path that another machine has settled on ([`gram`](Self::gram)).
    pub(super) fn set_gram(&mut self, bank: usize, path: GramPath) {
        self.paths[bank] = self.paths[bank].taken(path);
    }

    /// Features and outputs of a bank's sums.
    fn shape(&self, bank: usize) -> (usize, usize) {
        let outputs = self.outline.outputs.len();
        (self.names.len() * self.banks[bank].len(), outputs)
    }

    fn parts(&self, groups: Groups) -> Vec<Vec<Part>> {
        match (&self.split, groups) {
            (Some(split), Groups::Wanted) => split.folds.clone(),
            _ => {
                let whole = |&segment: &Segment| Part {
                    segment,
                    from: segment.start,
                };
                vec![self.survey.segments.iter().map(whole).collect()]
            }
        }
    }

    /// Steps before a stretch that its first responses and pairs depend on, with any bank.
    fn lead(&self) -> i64 {
        let filters = self.banks.iter().flat_map(FilterBank::filters);
        let decayed = |tau: f64, order: u32| {
            tau * PER_ORDER.mul_add(f64::from(order), DECAYED) / self.outline.step_seconds
        };
        let longest = filters
            .map(|f| decayed(f.tau_seconds, f.order))
            .fold(0.0, f64::max);
        let low_pass = self
            .options
            .low_pass
            .map_or(0.0, |l| decayed(slowest(l), l.order));
        let delay = self
            .options
            .delay_steps
            .unsigned_abs()
            .min(MAX_DELAY_STEPS as u64);
        (longest + low_pass).ceil() as i64 + delay as i64 + 1
    }

    /// Sums over no stretch, to which those of stretches are merged.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`].
    pub(super) fn nothing(&self, bank: usize, groups: Groups) -> Result<Partial> {
        let shape = self.shape(bank);
        let count = self.parts(groups).len();
        betz_base::memory::plan(
            format_args!("the sums of {count} folds over {} features", shape.0),
            // Whole numbers of a triangle each, then the same in f64, systems and factors.
            (count as u128 * 2 + 12) * (shape.0 as u128).pow(2) * 8,
        )?;
        let groups = (0..count).map(|_| Group::nothing(shape));
        Ok(Partial {
            bank,
            shape,
            groups: groups.collect::<Result<_>>()?,
            usual: Usual {
                counts: vec![0; self.names.len()],
                ..Usual::default()
            },
            extremes: vec![NO_LABEL; shape.1],
            largest: 0.0,
            artefacts: 0,
            spikes: 0,
            path: None,
        })
    }

    /// Adds what the steps `stretch` are worth.
    ///
    /// # Errors
    /// What reading says; as [`Sums::over`] for values that whole numbers do not hold.
    pub(super) fn add(
        &self,
        to: &mut Partial,
        read: &mut dyn Read,
        stretch: Range<i64>,
        (bank, groups): (usize, Groups),
    ) -> Result<()> {
        let parts = self.parts(groups);
        let pieces = self.pieces(&parts, &stretch);
        let around = self.around(read, &stretch, &pieces)?;
        let bank_of = &self.banks[bank];
        let view = around.data.view();
        let own = around.own(&self.survey.segments, &stretch);
        let own = view.with_segments(&own);
        to.usual.add(&Usual::of(&own));
        crate::limits::widen(&mut to.extremes, extremes(&own).into_iter());
        to.artefacts += around.artefacts;
        to.spikes += own.spikes_in_segments().abs().round() as u64;
        if self.wants_largest() {
            let from: Vec<Segment> = pieces
                .iter()
                .map(|p| around.local(p.from, p.own.stop))
                .collect();
            for piece in from {
                let largest = largest_response(view.with_segments(&[piece]), bank_of);
                to.largest = to.largest.max(largest);
            }
        }
        // Pieces of a group that start from rest are summed as one.
        for group in 0..parts.len() {
            let mine = pieces.iter().filter(|p| p.group == group);
            let at_rest = mine.clone().filter(|p| p.from == p.own.start);
            let at_rest: Vec<Segment> = at_rest
                .map(|p| around.local(p.own.start, p.own.stop))
                .collect();
            if !at_rest.is_empty() {
                let sums = self.equations(view.with_segments(&at_rest), bank, to)?;
                to.groups[group].add(&sums)?;
            }
            for piece in mine.filter(|p| p.from < p.own.start) {
                let stretches =
                    [piece.own.stop, piece.own.start].map(|stop| [around.local(piece.from, stop)]);
                let mut sums = self.equations(view.with_segments(&stretches[0]), bank, to)?;
                sums.subtract(&self.equations(view.with_segments(&stretches[1]), bank, to)?)?;
                to.groups[group].add(&sums)?;
            }
        }
        Ok(())
    }

    fn equations(
        &self,
        data: DatasetView<'_>,
        bank: usize,
        to: &mut Partial,
    ) -> Result<NormalEquations> {
        if data.events_in_segments() == 0
            || data
                .segments
                .iter()
                .all(|s| paired_steps(s, self.options.delay_steps).is_none())
        {
            return self.of_no_spike(data, to.shape);
        }
        let path = to.path.unwrap_or(self.gram(bank));
        let paths = self.paths[bank].taken(path);
        let found = normal_equations(
            &self.placement,
            paths,
            &data,
            &self.options,
            &self.banks[bank],
            &(),
        )?;
        to.path.get_or_insert(found.path);
        Ok(found.sums)
    }

    /// Sums where nothing fires: those of the behaviour alone.
    fn of_no_spike(
        &self,
        data: DatasetView<'_>,
        (features, outputs): (usize, usize),
    ) -> Result<NormalEquations> {
        let mut sums = NormalEquations::zeros(features, outputs);
        let delay = self.options.delay_steps;
        for (first, stop) in data.segments.iter().filter_map(|s| paired_steps(s, delay)) {
            sums.steps += (stop - first) as u64;
            let rows = (first - delay) as usize * outputs..(stop - delay) as usize * outputs;
            for row in data.behavior[rows].chunks_exact(outputs) {
                for (o, &value) in row.iter().enumerate() {
                    sums.output_sum[o] += f64::from(value);
                    sums.output_sq_sum[o] += f64::from(value).powi(2);
                }
            }
        }
        Ok(sums)
    }

    /// The pieces of `groups` inside `stretch`.
    fn pieces(&self, groups: &[Vec<Part>], stretch: &Range<i64>) -> Vec<Piece> {
        let lead = self.lead();
        let mut pieces = Vec::new();
        for (group, parts) in groups.iter().enumerate() {
            let first = parts.partition_point(|p| p.segment.stop <= stretch.start);
            let here = parts[first..]
                .iter()
                .take_while(|p| p.segment.start < stretch.end);
            pieces.extend(here.map(|part| {
                let own = Segment {
                    start: part.segment.start.max(stretch.start),
                    stop: part.segment.stop.min(stretch.end),
                };
                let from = match own.start == part.segment.start {
                    true => part.from,
                    false => part.from.max(own.start - lead),
                };
                Piece {
                    group,
                    own,
                    from,
                    of: part.segment,
                }
            }));
        }
        pieces
    }

    /// Reads `stretch` and what its pieces need before and behind it, without artefacts and silent channels.
    fn around(
        &self,
        read: &mut dyn Read,
        stretch: &Range<i64>,
        pieces: &[Piece],
    ) -> Result<Around> {
        let delay = self.options.delay_steps.abs();
        let from = pieces.iter().map(|p| p.from).min().unwrap_or(stretch.start);
        let first = (from.min(stretch.start - delay)).max(0);
        let stop = stretch
            .end
            .saturating_add(BEHIND.max(delay))
            .min(self.outline.steps);
        let mut data = read.read(first..stop)?;
        if let Some(active) = &self.active {
            let mut number = vec![u32::MAX; self.outline.channel_names.len()];
            for (new, &channel) in active.iter().enumerate() {
                number[channel as usize] = new as u32;
            }
            retain(&mut data.spikes, &number);
            data.channel_names.clone_from(&self.names);
        }
        let (mut artefacts, view) = (0, data.view());
        if let Some(most) = self.most {
            let found =
                Cleaned::beyond(&view, most, (stretch.start - first)..(stretch.end - first))?;
            artefacts = found.artefacts as u64;
            if let Some(spikes) = found.into_spikes() {
                data.spikes = spikes;
            }
        }
        Ok(Around {
            data,
            first,
            artefacts,
        })
    }

    fn wants_largest(&self) -> bool {
        let searched = self.search.as_ref().is_some_and(|s| s.ridge);
        !searched && matches!(self.options.ridge, RidgeChoice::RelativeNoise(_))
    }

    /// Chooses the ridge by the sums of a bank over the whole recording, and keeps the bank where it is the best yet.
    ///
    /// # Errors
    /// As [`train_validated_on`](crate::train_validated_on).
    pub(super) fn take(&mut self, partial: Partial, progress: &dyn Progress) -> Result<()> {
        let number = partial.bank;
        let Some(search) = &self.search else {
            self.found = Some(Found {
                number,
                sums: None,
                partial,
                decoders: Vec::new(),
            });
            return Ok(());
        };
        let split = self.split.as_ref().is_none_or(|split| split.whole);
        let equations = partial
            .groups
            .iter()
            .map(|g| g.equations(partial.shape))
            .collect();
        let path = partial.path.unwrap_or(self.gram(number));
        let options = self.options_with(&partial);
        let mut sums = BankSums::of(
            &self.banks[number],
            equations,
            (self.paths[number], path),
            &options,
            split,
        )?;
        let view = self.view();
        let study = Study {
            placement: &self.placement,
            data: view,
            options: &options,
            search_ridge: search.ridge,
            progress,
        };
        sums.best = sums.choose(&study)?;
        let better = |found: &Found| match &found.sums {
            Some(best) => sums.best.r2 > best.best.r2,
            None => true,
        };
        if self.found.as_ref().is_none_or(better) {
            let decoders = sums.decoders(&study)?;
            self.found = Some(Found {
                number,
                sums: Some(sums),
                partial,
                decoders,
            });
        }
        Ok(())
    }

    /// The options, noise in proportion to the largest response made noise.
    fn options_with(&self, partial: &Partial) -> TrainOptions {
        let ridge = match self.options.ridge {
            RidgeChoice::RelativeNoise(fraction) => RidgeChoice::Noise(fraction * partial.largest),
            other => other,
        };
        TrainOptions {
            bank: self.banks[partial.bank].clone(),
            ridge,
            ..self.options.clone()
        }
    }

    /// The bank whose sums over the whole are wanted for the decoder, where the folds do not make up the whole.
    pub(super) fn wants_whole(&self) -> Option<usize> {
        let cut = self.split.as_ref().is_some_and(|split| !split.whole);
        (self.found.as_ref())
            .filter(|_| cut)
            .map(|found| found.number)
    }

    /// What the decoders of the folds leave unexplained of what they did not see, in the steps `stretch`: one an
    /// output; none without cross-validation.
    ///
    /// # Errors
    /// What reading says.
    pub(super) fn score(&self, read: &mut dyn Read, stretch: Range<i64>) -> Result<Vec<ScoreSums>> {
        let Some(found) = self.found.as_ref().filter(|f| !f.decoders.is_empty()) else {
            return Ok(Vec::new());
        };
        let outputs = self.outline.outputs.len();
        let parts = self.parts(Groups::Wanted);
        let pieces = self.pieces(&parts, &stretch);
        let around = self.around(read, &stretch, &pieces)?;
        let mut sums = vec![ScoreSums::default(); outputs];
        let delay = self.options.delay_steps;
        for piece in &pieces {
            let Some((first, stop)) = paired_steps(&piece.of, delay) else {
                continue;
            };
            let (first, stop) = (first.max(piece.own.start), stop.min(piece.own.stop));
            if first >= stop {
                continue;
            }
            let within = [around.local(piece.from, piece.own.stop)];
            let view = around.data.view().with_segments(&within);
            let decoded = decode(&found.decoders[piece.group], view)?;
            let rows = |from: i64, to: i64| {
                (from - around.first) as usize * outputs..(to - around.first) as usize * outputs
            };
            let truth = &around.data.behavior[rows(first - delay, stop - delay)];
            let here = crate::score::sums_of(outputs, truth, &decoded[rows(first, stop)]);
            sums.iter_mut()
                .zip(&here)
                .for_each(|(all, here)| all.join(here));
        }
        Ok(sums)
    }

    /// The decoder, from the sums over the whole where [`wants_whole`](Self::wants_whole) asked for them, and with the
    /// scores over all stretches.
    ///
    /// # Errors
    /// As [`train_validated_on`](crate::train_validated_on).
    pub(super) fn finish(
        self,
        whole: Option<Partial>,
        scores: Option<Vec<ScoreSums>>,
    ) -> Result<Trained> {
        let mut job = self;
        let Some(Found { sums, partial, .. }) = job.found.take() else {
            return Err(Error::argument("training: expected a bank, got none"));
        };
        let options = job.options_with(&partial);
        let view = job.view();
        let ridge = match &sums {
            Some(sums) => sums.ridge_of_all(&view, options.delay_steps),
            None => {
                let steps = all_steps(&view, options.delay_steps);
                fit::ridge(&view, &options.bank, &options, steps)?
            }
        };
        let scores = match &scores {
            Some(sums) => (sums.iter().zip(&job.outline.outputs))
                .map(|(sums, output)| sums.score(output))
                .collect::<Result<Vec<_>>>()?,
            None => Vec::new(),
        };
        let folds = job
            .split
            .as_ref()
            .map_or(0, |split| split.folds.len() as u32);
        let solve = SolveOptions {
            ridge: RidgeChoice::Fixed(ridge),
            solver: options.solver,
            mask: options.mask,
            retain: options.retain,
        };
        let (names, active) = (job.outline.channel_names.clone(), job.active.clone());
        let path = partial.path.unwrap_or(job.gram(partial.bank));
        let placement = std::mem::replace(&mut job.placement, Placement::cpu());
        let sums = job.into_sums(whole.unwrap_or(partial))?;
        let decoder = sums.solve(&solve)?;
        let training = TrainingRecord {
            folds,
            scores,
            ..decoder.training().clone()
        };
        let decoder = decoder.with_training(training);
        Ok(Trained {
            decoder: match active {
                Some(channels) => spread(decoder, &names, &channels)?,
                None => decoder,
            },
            ran: placement.ran(path.name()),
            gram_error: None,
        })
    }

    /// The sums themselves, of all groups together.
    ///
    /// # Errors
    /// As [`Sums::over`].
    pub(super) fn into_sums(self, partial: Partial) -> Result<Sums> {
        let path = partial.path.unwrap_or(self.gram(partial.bank));
        let mut groups = partial.groups.into_iter();
        let mut all = match groups.next() {
            Some(first) => first,
            None => Group::nothing(partial.shape)?,
        };
        for group in groups {
            all.steps += group.steps;
            add(&mut all.values, &group.values)?;
        }
        if all.steps == 0 {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                format!(
                    "sums: a delay of {} steps leaves no step of any segment with its partner",
                    self.options.delay_steps
                ),
            ));
        }
        let form = Form {
            step_seconds: self.outline.step_seconds,
            bank: self.banks[partial.bank].clone(),
            low_pass: self.options.low_pass,
            delay_steps: self.options.delay_steps,
            channel_names: self.names,
            outputs: self.outline.outputs,
        };
        fixed::check_squares(fixed::squares_in(&all.values, partial.shape))?;
        let beside = Beside {
            segments: self.survey.segments.len() as u64,
            spikes: partial.spikes,
            artefacts: partial.artefacts,
            largest: partial.largest,
            usual: partial.usual,
            extremes: partial.extremes,
            ran: self.placement.ran(path.name()),
        };
        Ok(Sums::of_whole(form, all.steps, all.values, beside))
    }
}

impl Around {
    /// A stretch of the recording in the steps at hand.
    fn local(&self, start: i64, stop: i64) -> Segment {
        Segment {
            start: start - self.first,
            stop: stop - self.first,
        }
    }

    /// The segments inside `stretch`, in the steps at hand.
    fn own(&self, segments: &[Segment], stretch: &Range<i64>) -> Vec<Segment> {
        let first = segments.partition_point(|s| s.stop <= stretch.start);
        let here = segments[first..]
            .iter()
            .take_while(|s| s.start < stretch.end);
        here.map(|s| self.local(s.start.max(stretch.start), s.stop.min(stretch.end)))
            .collect()
    }
}

/// Keeps the entries of channels that have a number, by it.
fn retain(spikes: &mut betz_recording::Spikes, number: &[u32]) {
    let mut kept = 0;
    for i in 0..spikes.len() {
        let new = number
            .get(spikes.channels[i] as usize)
            .copied()
            .unwrap_or(u32::MAX);
        if new != u32::MAX {
            spikes.ticks[kept] = spikes.ticks[i];
            spikes.channels[kept] = new;
            if let Some(&weight) = spikes.weights.get(i) {
                spikes.weights[kept] = weight;
            }
            kept += 1;
        }
    }
    spikes.ticks.truncate(kept);
    spikes.channels.truncate(kept);
    spikes.weights.truncate(kept);
}

/// Time constant of the slowest pole of a Butterworth low-pass, in seconds.
fn slowest(low_pass: LowPass) -> f64 {
    let angle = std::f64::consts::FRAC_PI_2 / f64::from(low_pass.order.max(1));
    1.0 / (std::f64::consts::TAU * low_pass.cutoff_hz * angle.sin())
}

/// The stretches between `cuts`, of which `progress` is told, as long as it lets them.
pub(super) fn told<'a>(
    cuts: &'a [i64],
    stage: &'static str,
    progress: &'a dyn Progress,
) -> impl Iterator<Item = Result<Range<i64>>> + 'a {
    let total = cuts.len().saturating_sub(1) as u64;
    (0..).zip(cuts.windows(2)).map(move |(done, ends)| {
        progress.update(stage, done, total);
        progress::check(progress, stage)?;
        Ok(ends[0]..ends[1])
    })
}
