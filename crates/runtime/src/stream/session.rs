//! One decoder at work, a tick at a time.

use std::sync::Arc;

use super::engine::{Engine, Taken};
use super::swap::{Mailbox, Running};
use super::tap::Attached;
use super::timing::Timing;
use super::{Clamp, Latency, PreparedModel, SessionConfig, Stats, Swapper, UnknownChannels};
use crate::model::Decoder;
use betz_base::error::{Error, ErrorKind, Result};

/// A decoder at work: filter states, counters, latencies. Belongs to one thread at a time.
///
/// At step t it takes the spikes of tick t and gives x̂ = intercept + Σ φ·(h ∗ s), the estimate of
/// the behaviour at t − [`delay_steps`](Decoder::delay_steps). Filters start from rest; call
/// [`reset`](Self::reset) wherever a segment begins.
///
/// The same input gives the same bits: after `reset`, in a clone, after a
/// [`restore`](Self::restore), however the ticks are portioned. (A count of c and c entries in a list are
/// equal to rounding: c·w is not always w + … + w.)
///
/// # Real time
/// Opening, cloning, [`swapper`](Self::swapper) and [`checkpoint`](Self::checkpoint) allocate.
/// Steps, `reset`, `stats`, [`checkpoint_into`](Self::checkpoint_into) and `restore` do not, nor do
/// they lock or call the system, unless they fail: an error allocates its message.
#[derive(Debug)]
pub struct Session {
    running: Running,
    mailbox: Option<Mailbox>,
    mask: Option<Vec<bool>>,
    clamp: Option<Vec<Clamp>>,
    unknown_channels: UnknownChannels,
    timing: Option<Timing>,
    counters: Counters,
    tap: Option<Attached>,
}

/// Counted whether statistics are on or off, and kept in checkpoints.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counters {
    pub(super) ticks: u64,
    pub(super) spikes: u64,
    pub(super) unknown: u64,
    pub(super) dropped: u64,
    pub(super) late: u64,
    pub(super) swaps: u64,
}

impl Session {
    /// A session of `decoder`, from rest. Allocates all that it will ever need.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] for a mask or clamp of the wrong length,
    /// [`ErrorKind::InvalidArgument`] for a clamp with low > high or NaN, or a deadline without
    /// statistics.
    pub fn open(decoder: &Decoder, config: SessionConfig) -> Result<Self> {
        config.check(decoder.outputs().len())?;
        let model = PreparedModel::new(decoder, config.channel_mask.as_deref())?;
        Self::open_prepared(Arc::new(model), config)
    }

