//! Which channels have died and which scream, while a session runs.
//!
//! The session counts each channel's spikes; whoever holds the [`ChannelWatch`] looks at the counts from
//! another thread, now and then, and says which channels are not to be believed. Taking them away is for
//! whoever has the sums that the decoder was solved from (`betz_train::online`): weights that are put to zero
//! leave the others as they were with them, which is worse than to solve without them.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{Input, Session, StepStatus};
use crate::model::Decoder;
use betz_base::error::{Error, ErrorKind, Result};

/// Parts of a spike that are counted, for counts that are not whole.
const UNIT: f64 = 256.0;

/// Rules by which a channel counts as dead, screaming or recovered. Rates are measured over windows of
/// `window_seconds` or more, depending on how often the watch is asked; the usual rate of a channel is that of
/// training.
#[derive(Debug, Clone, PartialEq)]
pub struct ChannelRules {
    /// Shortest window in seconds.
    pub window_seconds: f64,
    /// Dead: silent for so long that this many spikes were to be expected. That is as unlikely as exp(−this)
    /// where they come at random; units that fire in bursts are silent for longer.
    pub silent_spikes: f64,
    /// Screaming: above the larger of `scream_times` the usual rate and `scream_hz` more than it, in
    /// `scream_windows` windows in a row.
    pub scream_times: f64,
    /// See `scream_times`.
    pub scream_hz: f64,
    /// See `scream_times`.
    pub scream_windows: u32,
    /// Screaming as well: above the larger of so many times the usual rate and `scream_hz` more than it, in
    /// `busy_windows` windows in a row.
    pub busy_times: f64,
    /// See `busy_times`.
    pub busy_windows: u32,
    /// Well again after so many seconds in which it was neither; twice as many after each relapse, so that
    /// one at the brink does not come and go.
    pub well_seconds: f64,
}

impl Default for ChannelRules {
    /// Windows of 1 s; dead after a silence in which 60 spikes were to be expected; screaming at 6 times its
    /// rate (and 40 Hz more) in two windows, or at 3 times in five; well again after 10 s.
    fn default() -> Self {
        Self {
            window_seconds: 1.0,
            silent_spikes: 60.0,
            scream_times: 6.0,
            scream_hz: 40.0,
            scream_windows: 2,
            busy_times: 3.0,
            busy_windows: 5,
            well_seconds: 10.0,
        }
    }
}

impl ChannelRules {
    fn check(&self) -> Result<()> {
        let numbers = [
            ("window_seconds", self.window_seconds),
            ("silent_spikes", self.silent_spikes),
            ("scream_times", self.scream_times),
            ("scream_hz", self.scream_hz),
            ("busy_times", self.busy_times),
            ("well_seconds", self.well_seconds),
        ];
        for (what, value) in numbers {
            if !(value > 0.0 && value.is_finite()) {
                return Err(Error::argument(format!(
                    "rules of channels: expected {what} above 0, got {value}"
                )));
            }
        }
        if self.scream_windows == 0 || self.busy_windows == 0 {
            return Err(Error::argument(
                "rules of channels: expected at least one window of screaming, got 0",
            ));
        }
        Ok(())
    }
}

/// State of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChannelState {
    /// Its rate is as in training.
    #[default]
    Well,
    /// Silent.
    Dead,
    /// Far busier than it was.
    Screaming,
}

/// Tells dead and screaming channels by their counts: deterministic, without a clock of its own.
#[derive(Debug, Clone)]
pub struct ChannelDetector {
    rules: ChannelRules,
    step_seconds: f64,
    channels: Vec<Channel>,
    /// Share of the decoder's input, of 1, that comes from channels that are not well.
    share: f64,
}

#[derive(Debug, Clone, Default)]
struct Channel {
    /// Spikes per step in training; `None`: takes no part.
    usual: Option<f64>,
    /// Part of what the decoder takes from all channels.
    share: f64,
    /// Spikes that were to be expected since the last one.
    missed: f64,
    screaming: u32,
    busy: u32,
    well_seconds: f64,
    /// Number of times that it was not well.
    spells: u32,
    state: ChannelState,
}

impl Channel {
    fn patience(&self) -> f64 {
        2.0_f64.powi(self.spells.saturating_sub(1).min(10) as i32)
    }
}

