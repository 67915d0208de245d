//! Synapses that learn, event by event: what arrives and what their targets fire changes them, and nothing else.
//!
//! A synapse belongs to the part of its target. Its events come in the same order on any number of threads, and each
//! is a function of the synapse, its target's traces and the step.

use betz_base::{Error, Result};
use pulp::{Simd, WithSimd};

use super::part::Part;
use crate::math::exp;
use crate::plan::CHUNK;
use crate::plasticity::{Dependence, Plasticity};
use crate::spec::ListedSynapse;

/// Synapses onto a neuron that are asked for ahead: each lies in a row of another source.
const AHEAD: usize = 12;

/// A rule's numbers per step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rates {
    pub(super) rule: Plasticity,
    pub(super) plus: f32,
    pub(super) minus: f32,
    pub(super) x: f32,
    pub(super) y: f32,
    pub(super) eligibility: f32,
    pub(super) dopamine: f32,
    /// Seconds of a step.
    pub(super) seconds: f32,
}

/// Dopamine of a rule at a step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Dopamine {
    pub(super) level: f32,
    pub(super) at: u64,
}

/// A synapse that learns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Synapse {
    /// Lane of its target, receptor included.
    pub(super) place: u32,
    /// Number of its projection among those that learn.
    pub(super) rule: u16,
    pub(super) delay: u8,
    pub(super) weight: f32,
    /// r and r2, and the eligibility, at step `seen`.
    pub(super) fast: f32,
    pub(super) slow: f32,
    pub(super) eligibility: f32,
    pub(super) seen: u64,
}

/// Traces of a neuron's spikes for one rule: o and o2 at its last spike.
#[derive(Debug, Clone, Copy, Default)]
struct Traces {
    fast: f32,
    slow: f32,
}

/// Synapses of a row that have the same delay, from the end of the piece before.
#[derive(Debug, Clone, Copy)]
struct Piece {
    delay: u8,
    end: u32,
}

/// One part's synapses that learn.
#[derive(Debug, Default)]
pub(super) struct Learning {
    rates: Vec<Rates>,
    /// Row of each source, by delay.
    offsets: Vec<u32>,
    synapses: Vec<Synapse>,
    /// Pieces of each row.
    piece_offsets: Vec<u32>,
    pieces: Vec<Piece>,
    /// Synapses onto each lane.
    onto_offsets: Vec<u32>,
    onto: Vec<u32>,
    /// Traces of each neuron: (rule, lane).
    traces: Vec<Traces>,
    /// Step of each lane's last spike.
    fired: Vec<u64>,
    /// Rows that arrive, by slot.
    due: Vec<Vec<(u32, u32)>>,
    /// Dopamine of each rule at its step.
    dopamine: Vec<Dopamine>,
    unit: f32,
    lanes: usize,
}

impl Rates {
    pub(super) fn new(rule: Plasticity, step_ms: f64) -> Self {
        let rate = |tau: f64| (step_ms / tau) as f32;
        let triplet = rule.triplet;
        let reward = rule.reward;
        Self {
            rule,
            plus: rate(rule.tau_plus_ms),
            minus: rate(rule.tau_minus_ms),
            x: triplet.map_or(0.0, |t| rate(t.tau_x_ms)),
            y: triplet.map_or(0.0, |t| rate(t.tau_y_ms)),
            eligibility: reward.map_or(0.0, |r| rate(r.tau_eligibility_ms)),
            dopamine: reward.map_or(0.0, |r| rate(r.tau_dopamine_ms)),
            seconds: (step_ms * 1e-3) as f32,
        }
    }

