//! One step of a part's neurons, sixteen or eight at a time where the processor can.
//!
//! Every number is an f32, every multiply-add one rounding, and no sum is reordered: the same bits on
//! every processor, and on a device that spells its multiply-adds out. Loops are by index over arrays
//! of known length: calls into iterators would leave the processor's wide registers.

#![allow(clippy::needless_range_loop)]

use std::hint::select_unpredictable as select;

use pulp::{Simd, WithSimd};

use super::integrate::{ModelLanes, Outcome, step};
use super::part::{Group, Part, PoissonInput, Span};
use crate::dynamics::with_model;
use crate::model_population::{MOST_RECEPTORS, ModelPopulation};
use crate::neuron::Constants;
use crate::plan::CHUNK;
use crate::random::{WIDE, Words, mix, philox_wide};

/// Longest table of Poisson thresholds that is compared number by number.
const COMPARED: usize = 40;

/// The update of a part: appends the neurons that fire to `list`.
pub(super) struct Update<'a> {
    pub(super) part: &'a mut Part,
    pub(super) step: u64,
    pub(super) list: &'a mut Vec<u32>,
}

impl WithSimd for Update<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Self { part, step, list } = self;
        let begin = list.len();
        let words = part.chunks.div_ceil(64);
        let slot = step as usize & (part.slots - 1);
        let per_slot = part.receptors * part.chunks * CHUNK;
        let (ring, _) = part.ring[slot * per_slot..][..per_slot].as_chunks_mut::<CHUNK>();
        let (v, _) = part.v.as_chunks_mut::<CHUNK>();
        let (silent, _) = part.silent.as_chunks_mut::<CHUNK>();
        let (current, _) = part.current.as_chunks_mut::<CHUNK>();
        let (chain, _) = part.chain.as_chunks_mut::<CHUNK>();
        let (past, _) = part.past.as_chunks_mut::<CHUNK>();
        let (drawn, _) = part.poisson.as_chunks_mut::<CHUNK>();
        let wake = &mut part.wake[slot * words..][..words];
        let mut state = State {
            v,
            silent,
            current,
            chain,
            ring,
            drawn,
            spans: &part.spans,
            counts: &mut part.counts,
            past,
            last_input: &mut part.last_input,
            chunks: part.chunks,
            step,
            list: &mut *list,
        };
        let (parameters, _) = part.drawn.as_chunks::<CHUNK>();
        for group in &part.groups {
            if group.constants.is_none() {
                if let Some(model) = &group.model {
                    for chunk in group.chunks.clone() {
                        let lost = state.model(group, model, parameters, chunk);
                        part.lost = part.lost.or(lost);
                    }
                }
                if let Some(words) = &group.random {
                    for chunk in group.chunks.clone() {
                        state.random(words, &part.chances[chunk * CHUNK..][..CHUNK], chunk);
                    }
                }
                continue;
            }
            // Where chunks may rest, those at rest without input are passed over, 64 at a glance.
            let mut begin = group.chunks.start;
            while begin < group.chunks.end {
                let word = begin / 64;
                let end = group.chunks.end.min(64 * (word + 1));
                let range = (u64::MAX << (begin % 64)) & (u64::MAX >> (64 * (word + 1) - end));
                let mut bits = range;
                if group.rests {
                    bits &= part.awake[word] | wake[word];
                    wake[word] &= !range;
                }
                while bits != 0 {
                    let bit = bits.trailing_zeros();
                    bits &= bits - 1;
                    let still = state.one(group, 64 * word + bit as usize);
                    part.awake[word] = part.awake[word] & !(1 << bit) | u64::from(!still) << bit;
                }
                begin = end;
            }
        }
        let fired = &list[begin..];
        part.spikes += fired.len() as u64;
        let mut hash = part.hash;
        for n in fired {
            hash = hash.wrapping_add(mix(step << 32 | u64::from(*n)));
        }
        part.hash = hash;
    }
}

