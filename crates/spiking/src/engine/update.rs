//! One step of a part's neurons, sixteen or eight at a time where the processor can.
//!
//! Every number is an f32, every multiply-add one rounding, and no sum is reordered: the same bits on
//! every processor, and on a device that spells its multiply-adds out.

use pulp::{Simd, WithSimd};

use super::part::{Group, Part, PoissonInput, Span};
use crate::plan::CHUNK;
use crate::random::{mix, philox};

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
        let per_slot = part.rings * part.chunks * CHUNK;
        let (ring, _) = part.ring[slot * per_slot..][..per_slot].as_chunks_mut::<CHUNK>();
        let (v, _) = part.v.as_chunks_mut::<CHUNK>();
        let (silent, _) = part.silent.as_chunks_mut::<CHUNK>();
        let (current, _) = part.current.as_chunks_mut::<CHUNK>();
        let (chain, _) = part.chain.as_chunks_mut::<CHUNK>();
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
            chunks: part.chunks,
            receptors: part.receptors,
            step,
            list: &mut *list,
        };
        for group in &part.groups {
            if group.constants.is_none() {
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
    chunks: usize,
    receptors: usize,
    step: u64,
    list: &'a mut Vec<u32>,
}

impl State<'_> {
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
            chunk,
            chunks: self.chunks,
            receptors: self.receptors,
        };
        let span = self.spans[chunk];
        if let Some(poisson) = &group.poisson {
            let drawn = &mut self.drawn[4 * chunk..4 * chunk + 4];
            poisson_input(poisson, self.step, span, drawn, &mut lanes);
        }
        let mut fired = lanes.step(group) & (u64::MAX >> (64 - span.len));
        let still = group.rests && lanes.still();
        while fired != 0 {
            let k = fired.trailing_zeros();
            fired &= fired - 1;
            self.list.push(span.first + k);
            self.counts[chunk * CHUNK + k as usize] += 1;
        }
        still
    }
}

/// A chunk's arrays.
struct Lanes<'a> {
    v: &'a mut [f32; CHUNK],
    silent: &'a mut [i32; CHUNK],
    current: &'a [f32; CHUNK],
    /// (receptor, k).
    chain: &'a mut [[f32; CHUNK]],
    /// The slot's: (receptor, chunk), then the same where filters end.
    ring: &'a mut [[i32; CHUNK]],
    chunk: usize,
    chunks: usize,
    receptors: usize,
}

impl Lanes<'_> {
    /// One step; a bit for each lane that fires.
    #[inline(always)]
    fn step(&mut self, group: &Group) -> u64 {
        let Some(c) = &group.constants else {
            return 0;
        };
        let mut next = [0f32; CHUNK];
        if c.early {
            self.arrive(group);
        }
        for (next, v) in next.iter_mut().zip(&*self.v) {
            *next = v.mul_add(c.leak, c.constant);
        }
        for (next, current) in next.iter_mut().zip(self.current) {
            *next += current;
        }
        let chain = c.chain();
        for (r, receptor) in c.receptors.iter().enumerate() {
            for (k, &onto) in receptor.onto.iter().enumerate() {
                // A filter's lower moments do not act on the potential.
                if onto != 0.0 {
                    for (next, m) in next.iter_mut().zip(&self.chain[r * chain + k]) {
                        *next = m.mul_add(onto, *next);
                    }
                }
            }
        }
        if c.delta {
            let input = &mut self.ring[self.chunk];
            for (next, input) in next.iter_mut().zip(input.iter_mut()) {
                *next += *input as f32 * group.gains[0];
                *input = 0;
            }
        }
        let mut flags = [0u8; CHUNK];
        for i in 0..CHUNK {
            let free = self.silent[i] == 0;
            let v = if free { next[i] } else { self.v[i] };
            let fires = free & (v >= c.threshold);
            self.v[i] = if fires { c.reset } else { v };
            let waited = if free { 0 } else { self.silent[i] - 1 };
            self.silent[i] = if fires { c.refractory } else { waited };
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
            for (arrived, input) in arrived.iter_mut().zip(input.iter()) {
                *arrived = *input as f32 * gain;
            }
            match chain {
                [m0] => {
                    for i in 0..CHUNK {
                        m0[i] = m0[i].mul_add(p, arrived[i]);
                    }
                }
                [m0, m1] => {
                    for i in 0..CHUNK {
                        m1[i] = p * (m1[i] + m0[i]);
                        m0[i] = m0[i].mul_add(p, arrived[i]);
                    }
                }
                [m0, m1, m2] => {
                    for i in 0..CHUNK {
                        m2[i] = p * (m2[i] + m1[i].mul_add(2.0, m0[i]));
                        m1[i] = p * (m1[i] + m0[i]);
                        m0[i] = m0[i].mul_add(p, arrived[i]);
                    }
                }
                [m0, m1, m2, m3] => {
                    for i in 0..CHUNK {
                        m3[i] = p * (m3[i] + (m2[i] + m1[i]).mul_add(3.0, m0[i]));
                        m2[i] = p * (m2[i] + m1[i].mul_add(2.0, m0[i]));
                        m1[i] = p * (m1[i] + m0[i]);
                        m0[i] = m0[i].mul_add(p, arrived[i]);
                    }
                }
                _ => {}
            }
            *input = [0; CHUNK];
        }
        // Only truncated filters have tails; they have one receptor.
        if group.tails.first().is_some_and(|t| *t != 0.0) {
            let ended = &mut self.ring[self.receptors * self.chunks + self.chunk];
            for (m, &tail) in self.chain.iter_mut().zip(&group.tails) {
                for (m, ended) in m.iter_mut().zip(&*ended) {
                    *m = (*ended as f32).mul_add(tail, *m);
                }
            }
            *ended = [0; CHUNK];
        }
    }

    /// Whether nothing changes until input comes.
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

