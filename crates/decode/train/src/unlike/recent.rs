//! The newest steps of a session, kept as a recording.

use betz_base::error::Result;
use betz_recording::{Dataset, Segment, Spikes};
use betz_runtime::model::Decoder;
use betz_runtime::stream::{Spike, StepRecord};
use std::collections::VecDeque;

/// A larger count is not repeated as spikes.
const MOST_AT_ONCE: f32 = 1e4;

/// The newest steps: at most `most`, and their spikes. Every pause, gap and reset begins a segment.
pub(super) struct RecentSteps {
    most: i64,
    /// Steps since the beginning, which count those of pauses as well.
    next: i64,
    /// Value of `next` when the steps were looked at last.
    seen: i64,
    /// Ticks of the session minus steps, of the newest segment.
    offset: i64,
    segments: VecDeque<Segment>,
    /// Step, channel and count.
    fired: VecDeque<(i64, u32, f32)>,
}

impl RecentSteps {
    pub(super) fn new(most: u64) -> Self {
        Self {
            most: most as i64,
            next: 0,
            seen: 0,
            offset: 0,
            segments: VecDeque::new(),
            fired: VecDeque::new(),
        }
    }

    /// Adds a step after `pause` silent ones, or at the beginning of a segment.
    pub(super) fn push(&mut self, record: &StepRecord, pause: Option<u64>) {
        match (pause, self.segments.back_mut()) {
            (Some(pause), Some(newest)) => {
                self.next += pause as i64;
                newest.stop = self.next + 1;
            }
            _ => self.segments.push_back(Segment {
                start: self.next,
                stop: self.next + 1,
            }),
        }
        self.offset = record.tick.saturating_sub(self.next);
        let step = self.next;
        let fired = record.fired.iter().map(|&(channel, n)| (step, channel, n));
        self.fired.extend(fired);
        self.next += 1;
        self.forget(self.next - self.most);
    }

    /// Forgets everything before the step `first`.
    fn forget(&mut self, first: i64) {
        while self.fired.front().is_some_and(|(step, ..)| *step < first) {
            self.fired.pop_front();
        }
        while self.segments.front().is_some_and(|s| s.stop <= first) {
            self.segments.pop_front();
        }
        if let Some(oldest) = self.segments.front_mut() {
            oldest.start = oldest.start.max(first);
        }
    }

    /// True if a whole window came since the last call of [`see`](Self::see).
    pub(super) fn is_new(&self) -> bool {
        self.next - self.seen >= self.most
    }

    /// The next window begins here.
    pub(super) fn see(&mut self) {
        self.seen = self.next;
    }

    /// The steps as a recording of the channels of `decoder`, without behaviour.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory) if there is none for the copy.
    pub(super) fn recording(&self, decoder: &Decoder) -> Result<Dataset> {
        let (count, what) = (self.fired.len(), "the window of unlike training");
        betz_base::memory::expect(what, 16 * count)?;
        let first = self.segments.front().map_or(0, |s| s.start);
        let mut spikes = Spikes::default();
        for &(step, channel, n) in &self.fired {
            spikes.ticks.push(step - first);
            spikes.channels.push(channel);
            spikes.weights.push(n);
        }
        if spikes.weights.iter().all(|n| *n == 1.0) {
            spikes.weights.clear();
        }
        let segment = |s: &Segment| Segment {
            start: s.start - first,
            stop: s.stop - first,
        };
        Ok(Dataset {
            step_seconds: decoder.step_seconds(),
            steps: (self.next - first) as usize,
            channel_names: decoder.channel_names().to_vec(),
            spikes,
            segments: self.segments.iter().map(segment).collect(),
            outputs: Vec::new(),
            behavior: Vec::new(),
        })
    }

    /// Spikes of the newest segment on the session's clock, and the tick after it; `None` if it is shorter than
    /// `memory`, or if counts are not those of spikes.
    pub(super) fn replay(&self, memory: u64) -> Option<(Vec<Spike>, i64)> {
        let newest = self.segments.back()?;
        if (newest.len() as u64) < memory {
            return None;
        }
        let mut spikes = Vec::new();
        let first = self
            .fired
            .partition_point(|(step, ..)| *step < newest.start);
        for &(step, channel, n) in self.fired.range(first..) {
            if n < 0.0 || n.fract() != 0.0 || n > MOST_AT_ONCE {
                return None;
            }
            let tick = step.checked_add(self.offset)?;
            spikes.extend(std::iter::repeat_n(Spike { tick, channel }, n as usize));
        }
        Some((spikes, self.next.checked_add(self.offset)?))
    }
}
