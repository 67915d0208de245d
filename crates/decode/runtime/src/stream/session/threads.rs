//! Requests of other threads to a session, and reports to them: models, settings, health, channels.

use alloc::boxed::Box;
use alloc::sync::Arc;

use super::{Counters, Session};
use crate::stream::channels::{ChannelWatch, WatchCounts};
use crate::stream::swap::{self, Command, Mailbox, SwapRemains};
use crate::stream::timing::Timing;
use crate::stream::{Health, HealthReader, StepStatus, Swapper};
use betz_base::error::{Error, Result};

impl Session {
    /// Handle through which another thread gives this session models while it runs. Allocates: take it when you open
    /// the session.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if it was taken before.
    pub fn swapper(&mut self) -> Result<Swapper> {
        if self.mailbox.is_some() {
            return Err(Error::argument(
                "swapper: expected one per session, got a second request",
            ));
        }
        let (model, length) = (Arc::clone(self.model()), self.checkpoint_len());
        let (swapper, mailbox) =
            swap::pair(model, self.mask.clone(), length, Arc::clone(self.places()));
        self.mailbox = Some(mailbox);
        Ok(swapper)
    }

    /// From now on every step publishes the session's [`Health`], which the reader (and its clones) may read from any
    /// thread. A step takes about 10 ns longer. Allocates once.
    pub fn health(&mut self) -> HealthReader {
        let published = Arc::clone(self.published.get_or_insert_default());
        published.write(self.current_health());
        HealthReader { published }
    }

    #[inline(always)]
    pub(super) fn has_request(&self) -> bool {
        (self.mailbox.as_ref()).is_some_and(Mailbox::has_request)
    }

    /// Takes the pending requests of the [`Swapper`] now instead of at the next steps, one per step. Use it to see
    /// their effect before the next step. Nothing is allocated or freed.
    pub fn take_requests(&mut self) {
        while self.has_request() {
            let changed = self.follow();
            self.pending |= StepStatus::SWAPPED.when(changed);
        }
    }

    /// Counts the channels' spikes for a watch from now on.
    pub(in crate::stream) fn count_for(&mut self, counted: Arc<WatchCounts>) {
        self.counted = Some(counted);
        self.watch = None;
    }

    /// From now on the session's steps run the watch themselves.
    pub(in crate::stream) fn keep_watch(&mut self, watch: ChannelWatch) {
        self.watch = Some(Box::new(watch));
    }

    pub(super) fn current_health(&self) -> Health {
        let Counters {
            ticks,
            spikes,
            unknown,
            dropped,
            late,
            future,
            skipped,
            swaps,
        } = self.counters;
        let timing = self.timing.as_ref();
        Health {
            tick: self.tick.saturating_sub(1),
            status: self.status,
            ticks,
            skipped,
            spikes,
            unknown_channel_spikes: unknown,
            dropped,
            late,
            future,
            model_swaps: swaps,
            deadline_misses: timing.map_or(0, Timing::misses),
            latency_ns: timing.map_or(0, |timing| timing.last_ns().into()),
            longest_ns: timing.map_or(0, Timing::longest_ns),
            model: self.model().fingerprint(),
            swap: self.running.state(),
            capped: self.capped,
        }
    }

    /// Takes one request between two ticks. Returns true if another model gives the estimates from now on. Moves only
    /// pointers.
    #[cold]
    pub(super) fn follow(&mut self) -> bool {
        let Some(command) = self.mailbox.as_mut().and_then(Mailbox::next) else {
            return false;
        };
        let mut changed = false;
        let retired = match command {
            Command::Swap {
                mut engine,
                warm_up,
                fade,
                replayed_to,
            } => {
                if let Some(replayed_to) = replayed_to {
                    let since = self.tick.saturating_sub(replayed_to).max(0);
                    engine.skip(since as u64);
                }
                let (before, at_once) = self.running.swap_in(engine, warm_up, fade);
                changed = at_once;
                before.map(SwapRemains::Engine)
            }
            Command::RollBack => {
                let (other, back) = self.running.roll_back();
                changed = back;
                other.map(SwapRemains::Engine)
            }
            Command::Release => self.running.release().map(SwapRemains::Engine),
            Command::Mask(model) => {
                let before = self.running.active_mut().exchange_rows(model);
                Some(SwapRemains::Model(before))
            }
            Command::Clamp(clamp) => {
                let before = core::mem::replace(&mut self.clamp, clamp);
                Some(SwapRemains::Clamp(before))
            }
            Command::Attach(tap) => self.add_tap(tap).map(SwapRemains::Tap),
            Command::Detach => self.take_tap().map(SwapRemains::Tap),
            Command::Checkpoint(mut bytes) => {
                // Truncating keeps the memory: this frees nothing.
                let length = self.checkpoint_into(&mut bytes).unwrap_or(0);
                bytes.truncate(length);
                Some(SwapRemains::Checkpoint(bytes))
            }
        };
        self.counters.swaps = self.counters.swaps.saturating_add(u64::from(changed));
        if let Some(mailbox) = &mut self.mailbox {
            if let Some(retired) = retired {
                mailbox.retire(retired);
            }
            self.running.tell(mailbox);
        }
        changed
    }
}
