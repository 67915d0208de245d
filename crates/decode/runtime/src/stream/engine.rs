//! One model at work: the arithmetic of a step.
//!
//! x̂ = Σ_k φ_k·(h ∗ s_k) = h ∗ (Σ_k φ_k·s_k): the filter commutes with the readout. So the states
//! kept are those of the *weighted* train, order + 1 of them for each filter and latent, and none per
//! channel. A spike costs one row of filters × latents; a tick costs filters × latents × (order + 1);
//! channels that are silent cost nothing. In a linear decoder the latents are the outputs; else the head
//! makes the outputs of them.
//!
//! Filters of one order lie side by side and go through a tick together: vectors of filters × latents.

mod members;
mod pause;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::PreparedModel;
use super::debt::Debt;
use super::rows::{
    is_one_block, list_all, list_fired, list_fired_any, sum_counts, sum_fired, sum_fired_short,
    sum_spikes, take_off,
};
use super::stage::Group;
use super::tap::Input;
use crate::model::OutputRange;
use crate::model::head::PreparedHead;
use crate::psc::{Convolution, LowPassFilter, flush};
use crate::width::for_every_width;
use betz_base::aligned::AlignedBuffer;
use betz_base::error::Result;
#[cfg(not(feature = "std"))]
use betz_base::float::Float as _;
use betz_base::memory::filled;

/// Name of an engine's memory in errors.
const SESSION: &str = "session";

/// Spikes of one tick: how many were of channels the model has, and how many were not.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SpikeTotals {
    pub(super) known: u64,
    pub(super) unknown: u64,
}

/// A model, its filter states and room for one tick. Steps do not allocate.
#[derive(Debug, Clone)]
pub(super) struct Engine {
    model: Arc<PreparedModel>,
    /// Channels that fired this tick, and how often; room for all.
    fired: Vec<(u32, f64)>,
    /// Spikes of each channel in a list of them, 0 between ticks; empty unless the model lists counts.
    tally: Vec<u32>,
    /// Sum of the rows of this tick's spikes, (filter, latent).
    drive: AlignedBuffer<f64>,
    /// For each group of filters of one order: (order + 1, filter, latent).
    states: AlignedBuffer<f64>,
    /// Sampled filters on the weighted train; `None` for a bank without them.
    convolution: Option<Convolution>,
    /// A step is to leave no trace: the convolution, too large to be kept and put back, stays as it is.
    rehearsing: bool,
    low_pass: Option<LowPassFilter>,
    /// Latents of this tick: the estimates, where there is no head.
    latents: Vec<f64>,
    /// States of the head.
    head: Vec<f64>,
    scratch: Vec<f32>,
    /// Outputs of the head: estimates, and log-variances where it tells them; empty without one.
    outputs: Vec<f64>,
    /// One latent's states, where a skip needs them together.
    together: Vec<f64>,
    /// Silent steps that the head still has to make; `None` if a skip makes all of them.
    debt: Option<Box<Debt>>,
    /// Engines of the other members of a blend.
    members: Vec<Self>,
    /// Room for everything that a step changes and another one reads.
    kept: Vec<f64>,
    kept_flags: EngineFlags,
    blanked: bool,
    outside: bool,
    /// A gate of outputs stands open, whatever the classes say.
    gate_open: bool,
}

/// Flags of an engine before a step that is to leave no trace.
#[derive(Debug, Clone, Copy, Default)]
struct EngineFlags {
    blanked: bool,
    outside: bool,
}

impl Engine {
    /// `model` at rest.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](betz_base::ErrorKind::OutOfMemory) where there is none for it.
    pub(super) fn new(model: Arc<PreparedModel>) -> Result<Self> {
        let engines = 1 + model.members.len();
        Self::among(model, engines)
    }