/// A part's arrays by chunk, and where its spikes go.
struct State<'a> {
    v: &'a mut [[f32; CHUNK]],
    silent: &'a mut [[i32; CHUNK]],
    current: &'a [[f32; CHUNK]],
    chain: &'a mut [[f32; CHUNK]],
    ring: &'a mut [[i32; CHUNK]],
    drawn: &'a mut [[u16; CHUNK]],
    spans: &'a [Span],
    counts: &'a mut [u32],
    past: &'a mut [[i32; CHUNK]],
    last_input: &'a mut [u64],
    chunks: usize,
    step: u64,
    list: &'a mut Vec<u32>,
}

impl State<'_> {
    /// Updates a chunk of neurons that are integrated; the first whose potential is no number any more.
    #[inline(always)]
    fn model(
        &mut self,
        group: &Group,
        model: &ModelPopulation,
        parameters: &[[f32; CHUNK]],
        chunk: usize,
    ) -> Option<(u64, u32)> {
        let place = chunk - group.chunks.start;
        let span = self.spans[chunk];
        if let Some(poisson) = &group.poisson {
            let row = &mut self.ring[poisson.receptor * self.chunks + chunk];
            let drawn = &mut self.drawn[4 * chunk..4 * chunk + 4];
            poisson_input(poisson, self.step, span, drawn, row);
        }
        let receptors = model.receptors.len();
        let mut arrived = [[0i32; CHUNK]; MOST_RECEPTORS];
        for r in 0..receptors {
            arrived[r] = self.ring[r * self.chunks + chunk];
            self.ring[r * self.chunks + chunk] = [0; CHUNK];
        }
        let own = group.chain_first + place * group.per_chunk;
        let first = group.drawn_first + place * model.drawn();
        let mut lanes = ModelLanes {
            v: &mut self.v[chunk],
            silent: &mut self.silent[chunk],
            current: &self.current[chunk],
            state: &mut self.chain[own..own + group.per_chunk],
            drawn: &parameters[first..first + model.drawn()],
            arrived: &arrived[..receptors],
            gains: &group.gains,
        };
        let outcome = integrate(model, &mut lanes);
        let whole = u64::MAX >> (64 - span.len);
        self.record(outcome.fired & whole, chunk);
        let lost = outcome.lost & whole;
        (lost != 0).then(|| (self.step, span.first + lost.trailing_zeros()))
    }

    /// Lets a chunk of random sources fire; every fourth step draws four of them.
    #[inline(always)]
    fn random(&mut self, words: &Words, chances: &[u32], chunk: usize) {
        let span = self.spans[chunk];
        let drawn = &mut self.drawn[4 * chunk..4 * chunk + 4];
        if self.step.is_multiple_of(4) {
            let quad = self.step / 4;
            for k in 0..CHUNK {
                let neuron = span.first.wrapping_add(k as u32);
                let four = words.at([quad as u32, (quad >> 32) as u32, neuron], 0);
                for lag in 0..4 {
                    drawn[lag][k] = u16::from(four[lag] < chances[k]);
                }
            }
        }
        let mut fired = 0;
        for k in 0..CHUNK {
            fired |= u64::from(drawn[(self.step % 4) as usize][k]) << k;
        }
        self.record(fired & (u64::MAX >> (64 - span.len)), chunk);
    }

    /// Lists and counts a chunk's lanes that fire.
    #[inline(always)]
    fn record(&mut self, mut fired: u64, chunk: usize) {
        let span = self.spans[chunk];
        while fired != 0 {
            let k = fired.trailing_zeros();
            fired &= fired - 1;
            self.list.push(span.first + k);
            self.counts[chunk * CHUNK + k as usize] += 1;
        }
    }

    /// Updates a chunk; whether it rests then.
    #[inline(always)]
    fn one(&mut self, group: &Group, chunk: usize) -> bool {
        let per_chunk = group.per_chunk;
        let own = group.chain_first + (chunk - group.chunks.start) * per_chunk;
        let mut lanes = Lanes {
            v: &mut self.v[chunk],
            silent: &mut self.silent[chunk],
            current: &self.current[chunk],
            chain: &mut self.chain[own..own + per_chunk],
            ring: &mut *self.ring,
            past: (group.filter > 0).then(|| {
                let past = (self.step % group.filter) as usize * group.chunks.len();
                &mut self.past[group.past_first + past + (chunk - group.chunks.start)]
            }),
            chunk,
            chunks: self.chunks,
        };
        let span = self.spans[chunk];
        if let Some(poisson) = &group.poisson {
            let drawn = &mut self.drawn[4 * chunk..4 * chunk + 4];
            let row = &mut lanes.ring[poisson.receptor * lanes.chunks + chunk];
            poisson_input(poisson, self.step, span, drawn, row);
        }
        let came = group.filter > 0 && any(&lanes.ring[chunk]);
        let fired = lanes.step(group) & (u64::MAX >> (64 - span.len));
        if group.filter > 0 && came {
            self.last_input[chunk] = self.step;
        }
        // A filter that has not ended holds past input, which must be stepped through.
        let still =
            group.rests && lanes.still() && self.step >= self.last_input[chunk] + group.filter;
        self.record(fired, chunk);
        still
    }
}

