//! A step that leaves no trace, so that the next one finds its code and data in the caches.

use super::{Counters, Session};
use crate::stream::StepStatus;
use crate::stream::tap::Input;
use alloc::vec::Vec;
use betz_base::error::Result;
use betz_base::memory::filled;

/// Weights that a warm call reads at most, in bytes: a part of the second-level cache.
const MOST_WEIGHTS: usize = 256 << 10;

/// The form in which spikes came last, and so are likely to come next.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::stream) enum Form {
    #[default]
    Counts,
    CountsU8,
    CountsF32,
    Spikes,
}

impl Form {
    #[inline(always)]
    pub(super) fn of(input: &Input<'_>) -> Self {
        match input {
            Input::Counts(_) => Self::Counts,
            Input::CountsU8(_) => Self::CountsU8,
            Input::CountsF32(_) => Self::CountsF32,
            Input::Spikes(_) => Self::Spikes,
        }
    }
}

/// Inputs of a warm call, and room for everything of the session that it puts back. (Engines keep their own.)
#[derive(Debug, Clone)]
pub(super) struct Warmth {
    /// 1 for each channel whose weights are read, in every form of counts.
    counts: Vec<u16>,
    counts_u8: Vec<u8>,
    counts_f32: Vec<f32>,
    /// The same as a list, of `fired` entries; room for `most`.
    spikes: Vec<u32>,
    fired: usize,
    /// Most channels whose weights are read.
    most: usize,
    out: Vec<f32>,
    last: Vec<f32>,
    given: Vec<f32>,
}

impl Warmth {
    /// For a session of so many channels, whose weights take `row_bytes` each, and outputs.
    pub(super) fn new(channels: usize, row_bytes: usize, outputs: usize) -> Result<Self> {
        const WHAT: &str = "session";
        let most = (MOST_WEIGHTS / row_bytes.max(1)).max(1);
        let most = most.min(channels);
        Ok(Self {
            counts: filled(WHAT, 0, channels)?,
            counts_u8: filled(WHAT, 0, channels)?,
            counts_f32: filled(WHAT, 0.0, channels)?,
            spikes: filled(WHAT, 0, most)?,
            fired: 0,
            most,
            out: filled(WHAT, 0.0, outputs)?,
            last: filled(WHAT, 0.0, outputs)?,
            given: filled(WHAT, 0.0, outputs)?,
        })
    }

    /// Has so many channels fire, at the same distance from each other; no more than [`Self::most`].
    fn spread(&mut self, spikes: u64) {
        let spikes = usize::try_from(spikes).map_or(self.most, |spikes| spikes.min(self.most));
        self.counts.fill(0);
        self.counts_u8.fill(0);
        self.counts_f32.fill(0.0);
        self.fired = spikes;
        for (i, spike) in self.spikes[..spikes].iter_mut().enumerate() {
            let channel = i * self.counts.len() / spikes;
            self.counts[channel] = 1;
            self.counts_u8[channel] = 1;
            self.counts_f32[channel] = 1.0;
            *spike = channel as u32;
        }
    }

    fn input(&self, form: Form) -> Input<'_> {
        match form {
            Form::Counts => Input::Counts(&self.counts),
            Form::CountsU8 => Input::CountsU8(&self.counts_u8),
            Form::CountsF32 => Input::CountsF32(&self.counts_f32),
            Form::Spikes => Input::Spikes(&self.spikes[..self.fired]),
        }
    }
}

/// The numbers of a session that a step changes.
struct Snapshot {
    counters: Counters,
    tick: i64,
    stepped: Option<i64>,
    clock_is_set: bool,
    pending: StepStatus,
    status: StepStatus,
    form: Form,
    flagged: u64,
}

impl Session {
    /// Brings the code and the data of a step into the caches, for a caller that has woken before the spikes are there:
    /// a step that follows soon takes a fraction of the time that it takes after other work.
    ///
    /// Runs the step's own code twice, on spikes of the form that came last, and puts back what it has changed: outputs,
    /// counters, latencies, status and taps are as if it had not been called, to the bit. Takes a few microseconds. Does
    /// not allocate, lock or call the system.
    ///
    /// ```
    /// # use betz_runtime::model::{Decoder, DecoderParts};
    /// # use betz_runtime::psc::{Filter, FilterBank};
    /// # use betz_runtime::stream::{Session, SessionConfig};
    /// # let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
    /// # let decoder = Decoder::new(DecoderParts::linear(0.01, bank, vec!["a".into()], vec!["x".into()]))?;
    /// let mut session = Session::open(&decoder, SessionConfig::default())?;
    /// let mut x = [0.0];
    /// session.warm(); // awake, and the tick's spikes are on their way
    /// session.step_counts(&[1], &mut x)?;
    /// assert_eq!(session.stats().ticks, 1);
    /// # Ok::<(), betz_base::Error>(())
    /// ```
    pub fn warm(&mut self) {
        self.warm_for(self.form);
    }

    /// As [`warm`](Self::warm), for spikes of that form.
    pub(in crate::stream) fn warm_for(&mut self, form: Form) {
        // Moved out and back: these neither hear of the step nor bring work into it.
        let Some(mut warmth) = self.warmth.take() else {
            return;
        };
        let taps = core::mem::take(&mut self.taps);
        let (mailbox, published) = (self.mailbox.take(), self.published.take());
        let counted = self.counted.take();
        let mut other = self.running.take_other();
        let before = self.snapshot();
        warmth.last.copy_from_slice(self.holding.state().1);
        if let Some(slew) = &self.slew {
            warmth.given.copy_from_slice(slew.state());
        }
        let timing = self.timing.as_mut().map(|timing| timing.suspend());
        self.running.active_mut().keep();
        let mut out = core::mem::take(&mut warmth.out);
        // First all weights; then as many spikes as usual, which branches are predicted for, and which take about as
        // long as the step to come, and so find its place among the latencies.
        let usual = self.counters.spikes / self.counters.ticks.max(1);
        for spikes in [u64::MAX, usual] {
            warmth.spread(spikes);
            let input = warmth.input(form);
            if let Some(other) = &mut other {
                other.warm(&input);
            }
            let start = self.timing.as_ref().map(|timing| timing.start());
            self.step_from(&input, StepStatus::OK, &mut out, start);
        }
        warmth.out = out;
        self.running.active_mut().put_back();
        if let (Some(now), Some(timing)) = (&mut self.timing, timing) {
            now.resume(timing);
        }
        if let Some(slew) = &mut self.slew {
            slew.state_mut().copy_from_slice(&warmth.given);
        }
        self.put_back(&before, &warmth.last);
        self.running.put_other(other);
        (self.taps, self.mailbox, self.published) = (taps, mailbox, published);
        (self.counted, self.warmth) = (counted, Some(warmth));
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            counters: self.counters,
            tick: self.tick,
            stepped: self.stepped,
            clock_is_set: self.clock_is_set,
            pending: self.pending,
            status: self.status,
            form: self.form,
            flagged: self.holding.state().0,
        }
    }

    fn put_back(&mut self, before: &Snapshot, last: &[f32]) {
        self.counters = before.counters;
        self.tick = before.tick;
        self.stepped = before.stepped;
        self.clock_is_set = before.clock_is_set;
        self.pending = before.pending;
        self.status = before.status;
        self.form = before.form;
        let (flagged, held) = self.holding.state_mut();
        *flagged = before.flagged;
        held.copy_from_slice(last);
    }
}
