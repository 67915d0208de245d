//! A blend: whole decoders side by side, whose estimates are averaged with fixed weights.
//!
//! The decoder that has this head is the first member: its linear engine and `own`, the head behind it. The others are
//! decoders of their own, with their own filters, heads and limits. All hear the same spikes:
//!
//! ```text
//! y = w_0·y_0 + Σ_i w_i·y_i        w ≥ 0        Σw = 1
//! ```
//!
//! The sum is made by the session's engine, in f64, the first member first.

use super::{Head, HeadStep, Kind, PreparedHead, refuse};
use crate::model::format::{decode_member, encode};
use crate::model::{Decoder, DecoderParts, MAX_OUTPUTS};
use alloc::boxed::Box;
use alloc::vec::Vec;
use betz_base::error::Result;
use betz_base::hash::Fnv1a;
use betz_base::wire::{Reader, Writer};

/// Largest number of members of a blend, the first one included.
pub const MAX_BLEND_MEMBERS: usize = 8;

/// Largest distance of the sum of the weights from 1.
const ROUNDING: f64 = 1e-6;

/// Version of the section of the model file.
const SECTION_VERSION: u64 = 1;

/// A decoder in a blend.
#[derive(Debug, Clone, PartialEq)]
pub struct BlendMember {
    /// Its part of the estimates, 0 to 1.
    pub weight: f64,
    /// The decoder, of the same step, delay, channels, their means and outputs as the first member.
    pub decoder: Decoder,
}

/// Estimates of several decoders, averaged.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelBlend {
    /// The head of the first member, behind the engine of the decoder that this is the head of.
    pub own: Box<Head>,
    /// The first member's part of the estimates, 0 to 1.
    pub weight: f64,
    /// The other members, at least one.
    pub members: Vec<BlendMember>,
}

impl ModelBlend {
    /// The tag of its section of the model file.
    pub(in crate::model) const SECTION_TAG: [u8; 4] = *b"BLND";

    /// The weights of all members, the first one first.
    pub fn weights(&self) -> impl Iterator<Item = f64> + '_ {
        core::iter::once(self.weight).chain(self.members.iter().map(|member| member.weight))
    }

    /// The first member as a decoder of its own, of the decoder that `parts` make.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) for parts that do not fit.
    pub fn first(&self, parts: &DecoderParts) -> Result<Decoder> {
        Decoder::new(DecoderParts {
            head: (*self.own).clone(),
            ..parts.clone()
        })
    }

    /// All members as decoders of their own, of the decoder that `parts` make, the first one first.
    ///
    /// # Errors
    /// The errors of [`first`](Self::first).
    pub fn decoders(&self, parts: &DecoderParts) -> Result<Vec<Decoder>> {
        let others = self.members.iter().map(|member| Ok(member.decoder.clone()));
        core::iter::once(self.first(parts)).chain(others).collect()
    }

    /// The blend of `decoders`, as many as there are members, with these weights: the inverse of
    /// [`decoders`](Self::decoders).
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel) for decoders that do not fit.
    pub fn joined(&self, decoders: Vec<Decoder>) -> Result<Decoder> {
        let mut weights = self.weights();
        let mut decoders = decoders.into_iter();
        let (Some(weight), Some(first)) = (weights.next(), decoders.next()) else {
            return refuse("blend: expected members, got none".into());
        };
        let members = weights.zip(decoders);
        let members = members.map(|(weight, decoder)| BlendMember { weight, decoder });
        let mut parts = first.into_parts();
        parts.head = Head::ModelBlend(Self {
            own: Box::new(parts.head),
            weight,
            members: members.collect(),
        });
        Decoder::new(parts)
    }

    /// Refuses members that differ from `parts`, the decoder that this is the head of, in what they must share.
    pub(in crate::model) fn check_members(&self, parts: &DecoderParts) -> Result<()> {
        for (i, BlendMember { decoder, .. }) in self.members.iter().enumerate() {
            let differs = |what: &str, expected: &dyn core::fmt::Debug, got: &dyn core::fmt::Debug| {
                refuse(format!(
                    "blend: member {}: {what}: expected that of the first member, {expected:?}, got {got:?}",
                    i + 1
                ))
            };
            let own = (parts.step_seconds, parts.delay_steps);
            let step = (decoder.step_seconds(), decoder.delay_steps());
            if step.0.to_bits() != own.0.to_bits() {
                return differs("step in seconds", &own.0, &step.0);
            }
            if step.1 != own.1 {
                return differs("delay in steps", &own.1, &step.1);
            }
            if decoder.channel_names() != parts.channel_names {
                let (expected, got) = (&parts.channel_names, decoder.channel_names());
                return match (0..expected.len().min(got.len())).find(|&c| expected[c] != got[c]) {
                    Some(c) => differs("channel's name", &expected[c], &got[c]),
                    None => differs("number of channels", &expected.len(), &got.len()),
                };
            }
            if decoder.channel_means() != parts.channel_means {
                return differs(
                    "channels' means",
                    &parts.channel_means,
                    &decoder.channel_means(),
                );
            }
            if decoder.outputs() != parts.outputs {
                return differs("outputs", &parts.outputs, &decoder.outputs());
            }
        }
        Ok(())
    }
}

/// True if a head may be that of a member.
fn blends(head: &Head) -> bool {
    !matches!(head, Head::ModelBlend(_)) && head.classes().is_none()
}