impl ChannelDetector {
    /// A detector for the channels of `decoder` that take part and fired in training.
    ///
    /// # Errors
    /// [`ErrorKind::InsufficientData`] if the model does not store the usual number of spikes per step (its
    /// training was too short, or on a signal); [`ErrorKind::InvalidArgument`] if a rule is out of range.
    pub fn new(decoder: &Decoder, rules: ChannelRules) -> Result<Self> {
        rules.check()?;
        let Some(blanking) = &decoder.limits().blanking else {
            return Err(Error::new(
                ErrorKind::InsufficientData,
                "watching channels: expected a model that knows the usual counts of its channels, got one trained on too few steps or on a signal",
            ));
        };
        let means = &blanking.mean_counts;
        let usual = (means.iter().zip(decoder.channel_mask()))
            .map(|(mean, takes_part)| if *takes_part { *mean } else { 0.0 });
        let mut detector = Self::from_means(usual, decoder.step_seconds(), rules);
        let shares = shares(decoder, means);
        (detector.channels.iter_mut().zip(shares))
            .for_each(|(channel, share)| channel.share = share);
        Ok(detector)
    }

    /// A detector for channels whose usual counts per step are known, all of the same importance; 0 for a channel that
    /// is not watched.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] if a rule is out of range or a mean is negative or not finite.
    pub fn from_mean_counts(means: &[f64], step_seconds: f64, rules: ChannelRules) -> Result<Self> {
        rules.check()?;
        if let Some(odd) = means.iter().find(|m| !(m.is_finite() && **m >= 0.0)) {
            return Err(Error::argument(format!(
                "usual counts of channels: expected numbers from 0 on, got {odd}"
            )));
        }
        let mut detector = Self::from_means(means.iter().copied(), step_seconds, rules);
        let watched = means.iter().filter(|mean| **mean > 0.0).count().max(1) as f64;
        for channel in detector.channels.iter_mut().filter(|c| c.usual.is_some()) {
            channel.share = 1.0 / watched;
        }
        Ok(detector)
    }

    /// Channels by their usual counts per step, without shares; 0 for one that is not watched.
    fn from_means(
        means: impl Iterator<Item = f64>,
        step_seconds: f64,
        rules: ChannelRules,
    ) -> Self {
        let channels = means.map(|mean| Channel {
            usual: (mean > 0.0).then_some(mean),
            ..Channel::default()
        });
        Self {
            rules,
            step_seconds,
            channels: channels.collect(),
            share: 0.0,
        }
    }

    /// Takes `counts`, the number of spikes per channel in the last `steps`. Returns true if a channel's state has
    /// changed.
    pub fn observe(&mut self, steps: u64, counts: &[f64]) -> bool {
        let steps = steps as f64;
        let seconds = steps * self.step_seconds;
        let rules = &self.rules;
        let mut changed = false;
        for (channel, &count) in self.channels.iter_mut().zip(counts) {
            let Some(usual) = channel.usual else { continue };
            let (rate, usual_hz) = (count / seconds, usual / self.step_seconds);
            let above = |times: f64| rate > (times * usual_hz).max(usual_hz + rules.scream_hz);
            let in_a_row = |n: u32, yes: bool| if yes { n.saturating_add(1) } else { 0 };
            channel.screaming = in_a_row(channel.screaming, above(rules.scream_times));
            channel.busy = in_a_row(channel.busy, above(rules.busy_times));
            channel.missed = if count > 0.0 {
                0.0
            } else {
                channel.missed + usual * steps
            };
            let ill = if channel.screaming >= rules.scream_windows
                || channel.busy >= rules.busy_windows
            {
                Some(ChannelState::Screaming)
            } else {
                (channel.missed >= rules.silent_spikes).then_some(ChannelState::Dead)
            };
            let doubtful = channel.busy > 0 || 2.0 * channel.missed >= rules.silent_spikes;
            channel.well_seconds = if doubtful {
                0.0
            } else {
                channel.well_seconds + seconds
            };
            let state = match ill {
                Some(ill) => ill,
                None if channel.well_seconds >= rules.well_seconds * channel.patience() => {
                    ChannelState::Well
                }
                None => channel.state,
            };
            changed |= state != channel.state;
            if channel.state == ChannelState::Well && state != ChannelState::Well {
                channel.spells = channel.spells.saturating_add(1);
            }
            channel.state = state;
        }
        if changed {
            let ill = self
                .channels
                .iter()
                .filter(|c| c.state != ChannelState::Well);
            self.share = ill.map(|c| c.share).sum();
        }
        changed
    }

