//! A decoder made ready for stepping.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use betz_base::aligned::AlignedBuffer;
use betz_base::float;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use betz_base::hash::Fnv1a;

use super::events::StepRule;
use super::rows::{LARGEST_COUNT, padded};
use super::skip::{HeadSilence, LowPassSilence};
use super::stage::{Group, Stage};
use crate::model::head::PreparedHead;
use crate::model::{Blanking, BlendMember, Decoder, Head, LogVariance, OutputRange};
use crate::psc::{Convolution, LowPassFilter, SampledFilter};
use crate::width::Width;
use betz_base::error::{Error, Result};

/// Part of a response that is left after [`PreparedModel::memory_steps`], of a sum of one.
const FORGOTTEN: f64 = 1e-7;

/// A decoder in the form that steps use: weights scaled, masked, one short row per channel.
///
/// Immutable; any number of sessions in any number of threads may run the same one
/// (`Arc<PreparedModel>`). Its rows take channels × filters × latents × 8 bytes, each row padded to 64; those of a recurrent
/// decoder take half of that.
#[derive(Debug, Clone)]
pub struct PreparedModel {
    pub(super) step_seconds: f64,
    delay_steps: i64,
    pub(super) channel_names: Vec<String>,
    pub(super) output_names: Vec<String>,
    /// (channel, filter, latent): the decoder's weight times the filter's scale; 0 where masked. A row is
    /// padded with zeros to [`stride`](Self::stride).
    pub(super) rows: AlignedBuffer<f64>,
    /// The same in f32, in which case [`rows`](Self::rows) is empty: of a recurrent decoder, which computes in f32. Empty
    /// otherwise.
    pub(super) short_rows: AlignedBuffer<f32>,
    /// Sorted by order.
    pub(super) stages: Vec<Stage>,
    pub(super) groups: Vec<Group>,
    /// Behind the stages in a row.
    sampled: Vec<SampledFilter>,
    /// (filter, latent)
    pub(super) decays: Vec<f64>,
    pub(super) width: Width,
    pub(super) low_pass_silence: Option<LowPassSilence>,
    pub(super) intercept: Vec<f64>,
    /// At rest, for all latents.
    pub(super) low_pass: Option<LowPassFilter>,
    pub(super) head: PreparedHead,
    pub(super) silence: HeadSilence,
    /// The head's outputs are the estimates, then the logarithms of their variances.
    pub(super) tells_variances: bool,
    /// Rule of each class; empty for a model without classes.
    pub(super) event_rules: Vec<Option<StepRule>>,
    pub(super) blanking: Option<PreparedBlanking>,
    /// Ranges that outputs are kept within; empty for no bounds.
    pub(super) ranges: Vec<OutputRange>,
    /// Taken off each channel's value before the filters; empty for none.
    pub(super) means: Vec<f64>,
    /// Largest count of each channel in a tick, means taken off; empty for no bounds.
    pub(super) count_caps: Vec<f64>,
    /// The other members of a blend.
    pub(super) members: Vec<Arc<Self>>,
    memory_steps: u64,
    fingerprint: u64,
    /// Of the decoder, whatever the mask.
    base: u64,
}