    /// Brings a synapse's traces to `step`, and its weight where dopamine acts on it.
    #[inline(always)]
    pub(super) fn advance(&self, synapse: &mut Synapse, step: u64, dopamine: Dopamine) {
        let lag = (step - synapse.seen) as f32;
        if lag == 0.0 {
            return;
        }
        if self.rule.reward.is_some() {
            let Dopamine { level, at } = dopamine;
            // Both fall off: ∫ c D dt in closed form.
            let begin = level * exp(-((synapse.seen - at) as f32) * self.dopamine);
            let both = self.eligibility + self.dopamine;
            let area = self.seconds * (1.0 - exp(-lag * both)) / both;
            self.add(&mut synapse.weight, synapse.eligibility * begin * area);
            synapse.eligibility *= exp(-lag * self.eligibility);
        }
        synapse.fast *= exp(-lag * self.plus);
        if self.rule.triplet.is_some() {
            synapse.slow *= exp(-lag * self.x);
        }
        synapse.seen = step;
    }

    /// Adds dopamine at `step`.
    pub(super) fn reward(&self, dopamine: &mut Dopamine, step: u64, amount: f32) {
        let Dopamine { level, at } = *dopamine;
        *dopamine = Dopamine {
            level: level * exp(-((step - at) as f32) * self.dopamine) + amount,
            at: step,
        };
    }

    /// The largest weight in units.
    pub(super) fn most_units(&self, unit: f32) -> u64 {
        (self.rule.high as f32 / unit).round() as u64
    }

    #[inline(always)]
    fn add(&self, weight: &mut f32, change: f32) {
        *weight = (*weight + change).clamp(self.rule.low as f32, self.rule.high as f32);
    }

    /// Changes a synapse by `part` of what its bounds allow, at once or as eligibility.
    #[inline(always)]
    fn change(&self, synapse: &mut Synapse, part: f32) {
        let room = match self.rule.dependence {
            Dependence::Additive => self.rule.high as f32,
            Dependence::Multiplicative if part > 0.0 => self.rule.high as f32 - synapse.weight,
            Dependence::Multiplicative => synapse.weight - self.rule.low as f32,
        };
        match self.rule.reward {
            Some(_) => synapse.eligibility += part * room,
            None => self.add(&mut synapse.weight, part * room),
        }
    }

    #[inline(always)]
    pub(super) fn triplets(&self) -> (f32, f32) {
        (self.rule.triplet).map_or((0.0, 0.0), |t| (t.a_plus as f32, t.a_minus as f32))
    }
}

impl Learning {
    /// Rules of a network's projections that learn, in their order; no synapses yet.
    pub(super) fn new(
        rules: &[Plasticity],
        step_ms: f64,
        unit: f64,
        slots: usize,
        lanes: usize,
    ) -> Self {
        Self {
            rates: rules.iter().map(|r| Rates::new(*r, step_ms)).collect(),
            offsets: vec![0],
            piece_offsets: vec![0],
            traces: vec![Traces::default(); rules.len() * lanes],
            fired: vec![0; lanes],
            due: vec![Vec::new(); slots],
            dopamine: vec![Dopamine::default(); rules.len()],
            unit: unit as f32,
            lanes,
            ..Self::default()
        }
    }