    /// `model` at rest, as one of so many `engines` that share the time of a step.
    fn among(model: Arc<PreparedModel>, engines: usize) -> Result<Self> {
        let states = (model.groups.iter())
            .map(|group| group.states(model.latents()))
            .sum();
        let outputs = match model.head {
            PreparedHead::Linear => 0,
            _ => {
                model.outputs() * if model.tells_variances { 2 } else { 1 }
                    + model.head.hidden_classes()
            }
        };
        let mut outputs = filled(SESSION, 0.0, outputs)?;
        forget(&mut outputs, &model);
        let low_pass = model.low_pass.clone();
        let together = model.low_pass_silence.as_ref().map_or(0, |s| s.states());
        let behind = low_pass
            .as_ref()
            .map_or(0, |low_pass| low_pass.state().len());
        let members: Result<Vec<Self>> = (model.members.iter().cloned())
            .map(|member| Self::among(member, engines))
            .collect();
        let debt = Debt::new(&model, outputs.len(), engines)?.map(Box::new);
        let kept = states + behind + model.head.states() + outputs.len() + model.latents();
        Ok(Self {
            members: members?,
            debt,
            kept: filled(SESSION, 0.0, kept)?,
            kept_flags: EngineFlags::default(),
            fired: filled(SESSION, (0, 0.0), model.channels())?,
            tally: filled(
                SESSION,
                0,
                if model.lists_counts() {
                    model.channels()
                } else {
                    0
                },
            )?,
            drive: AlignedBuffer::filled(SESSION, 0.0, model.stride())?,
            states: AlignedBuffer::filled(SESSION, 0.0, states)?,
            convolution: model.convolution()?,
            rehearsing: false,
            low_pass,
            latents: filled(SESSION, 0.0, model.latents())?,
            head: filled(SESSION, 0.0, model.head.states())?,
            scratch: filled(SESSION, 0.0, model.head.scratch())?,
            outputs,
            together: filled(SESSION, 0.0, together)?,
            blanked: false,
            outside: false,
            gate_open: false,
            model,
        })
    }

    pub(super) fn model(&self) -> &Arc<PreparedModel> {
        &self.model
    }

    /// Goes on with `model`, which differs in its mask alone; gives back the one before.
    pub(super) fn exchange_rows(&mut self, model: Arc<PreparedModel>) -> Arc<PreparedModel> {
        for (member, model) in self.members.iter_mut().zip(&model.members) {
            // The model before still holds the member that this leaves.
            member.model = Arc::clone(model);
        }
        core::mem::replace(&mut self.model, model)
    }

    /// Takes a tick's input.
    #[inline(always)]
    pub(super) fn take(&mut self, input: &Input<'_>) -> SpikeTotals {
        if !self.members.is_empty() {
            self.take_members(input);
        }
        self.take_own(input)
    }

    #[inline(always)]
    fn take_own(&mut self, input: &Input<'_>) -> SpikeTotals {
        if self.model.lists_counts() {
            return self.take_listed(input);
        }
        let channels = self.model.channels();
        let length = match *input {
            Input::Spikes(spikes) => return self.take_spikes(spikes),
            Input::Counts(counts) => {
                let model = &*self.model;
                if is_one_block(model.width, self.drive.len()) {
                    let (drive, mut known) = (&mut *self.drive, 0);
                    sum_counts(model.width, drive, &model.rows, counts, &mut known);
                    if let Some(blanking) = &model.blanking {
                        self.blanked = blanking.is_artefact_among(counts, known);
                    }
                    return SpikeTotals { known, unknown: 0 };
                }
                let length = list_fired(counts, &mut self.fired);
                if let Some(blanking) = &self.model.blanking {
                    self.blanked = blanking.is_artefact(&self.fired[..length]);
                }
                length
            }
            Input::CountsU8(counts) => self.take_any(counts),
            Input::CountsF32(counts) => self.take_any(counts),
        };
        debug_assert!(length <= channels);
        let fired = &self.fired[..length];
        if !self.blanked {
            sum_fired(self.model.width, &mut self.drive, &self.model.rows, fired);
        }
        // Exact for whole counts; what is fractional counts as its sum, rounded.
        let known: f64 = fired.iter().map(|(_, count)| count).sum();
        SpikeTotals {
            known: known.round() as u64,
            unknown: 0,
        }
    }