impl PreparedModel {
    /// Prepares `decoder`; channels that are false in `mask` (one entry per channel) take no part,
    /// besides those that the decoder masks itself. Allocates; to be done away from the loop.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for a mask of another length;
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) for log-variances that do not fit the
    /// head; [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for a filter that looks ahead.
    pub fn new(decoder: &Decoder, mask: Option<&[bool]>) -> Result<Self> {
        check_mask(mask, decoder.channels())?;
        let sampled = decoder.bank().sampled().to_vec();
        if let Some(filter) = sampled.iter().find(|filter| filter.ahead() > 0) {
            filter.causal_samples()?;
        }
        let latents = decoder.latents();
        let step_seconds = decoder.step_seconds();
        let order = order(decoder);
        let stages: Vec<Stage> = (order.iter())
            .map(|&f| Stage::new(&decoder.bank().filters()[f], step_seconds))
            .collect();
        let decays = (stages.iter())
            .flat_map(|stage| core::iter::repeat_n(stage.decay, latents))
            .collect();
        let rows = rows(decoder, mask, &order)?;
        let low_pass = |signals| {
            let low_pass = decoder.low_pass();
            (low_pass.map(|low_pass| LowPassFilter::new(low_pass, step_seconds, signals)))
                .transpose()
        };
        let low_pass_silence = low_pass(1)?.map(|one| LowPassSilence::new(&stages, &one));
        let variance = LogVariance::of(decoder)?;
        let head = prepared_head(decoder, variance.as_ref())?;
        let head_outputs = decoder.outputs().len() * if variance.is_some() { 2 } else { 1 }
            + head.hidden_classes();
        let linear_memory = linear_memory(decoder);
        let members = members(decoder, mask)?;
        let memory_steps = (members.iter().map(|member| member.memory_steps))
            .fold(linear_memory.saturating_add(head.memory_steps()), u64::max);
        let silence = HeadSilence::new(&head, head_outputs, decoder.intercept(), linear_memory)?;
        let blanking = (decoder.limits().blanking.as_ref())
            .map(|blanking| PreparedBlanking::new(blanking, &rows, decoder, mask));
        let mut prepared = Self {
            step_seconds,
            delay_steps: decoder.delay_steps(),
            channel_names: decoder.channel_names().to_vec(),
            output_names: decoder.outputs().iter().map(|o| o.name.clone()).collect(),
            rows,
            short_rows: AlignedBuffer::filled("model", 0.0, 0)?,
            groups: groups(&stages),
            stages,
            sampled,
            decays,
            width: Width::detect(),
            low_pass_silence,
            intercept: decoder.intercept().to_vec(),
            low_pass: low_pass(latents)?,
            head,
            silence,
            tells_variances: variance.is_some(),
            event_rules: event_rules(decoder),
            blanking,
            ranges: decoder.limits().ranges.clone(),
            means: decoder.channel_means().to_vec(),
            count_caps: (decoder.limits().count_caps.iter())
                .map(|&cap| f64::from(cap))
                .collect(),
            members,
            memory_steps,
            fingerprint: 0,
            base: 0,
        };
        let mut hash = prepared.hash(decoder, &prepared.rows);
        if let Some(blanking) = &prepared.blanking {
            blanking.hash(&mut hash);
        }
        (prepared.members.iter()).for_each(|member| hash.word(member.fingerprint));
        prepared.fingerprint = hash.finish();
        let mut base = prepared.hash(decoder, decoder.weights());
        (prepared.members.iter()).for_each(|member| base.word(member.base));
        prepared.base = base.finish();
        if let PreparedHead::Recurrent(_) = prepared.head
            && prepared.has_small_sums()
        {
            prepared.shorten_rows()?;
        }
        Ok(prepared)
    }

    /// Keeps the rows in f32 alone.
    fn shorten_rows(&mut self) -> Result<()> {
        let mut short = AlignedBuffer::filled("model", 0.0, self.rows.len())?;
        for (to, weight) in short.iter_mut().zip(&*self.rows) {
            *to = *weight as f32;
        }
        self.short_rows = short;
        self.rows = AlignedBuffer::filled("model", 0.0, 0)?;
        Ok(())
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.channel_names.len()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.output_names.len()
    }

    /// True if steps estimate how far their outputs are likely to be from the truth
    /// ([`Session::variances`](super::Session::variances)).
    pub fn tells_variances(&self) -> bool {
        self.tells_variances
    }

    /// Number of classes whose probabilities a step computes ([`Session::classes`](super::Session::classes)); 0 for a
    /// model without classes.
    pub fn classes(&self) -> usize {
        self.event_rules.len()
    }

    /// Number of latents of the linear engine; as many as outputs in a linear decoder.
    pub fn latents(&self) -> usize {
        self.intercept.len()
    }

    /// Length of one step in seconds.
    pub fn step_seconds(&self) -> f64 {
        self.step_seconds
    }

    /// Delay of the estimates in steps, as [`Decoder::delay_steps`].
    pub fn delay_steps(&self) -> i64 {
        self.delay_steps
    }

    /// Steps after which a spike is forgotten: less than 1e-7 of its response is still to come.
    pub fn memory_steps(&self) -> u64 {
        self.memory_steps
    }

    /// A number that tells models apart that step differently: what a checkpoint is bound to.
    /// 64-bit FNV-1a over clock, names, filters, low-pass, effective weights and intercept.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// True if sums of rows stay finite in f32, whatever the counts.
    fn has_small_sums(&self) -> bool {
        let sum: f64 = self.rows.iter().map(|weight| weight.abs()).sum();
        sum * LARGEST_COUNT < f64::from(f32::MAX)
    }

    /// True if a tick's counts are listed by channel before their rows are summed.
    pub(super) fn lists_counts(&self) -> bool {
        !self.count_caps.is_empty() || !self.short_rows.is_empty() || !self.means.is_empty()
    }

    /// The length of a channel's row: filters × latents, padded to whole vectors.
    pub(super) fn stride(&self) -> usize {
        padded((self.stages.len() + self.sampled.len()) * self.latents())
    }

    /// Range of the sampled filters' inputs in a row, (filter, latent).
    pub(super) fn sampled_lanes(&self) -> core::ops::Range<usize> {
        let start = self.stages.len() * self.latents();
        start..start + self.sampled.len() * self.latents()
    }

    /// Steps after which the sampled filters have forgotten a spike; 0 for a bank without them.
    pub(super) fn sampled_ticks(&self) -> u64 {
        let stops = self
            .sampled
            .iter()
            .map(|filter| filter.stop().max(0) as u64);
        stops.max().unwrap_or(0)
    }

    /// The sampled filters at rest; `None` for a bank without them.
    pub(super) fn convolution(&self) -> Result<Option<Convolution>> {
        if self.sampled.is_empty() {
            return Ok(None);
        }
        Convolution::new(&self.sampled, self.latents(), 0).map(Some)
    }

    /// A number that tells decoders apart that step differently, whatever the mask: the
    /// [`fingerprint`](Self::fingerprint) before a session's mask.
    pub fn decoder_fingerprint(&self) -> u64 {
        self.base
    }

    /// Checks that a session of `self` can go on with `next`: same clock, channels and outputs, in
    /// the same order; `by_position`, so many of each, whatever their names. Bank, low-pass, head, mask
    /// and weights may differ.
    pub(super) fn check_successor(&self, next: &Self, by_position: bool) -> Result<()> {
        if next.step_seconds != self.step_seconds {
            return Err(Error::mismatch(format!(
                "model to swap in: expected a step of {} s, got {} s",
                self.step_seconds, next.step_seconds
            )));
        }
        let lists = [
            ("channel", &self.channel_names, &next.channel_names),
            ("output", &self.output_names, &next.output_names),
        ];
        for (what, expected, got) in lists {
            if expected.len() != got.len() {
                return Err(Error::mismatch(format!(
                    "model to swap in: expected {} {what}s, got {}",
                    expected.len(),
                    got.len()
                )));
            }
            if by_position {
                continue;
            }
            if let Some(i) = (0..got.len()).find(|&i| expected[i] != got[i]) {
                return Err(Error::mismatch(format!(
                    "model to swap in: expected {what} {i} to be {:?}, got {:?}",
                    expected[i], got[i]
                )));
            }
        }
        Ok(())
    }

    fn hash(&self, decoder: &Decoder, weights: &[f64]) -> Fnv1a {
        let mut hash = Fnv1a::new();
        hash.number(self.step_seconds);
        for name in self.channel_names.iter().chain(&self.output_names) {
            hash.word(name.len() as u64);
            hash.bytes(name.as_bytes());
        }
        for stage in &self.stages {
            hash.number(stage.decay);
            hash.word(u64::from(stage.order));
        }
        for filter in &self.sampled {
            hash.word(filter.start() as u64);
            filter.samples().iter().for_each(|h| hash.number(*h));
        }
        if let Some(low_pass) = decoder.low_pass() {
            hash.word(u64::from(low_pass.order));
            hash.number(low_pass.cutoff_hz);
        }
        hash.word(self.intercept.len() as u64);
        (self.intercept.iter().chain(weights)).for_each(|value| hash.number(*value));
        self.head.hash(&mut hash);
        self.event_rules
            .iter()
            .flatten()
            .for_each(|rule| rule.hash(&mut hash));
        self.count_caps.iter().for_each(|cap| hash.number(*cap));
        self.means.iter().for_each(|mean| hash.number(*mean));
        for range in &self.ranges {
            hash.number(f64::from(range.low));
            hash.number(f64::from(range.high));
        }
        hash
    }
}