/// One step of a chunk of neurons that are integrated.
#[inline(always)]
fn integrate(model: &ModelPopulation, lanes: &mut ModelLanes<'_>) -> Outcome {
    with_model!(model.kind, step(model, lanes))
}

/// A chunk's arrays.
struct Lanes<'a> {
    v: &'a mut [f32; CHUNK],
    silent: &'a mut [i32; CHUNK],
    current: &'a [f32; CHUNK],
    /// (receptor, k).
    chain: &'a mut [[f32; CHUNK]],
    /// The slot's: (receptor, chunk).
    ring: &'a mut [[i32; CHUNK]],
    /// Arrivals of a filter's length ago, for filters that end.
    past: Option<&'a mut [i32; CHUNK]>,
    chunk: usize,
    chunks: usize,
}

impl Lanes<'_> {
    /// One step; a bit for each lane that fires.
    ///
    /// Chains of one are updated in one loop; that the loops of the others do the same arithmetic is
    /// tested.
    #[inline(always)]
    fn step(&mut self, group: &Group) -> u64 {
        let Some(c) = &group.constants else {
            return 0;
        };
        let past = self.past.is_some();
        match (c.chain(), c.receptors.len(), c.early, past) {
            (1, 1, false, false) => self.fused::<1, false, false>(group, c),
            (1, 1, true, false) => self.fused::<1, true, false>(group, c),
            (1, 1, true, true) => self.fused::<1, true, true>(group, c),
            (1, 2, false, false) => self.fused::<2, false, false>(group, c),
            (1, 2, true, false) => self.fused::<2, true, false>(group, c),
            _ => self.general(group, c),
        }
    }

    /// Exponential currents: R receptors, arrivals before (EARLY) or after the potential's step,
    /// filters that end (PAST).
    #[inline(always)]
    fn fused<const R: usize, const EARLY: bool, const PAST: bool>(
        &mut self,
        group: &Group,
        c: &Constants,
    ) -> u64 {
        let mut p = [0f32; R];
        let mut onto = [0f32; R];
        let mut gain = [0f32; R];
        for r in 0..R {
            p[r] = c.receptors[r].decay;
            onto[r] = c.receptors[r].onto[0];
            gain[r] = group.gains[r];
        }
        let tail = if PAST { group.tails[0] } else { 0.0 };
        let (leak, constant, threshold) = (c.leak, c.constant, c.threshold);
        let (reset, refractory) = (c.reset, c.refractory);
        // Copies on the stack: the compiler cannot know that the arrays do not overlap. Nor must a branch decide what is
        // stored: of a number that stays it would make a store under a mask, which is slow without AVX-512.
        let (mut vs, mut silents, currents) = (*self.v, *self.silent, *self.current);
        let mut chain = [[0f32; CHUNK]; R];
        let mut inputs = [[0i32; CHUNK]; R];
        for r in 0..R {
            chain[r] = self.chain[r];
            inputs[r] = self.ring[r * self.chunks + self.chunk];
            self.ring[r * self.chunks + self.chunk] = [0; CHUNK];
        }
        let mut past = [0i32; CHUNK];
        if PAST && let Some(own) = &mut self.past {
            past = **own;
            **own = inputs[0];
        }
        let mut flags = [0u8; CHUNK];
        for i in 0..CHUNK {
            let mut next = vs[i].mul_add(leak, constant) + currents[i];
            for r in 0..R {
                let mut m = chain[r][i];
                let arrived = inputs[r][i] as f32 * gain[r];
                if EARLY {
                    m = flush_tiny(m.mul_add(p[r], arrived));
                }
                if PAST {
                    m = (past[i] as f32).mul_add(tail, m);
                }
                next = m.mul_add(onto[r], next);
                if !EARLY {
                    m = flush_tiny(m.mul_add(p[r], arrived));
                }
                chain[r][i] = m;
            }
            let free = silents[i] == 0;
            let v = select(free, flush_tiny(next), vs[i]);
            let fires = free & (v >= threshold);
            vs[i] = select(fires, reset, v);
            silents[i] = select(fires, refractory, (silents[i] - 1).max(0));
            flags[i] = u8::from(fires);
        }
        *self.v = vs;
        *self.silent = silents;
        self.chain[..R].copy_from_slice(&chain);
        bits(&flags)
    }

    #[inline(always)]
    fn general(&mut self, group: &Group, c: &Constants) -> u64 {
        let mut next = [0f32; CHUNK];
        if c.early {
            self.arrive(group);
        }
        for i in 0..CHUNK {
            next[i] = self.v[i].mul_add(c.leak, c.constant) + self.current[i];
        }
        let chain = c.chain();
        for (r, receptor) in c.receptors.iter().enumerate() {
            for (k, &onto) in receptor.onto.iter().enumerate() {
                // A filter's lower moments do not act on the potential.
                if onto != 0.0 {
                    let m = &self.chain[r * chain + k];
                    for i in 0..CHUNK {
                        next[i] = m[i].mul_add(onto, next[i]);
                    }
                }
            }
        }
        if c.delta {
            let input = &mut self.ring[self.chunk];
            for i in 0..CHUNK {
                next[i] += input[i] as f32 * group.gains[0];
                input[i] = 0;
            }
        }
        let mut flags = [0u8; CHUNK];
        for i in 0..CHUNK {
            let free = self.silent[i] == 0;
            let v = select(free, flush_tiny(next[i]), self.v[i]);
            let fires = free & (v >= c.threshold);
            self.v[i] = select(fires, c.reset, v);
            self.silent[i] = select(fires, c.refractory, (self.silent[i] - 1).max(0));
            flags[i] = u8::from(fires);
        }
        if !c.early && !c.delta {
            self.arrive(group);
        }
        bits(&flags)
    }

    /// Chains go a step on and take in what arrives.
    #[inline(always)]
    fn arrive(&mut self, group: &Group) {
        let Some(c) = &group.constants else {
            return;
        };
        let length = c.chain();
        for (r, receptor) in c.receptors.iter().enumerate() {
            let p = receptor.decay;
            let gain = group.gains[r];
            let input = &mut self.ring[r * self.chunks + self.chunk];
            let chain = &mut self.chain[r * length..(r + 1) * length];
            let mut arrived = [0f32; CHUNK];
            for i in 0..CHUNK {
                arrived[i] = input[i] as f32 * gain;
            }
            // Arrivals of a filter's length ago leave again; both are whole numbers of units.
            let ended = self.past.as_deref_mut().map(|past| {
                let ended = *past;
                *past = *input;
                ended
            });
            *input = [0; CHUNK];
            match &mut *chain {
                [m0] => {
                    for i in 0..CHUNK {
                        m0[i] = flush_tiny(m0[i].mul_add(p, arrived[i]));
                    }
                }
                [m0, m1] => {
                    for i in 0..CHUNK {
                        m1[i] = flush_tiny(p * (m1[i] + m0[i]));
                        m0[i] = flush_tiny(m0[i].mul_add(p, arrived[i]));
                    }
                }
                [m0, m1, m2] => {
                    for i in 0..CHUNK {
                        m2[i] = flush_tiny(p * (m2[i] + m1[i].mul_add(2.0, m0[i])));
                        m1[i] = flush_tiny(p * (m1[i] + m0[i]));
                        m0[i] = flush_tiny(m0[i].mul_add(p, arrived[i]));
                    }
                }
                [m0, m1, m2, m3] => {
                    for i in 0..CHUNK {
                        m3[i] = flush_tiny(p * (m3[i] + (m2[i] + m1[i]).mul_add(3.0, m0[i])));
                        m2[i] = flush_tiny(p * (m2[i] + m1[i].mul_add(2.0, m0[i])));
                        m1[i] = flush_tiny(p * (m1[i] + m0[i]));
                        m0[i] = flush_tiny(m0[i].mul_add(p, arrived[i]));
                    }
                }
                _ => {}
            }
            let Some(ended) = ended else {
                continue;
            };
            for k in 0..length {
                let tail = group.tails[k];
                for i in 0..CHUNK {
                    chain[k][i] = (ended[i] as f32).mul_add(tail, chain[k][i]);
                }
            }
        }
    }

    /// True if nothing changes until input comes.
    #[inline(always)]
    fn still(&self) -> bool {
        let mut moving = 0u32;
        for i in 0..CHUNK {
            // Both zeros count as none.
            moving |= self.v[i].to_bits() << 1;
            moving |= self.current[i].to_bits() << 1;
            moving |= self.silent[i] as u32;
        }
        if moving != 0 {
            return false;
        }
        for m in &*self.chain {
            for m in m {
                moving |= m.to_bits() << 1;
            }
        }
        moving == 0
    }
}