    /// Takes a tick's input: of each channel the distance from its mean if there are means, and no more than its cap if
    /// there are caps.
    fn take_listed(&mut self, input: &Input<'_>) -> SpikeTotals {
        let (length, unknown) = match *input {
            _ if !self.model.means.is_empty() => self.list_every_channel(input),
            Input::Spikes(spikes) => self.tally_spikes(spikes),
            Input::Counts(counts) => (list_fired(counts, &mut self.fired), 0),
            Input::CountsU8(counts) => (list_fired_any(counts, &mut self.fired), 0),
            Input::CountsF32(counts) => (list_fired_any(counts, &mut self.fired), 0),
        };
        let model = &*self.model;
        let fired = &mut self.fired[..length];
        if let Some(blanking) = &model.blanking {
            self.blanked = blanking.is_artefact(fired);
        }
        let known: f64 = fired.iter().map(|(_, count)| count).sum();
        if !model.means.is_empty() {
            take_off(&model.means, fired);
        }
        for (channel, count) in fired.iter_mut() {
            let cap = model.count_caps.get(*channel as usize);
            *count = count.min(cap.copied().unwrap_or(f64::INFINITY));
        }
        if !self.blanked {
            match model.short_rows.is_empty() {
                true => sum_fired(model.width, &mut self.drive, &model.rows, fired),
                false => sum_fired_short(model.width, &mut self.drive, &model.short_rows, fired),
            }
        }
        SpikeTotals {
            known: known.round() as u64,
            unknown,
        }
    }

    /// Lists all channels with their values, silent ones included; gives back the list's length, and the spikes of
    /// channels that the model does not have. Not among the code of a step of spikes.
    #[inline(never)]
    fn list_every_channel(&mut self, input: &Input<'_>) -> (usize, u64) {
        let mut unknown = 0;
        match *input {
            Input::Spikes(spikes) => {
                for &channel in spikes {
                    match self.tally.get_mut(channel as usize) {
                        Some(count) => *count = count.saturating_add(1),
                        None => unknown += 1,
                    }
                }
                list_all(&self.tally, &mut self.fired);
                self.tally.fill(0);
            }
            Input::Counts(counts) => list_all(counts, &mut self.fired),
            Input::CountsU8(counts) => list_all(counts, &mut self.fired),
            Input::CountsF32(counts) => list_all(counts, &mut self.fired),
        }
        (self.fired.len(), unknown)
    }

    /// Lists the channels of `spikes` with their counts; gives back the list's length, and the spikes of
    /// channels that the model does not have.
    fn tally_spikes(&mut self, spikes: &[u32]) -> (usize, u64) {
        let (mut length, mut unknown) = (0, 0);
        for &channel in spikes {
            let Some(count) = self.tally.get_mut(channel as usize) else {
                unknown += 1;
                continue;
            };
            if *count == 0 {
                self.fired[length].0 = channel;
                length += 1;
            }
            *count = count.saturating_add(1);
        }
        for (channel, count) in &mut self.fired[..length] {
            *count = f64::from(core::mem::take(&mut self.tally[*channel as usize]));
        }
        (length, unknown)
    }

    #[inline(always)]
    fn take_any<T: Copy + Into<f64>>(&mut self, counts: &[T]) -> usize {
        let length = list_fired_any(counts, &mut self.fired);
        if let Some(blanking) = &self.model.blanking {
            self.blanked = blanking.is_artefact(&self.fired[..length]);
        }
        length
    }

    #[inline(always)]
    fn take_spikes(&mut self, spikes: &[u32]) -> SpikeTotals {
        let model = &*self.model;
        if let Some(blanking) = &model.blanking {
            self.blanked = blanking.is_artefact_of(spikes);
        }
        let (channels, mut known) = (model.channels() as u32, 0);
        // Of an artefact, too, the sums are made: what comes of them is replaced.
        let drive = &mut *self.drive;
        sum_spikes(
            model.width,
            drive,
            &model.rows,
            spikes,
            channels,
            &mut known,
        );
        SpikeTotals {
            known,
            unknown: spikes.len() as u64 - known,
        }
    }