/// The rows of a decoder's weights, scaled, its filters in `order`, padded; 0 where masked.
fn rows(decoder: &Decoder, mask: Option<&[bool]>, order: &[usize]) -> Result<AlignedBuffer<f64>> {
    let (latents, bank) = (decoder.latents(), decoder.bank());
    let lanes = bank.len() * latents;
    let stride = padded(lanes);
    let length = decoder.channels() * stride;
    let mut rows = AlignedBuffer::filled("model", 0.0, length)?;
    let scale = |f: &crate::psc::Filter| f.scale(decoder.step_seconds());
    let mut scales: Vec<f64> = bank.filters().iter().map(scale).collect();
    scales.resize(bank.len(), 1.0);
    let sampled = bank.filters().len()..bank.len();
    let weights = decoder.weights().chunks_exact(lanes);
    for (channel, (row, weights)) in rows.chunks_exact_mut(stride).zip(weights).enumerate() {
        if mask.is_some_and(|mask| !mask[channel]) {
            continue;
        }
        let order = order.iter().copied().chain(sampled.clone());
        for (to, f) in row.chunks_exact_mut(latents).zip(order) {
            for (to, weight) in to.iter_mut().zip(&weights[f * latents..]) {
                *to = weight * scales[f];
            }
        }
    }
    Ok(rows)
}

