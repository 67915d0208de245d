//! Swapping the model of a running session: prepared outside the loop, taken between two ticks.
//!
//! Filter states hold *weighted* spike trains, so they belong to one model and cannot be passed to
//! another. A new model therefore starts from rest and runs in parallel with the old one, on the same
//! spikes, until the spikes before its start no longer matter. Only then does it give the estimates. The
//! steps are:
//!
//! 1. [`Swapper::swap`] prepares the model and its states in the caller's thread.
//! 2. Between two ticks, before some tick T, the session takes it. From T on both models take every
//!    spike; the old one still gives the estimates, bit for bit.
//! 3. After W ticks ([`PreparedModel::memory_steps`], or the requested number), at T + W, the new model
//!    gives the estimates: those of a session that was opened with it at T. They differ from those of a
//!    session that had always run it by the responses to spikes before T, less than 1e-7 of each for the
//!    default W.
//! 4. The old model stays in step as a standby, so that [`Swapper::roll_back`] is immediate and exact:
//!    estimates continue as if there had been no swap. [`Swapper::release`] ends the standby.
//!
//! With a cross-fade of N ticks the estimates move from the old model's to the new one's in a straight
//! line over the N ticks after the warm-up. Replay can shorten a warm-up: the new model runs over
//! recorded spikes in the caller's thread, and the session lets it pass the ticks since then in silence.
//!
//! Other changes to a running session work in the same way: masks, clamps, taps, requested checkpoints.
//! All are prepared outside the loop; the session only moves pointers.
//!
//! Two models in parallel double the cost of a spike and of a tick. The session neither allocates nor
//! frees: retired models are sent back and freed in the swapper's thread.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

use ringbuf::traits::{Consumer, Observer, Producer, Split};
use ringbuf::{HeapCons, HeapProd, HeapRb};

use super::config::check_clamp;
use super::engine::Engine;
use super::tap::{Input, Tap, TapPlaces, TapSlot};
use super::{Clamp, PreparedModel, Spike, SwapState};
use crate::model::Decoder;
use betz_base::error::{Error, Result};

/// Largest number of commands on their way to the session.
const COMMANDS: usize = 4;

/// Progress of a swap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SwapProgress {
    /// State of the swap.
    pub state: SwapState,
    /// Number of ticks until the new model alone gives the estimates; 0 if it does, or if there is none.
    /// While the request is pending: the number that was requested.
    pub ticks_left: u64,
    /// Total number of ticks of the warm-up and the cross-fade of the last swap.
    pub ticks: u64,
    /// Fingerprint of the decoder that gives the estimates ([`PreparedModel::decoder_fingerprint`]).
    pub running: u64,
}

/// Options of a swap.
#[derive(Debug, Clone, Copy, Default)]
pub struct SwapOptions<'a> {
    /// Number of ticks until the new model takes over; `None`: the length of its memory
    /// ([`PreparedModel::memory_steps`]).
    pub warm_up_steps: Option<u64>,
    /// Number of ticks of the cross-fade to the new model's estimates, after the warm-up.
    pub cross_fade_steps: u64,
    /// True to match channels and outputs by position, whatever their names; false to require the running
    /// model's names in the same order.
    pub by_position: bool,
    /// Recorded spikes that warm the new model up, in the caller's thread.
    pub replay: Option<Replay<'a>>,
}

/// Spikes of the last ticks, which warm a model up.
#[derive(Debug, Clone, Copy)]
pub struct Replay<'a> {
    /// Spikes in ascending order of their ticks, on the session's clock.
    pub spikes: &'a [Spike],
    /// The first tick after those that the spikes cover. The session treats the ticks from here to its
    /// own as silent; choose `warm_up_steps` so long that the missing spikes no longer matter.
    pub end_tick: i64,
}

/// Message from the session to the swapper: requests taken × 4 + phase, ticks left, the running model.
#[derive(Debug, Default)]
struct Status {
    word: AtomicU64,
    ticks_left: AtomicU64,
    running: AtomicU64,
}

pub(super) enum Command {
    Swap {
        engine: Box<Engine>,
        warm_up: u64,
        fade: u64,
        replayed_to: Option<i64>,
    },
    RollBack,
    Release,
    Mask(Arc<PreparedModel>),
    Clamp(Option<Vec<Clamp>>),
    Attach(TapSlot),
    Detach,
    Checkpoint(Vec<u8>),
}