#[inline(always)]
fn any(row: &[i32; CHUNK]) -> bool {
    let mut any = 0;
    for i in 0..CHUNK {
        any |= row[i];
    }
    any != 0
}

/// Numbers closer to zero are zero: those too small for a full mantissa would take a hundred times
/// as long, and never fall to zero.
pub(crate) const TINY: f32 = 1e-30;

#[inline(always)]
pub(super) fn flush_tiny(x: f32) -> f32 {
    select(x.abs() < TINY, 0.0, x)
}

/// One bit a flag.
#[inline(always)]
fn bits(flags: &[u8; CHUNK]) -> u64 {
    let (eights, _) = flags.as_chunks::<8>();
    let mut any = 0;
    for eight in eights {
        any |= u64::from_le_bytes(*eight);
    }
    if any == 0 {
        return 0;
    }
    let mut mask = 0;
    for i in 0..8 {
        // The product brings bit 0 of byte k to bit 56 + k.
        let byte = u64::from_le_bytes(eights[i]).wrapping_mul(0x0102_0408_1020_4080) >> 56;
        mask |= byte << (8 * i);
    }
    mask
}

/// Adds the counts of this step; every fourth step draws four of them, since Philox gives four words.
#[inline(always)]
fn poisson_input(
    poisson: &PoissonInput,
    step: u64,
    span: Span,
    drawn: &mut [[u16; CHUNK]],
    row: &mut [i32; CHUNK],
) {
    if step.is_multiple_of(4) {
        draw(poisson, step / 4, span, drawn);
    }
    let drawn = &drawn[(step % 4) as usize];
    for i in 0..CHUNK {
        row[i] += i32::from(drawn[i]) * poisson.weight;
    }
}