    /// Makes room for `synapses`.
    ///
    /// # Errors
    /// `Io` where there is none.
    pub(super) fn reserve(&mut self, synapses: usize) -> Result<()> {
        (self.synapses.try_reserve_exact(synapses)).map_err(|_| {
            Error::no_memory(
                "synapses that learn",
                synapses.saturating_mul(size_of::<Synapse>()),
            )
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.synapses.is_empty()
    }

    /// Appends the row of the next source.
    pub(super) fn push_row(&mut self, row: &mut [Synapse]) {
        row.sort_unstable_by_key(|s| (s.delay, s.place, s.rule));
        for same in row.chunk_by(|a, b| a.delay == b.delay) {
            self.synapses.extend_from_slice(same);
            self.pieces.push(Piece {
                delay: same[0].delay,
                end: self.synapses.len() as u32,
            });
        }
        self.offsets.push(self.synapses.len() as u32);
        self.piece_offsets.push(self.pieces.len() as u32);
    }

    /// Lists the synapses by target once all rows are there.
    pub(super) fn index(&mut self) {
        let mut offsets = vec![0u32; self.lanes + 1];
        let lane = |s: &Synapse| s.place as usize % self.lanes;
        for synapse in &self.synapses {
            offsets[lane(synapse) + 1] += 1;
        }
        for i in 1..offsets.len() {
            offsets[i] += offsets[i - 1];
        }
        let mut next = offsets.clone();
        let mut onto = vec![0u32; self.synapses.len()];
        for (number, synapse) in (0u32..).zip(&self.synapses) {
            let place = &mut next[lane(synapse)];
            onto[*place as usize] = number;
            *place += 1;
        }
        (self.onto_offsets, self.onto) = (offsets, onto);
    }

    /// Adds the largest weights to the sums of each place, in units.
    pub(super) fn add_largest(&self, sums: &mut [u64]) {
        for synapse in &self.synapses {
            let rates = &self.rates[synapse.rule as usize];
            sums[synapse.place as usize] += rates.most_units(self.unit);
        }
    }

    /// Synapses of a rule with their weights now: source, lane of the target, weight, delay.
    pub(super) fn weights(&self, rule: u16, step: u64, mut take: impl FnMut(u32, usize, f32, u8)) {
        for source in 0..self.offsets.len().saturating_sub(1) {
            let row = self.offsets[source] as usize..self.offsets[source + 1] as usize;
            for synapse in self.synapses[row].iter().filter(|s| s.rule == rule) {
                let mut now = *synapse;
                self.rates[rule as usize].advance(&mut now, step, self.dopamine[rule as usize]);
                let lane = synapse.place as usize % self.lanes;
                take(source as u32, lane, now.weight, synapse.delay);
            }
        }
    }

    /// Adds dopamine at a step's beginning.
    pub(super) fn reward(&mut self, step: u64, amount: f32) {
        for synapse in &mut self.synapses {
            let rule = synapse.rule as usize;
            self.rates[rule].advance(synapse, step, self.dopamine[rule]);
        }
        for (rates, dopamine) in self.rates.iter().zip(&mut self.dopamine) {
            rates.reward(dopamine, step, amount);
        }
    }

    /// Queues the synapses of neurons that fired in `step`; the number of these synapses.
    pub(super) fn send(&mut self, step: u64, list: &[u32]) -> u64 {
        let mask = self.due.len() - 1;
        let mut events = 0;
        for &source in list {
            let source = source as usize;
            let mut begin = self.offsets[source];
            events += u64::from(self.offsets[source + 1] - begin);
            let pieces =
                self.piece_offsets[source] as usize..self.piece_offsets[source + 1] as usize;
            for &Piece { delay, end } in &self.pieces[pieces] {
                self.due[(step as usize + usize::from(delay)) & mask].push((begin, end));
                begin = end;
            }
        }
        events
    }

    /// One synapse takes an arrival; its place and weight in units.
    #[inline(always)]
    fn arrival(&mut self, number: usize, step: u64) -> (usize, i32) {
        let synapse = &mut self.synapses[number];
        let rule = synapse.rule as usize;
        let rates = &self.rates[rule];
        rates.advance(synapse, step, self.dopamine[rule]);
        let lane = synapse.place as usize % self.lanes;
        let age = (step - self.fired[lane]) as f32;
        let post = self.traces[rule * self.lanes + lane].fast * exp(-age * rates.minus);
        let (_, triplet) = rates.triplets();
        let part = post * (rates.rule.a_minus as f32 + triplet * synapse.slow);
        rates.change(synapse, -part);
        synapse.fast += 1.0;
        synapse.slow += 1.0;
        let units = (synapse.weight / self.unit).round_ties_even() as i32;
        (synapse.place as usize, units)
    }

    /// A neuron fires: the synapses onto it, then its traces.
    #[inline(always)]
    fn spike(&mut self, lane: usize, step: u64) {
        let age = (step - self.fired[lane]) as f32;
        let onto = self.onto_offsets[lane] as usize..self.onto_offsets[lane + 1] as usize;
        let onto = &self.onto[onto];
        for (i, &number) in onto.iter().enumerate() {
            if let Some(&next) = onto.get(i + AHEAD) {
                prefetch(&self.synapses, next);
            }
            let synapse = &mut self.synapses[number as usize];
            let rule = synapse.rule as usize;
            let rates = &self.rates[rule];
            rates.advance(synapse, step, self.dopamine[rule]);
            let (triplet, _) = rates.triplets();
            let slow = self.traces[rule * self.lanes + lane].slow * exp(-age * rates.y);
            let part = synapse.fast * (rates.rule.a_plus as f32 + triplet * slow);
            rates.change(synapse, part);
        }
        for (rule, rates) in self.rates.iter().enumerate() {
            let traces = &mut self.traces[rule * self.lanes + lane];
            traces.fast = traces.fast * exp(-age * rates.minus) + 1.0;
            traces.slow = traces.slow * exp(-age * rates.y) + 1.0;
        }
        self.fired[lane] = step;
    }
}

/// Asks for a synapse before it is needed.
#[inline(always)]
fn prefetch(synapses: &[Synapse], number: u32) {
    #[cfg(target_arch = "x86_64")]
    #[allow(unsafe_code)]
    // SAFETY: a prefetch reads nothing and faults nowhere, wherever it points.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at = synapses.as_ptr().wrapping_add(number as usize);
        _mm_prefetch(at.cast::<i8>(), _MM_HINT_T0);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (synapses, number);
}

/// Arrivals of a step at synapses that learn. Dispatched for the processor, because a multiply-add is a call to the system's
/// library without its instruction.
pub(super) struct LearnArrivals<'a> {
    pub(super) part: &'a mut Part,
    pub(super) step: u64,
}

impl WithSimd for LearnArrivals<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.part.learn_arrivals(self.step);
    }
}