/// Objects that the session sends back, to be freed or taken in the swapper's thread.
pub(super) enum SwapRemains {
    Engine(Box<Engine>),
    #[allow(dead_code)] // freed, never read
    Model(Arc<PreparedModel>),
    #[allow(dead_code)] // freed, never read
    Clamp(Option<Vec<Clamp>>),
    Tap(TapSlot),
    Checkpoint(Vec<u8>),
}

/// Gives a running session other models and settings, from any single thread. See the module's
/// documentation.
pub struct Swapper {
    commands: HeapProd<Command>,
    retired: HeapCons<SwapRemains>,
    status: Arc<Status>,
    sent: u64,
    /// Value of `sent` when the last model was sent.
    swap_sent: u64,
    /// Number of ticks of the last swap that was sent.
    ticks: u64,
    first: Arc<PreparedModel>,
    mask: Option<Vec<bool>>,
    checkpoint_len: usize,
    checkpoint: Option<Vec<u8>>,
    taps: Vec<Box<dyn Tap>>,
    places: Arc<TapPlaces>,
}

/// The session's end of the connection.
pub(super) struct Mailbox {
    commands: HeapCons<Command>,
    retired: HeapProd<SwapRemains>,
    status: Arc<Status>,
    taken: u64,
}

pub(super) fn pair(
    first: Arc<PreparedModel>,
    mask: Option<Vec<bool>>,
    checkpoint_len: usize,
    places: Arc<TapPlaces>,
) -> (Swapper, Mailbox) {
    let (send_command, take_command) = HeapRb::new(COMMANDS).split();
    let (send_retired, take_retired) = HeapRb::new(COMMANDS).split();
    let status = Arc::new(Status::default());
    let running = first.decoder_fingerprint();
    status.running.store(running, Ordering::Relaxed);
    let swapper = Swapper {
        commands: send_command,
        retired: take_retired,
        status: Arc::clone(&status),
        sent: 0,
        swap_sent: 0,
        ticks: 0,
        first,
        mask,
        checkpoint_len,
        checkpoint: None,
        taps: Vec::new(),
        places,
    };
    let mailbox = Mailbox {
        commands: take_command,
        retired: send_retired,
        status,
        taken: 0,
    };
    (swapper, mailbox)
}

impl Swapper {
    /// Prepares `decoder`, with the session's mask, and sends it to the session, where it takes over
    /// after [`PreparedModel::memory_steps`]. It replaces a model that is still warming up, and retires
    /// one on standby. Allocates; never blocks the session.
    ///
    /// # Errors
    /// The errors of [`PreparedModel::new`]; [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) if
    /// step, channels or outputs differ from the running model's;
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if the session is gone or
    /// several requests still wait for it.
    pub fn swap(&mut self, decoder: &Decoder) -> Result<()> {
        self.swap_with(decoder, &SwapOptions::default())
    }

    /// Swaps like [`swap`](Self::swap), with the given warm-up, cross-fade and matching.
    ///
    /// # Errors
    /// The errors of [`swap`](Self::swap);
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if ticks of the spikes to
    /// replay descend or are not before `end_tick`.
    pub fn swap_with(&mut self, decoder: &Decoder, options: &SwapOptions<'_>) -> Result<()> {
        let model = Arc::new(PreparedModel::new(decoder, self.mask.as_deref())?);
        self.swap_prepared_with(model, options)
    }

    /// Swaps like [`swap_with`](Self::swap_with), with a prepared model.
    ///
    /// # Errors
    /// The same as for [`swap_with`](Self::swap_with).
    pub fn swap_prepared_with(
        &mut self,
        model: Arc<PreparedModel>,
        options: &SwapOptions<'_>,
    ) -> Result<()> {
        self.first.check_successor(&model, options.by_position)?;
        let warm_up = options.warm_up_steps.unwrap_or(model.memory_steps());
        let fade = options.cross_fade_steps;
        let mut engine = Box::new(Engine::new(model)?);
        if let Some(replay) = &options.replay {
            warm(&mut engine, replay)?;
        }
        self.ticks = warm_up.saturating_add(fade);
        self.send(Command::Swap {
            engine,
            warm_up,
            fade,
            replayed_to: options.replay.map(|replay| replay.end_tick),
        })?;
        self.swap_sent = self.sent;
        Ok(())
    }

