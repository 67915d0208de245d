//! Estimates at every tick from a model whose step is a bin of several ticks.

use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{Input, PreparedModel, Session, SessionConfig, StepRefused, StepStatus};
use crate::model::Decoder;
use betz_base::error::{Error, Result};
use betz_base::memory::filled;

/// Largest number of ticks of a bin.
pub const MAX_PHASES: usize = 1000;

/// One session of a model per tick of its step, each begun one tick after the other.
///
/// A network is tied to the bins that it was trained on. Here one of the sessions steps at each tick, with the counts of the
/// last bin's length, so that each sees bins as in training, and an estimate comes at every tick. A tick costs one step, on
/// all channels that fired in the last bin. Before the first tick counts are 0. Estimates of neighbouring ticks come from
/// different sessions, which differ in how their bins begin; a [slew limit](SessionConfig::slew) does not join them.
///
/// ```
/// use betz_runtime::model::{Decoder, DecoderParts};
/// use betz_runtime::psc::{Filter, FilterBank};
/// use betz_runtime::stream::{PhasedSession, SessionConfig};
///
/// // Counts of bins of 100 ms.
/// let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1 / 40.0, order: 0 }])?;
/// let parts = DecoderParts::linear(0.1, bank, vec!["a".into()], vec!["x".into()]);
/// let decoder = Decoder::new(DecoderParts { weights: vec![1.0], ..parts })?;
/// let mut session = PhasedSession::open(&decoder, 4, SessionConfig::default())?;
/// assert_eq!(session.tick_seconds(), 0.025);
/// let mut out = [0.0];
/// let mut estimates = Vec::new();
/// for spikes in [&[0, 0][..], &[], &[0], &[], &[]] {
///     session.step_spikes(spikes, &mut out)?;
///     estimates.push(out[0].round());
/// }
/// assert_eq!(estimates, [2.0, 2.0, 3.0, 3.0, 1.0]);
/// # Ok::<(), betz_base::Error>(())
/// ```
#[derive(Debug)]
pub struct PhasedSession {
    /// One per tick of a bin.
    sessions: Vec<Session>,
    /// The session whose turn is next.
    next: usize,
    /// Counts of the last bin's ticks, (tick, channel); those of `next` are the oldest.
    ring: Vec<u16>,
    /// Their sums, one per channel.
    sums: Vec<u32>,
    /// The sums as a session takes them.
    counts: Vec<u16>,
    /// Flags of the last step.
    status: StepStatus,
}

impl PhasedSession {
    /// Opens `phases` sessions of `decoder`, 1 to [`MAX_PHASES`], at rest: one per tick of its step. Allocates all memory
    /// that they will need.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) for another number; the errors of
    /// [`Session::open`].
    pub fn open(decoder: &Decoder, phases: usize, config: SessionConfig) -> Result<Self> {
        if !(1..=MAX_PHASES).contains(&phases) {
            return Err(Error::argument(format!(
                "phases: expected 1 to {MAX_PHASES} ticks of a step, got {phases}"
            )));
        }
        let model = Arc::new(PreparedModel::new(decoder, config.channel_mask.as_deref())?);
        let channels = model.channels();
        let sessions = (0..phases)
            .map(|_| Session::open_prepared(Arc::clone(&model), config.clone()))
            .collect::<Result<_>>()?;
        Ok(Self {
            sessions,
            next: 0,
            ring: filled("phased session", 0, phases * channels)?,
            sums: filled("phased session", 0, channels)?,
            counts: filled("phased session", 0, channels)?,
            status: StepStatus::OK,
        })
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.sums.len()
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        self.sessions[0].outputs()
    }

    /// Number of ticks of the model's step.
    pub fn phases(&self) -> usize {
        self.sessions.len()
    }

    /// Length of one tick in seconds.
    pub fn tick_seconds(&self) -> f64 {
        self.sessions[0].model().step_seconds() / self.phases() as f64
    }

    /// Flags of the last step: how far its estimates can be trusted.
    pub fn status(&self) -> StepStatus {
        self.status
    }

    /// Puts all sessions to rest, as before the first tick.
    pub fn reset(&mut self) {
        self.sessions.iter_mut().for_each(Session::reset);
        self.next = 0;
        self.ring.fill(0);
        self.sums.fill(0);
        self.status = StepStatus::OK;
    }

    /// Decodes one tick of counts, one per channel, and writes one estimate per output to `out`. Allocates nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `counts` is not one per channel or `out` not one per
    /// output. Nothing has changed then.
    pub fn step_counts(&mut self, counts: &[u16], out: &mut [f32]) -> Result<()> {
        self.check(Some(counts.len()), out.len())?;
        let channels = self.channels();
        let oldest = &mut self.ring[self.next * channels..][..channels];
        for ((sum, old), &new) in self.sums.iter_mut().zip(oldest).zip(counts) {
            *sum = *sum - u32::from(*old) + u32::from(new);
            *old = new;
        }
        self.step(out)
    }

    /// Decodes one tick from the channels that fired, one entry per spike, in any order, and writes one estimate per output
    /// to `out`. Allocates nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when `out` is not one per output, and for a channel that the
    /// model does not have. Nothing has changed then.
    pub fn step_spikes(&mut self, spikes: &[u32], out: &mut [f32]) -> Result<()> {
        self.check(None, out.len())?;
        let channels = self.channels();
        if let Some(spike) = spikes.iter().position(|&c| c as usize >= channels) {
            let channel = spikes[spike];
            let refused = StepRefused::UnknownChannel {
                spike,
                channel,
                channels,
            };
            return Err(refused.into_error());
        }
        let newest = &mut self.ring[self.next * channels..][..channels];
        for (sum, old) in self.sums.iter_mut().zip(newest.iter_mut()) {
            *sum -= u32::from(core::mem::take(old));
        }
        for &channel in spikes {
            let count = &mut newest[channel as usize];
            let more = count.saturating_add(1);
            self.sums[channel as usize] += u32::from(more - *count);
            *count = more;
        }
        self.step(out)
    }

    fn check(&self, counts: Option<usize>, out: usize) -> Result<()> {
        let (channels, outputs) = (self.channels(), self.outputs());
        let refused = match counts {
            _ if out != outputs => StepRefused::Outputs {
                expected: outputs,
                got: out,
            },
            Some(got) if got != channels => StepRefused::Channels {
                expected: channels,
                got,
            },
            _ => return Ok(()),
        };
        Err(refused.into_error())
    }

    /// Steps the session whose turn it is on the sums.
    fn step(&mut self, out: &mut [f32]) -> Result<()> {
        for (count, &sum) in self.counts.iter_mut().zip(&self.sums) {
            *count = u16::try_from(sum).unwrap_or(u16::MAX);
        }
        let session = &mut self.sessions[self.next];
        let done = session.try_step(&Input::Counts(&self.counts), out);
        self.status = session.status();
        self.next = (self.next + 1) % self.sessions.len();
        done.map_err(StepRefused::into_error)
    }
}