/// [`Blanking`] in the form that steps use.
#[derive(Debug, Clone)]
pub(super) struct PreparedBlanking {
    least: u64,
    most: u64,
    /// True if a channel's spikes count, one per channel.
    counts: Vec<bool>,
    /// True if those of every channel do.
    all_count: bool,
    /// Sum of the rows of the mean counts: what a blanked step drives the filters with.
    pub(super) mean_drive: Vec<f64>,
}

impl PreparedBlanking {
    fn new(blanking: &Blanking, rows: &[f64], decoder: &Decoder, mask: Option<&[bool]>) -> Self {
        let (own, means) = (decoder.channel_mask(), decoder.channel_means());
        let counts: Vec<bool> = match mask {
            None => own.to_vec(),
            Some(mask) => own.iter().zip(mask).map(|(a, b)| *a && *b).collect(),
        };
        let mut mean_drive = vec![0.0; rows.len() / own.len()];
        // Channels that only the session masks are missing from the totals.
        let mut missing = 0.0;
        for (channel, row) in rows.chunks_exact(mean_drive.len()).enumerate() {
            let mean = blanking.mean_counts[channel];
            if own[channel] && !counts[channel] {
                missing += mean;
            }
            let driven = mean - means.get(channel).copied().unwrap_or(0.0);
            for (drive, weight) in mean_drive.iter_mut().zip(row) {
                *drive += driven * weight;
            }
        }
        Self {
            least: blanking.least.saturating_sub(missing as u64),
            most: blanking.most.saturating_sub(missing as u64),
            all_count: counts.iter().all(|counts| *counts),
            counts,
            mean_drive,
        }
    }

    /// True if `fired`, (channel, count), are too few or too many to be believed.
    #[inline]
    pub(super) fn is_artefact(&self, fired: &[(u32, f64)]) -> bool {
        let counted = fired.iter().map(|&(channel, count)| {
            let counts = self.counts.get(channel as usize).copied();
            if counts.unwrap_or(false) { count } else { 0.0 }
        });
        let total: f64 = counted.sum();
        total < self.least as f64 || total > self.most as f64
    }

    /// As [`is_artefact`](Self::is_artefact), for a count per channel, `known` in all.
    #[inline]
    pub(super) fn is_artefact_among(&self, counts: &[u16], known: u64) -> bool {
        let counted = || {
            counts
                .iter()
                .zip(&self.counts)
                .filter(|(_, counts)| **counts)
        };
        let total = if self.all_count {
            known
        } else {
            counted().map(|(count, _)| u64::from(*count)).sum()
        };
        !(self.least..=self.most).contains(&total)
    }

