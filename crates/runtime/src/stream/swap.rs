//! Another model for a running session: made ready off the loop, taken at a tick's boundary.
//!
//! States are of the *weighted* train, so they belong to one model and cannot be handed to another.
//! A new model therefore runs beside the old one, from rest, on the same spikes, until what it has
//! not seen is forgotten; only then do the estimates come from it. In full:
//!
//! 1. [`Swapper::swap`] prepares the model and its states in the caller's thread.
//! 2. At the boundary before some tick T the session takes it. From T on both models take every
//!    spike; estimates still come from the old one, bit for bit.
//! 3. After W ticks ([`PreparedModel::memory_steps`], or as told), at T + W, estimates come from the
//!    new one: those of a session that was opened with it at T. They differ from those of one that
//!    had always run it by the responses to spikes before T, less than 1e-7 of each for the default W.
//! 4. The old model stays in step as a standby, so that [`Swapper::roll_back`] is immediate and
//!    exact: estimates go on as if there had been no swap. [`Swapper::release`] ends that.
//!
//! Two models side by side double what a spike and a tick cost. The session neither allocates nor
//! frees: retired models travel back and are freed in the swapper's thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ringbuf::traits::{Consumer, Observer, Producer, Split};
use ringbuf::{HeapCons, HeapProd, HeapRb};

use super::PreparedModel;
use super::engine::{Engine, Taken};
use crate::model::Decoder;
use betz_base::error::{Error, Result};

/// Commands on their way to the session at most.
const COMMANDS: usize = 4;

/// Where a swap stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SwapState {
    /// One model runs; there is none to roll back to.
    Idle,
    /// The session has not taken the last request yet: it has not stepped since.
    Pending,
    /// The new model runs beside the old one, which still gives the estimates.
    WarmingUp,
    /// The new model gives the estimates; the one before stands by.
    TakenOver,
}

/// What the session tells the swapper, in one word: requests taken × 4 + phase.
#[derive(Debug, Default)]
struct Status(AtomicU64);

enum Command {
    Swap { engine: Box<Engine>, warm_up: u64 },
    RollBack,
    Release,
}

/// Gives a running session other models, from any one thread. See the module's description.
pub struct Swapper {
    commands: HeapProd<Command>,
    retired: HeapCons<Box<Engine>>,
    status: Arc<Status>,
    sent: u64,
    first: Arc<PreparedModel>,
    mask: Option<Vec<bool>>,
}

/// The session's end.
pub(super) struct Mailbox {
    commands: HeapCons<Command>,
    retired: HeapProd<Box<Engine>>,
    status: Arc<Status>,
    taken: u64,
}