    /// One tick of the filters and what is behind them, driven by what was taken.
    #[inline]
    pub(super) fn advance(&mut self) -> &[f64] {
        self.advance_own();
        if !self.members.is_empty() {
            self.advance_members();
        }
        self.estimates()
    }

    #[inline]
    fn advance_own(&mut self) {
        let model = &*self.model;
        if self.blanked
            && let Some(blanking) = &model.blanking
        {
            self.drive.copy_from_slice(&blanking.mean_drive);
        }
        self.latents.fill(0.0);
        let (states, latents) = (&mut *self.states, self.latents.as_mut_slice());
        advance_filters(
            model.width,
            &model.groups,
            &model.decays,
            &self.drive,
            states,
            latents,
        );
        if let Some(convolution) = &mut self.convolution {
            let drive = &self.drive[model.sampled_lanes()];
            match self.rehearsing {
                true => convolution.rehearse(latents),
                false => convolution.step(drive, latents),
            }
        }
        if let Some(low_pass) = &mut self.low_pass {
            low_pass.step(&mut self.latents);
        }
        for (latent, intercept) in self.latents.iter_mut().zip(&model.intercept) {
            *latent += intercept;
        }
        if let PreparedHead::Linear = model.head {
            self.outside = OutputRange::keep(&model.ranges, &mut self.latents);
            return;
        }
        if self.owes() && !self.rehearsing {
            self.pay_before_step();
        }
        let model = &*self.model;
        self.outside = model.head.step(
            &mut self.latents,
            &mut self.head,
            &mut self.scratch,
            &mut self.outputs,
        );
        if self.gate_open && model.head.hidden_classes() > 0 {
            let outputs = &mut self.outputs[..model.outputs()];
            outputs.copy_from_slice(&self.latents[..outputs.len()]);
        }
        self.outside |= OutputRange::keep(&model.ranges, &mut self.outputs);
    }

    /// Estimates of the last tick.
    #[inline(always)]
    pub(super) fn estimates(&self) -> &[f64] {
        match self.model.head {
            PreparedHead::Linear => &self.latents,
            _ => &self.outputs,
        }
    }

    /// True if the spikes taken last were an artefact, and mean counts were decoded in their place.
    #[inline(always)]
    pub(super) fn blanked(&self) -> bool {
        self.blanked || self.members.iter().any(|member| member.blanked)
    }

    /// True if latents or outputs of the last tick lay outside the range of training.
    #[inline(always)]
    pub(super) fn outside(&self) -> bool {
        self.outside
    }

    /// Back to rest.
    pub(super) fn reset(&mut self) {
        self.members.iter_mut().for_each(Self::reset);
        self.states.fill(0.0);
        if let Some(convolution) = &mut self.convolution {
            convolution.reset();
        }
        if let Some(low_pass) = &mut self.low_pass {
            low_pass.reset();
        }
        self.head.fill(0.0);
        if let Some(debt) = &mut self.debt {
            debt.cancel();
        }
        forget(&mut self.outputs, &self.model);
    }

    /// One step whose spikes are `input`, of which nothing is left but code and data in the caches.
    pub(super) fn warm(&mut self, input: &Input<'_>) {
        self.keep();
        self.take(input);
        self.advance();
        self.put_back();
    }

    /// Keeps everything that a step changes, for [`put_back`](Self::put_back). Until then, steps leave the sampled
    /// filters as they are.
    pub(super) fn keep(&mut self) {
        self.rehearsing = true;
        self.members.iter_mut().for_each(Self::keep);
        let mut room = core::mem::take(&mut self.kept);
        let now = (self.stepped_states().chain(&self.outputs)).chain(&self.latents);
        room.iter_mut()
            .zip(now)
            .for_each(|(to, value)| *to = *value);
        self.kept = room;
        self.kept_flags = EngineFlags {
            blanked: self.blanked,
            outside: self.outside,
        };
    }

