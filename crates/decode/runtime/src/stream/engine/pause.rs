//! Pauses: many ticks without a spike at once.

use super::Engine;
use crate::psc::LowPassFilter;
use crate::stream::PreparedModel;
use crate::stream::debt::Debt;
use crate::stream::skip::{MOST_HEAD_STEPS, POWERS, skip_lanes};

impl Engine {
    /// As so many ticks without a spike, in a bounded time: exact for the filters and the low-pass. A head is stepped
    /// through the ticks that it remembers, no more than [`MOST_HEAD_STEPS`] and only until it is where silence leads; it
    /// goes there at once when `ticks` outlast all memory. Steps beyond those that one call may make become a
    /// [debt](Debt).
    ///
    /// Sampled filters have no closed form: they are stepped through the ticks that they remember.
    pub(in crate::stream) fn skip(&mut self, ticks: u64) {
        self.skip_own(ticks, true);
        for member in &mut self.members {
            member.skip_own(ticks, true);
        }
    }

    /// As [`skip`](Self::skip), but makes all steps of the heads, away from the loop. Gives back their number.
    pub(in crate::stream) fn skip_whole(&mut self, ticks: u64) -> u64 {
        let members = (self.members.iter_mut()).map(|member| member.skip_own(ticks, false));
        let stepped = members.fold(0, u64::max);
        self.skip_own(ticks, false).max(stepped)
    }

    /// True if the states of a head still lack a part of a pause.
    #[inline(always)]
    pub(in crate::stream) fn is_behind(&self) -> bool {
        self.owes() || self.members.iter().any(Self::owes)
    }

    #[inline(always)]
    pub(super) fn owes(&self) -> bool {
        self.debt.as_ref().is_some_and(|debt| debt.stands())
    }

    fn skip_own(&mut self, ticks: u64, may_owe: bool) -> u64 {
        let sampled_ticks = self.model.sampled_ticks();
        if sampled_ticks == 0 || ticks >= self.model.silence.all_ticks {
            return self.skip_rest(ticks, may_owe);
        }
        let stepped = ticks.min(sampled_ticks);
        for _ in 0..stepped {
            self.blanked = false;
            self.drive.fill(0.0);
            self.advance_own();
        }
        match ticks - stepped {
            0 => stepped,
            rest => stepped + self.skip_rest(rest, may_owe),
        }
    }

    /// Skips, with sampled filters that have forgotten all spikes.
    fn skip_rest(&mut self, ticks: u64, may_owe: bool) -> u64 {
        if self.head.is_empty() || ticks >= self.model.silence.all_ticks {
            self.skip_linear(ticks);
            self.model.silence.arrive(&mut self.head);
            self.model.head.pass(ticks, &mut self.head);
            if let Some(debt) = &mut self.debt {
                debt.cancel();
            }
            return 0;
        }
        let remembered = ticks.min(self.model.head.skip_steps());
        if let Some(debt) = &self.debt {
            let most = remembered.min(MOST_HEAD_STEPS);
            if may_owe && ticks > 0 && (debt.stands() || most > debt.steps_per_skip()) {
                return self.owe(ticks);
            }
        }
        // A head that remembers more than is stepped has heard most of it at the beginning, while filters decay.
        let forgotten = if remembered <= MOST_HEAD_STEPS {
            ticks - remembered
        } else {
            0
        };
        if forgotten > 0 {
            self.skip_linear(forgotten);
            self.model.head.pass(forgotten, &mut self.head);
        }
        let end = ticks.min(forgotten.saturating_add(MOST_HEAD_STEPS));
        let mut passed = forgotten;
        while passed < end && !self.model.silence.has_arrived(passed, &self.head) {
            self.blanked = false;
            self.drive.fill(0.0);
            self.advance_own();
            passed += 1;
        }
        if passed < ticks {
            self.skip_linear(ticks - passed);
            let PreparedModel { head, silence, .. } = &*self.model;
            if passed < end {
                silence.arrive(&mut self.head);
            } else {
                head.approach(ticks - passed, &mut self.head, &silence.states);
            }
            head.pass(ticks - passed, &mut self.head);
        }
        passed - forgotten
    }

    /// Skips, and leaves the head's steps to the debt. Gives back the number of steps made at once.
    fn owe(&mut self, ticks: u64) -> u64 {
        if let Some(debt) = &mut self.debt {
            let filters = (&*self.states, self.low_pass.as_ref());
            debt.add(&self.model, filters, &self.head, &mut self.together, ticks);
        }
        self.skip_linear(ticks);
        let PreparedModel { head, silence, .. } = &*self.model;
        head.approach(ticks, &mut self.head, &silence.states);
        head.pass(ticks, &mut self.head);
        self.pay(Debt::steps_per_skip)
    }

    /// Pays a part of the debt; then the head's states are exact, or the latents of this step are kept.
    #[cold]
    #[inline(never)]
    pub(super) fn pay_before_step(&mut self) {
        self.pay(Debt::steps_per_step);
        if let Some(debt) = &mut self.debt
            && debt.stands()
        {
            debt.keep_input(&self.latents);
        }
    }