pub(super) fn pair(first: Arc<PreparedModel>, mask: Option<Vec<bool>>) -> (Swapper, Mailbox) {
    let (send_command, take_command) = HeapRb::new(COMMANDS).split();
    let (send_retired, take_retired) = HeapRb::new(COMMANDS).split();
    let status = Arc::new(Status::default());
    let swapper = Swapper {
        commands: send_command,
        retired: take_retired,
        status: Arc::clone(&status),
        sent: 0,
        first,
        mask,
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
    /// Prepares `decoder`, with the session's mask, and sends it to the session, to take over
    /// after [`PreparedModel::memory_steps`]. A model still warming up is superseded, one standing
    /// by retired. Allocates; never blocks the session.
    ///
    /// # Errors
    /// As [`PreparedModel::new`]; [`ErrorKind::Mismatch`](betz_base::ErrorKind::Mismatch) when step,
    /// channels or outputs are not those of the running model;
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) when the session is gone or
    /// has left several requests untaken.
    pub fn swap(&mut self, decoder: &Decoder) -> Result<()> {
        let model = Arc::new(PreparedModel::new(decoder, self.mask.as_deref())?);
        let warm_up_steps = model.memory_steps();
        self.swap_prepared(model, warm_up_steps)
    }

    /// As [`swap`](Self::swap), with a model prepared already and a warm-up of one's own choice. 0
    /// takes over at the next tick, from rest.
    ///
    /// # Errors
    /// As [`swap`](Self::swap).
    pub fn swap_prepared(&mut self, model: Arc<PreparedModel>, warm_up_steps: u64) -> Result<()> {
        self.first.check_successor(&model)?;
        self.send(Command::Swap {
            engine: Box::new(Engine::new(model)),
            warm_up: warm_up_steps,
        })
    }

    /// Back to the model before, at the next tick and as if the swap had not been; during warm-up,
    /// the swap is called off.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`](betz_base::ErrorKind::InvalidArgument) when there is no model to
    /// roll back to: none was swapped in, or the one before was released.
    pub fn roll_back(&mut self) -> Result<()> {
        if self.state() == SwapState::Idle {
            return Err(Error::argument(
                "roll back: expected a model that was swapped in and one that stands by, got neither",
            ));
        }
        self.send(Command::RollBack)
    }

    /// Retires the model that stands by: steps cost one model again, and there is no way back. A
    /// model that is still warming up is left alone.
    ///
    /// # Errors
    /// As [`swap`](Self::swap), for a session that is gone or does not step.
    pub fn release(&mut self) -> Result<()> {
        self.send(Command::Release)
    }

    /// Where the last swap stands.
    pub fn state(&self) -> SwapState {
        let status = self.status.0.load(Ordering::Acquire);
        match status % 4 {
            _ if status / 4 != self.sent => SwapState::Pending,
            0 => SwapState::Idle,
            1 => SwapState::WarmingUp,
            _ => SwapState::TakenOver,
        }
    }

    /// Frees models that the session has retired, and says how many. Every request does so too.
    pub fn reclaim(&mut self) -> usize {
        self.retired.pop_iter().count()
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
    fn tell(&self, phase: u64) {
        (self.status.0).store(self.taken * 4 + phase, Ordering::Release);
    }
}

/// The engines of a session: the one that gives the estimates, and one beside it during a swap.
#[derive(Debug, Clone)]
pub(super) struct Running {
    active: Box<Engine>,
    other: Option<Other>,
}

#[derive(Debug, Clone)]
struct Other {
    engine: Box<Engine>,
    /// Ticks until this engine takes over; `None`: it stands by.
    warm_up: Option<u64>,
}

impl Running {
    pub(super) fn new(active: Box<Engine>) -> Self {
        Self {
            active,
            other: None,
        }
    }

    #[inline(always)]
    pub(super) fn active(&self) -> &Engine {
        &self.active
    }

    #[inline(always)]
    pub(super) fn active_mut(&mut self) -> &mut Engine {
        &mut self.active
    }

    /// Whether a second engine runs.
    pub(super) fn is_swapping(&self) -> bool {
        self.other.is_some()
    }

    /// Takes one request, if there is one, at a tick's boundary; true when another model gives the
    /// estimates from now on. Moves pointers only.
    #[inline(always)]
    pub(super) fn follow(&mut self, mailbox: &mut Mailbox) -> bool {
        // Each request retires one engine at most; without room for it the request waits.
        if mailbox.commands.is_empty() || mailbox.retired.is_full() {
            return false;
        }
        self.take(mailbox)
    }

    #[cold]
    fn take(&mut self, mailbox: &mut Mailbox) -> bool {
        let Some(command) = mailbox.commands.try_pop() else {
            return false;
        };
        mailbox.taken += 1;
        let mut other_model_active = false;
        let retired = match command {
            Command::Swap { engine, warm_up } => {
                let before = self.other.replace(Other {
                    engine,
                    warm_up: Some(warm_up),
                });
                if warm_up == 0 {
                    self.exchange();
                    other_model_active = true;
                }
                before
            }
            Command::RollBack => {
                if self.standing_by() {
                    self.exchange();
                    other_model_active = true;
                }
                self.other.take()
            }
            Command::Release if self.standing_by() => self.other.take(),
            Command::Release => None,
        };
        if let Some(retired) = retired {
            // There is room: asked for above, and only this end fills the ring.
            if let Err(engine) = mailbox.retired.try_push(retired.engine) {
                std::mem::forget(engine);
            }
        }
        mailbox.tell(self.phase());
        other_model_active
    }

    /// Feeds the second engine, if there is one, with the tick that the active one has just taken;
    /// true when its warm-up is over and it gives the estimates from the next tick on.
    #[inline(always)]
    pub(super) fn feed_other(
        &mut self,
        take: impl Fn(&mut Engine) -> Taken,
        mailbox: Option<&Mailbox>,
    ) -> bool {
        let Some(other) = &mut self.other else {
            return false;
        };
        take(&mut other.engine);
        other.engine.advance();
        match &mut other.warm_up {
            Some(ticks @ 2..) => {
                *ticks -= 1;
                false
            }
            Some(_) => {
                self.exchange();
                if let Some(mailbox) = mailbox {
                    mailbox.tell(self.phase());
                }
                true
            }
            None => false,
        }
    }

    /// Both engines to rest. One that was warming up is then as good as the other and takes over:
    /// true in that case.
    pub(super) fn reset(&mut self, mailbox: Option<&Mailbox>) -> bool {
        self.active.reset();
        let Some(other) = &mut self.other else {
            return false;
        };
        other.engine.reset();
        if other.warm_up.is_none() {
            return false;
        }
        self.exchange();
        if let Some(mailbox) = mailbox {
            mailbox.tell(self.phase());
        }
        true
    }

    fn standing_by(&self) -> bool {
        (self.other.as_ref()).is_some_and(|other| other.warm_up.is_none())
    }

    /// The second engine gives the estimates from now on; the first stands by.
    fn exchange(&mut self) {
        if let Some(other) = &mut self.other {
            std::mem::swap(&mut self.active, &mut other.engine);
            other.warm_up = None;
        }
    }

    fn phase(&self) -> u64 {
        match &self.other {
            None => 0,
            Some(Other {
                warm_up: Some(_), ..
            }) => 1,
            Some(Other { warm_up: None, .. }) => 2,
        }
    }
}