/// One bit a flag.
#[inline(always)]
fn bits(flags: &[u8; CHUNK]) -> u64 {
    let (eights, _) = flags.as_chunks::<8>();
    let any = eights.iter().fold(0, |a, e| a | u64::from_le_bytes(*e));
    if any == 0 {
        return 0;
    }
    // The product brings bit 0 of byte i to bit 56 + i.
    let byte = |e: &[u8; 8]| u64::from_le_bytes(*e).wrapping_mul(0x0102_0408_1020_4080) >> 56;
    (eights.iter().enumerate()).fold(0, |a, (i, e)| a | byte(e) << (8 * i))
}

/// Adds the counts of this step; every fourth step draws four of them, since Philox gives four words.
#[inline(always)]
fn poisson_input(
    poisson: &PoissonInput,
    step: u64,
    span: Span,
    drawn: &mut [[u16; CHUNK]],
    lanes: &mut Lanes<'_>,
) {
    if step.is_multiple_of(4) {
        draw(poisson, step / 4, span, drawn);
    }
    let ring = &mut lanes.ring[poisson.receptor * lanes.chunks + lanes.chunk];
    let drawn = &drawn[(step % 4) as usize];
    for (input, count) in ring.iter_mut().zip(drawn) {
        *input += i32::from(*count) * poisson.weight;
    }
}

#[inline(always)]
fn draw(poisson: &PoissonInput, quad: u64, span: Span, drawn: &mut [[u16; CHUNK]]) {
    const WIDE: usize = 16;
    let words = &poisson.words;
    for begin in (0..CHUNK).step_by(WIDE) {
        let mut four = [[0u32; WIDE]; 4];
        for i in 0..WIDE {
            let neuron = span.first + (begin + i) as u32;
            let counter = [quad as u32, (quad >> 32) as u32, neuron, words.purpose()];
            let out = philox(counter, words.key());
            for (four, out) in four.iter_mut().zip(out) {
                four[i] = out;
            }
        }
        for (drawn, four) in drawn.iter_mut().zip(&four) {
            let drawn = &mut drawn[begin..begin + WIDE];
            if poisson.thresholds.len() > COMPARED {
                for (drawn, word) in drawn.iter_mut().zip(four) {
                    *drawn = poisson.thresholds.partition_point(|t| t <= word) as u16;
                }
                continue;
            }
            let mut counts = [0u32; WIDE];
            for threshold in &poisson.thresholds {
                for (count, word) in counts.iter_mut().zip(four) {
                    *count += u32::from(word >= threshold);
                }
            }
            for (drawn, count) in drawn.iter_mut().zip(counts) {
                *drawn = count as u16;
            }
        }
    }
}