#[inline(always)]
fn draw(poisson: &PoissonInput, quad: u64, span: Span, drawn: &mut [[u16; CHUNK]]) {
    let words = &poisson.words;
    for begin in (0..CHUNK).step_by(WIDE) {
        let mut counter = [[0u32; WIDE]; 4];
        counter[0] = [quad as u32; WIDE];
        counter[1] = [(quad >> 32) as u32; WIDE];
        for i in 0..WIDE {
            counter[2][i] = span.first.wrapping_add((begin + i) as u32);
        }
        counter[3] = [words.purpose(); WIDE];
        let four = philox_wide(counter, words.key());
        for lag in 0..4 {
            let four = &four[lag];
            let Some((drawn, _)) = drawn[lag][begin..].split_first_chunk_mut::<WIDE>() else {
                return;
            };
            if poisson.thresholds.len() > COMPARED {
                for (drawn, word) in drawn.iter_mut().zip(four) {
                    *drawn = poisson.thresholds.partition_point(|t| t <= word) as u16;
                }
                continue;
            }
            let mut counts = [0u32; WIDE];
            for &threshold in &poisson.thresholds {
                for i in 0..WIDE {
                    counts[i] += u32::from(four[i] >= threshold);
                }
            }
            for i in 0..WIDE {
                drawn[i] = counts[i] as u16;
            }
        }
    }
}