    /// A session of a model that is prepared already, so that several sessions share its weights.
    ///
    /// The mask is part of preparing: the one in `config` is used only for models swapped in later.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_prepared(model: Arc<PreparedModel>, config: SessionConfig) -> Result<Self> {
        config.check(model.outputs())?;
        let timing = (config.statistics)
            .then(|| Timing::new(config.deadline))
            .transpose()?;
        Ok(Self {
            running: Running::new(Box::new(Engine::new(model))),
            mailbox: None,
            mask: config.channel_mask,
            clamp: config.clamp,
            unknown_channels: config.unknown_channels,
            timing,
            counters: Counters::default(),
            tap: None,
        })
    }

    /// The model that gives the estimates now.
    pub fn model(&self) -> &Arc<PreparedModel> {
        self.running.active().model()
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.model().channels()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.model().outputs()
    }

    /// One tick from binned counts, one a channel; the estimates go to `out`, one an output.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] when `counts` is not one a channel or `out` not one an output.
    /// Nothing has changed then and `out` is untouched.
    pub fn step_counts(&mut self, counts: &[u16], out: &mut [f32]) -> Result<()> {
        let start = self.timing.as_ref().map(Timing::start);
        self.check_out(out)?;
        if counts.len() != self.channels() {
            return Err(Error::mismatch(format!(
                "counts: expected {}, one a channel of the model, got {}",
                self.channels(),
                counts.len()
            )));
        }
        self.step(|engine| engine.take_counts(counts), out);
        if let Some(tap) = &mut self.tap {
            tap.take_counts(counts);
        }
        self.stop(start);
        Ok(())
    }

    /// One tick from the channels that fired, one entry a spike, in any order; the estimates go to
    /// `out`, one an output. The cost grows with the spikes, not with the channels there are.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] when `out` is not one an output, or when a channel is unknown and
    /// the policy is [`UnknownChannels::Refuse`]. Nothing has changed then and `out` is untouched.
    pub fn step_spikes(&mut self, channels: &[u32], out: &mut [f32]) -> Result<()> {
        let start = self.timing.as_ref().map(Timing::start);
        self.check_out(out)?;
        if self.unknown_channels == UnknownChannels::Refuse {
            let known = self.channels();
            if let Some(channel) = channels.iter().find(|c| **c as usize >= known) {
                return Err(Error::mismatch(format!(
                    "spike on channel {channel}: expected a channel below {known}"
                )));
            }
        }
        self.step(|engine| engine.take_spikes(channels), out);
        if let Some(tap) = &mut self.tap {
            tap.take_spikes(channels);
        }
        self.stop(start);
        Ok(())
    }

    /// As many ticks as `counts` holds, (ticks, channels) row-major; `out` is (ticks, outputs).
    /// The same as one [`step_counts`](Self::step_counts) a tick.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`] when `counts` is not a whole number of ticks or `out` holds not as
    /// many. Nothing has changed then.
    pub fn run_counts(&mut self, counts: &[u16], out: &mut [f32]) -> Result<()> {
        let (channels, outputs) = (self.channels(), self.outputs());
        let ticks = counts.len() / channels;
        if counts.len() != ticks * channels || out.len() != ticks * outputs {
            return Err(Error::mismatch(format!(
                "expected counts of (ticks, {channels}) and room for (ticks, {outputs}) estimates, got {} and {} values",
                counts.len(),
                out.len()
            )));
        }
        let rows = counts.chunks_exact(channels);
        for (counts, out) in rows.zip(out.chunks_exact_mut(outputs)) {
            self.step_counts(counts, out)?;
        }
        Ok(())
    }

    /// Back to rest, as at the start of a segment. Counters, latencies and the model stay; a model
    /// that is warming up takes over at once, since it has nothing to catch up with any more.
    pub fn reset(&mut self) {
        self.counters.swaps += u64::from(self.running.reset(self.mailbox.as_ref()));
        if let Some(tap) = &mut self.tap {
            tap.rest();
        }
    }

    /// Whether the last step's spikes were an artefact by the model's
    /// [`Blanking`](crate::model::Blanking): mean counts were decoded in their place.
    pub fn was_blanked(&self) -> bool {
        self.running.active().blanked()
    }

    /// Whether the last step's latents lay outside what training saw, and were clipped. Never in a
    /// linear decoder.
    pub fn was_outside(&self) -> bool {
        self.running.active().outside()
    }

    /// What was counted and how long steps took. Costs a few microseconds; no allocation.
    pub fn stats(&self) -> Stats {
        let Counters {
            ticks,
            spikes,
            unknown,
            dropped,
            late,
            swaps,
        } = self.counters;
        Stats {
            ticks,
            spikes,
            unknown_channel_spikes: unknown,
            dropped,
            late,
            deadline_misses: self.timing.as_ref().map_or(0, Timing::misses),
            model_swaps: swaps,
            latency: (self.timing.as_ref()).map_or_else(Latency::default, Timing::latency),
        }
    }

    /// All counters and latencies back to zero.
    pub fn clear_stats(&mut self) {
        self.counters = Counters::default();
        if let Some(timing) = &mut self.timing {
            timing.clear();
        }
    }

    /// The handle through which another thread gives this session models while it runs. Allocates:
    /// take it when the session is opened.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] when it was taken before.
    pub fn swapper(&mut self) -> Result<Swapper> {
        if self.mailbox.is_some() {
            return Err(Error::argument(
                "swapper: expected one a session, got a second request",
            ));
        }
        let (swapper, mailbox) = super::swap::pair(Arc::clone(self.model()), self.mask.clone());
        self.mailbox = Some(mailbox);
        Ok(swapper)
    }

    /// Counts spikes that never came to a step, or came after their own.
    pub(super) fn count_losses(&mut self, dropped: u64, late: u64) {
        self.counters.dropped += dropped;
        self.counters.late += late;
    }

    pub(super) fn tap(&mut self) -> &mut Option<Attached> {
        &mut self.tap
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    pub(super) fn running(&self) -> &Running {
        &self.running
    }

    pub(super) fn running_mut(&mut self) -> &mut Running {
        &mut self.running
    }

    #[inline]
    fn check_out(&self, out: &[f32]) -> Result<()> {
        let outputs = self.outputs();
        if out.len() == outputs {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Mismatch,
            format!(
                "estimates: expected room for {outputs}, one an output of the model, got {}",
                out.len()
            ),
        ))
    }

    #[inline(always)]
    fn step(&mut self, take: impl Fn(&mut Engine) -> Taken, out: &mut [f32]) {
        if let Some(mailbox) = &mut self.mailbox {
            self.counters.swaps += u64::from(self.running.follow(mailbox));
        }
        let active = self.running.active_mut();
        let taken = take(active);
        for (out, estimate) in out.iter_mut().zip(active.advance()) {
            *out = *estimate as f32;
        }
        if let Some(clamp) = &self.clamp {
            for (out, Clamp { low, high }) in out.iter_mut().zip(clamp) {
                *out = out.clamp(*low, *high);
            }
        }
        self.counters.swaps += u64::from(self.running.feed_other(take, self.mailbox.as_ref()));
        self.counters.ticks += 1;
        self.counters.spikes += taken.known;
        self.counters.unknown += taken.unknown;
    }

    #[inline(always)]
    fn stop(&mut self, start: Option<u64>) {
        if let (Some(timing), Some(start)) = (&mut self.timing, start) {
            timing.stop(start);
        }
    }
}

/// The clone goes on bit for bit as the original does. It shares the model's weights, has counters,
/// latencies and a warming model of its own, no [`Swapper`] yet, and no [`Tap`](super::Tap).
impl Clone for Session {
    fn clone(&self) -> Self {
        Self {
            running: self.running.clone(),
            mailbox: None,
            mask: self.mask.clone(),
            clamp: self.clamp.clone(),
            unknown_channels: self.unknown_channels,
            timing: self.timing.clone(),
            counters: self.counters,
            tap: None,
        }
    }
}