    /// State of `channel`; `None` for one that the decoder does not have.
    pub fn state(&self, channel: usize) -> Option<ChannelState> {
        self.channels.get(channel).map(|c| c.state)
    }

    /// Numbers of the channels that are dead or scream, ascending. Allocates the list.
    pub fn ill(&self) -> Vec<usize> {
        let all = self.channels.iter().enumerate();
        all.filter(|(_, c)| c.state != ChannelState::Well)
            .map(|(i, _)| i)
            .collect()
    }

    /// True if more than half of the decoder's input is gone: the rest is not enough to decode from.
    pub fn is_too_much(&self) -> bool {
        self.share > 0.5
    }

    fn status(&self) -> StepStatus {
        let ill = self.channels.iter().any(|c| c.state != ChannelState::Well);
        StepStatus::CHANNELS.when(ill) | StepStatus::UNTRUSTED.when(self.is_too_much())
    }
}

/// Share of each channel in the decoder's input, of 1: Σ|φ|·σ over its filters, of each latent's total, σ that of
/// counts that come at random.
fn shares(decoder: &Decoder, means: &[f64]) -> Vec<f64> {
    let latents = decoder.latents();
    let rows = decoder
        .weights()
        .chunks_exact(decoder.bank().len() * latents);
    let of_channel = |(weights, mean): (&[f64], &f64)| {
        let mut sums = vec![0.0; latents];
        for row in weights.chunks_exact(latents) {
            sums.iter_mut().zip(row).for_each(|(s, w)| *s += w.abs());
        }
        sums.iter_mut().for_each(|s| *s *= mean.sqrt());
        sums
    };
    let each: Vec<Vec<f64>> = rows.zip(means).map(of_channel).collect();
    let mut totals = vec![0.0; latents];
    for sums in &each {
        totals.iter_mut().zip(sums).for_each(|(t, s)| *t += s);
    }
    let live = totals.iter().filter(|t| **t > 0.0).count().max(1) as f64;
    let share = |sums: &Vec<f64>| {
        let parts = sums.iter().zip(&totals).filter(|(_, t)| **t > 0.0);
        parts.map(|(s, t)| s / t).sum::<f64>() / live
    };
    each.iter().map(share).collect()
}

/// Counts that a session keeps for a [`ChannelWatch`]. Written by the stepping thread alone.
#[derive(Debug)]
pub(super) struct WatchCounts {
    steps: AtomicU64,
    /// In parts of a spike.
    counts: Box<[AtomicU64]>,
    /// Flags of the watch for every step.
    status: AtomicU32,
}

impl WatchCounts {
    fn add(&self, channel: usize, parts: u64) {
        if let Some(count) = self.counts.get(channel) {
            let sum = count.load(Ordering::Relaxed).wrapping_add(parts);
            count.store(sum, Ordering::Relaxed);
        }
    }

    /// A step, and what the watch says of it. Waits for nobody.
    #[inline]
    pub(super) fn take(&self, input: &Input<'_>) -> StepStatus {
        let whole = UNIT as u64;
        match input {
            Input::Spikes(channels) => channels.iter().for_each(|&c| self.add(c as usize, whole)),
            Input::Counts(counts) => (0..).zip(*counts).for_each(|(c, &n)| {
                self.add(c, u64::from(n) * whole);
            }),
            Input::CountsU8(counts) => (0..).zip(*counts).for_each(|(c, &n)| {
                self.add(c, u64::from(n) * whole);
            }),
            Input::CountsF32(counts) => (0..).zip(*counts).for_each(|(c, &n)| {
                self.add(c, (f64::from(n) * UNIT) as u64);
            }),
        }
        let steps = self.steps.load(Ordering::Relaxed).wrapping_add(1);
        self.steps.store(steps, Ordering::Release);
        StepStatus::from_bits(self.status.load(Ordering::Relaxed))
    }
}

/// Watches a session's channels from another thread, or from the same one between steps.
#[derive(Debug)]
pub struct ChannelWatch {
    detector: ChannelDetector,
    counted: Arc<WatchCounts>,
    seen_steps: u64,
    seen: Vec<u64>,
    /// Room for the counts of a window.
    window: Vec<f64>,
}