    /// Returns to the previous model, at the next tick and as if the swap had not happened. During
    /// warm-up and cross-fade this cancels the swap.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if there is no model to
    /// return to: none was swapped in, or the previous one was released.
    pub fn roll_back(&mut self) -> Result<()> {
        if self.state() == SwapState::Idle {
            return Err(Error::argument(
                "roll back: expected a model that was swapped in and one that stands by, got neither",
            ));
        }
        self.send(Command::RollBack)
    }

    /// Retires the model on standby: a step costs one model again, and a rollback is no longer possible.
    /// A model that is still warming up is not affected.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if the session is gone or
    /// several requests still wait for it.
    pub fn release(&mut self) -> Result<()> {
        self.send(Command::Release)
    }

    /// Leaves out the channels that are false in `mask`, from the session's next step on (`None`: leaves
    /// none out). `decoder` is the one that the session runs. Filters are not reset: the responses to
    /// earlier spikes of a channel decay. Models that are swapped in later get the same mask.
    ///
    /// # Errors
    /// The errors of [`PreparedModel::new`]; [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) for
    /// another decoder; [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) during a
    /// swap, or while a model is on standby (release it first).
    pub fn set_mask(&mut self, decoder: &Decoder, mask: Option<&[bool]>) -> Result<()> {
        // Other requests may be on their way.
        let status = self.status.word.load(Ordering::Acquire);
        let idle = SwapState::from_phase(status % 4) == SwapState::Idle;
        if !idle || status / 4 < self.swap_sent {
            return Err(Error::argument(
                "channel mask: expected a session without a swap in progress; release it or roll it back first",
            ));
        }
        let model = Arc::new(PreparedModel::new(decoder, mask)?);
        self.first.check_successor(&model, true)?;
        if model.decoder_fingerprint() != self.status.running.load(Ordering::Relaxed) {
            return Err(Error::mismatch(
                "channel mask: expected the decoder that the session runs, got another",
            ));
        }
        self.send(Command::Mask(model))?;
        self.mask = mask.map(<[bool]>::to_vec);
        Ok(())
    }

    /// Replaces the bounds of the session's outputs from its next step on; `None` removes them.
    ///
    /// # Errors
    /// The errors of a session's [`clamp`](super::SessionConfig::clamp) and of
    /// [`release`](Self::release).
    pub fn set_clamp(&mut self, clamp: Option<Vec<Clamp>>) -> Result<()> {
        if let Some(clamp) = &clamp {
            check_clamp(clamp, self.first.outputs())?;
        }
        self.send(Command::Clamp(clamp))
    }

    /// Attaches a tap like [`Session::attach`](super::Session::attach), from the session's next step on.
    /// Its first tick is `first_tick`, or that of the session's clock.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) if the session has
    /// [`MAX_TAPS`](super::MAX_TAPS) taps or will have them after the requests that wait; the errors of
    /// [`release`](Self::release).
    pub fn attach(&mut self, tap: Box<dyn Tap>, first_tick: Option<i64>) -> Result<()> {
        // A tap that has come back leaves its place.
        self.reclaim();
        let place = self.places.reserve()?;
        let attached = TapSlot::new(tap, first_tick, self.first.step_seconds(), place);
        self.send(Command::Attach(attached))
    }

    /// Requests the tap that was attached last, at the session's next step.
    ///
    /// # Errors
    /// The same as for [`release`](Self::release).
    pub fn detach(&mut self) -> Result<()> {
        self.send(Command::Detach)
    }

    /// Returns a tap that the session has sent back.
    pub fn take_tap(&mut self) -> Option<Box<dyn Tap>> {
        self.reclaim();
        self.taps.pop()
    }

    /// Requests a [checkpoint](super::Session::checkpoint) of the session between two of its steps; fetch
    /// it with [`take_checkpoint`](Self::take_checkpoint). This call allocates its memory.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory), and the errors of
    /// [`release`](Self::release).
    pub fn request_checkpoint(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        let length = 2 * self.checkpoint_len + 4096;
        bytes
            .try_reserve_exact(length)
            .map_err(|_| Error::no_memory("checkpoint", length))?;
        bytes.resize(length, 0);
        self.send(Command::Checkpoint(bytes))
    }

    /// Returns the last requested checkpoint, once the session has made it. Also returns `None` if the
    /// running model has many more states than the first one; then use
    /// [`Session::checkpoint`](super::Session::checkpoint).
    pub fn take_checkpoint(&mut self) -> Option<Vec<u8>> {
        self.reclaim();
        self.checkpoint.take()
    }