    /// The engine as it was when it was kept.
    pub(super) fn put_back(&mut self) {
        self.rehearsing = false;
        self.members.iter_mut().for_each(Self::put_back);
        let flags = self.kept_flags;
        let room = core::mem::take(&mut self.kept);
        let behind = (self.low_pass.as_mut()).map_or(&mut [][..], LowPassFilter::state_mut);
        let states = (self.states.iter_mut().chain(behind)).chain(&mut self.head);
        let now = (states.chain(&mut self.outputs)).chain(&mut self.latents);
        now.zip(&room).for_each(|(value, from)| *value = *from);
        self.kept = room;
        (self.blanked, self.outside) = (flags.blanked, flags.outside);
    }

    /// Opens the gate of the outputs, or leaves it to the classes.
    #[inline(always)]
    pub(super) fn set_gate_open(&mut self, open: bool) {
        self.gate_open = open;
    }

    pub(super) fn gate_is_open(&self) -> bool {
        self.gate_open
    }

    /// Probabilities of the classes at the last tick, 0 before the first; empty for a model without classes.
    #[inline]
    pub(super) fn classes(&self) -> &[f64] {
        let classes = self.model.classes();
        let first = self.outputs.len().saturating_sub(classes);
        self.outputs.get(first..first + classes).unwrap_or(&[])
    }

    /// Natural logarithms of the variances of the last tick's estimates; infinity before the first. Empty
    /// for a model that does not tell them.
    pub(super) fn log_variances(&self) -> &[f64] {
        let all = self.outputs.get(self.model.outputs()..).unwrap_or(&[]);
        if self.model.tells_variances { all } else { &[] }
    }
}

/// Nothing is known yet of what lies behind the estimates: variances are infinite, probabilities 0.
fn forget(outputs: &mut [f64], model: &PreparedModel) {
    let unknown = if model.tells_variances {
        f64::INFINITY
    } else {
        0.0
    };
    for value in outputs.iter_mut().skip(model.outputs()) {
        *value = unknown;
    }
}

for_every_width! {
    /// One tick of all filters; adds their responses to `latents`.
    fn advance_filters(
        groups: &[Group],
        decays: &[f64],
        drive: &[f64],
        states: &mut [f64],
        latents: &mut [f64],
    ) {
        let (mut states, mut decays, mut drive) = (states, decays, drive);
        for group in groups {
            let lanes = group.lanes(latents.len());
            let (mine, rest) = states.split_at_mut(group.states(latents.len()));
            let (decay, later) = decays.split_at(lanes);
            let (input, behind) = drive.split_at(lanes);
            (states, decays, drive) = (rest, later, behind);
            match group.order {
                0 => advance_group::<1>(mine, decay, input, latents),
                1 => advance_group::<2>(mine, decay, input, latents),
                2 => advance_group::<3>(mine, decay, input, latents),
                3 => advance_group::<4>(mine, decay, input, latents),
                _ => advance_group::<5>(mine, decay, input, latents),
            }
        }
    }
}

/// One tick of the filters of one order: the recursion of [`psc`](crate::psc), for all their lanes.
#[inline(always)]
fn advance_group<const STATES: usize>(
    states: &mut [f64],
    decay: &[f64],
    drive: &[f64],
    latents: &mut [f64],
) {
    const BINOMIAL: [[f64; 5]; 5] = crate::psc::BINOMIAL;
    let lanes = decay.len();
    for j in (0..STATES).rev() {
        let (lower, rest) = states.split_at_mut(j * lanes);
        let current = &mut rest[..lanes];
        for lane in 0..lanes {
            let mut sum = current[lane];
            for i in 0..j {
                sum += BINOMIAL[j][i] * lower[i * lanes + lane];
            }
            current[lane] = flush(decay[lane] * sum);
        }
    }
    for (state, input) in states[..lanes].iter_mut().zip(drive) {
        *state += input;
    }
    let responses = &states[(STATES - 1) * lanes..];
    for filter in responses.chunks_exact(latents.len()) {
        for (latent, response) in latents.iter_mut().zip(filter) {
            *latent += response;
        }
    }
}