    fn pay(&mut self, steps: fn(&Debt) -> u64) -> u64 {
        let Some(debt) = &mut self.debt else {
            return 0;
        };
        let made = debt.pay(steps(debt), &self.model, &mut self.scratch);
        if !debt.stands() {
            self.head.copy_from_slice(debt.head());
        }
        made
    }

    fn skip_linear(&mut self, ticks: u64) {
        if let Some(convolution) = &mut self.convolution {
            convolution.reset();
        }
        let states = (&mut *self.states, self.low_pass.as_mut());
        self.model.skip_linear(states, &mut self.together, ticks);
    }
}

impl PreparedModel {
    /// Takes the states of filters and low-pass `ticks` silent ticks on. `together` has room for those of one latent.
    pub(in crate::stream) fn skip_linear(
        &self,
        (states, mut low_pass): (&mut [f64], Option<&mut LowPassFilter>),
        together: &mut [f64],
        ticks: u64,
    ) {
        if ticks >= 1 << POWERS {
            states.fill(0.0);
            if let Some(low_pass) = low_pass {
                low_pass.reset();
            }
            return;
        }
        if low_pass.is_none() {
            if ticks > 0 {
                self.skip_filters(states, ticks as f64);
            }
            return;
        }
        for power in (0..POWERS).filter(|power| ticks & (1 << power) != 0) {
            if let Some(low_pass) = &mut low_pass {
                self.skip_low_pass(states, low_pass, together, power);
            }
            self.skip_filters(states, (1_u64 << power) as f64);
        }
    }

    fn skip_filters(&self, mut states: &mut [f64], ticks: f64) {
        let latents = self.latents();
        for group in &self.groups {
            let (mine, rest) = states.split_at_mut(group.states(latents));
            states = rest;
            let stride = group.lanes(latents);
            for (i, stage) in self.stages[group.filters()].iter().enumerate() {
                skip_lanes(mine, stage, ticks, stride, i * latents..(i + 1) * latents);
            }
        }
    }

    /// The low-pass 2^`power` silent ticks on, while the filters are still where they were.
    fn skip_low_pass(
        &self,
        states: &[f64],
        low_pass: &mut LowPassFilter,
        together: &mut [f64],
        power: u32,
    ) {
        let Some(silence) = &self.low_pass_silence else {
            return;
        };
        let latents = self.latents();
        for latent in 0..latents {
            let mut to = together.iter_mut();
            let mut first = 0;
            for group in &self.groups {
                let lanes = group.lanes(latents);
                for filter in 0..group.filters().len() {
                    for state in 0..=group.order as usize {
                        if let Some(to) = to.next() {
                            *to = states[first + state * lanes + filter * latents + latent];
                        }
                    }
                }
                first += group.states(latents);
            }
            let own = low_pass.state_mut();
            for (to, state) in to.zip(own.iter().skip(latent).step_by(latents)) {
                *to = *state;
            }
            for (row, state) in own.iter_mut().skip(latent).step_by(latents).enumerate() {
                *state = silence.after(power, row, together);
            }
        }
    }
}

/// The debts of a checkpoint: none, or one of every engine that can have one.
impl Engine {
    fn debts(&self) -> impl Iterator<Item = &Debt> {
        let members = self.members.iter().map(|member| &member.debt);
        core::iter::once(&self.debt)
            .chain(members)
            .flatten()
            .map(|debt| &**debt)
    }

    /// Most words of [`debt_words`](Self::debt_words).
    pub(in crate::stream) fn most_debt_words(&self) -> usize {
        self.debts().map(Debt::most_words).sum()
    }

    /// The debts that stand, as words; none if there are none.
    pub(in crate::stream) fn debt_words(&self) -> impl Iterator<Item = u64> {
        let stands = self.is_behind();
        self.debts().filter(move |_| stands).flat_map(Debt::state)
    }

    /// True if `words` are debts of this model, without a number above `most`.
    pub(in crate::stream) fn has_debts(&self, mut words: &[[u8; 8]], most: f64) -> bool {
        if words.is_empty() {
            return true;
        }
        for debt in self.debts() {
            let Some((_, rest)) =
                (debt.words_of(words, most)).and_then(|n| words.split_at_checked(n))
            else {
                return false;
            };
            words = rest;
        }
        words.is_empty()
    }

    /// Restores `words`, which [`has_debts`](Self::has_debts) has checked.
    pub(in crate::stream) fn set_debts(&mut self, mut words: &[[u8; 8]]) {
        let members = self.members.iter_mut().map(|member| &mut member.debt);
        for debt in core::iter::once(&mut self.debt).chain(members).flatten() {
            let length = debt.words_of(words, f64::INFINITY).unwrap_or(0);
            let (own, rest) = words.split_at(length);
            debt.set_state(own);
            words = rest;
        }
    }
}