impl ChannelWatch {
    /// Examines the counts since the last call, if they cover a window. Returns true if a channel's state has
    /// changed. From then on steps are flagged: [`StepStatus::CHANNELS`] while channels are dead or screaming,
    /// [`StepStatus::UNTRUSTED`] while these channels give more than half of the decoder's input. Call it about
    /// once per window; longer windows are as accurate, but later. Does not allocate.
    pub fn look(&mut self) -> bool {
        let steps = self.counted.steps.load(Ordering::Acquire);
        let since = steps.wrapping_sub(self.seen_steps);
        let detector = &mut self.detector;
        if (since as f64) * detector.step_seconds < detector.rules.window_seconds * (1.0 - 1e-9) {
            return false;
        }
        let counts = self.counted.counts.iter();
        for ((count, seen), window) in counts.zip(&mut self.seen).zip(&mut self.window) {
            let now = count.load(Ordering::Relaxed);
            *window = now.wrapping_sub(*seen) as f64 / UNIT;
            *seen = now;
        }
        self.seen_steps = steps;
        let changed = detector.observe(since, &self.window);
        if changed {
            let status = detector.status();
            self.counted.status.store(status.bits(), Ordering::Relaxed);
        }
        changed
    }

    /// States reported so far.
    pub fn detector(&self) -> &ChannelDetector {
        &self.detector
    }
}

/// Nobody watches any more: steps say nothing of channels.
impl Drop for ChannelWatch {
    fn drop(&mut self) {
        self.counted.status.store(0, Ordering::Relaxed);
    }
}

impl Session {
    /// From now on the session counts each channel's spikes, including masked channels, for the returned watch;
    /// this costs about 1 ns per spike. `decoder` is the session's and gives the usual counts. A session has one
    /// watch at a time: an earlier watch receives no more steps. A clone of the session has none.
    ///
    /// ```
    /// use betz_runtime::model::{Blanking, Decoder, DecoderParts, Limits};
    /// use betz_runtime::psc::{Filter, FilterBank};
    /// use betz_runtime::stream::{ChannelRules, ChannelState, Session, SessionConfig, StepStatus};
    ///
    /// # fn main() -> betz_base::Result<()> {
    /// let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
    /// let names = vec!["a".into(), "b".into(), "c".into()];
    /// let usual = Blanking { least: 0, most: 100, mean_counts: vec![1.0; 3] };
    /// let decoder = Decoder::new(DecoderParts {
    ///     weights: vec![1.0; 3],
    ///     limits: Limits { blanking: Some(usual), ..Limits::default() },
    ///     ..DecoderParts::linear(0.1, bank, names, vec!["x".into()])
    /// })?;
    /// let mut session = Session::open(&decoder, SessionConfig::default())?;
    /// let mut watch = session.watch_channels(&decoder, ChannelRules::default())?;
    /// let mut out = [0.0];
    /// for _ in 0..80 {
    ///     session.step_counts(&[1, 0, 1], &mut out)?; // b has died
    ///     watch.look(); // on another thread
    /// }
    /// assert_eq!(watch.detector().state(1), Some(ChannelState::Dead));
    /// assert!(session.status().contains(StepStatus::CHANNELS));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`ChannelDetector::new`]; [`ErrorKind::Mismatch`] for a decoder of other channels or steps.
    pub fn watch_channels(
        &mut self,
        decoder: &Decoder,
        rules: ChannelRules,
    ) -> Result<ChannelWatch> {
        let (expected, got) = (self.channels(), decoder.channels());
        let (step, its_step) = (self.model().step_seconds(), decoder.step_seconds());
        if expected != got || step != its_step {
            return Err(Error::mismatch(format!(
                "watching channels: expected the session's decoder of {expected} channels and steps of {step} s, got {got} and {its_step} s"
            )));
        }
        let detector = ChannelDetector::new(decoder, rules)?;
        let counted = Arc::new(WatchCounts {
            steps: AtomicU64::new(0),
            counts: (0..expected).map(|_| AtomicU64::new(0)).collect(),
            status: AtomicU32::new(0),
        });
        self.count_for(Arc::clone(&counted));
        Ok(ChannelWatch {
            detector,
            counted,
            seen_steps: 0,
            seen: vec![0; expected],
            window: vec![0.0; expected],
        })
    }

    /// As [`watch_channels`](Self::watch_channels), with steps that look themselves: for a session without another
    /// thread. A step in which a window ends takes some nanoseconds longer per channel; nothing is allocated.
    ///
    /// # Errors
    /// The same as for [`watch_channels`](Self::watch_channels).
    pub fn watch_itself(&mut self, decoder: &Decoder, rules: ChannelRules) -> Result<()> {
        let watch = self.watch_channels(decoder, rules)?;
        self.keep_watch(watch);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