impl Kind for ModelBlend {
    type StepForm = PreparedBlend;
    const NAME: &'static str = "blend";
    const TAG: [u8; 4] = Self::SECTION_TAG;
    /// A linear first member has as many latents as outputs.
    const MOST_LATENTS: usize = MAX_OUTPUTS;

    fn check(&self, latents: usize, outputs: usize) -> Result<()> {
        let all = self.members.len() + 1;
        if !(2..=MAX_BLEND_MEMBERS).contains(&all) {
            return refuse(format!(
                "members: expected 2 to {MAX_BLEND_MEMBERS}, got {all}"
            ));
        }
        let heads = core::iter::once(&*self.own).chain(self.members.iter().map(|m| m.decoder.head()));
        for (i, head) in heads.enumerate() {
            if !blends(head) {
                return refuse(format!(
                    "member {i}: expected a decoder of outputs that is no blend itself, got {}",
                    head.name()
                ));
            }
        }
        if let Some(weight) = self.weights().find(|weight| !(0.0..=1.0).contains(weight)) {
            return refuse(format!("weights: expected 0 to 1, got {weight}"));
        }
        let sum: f64 = self.weights().sum();
        if (sum - 1.0).abs() > ROUNDING {
            return refuse(format!("weights: expected a sum of 1, got {sum}"));
        }
        self.own.check(latents, outputs)
    }

    fn write(&self, to: &mut Writer) {
        to.u64(SECTION_VERSION);
        to.f64(self.weight);
        let mut own = Writer::default();
        self.own.write(&mut own);
        to.flag(self.own.tag().is_some());
        if let Some(tag) = self.own.tag() {
            to.bytes.extend_from_slice(&tag);
            to.u64(own.bytes.len() as u64);
            to.bytes.extend_from_slice(&own.bytes);
        }
        to.u64(self.members.len() as u64);
        for member in &self.members {
            let payload = encode(member.decoder.parts(), 0);
            to.f64(member.weight);
            to.u64(payload.len() as u64);
            to.bytes.extend_from_slice(&payload);
        }
    }

    fn read(from: &mut Reader<'_>) -> Result<Self> {
        match from.at("version").u64()? {
            SECTION_VERSION => {}
            other => {
                return refuse(format!(
                    "blend: expected version {SECTION_VERSION} of its section, got {other}"
                ));
            }
        }
        let weight = from.at("weight").f64()?;
        let own = match from.at("own head").flag()? {
            false => Head::Linear,
            true => read_own(from)?,
        };
        let count = from.at("members").u64()?;
        if count >= MAX_BLEND_MEMBERS as u64 {
            return refuse(format!(
                "blend: expected at most {} members besides the first, got {count}",
                MAX_BLEND_MEMBERS - 1
            ));
        }
        let mut members = Vec::new();
        for i in 1..=count {
            let weight = from.at("a member's weight").f64()?;
            let length = from.at("a member's length").u64()?;
            let payload = from.at("a member").bytes(length)?;
            let decoder = decode_member(payload).and_then(Decoder::new);
            members.push(BlendMember {
                weight,
                decoder: decoder.map_err(|e| e.at(format_args!("blend: member {i}")))?,
            });
        }
        Ok(Self {
            own: Box::new(own),
            weight,
            members,
        })
    }

    fn prepare(&self, step_seconds: f64) -> Result<PreparedBlend> {
        Ok(PreparedBlend {
            own: Box::new(self.own.prepare(step_seconds)?),
            weights: self.weights().collect(),
        })
    }
}

/// The head of the first member.
fn read_own(from: &mut Reader<'_>) -> Result<Head> {
    let tag: [u8; 4] = from.at("own head").array()?;
    let length = from.at("own head").u64()?;
    let content = from.at("own head").bytes(length)?;
    let mut content = crate::model::format::reader(content);
    let head = match tag == ModelBlend::TAG {
        true => None,
        false => Head::read(tag, &mut content)?,
    };
    let Some(head) = head else {
        return refuse(format!(
            "blend: expected the section of a decoder's head, got {}",
            tag.escape_ascii()
        ));
    };
    content.at("own head").end()?;
    Ok(head)
}

/// The first member's head in the form that steps use, and the weights of all members. The engine blends.
#[derive(Debug, Clone)]
pub(crate) struct PreparedBlend {
    own: Box<PreparedHead>,
    /// The first member's first.
    pub(crate) weights: Vec<f64>,
}

impl HeadStep for PreparedBlend {
    fn states(&self) -> usize {
        self.own.states()
    }

    fn scratch(&self) -> usize {
        self.own.scratch()
    }

    fn memory_steps(&self) -> u64 {
        self.own.memory_steps()
    }

    fn counters(&self) -> usize {
        self.own.counters()
    }

    fn pass(&self, steps: u64, states: &mut [f64]) {
        self.own.pass(steps, states);
    }

    fn approach(&self, steps: u64, states: &mut [f64], end: &[f64]) {
        self.own.approach(steps, states, end);
    }

    fn instructions(&self) -> u64 {
        self.own.instructions()
    }

    fn hash(&self, hash: &mut Fnv1a) {
        self.weights.iter().for_each(|weight| hash.number(*weight));
        self.own.hash(hash);
    }

    // The head of a head: it cannot be compiled into itself.
    #[inline(never)]
    fn step(
        &self,
        latents: &mut [f64],
        states: &mut [f64],
        scratch: &mut [f32],
        outputs: &mut [f64],
    ) -> bool {
        if let PreparedHead::Linear = *self.own {
            outputs.copy_from_slice(latents);
            return false;
        }
        self.own.step(latents, states, scratch, outputs)
    }
}