    /// As [`is_artefact`](Self::is_artefact), for a list of channels, one entry per spike.
    #[inline]
    pub(super) fn is_artefact_of(&self, spikes: &[u32]) -> bool {
        let counts = |channel: &u32| self.counts.get(*channel as usize).copied().unwrap_or(false);
        let total: u64 = spikes
            .iter()
            .map(|channel| u64::from(counts(channel)))
            .sum();
        !(self.least..=self.most).contains(&total)
    }

    fn hash(&self, hash: &mut Fnv1a) {
        hash.word(self.least);
        hash.word(self.most);
        self.mean_drive.iter().for_each(|v| hash.number(*v));
    }
}

/// Refuses a mask that has not one entry per channel.
fn check_mask(mask: Option<&[bool]>, channels: usize) -> Result<()> {
    match mask {
        Some(mask) if mask.len() != channels => Err(Error::mismatch(format!(
            "channel mask: expected {channels} entries, one per channel of the model, got {}",
            mask.len()
        ))),
        _ => Ok(()),
    }
}

/// The head, which also gives the logarithms of variances if there is a readout for them.
fn prepared_head(decoder: &Decoder, variance: Option<&LogVariance>) -> Result<PreparedHead> {
    let Some(variance) = variance else {
        return decoder.head().prepare(decoder.step_seconds());
    };
    let (latents, outputs) = (decoder.latents(), decoder.outputs().len());
    let head = (decoder.head()).with_variance(&variance.readout, latents, outputs)?;
    head.prepare(decoder.step_seconds())
}

/// The other members of a blend; none for other kinds.
fn members(decoder: &Decoder, mask: Option<&[bool]>) -> Result<Vec<Arc<PreparedModel>>> {
    let Head::ModelBlend(blend) = decoder.head() else {
        return Ok(Vec::new());
    };
    let prepared = |member: &BlendMember| PreparedModel::new(&member.decoder, mask).map(Arc::new);
    blend.members.iter().map(prepared).collect()
}

/// The rule of each class, in steps.
fn event_rules(decoder: &Decoder) -> Vec<Option<StepRule>> {
    let classes = decoder.classes().into_iter();
    let rules = classes.flat_map(|classes| &classes.events);
    let in_steps = |rule| StepRule::new(rule, decoder.step_seconds());
    rules.map(|rule| rule.map(in_steps)).collect()
}

/// Numbers of a decoder's filters, sorted by order.
fn order(decoder: &Decoder) -> Vec<usize> {
    let filters = decoder.bank().filters();
    let mut order: Vec<usize> = (0..filters.len()).collect();
    order.sort_by_key(|&f| filters[f].order);
    order
}

/// The filters of each order, which lie side by side.
fn groups(stages: &[Stage]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (i, stage) in stages.iter().enumerate() {
        match groups.last_mut() {
            Some(group) if group.order == stage.order => group.end = i + 1,
            _ => groups.push(Group {
                order: stage.order,
                first: i,
                end: i + 1,
            }),
        }
    }
    groups
}

/// Steps after which filters and low-pass have forgotten a spike.
fn linear_memory(decoder: &Decoder) -> u64 {
    let filters = decoder.bank().filters().iter();
    let taps = filters.map(|filter| filter.taps(decoder.step_seconds(), FORGOTTEN) as u64);
    let samples = decoder.bank().sampled().iter();
    let samples = samples.map(|filter| filter.stop().max(0) as u64);
    taps.chain(samples)
        .max()
        .unwrap_or(0)
        .saturating_add(low_pass_memory(decoder))
}

/// Steps after which the low-pass has forgotten its input: its slowest poles' time constant is
/// 1 / (ω_c·sin(π / 2n)) for order n.
fn low_pass_memory(decoder: &Decoder) -> u64 {
    decoder.low_pass().map_or(0, |low_pass| {
        let slowest = float::sin(core::f64::consts::FRAC_PI_2 / f64::from(low_pass.order));
        let tau = 1.0 / (core::f64::consts::TAU * low_pass.cutoff_hz * slowest);
        (-float::ln(FORGOTTEN) * 1.5 * tau / decoder.step_seconds()).ceil() as u64
    })
}