/// Spikes of a step, from which the synapses onto their neurons learn.
pub(super) struct LearnSpikes<'a> {
    pub(super) part: &'a mut Part,
    pub(super) step: u64,
    pub(super) fired: &'a [u32],
}

impl WithSimd for LearnSpikes<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        self.part.learn_spikes(self.step, self.fired);
    }
}

impl Part {
    /// Takes the arrivals of `step` into its rings, through synapses that learn from them.
    #[inline(always)]
    fn learn_arrivals(&mut self, step: u64) {
        let slot = step as usize & (self.slots - 1);
        let lanes = self.chunks * CHUNK;
        let words = self.chunks.div_ceil(64);
        let mut due = std::mem::take(&mut self.learning.due[slot]);
        for &(begin, end) in &due {
            for number in begin..end {
                let (place, units) = self.learning.arrival(number as usize, step);
                self.ring[slot * self.receptors * lanes + place] += units;
                if self.rests {
                    let chunk = place % lanes / CHUNK;
                    self.wake[slot * words + chunk / 64] |= 1 << (chunk % 64);
                }
            }
        }
        due.clear();
        self.learning.due[slot] = due;
    }

    /// Lets the synapses onto its neurons that fired in `step` learn.
    #[inline(always)]
    fn learn_spikes(&mut self, step: u64, fired: &[u32]) {
        for &neuron in fired {
            if let Some(lane) = self.lane_of(neuron) {
                self.learning.spike(lane, step);
            }
        }
    }

    /// The lane of a neuron of the network, if it is its own.
    pub(super) fn lane_of(&self, neuron: u32) -> Option<usize> {
        let chunk = self
            .spans
            .partition_point(|s| s.first <= neuron)
            .checked_sub(1)?;
        let own = neuron - self.spans[chunk].first;
        (own < self.spans[chunk].len).then(|| chunk * CHUNK + own as usize)
    }

    /// Synapses of a rule as they are now.
    pub(super) fn weights(&self, rule: u16, step: u64) -> Vec<ListedSynapse> {
        let mut list = Vec::new();
        self.learning
            .weights(rule, step, |source, lane, weight, delay| {
                list.push(ListedSynapse {
                    source,
                    target: self.spans[lane / CHUNK].first + (lane % CHUNK) as u32,
                    weight,
                    delay_steps: u32::from(delay),
                });
            });
        list
    }
}
