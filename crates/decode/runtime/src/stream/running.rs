//! The one or two models at work in a session, and how one takes over from the other.

use super::SwapState;
use super::engine::{Engine, SpikeTotals};
use super::swap::Mailbox;
use super::tap::Input;
use alloc::boxed::Box;

/// The engines of a session: the one that gives the estimates, and one beside it during a swap.
#[derive(Debug, Clone)]
pub(super) struct EnginePair {
    active: Box<Engine>,
    other: Option<Other>,
}

/// The engine beside the active one, and its part.
#[derive(Debug, Clone)]
pub(super) struct Other {
    engine: Box<Engine>,
    part: Part,
}

impl Other {
    /// See [`Engine::warm`].
    pub(super) fn warm(&mut self, input: &Input<'_>) {
        self.engine.warm(input);
    }
}

/// Part of the second engine.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Takes over after so many more ticks and a cross-fade.
    WarmingUp {
        left: u64,
        fade: u64,
    },
    /// Gives a part of the estimates that grows by 1/`fade` every tick.
    Fading {
        left: u64,
        fade: u64,
    },
    StandingBy,
}

/// Changes that a tick of the second engine has made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FadeState {
    pub(super) fading: bool,
    /// It gives the estimates from the next tick on.
    pub(super) taken_over: bool,
}

impl EnginePair {
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

    /// Takes the second engine away; [`put_other`](Self::put_other) gives it back.
    pub(super) fn take_other(&mut self) -> Option<Other> {
        self.other.take()
    }

    pub(super) fn put_other(&mut self, other: Option<Other>) {
        self.other = other;
    }

    /// True while a second engine runs.
    #[inline(always)]
    pub(super) fn is_swapping(&self) -> bool {
        self.other.is_some()
    }

    /// Estimates of the second engine at the last tick; empty without one.
    #[inline]
    pub(super) fn beside(&self) -> &[f64] {
        (self.other.as_ref()).map_or(&[], |other| other.engine.estimates())
    }

    /// Puts `engine` beside the active one; gives back what was there before, and whether the new one
    /// gives the estimates at once.
    pub(super) fn swap_in(
        &mut self,
        engine: Box<Engine>,
        warm_up: u64,
        fade: u64,
    ) -> (Option<Box<Engine>>, bool) {
        let part = match warm_up {
            0 => Part::Fading { left: fade, fade },
            left => Part::WarmingUp { left, fade },
        };
        let before = self.other.replace(Other { engine, part });
        let at_once = warm_up == 0 && fade == 0;
        if at_once {
            self.exchange();
        }
        (before.map(|other| other.engine), at_once)
    }

    /// The model before gives the estimates again; gives back the other, and whether the active one
    /// changed.
    pub(super) fn roll_back(&mut self) -> (Option<Box<Engine>>, bool) {
        let back = self.standing_by();
        if back {
            self.exchange();
        }
        (self.other.take().map(|other| other.engine), back)
    }

    pub(super) fn release(&mut self) -> Option<Box<Engine>> {
        if !self.standing_by() {
            return None;
        }
        self.other.take().map(|other| other.engine)
    }

    /// Feeds the second engine with the tick that the active one has just taken, and fades its estimates
    /// into `out` where it is time.
    #[inline(never)]
    pub(super) fn feed_other(
        &mut self,
        input: &Input<'_>,
        out: &mut [f32],
        mailbox: Option<&Mailbox>,
    ) -> FadeState {
        let mut beside = FadeState::default();
        let Some(other) = &mut self.other else {
            return beside;
        };
        other.engine.set_gate_open(self.active.gate_is_open());
        let _: SpikeTotals = other.engine.take(input);
        let estimates = other.engine.advance();
        match &mut other.part {
            Part::StandingBy => return beside,
            Part::WarmingUp { left, fade } => {
                *left -= 1;
                if *left == 0 {
                    let fade = *fade;
                    other.part = Part::Fading { left: fade, fade };
                    beside.taken_over = fade == 0;
                }
            }
            Part::Fading { left, fade } => {
                *left -= 1;
                beside.fading = true;
                beside.taken_over = *left == 0;
                let share = (*fade - *left) as f64 / *fade as f64;
                for (out, estimate) in out.iter_mut().zip(estimates) {
                    *out = (f64::from(*out) + share * (estimate - f64::from(*out))) as f32;
                }
            }
        }
        if beside.taken_over {
            self.exchange();
        }
        if let Some(mailbox) = mailbox {
            match beside.taken_over {
                true => self.tell(mailbox),
                false => mailbox.tell_left(self.ticks_left()),
            }
        }
        beside
    }

    /// Skips `ticks` silent ticks in both engines. Returns true if the second one has taken over
    /// meanwhile.
    pub(super) fn skip(&mut self, ticks: u64, mailbox: Option<&Mailbox>) -> bool {
        self.active.skip(ticks);
        let Some(other) = &mut self.other else {
            return false;
        };
        other.engine.skip(ticks);
        let (Part::WarmingUp { left, .. } | Part::Fading { left, .. }) = other.part else {
            return false;
        };
        let over = match &mut other.part {
            Part::WarmingUp { fade, .. } if ticks >= left => {
                let (fade, rest) = (*fade, ticks - left);
                other.part = Part::Fading {
                    left: fade.saturating_sub(rest),
                    fade,
                };
                fade <= rest
            }
            Part::WarmingUp { left, .. } => {
                *left -= ticks;
                false
            }
            Part::Fading { left, .. } => {
                *left = left.saturating_sub(ticks);
                *left == 0
            }
            Part::StandingBy => false,
        };
        if over {
            self.exchange();
        }
        if let Some(mailbox) = mailbox {
            self.tell(mailbox);
        }
        over
    }

    /// Both engines to rest. One that was warming up is then as good as the other and takes over:
    /// true in that case.
    pub(super) fn reset(&mut self, mailbox: Option<&Mailbox>) -> bool {
        self.active.reset();
        let Some(other) = &mut self.other else {
            return false;
        };
        other.engine.reset();
        if matches!(other.part, Part::StandingBy) {
            return false;
        }
        self.exchange();
        if let Some(mailbox) = mailbox {
            self.tell(mailbox);
        }
        true
    }

    fn standing_by(&self) -> bool {
        (self.other.as_ref()).is_some_and(|other| matches!(other.part, Part::StandingBy))
    }

    /// The second engine gives the estimates from now on; the first stands by.
    fn exchange(&mut self) {
        if let Some(other) = &mut self.other {
            core::mem::swap(&mut self.active, &mut other.engine);
            other.part = Part::StandingBy;
        }
    }

    pub(super) fn state(&self) -> SwapState {
        match &self.other {
            None => SwapState::Idle,
            Some(other) => match other.part {
                Part::StandingBy => SwapState::TakenOver,
                Part::WarmingUp { .. } | Part::Fading { .. } => SwapState::WarmingUp,
            },
        }
    }

    /// Says through `mailbox` where things stand.
    pub(super) fn tell(&self, mailbox: &Mailbox) {
        let model = self.active.model().decoder_fingerprint();
        mailbox.tell(self.state(), model, self.ticks_left());
    }

    fn ticks_left(&self) -> u64 {
        match self.other.as_ref().map(|other| other.part) {
            Some(Part::WarmingUp { left, fade }) => left.saturating_add(fade),
            Some(Part::Fading { left, .. }) => left,
            Some(Part::StandingBy) | None => 0,
        }
    }
}