    /// State of the last swap.
    pub fn state(&self) -> SwapState {
        let status = self.status.word.load(Ordering::Acquire);
        match status % 4 {
            _ if status / 4 != self.sent => SwapState::Pending,
            phase => SwapState::from_phase(phase),
        }
    }

    /// Progress of the last swap, and the model that runs.
    pub fn progress(&self) -> SwapProgress {
        let state = self.state();
        let ticks_left = match state {
            SwapState::Pending => self.ticks,
            SwapState::WarmingUp => self.status.ticks_left.load(Ordering::Relaxed),
            SwapState::Idle | SwapState::TakenOver => 0,
        };
        SwapProgress {
            state,
            ticks_left,
            ticks: self.ticks,
            running: self.status.running.load(Ordering::Relaxed),
        }
    }

    /// Frees the objects that the session has retired and returns the number of models among them. Every
    /// request does so, too.
    pub fn reclaim(&mut self) -> usize {
        let mut models = 0;
        while let Some(retired) = self.retired.try_pop() {
            match retired {
                SwapRemains::Engine(engine) => {
                    models += 1;
                    drop(engine);
                }
                // A closed one, which another tap has replaced, is freed here.
                SwapRemains::Tap(attached) => {
                    if !attached.is_closed() {
                        self.taps.push(attached.into_tap());
                    }
                }
                SwapRemains::Checkpoint(bytes) => {
                    self.checkpoint = (!bytes.is_empty()).then_some(bytes);
                }
                SwapRemains::Model(_) | SwapRemains::Clamp(_) => {}
            }
        }
        models
    }

    fn send(&mut self, command: Command) -> Result<()> {
        self.reclaim();
        if !self.commands.read_is_held() {
            return Err(Error::argument(
                "model swap: expected a session, but it was closed",
            ));
        }
        self.commands.try_push(command).map_err(|_| {
            Error::argument(format!(
                "model swap: expected a session that steps, but it has left {COMMANDS} requests untaken"
            ))
        })?;
        self.sent += 1;
        Ok(())
    }
}

/// Runs `engine` over the recorded ticks.
fn warm(engine: &mut Engine, replay: &Replay<'_>) -> Result<()> {
    let Some(first) = replay.spikes.first() else {
        return Ok(());
    };
    let sorted = replay.spikes.is_sorted_by_key(|spike| spike.tick);
    if !sorted
        || replay
            .spikes
            .iter()
            .any(|spike| spike.tick >= replay.end_tick)
    {
        return Err(Error::argument(format!(
            "replay: expected ticks that ascend and lie before {}",
            replay.end_tick
        )));
    }
    let mut channels = Vec::new();
    let mut tick = first.tick;
    for spikes in replay.spikes.chunk_by(|a, b| a.tick == b.tick) {
        let now = spikes[0].tick;
        engine.skip_whole(now.abs_diff(tick));
        channels.clear();
        channels.extend(spikes.iter().map(|spike| spike.channel));
        engine.take(&Input::Spikes(&channels));
        engine.advance();
        tick = now.saturating_add(1);
    }
    engine.skip_whole(replay.end_tick.abs_diff(tick));
    Ok(())
}

impl fmt::Debug for Swapper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("Swapper").field("state", &self.state())).finish_non_exhaustive()
    }
}

impl fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (f.debug_struct("Mailbox").field("taken", &self.taken)).finish_non_exhaustive()
    }
}

impl Mailbox {
    /// True if a request waits. The session takes requests between two ticks. Each retires at most one
    /// object; without room for it the request waits.
    #[inline(always)]
    pub(super) fn has_request(&self) -> bool {
        !self.commands.is_empty() && !self.retired.is_full()
    }

    pub(super) fn next(&mut self) -> Option<Command> {
        let command = self.commands.try_pop()?;
        self.taken += 1;
        Some(command)
    }

    pub(super) fn retire(&mut self, retired: SwapRemains) {
        // There is room: this was checked before, and only this end fills the ring.
        if let Err(retired) = self.retired.try_push(retired) {
            core::mem::forget(retired);
        }
    }

    /// Progress of a swap, the model that gives the estimates, and ticks until the other one does.
    pub(super) fn tell(&self, state: SwapState, model: u64, left: u64) {
        self.status.running.store(model, Ordering::Relaxed);
        self.tell_left(left);
        let phase = state as u64;
        (self.status.word).store(self.taken * 4 + phase, Ordering::Release);
    }

    #[inline(always)]
    pub(super) fn tell_left(&self, left: u64) {
        self.status.ticks_left.store(left, Ordering::Relaxed);
    }
}
