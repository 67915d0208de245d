//! The members of a blend adapt side by side, each as it would alone.

use super::adaptation::Adaptation;
use super::assemble::Trial;
use super::closed_form::ClosedForm;
use super::config::TrainerConfig;
use crate::retained::{mask_without, without_rows};
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::wire::{Reader, Writer};
use betz_recording::SpikesView;
use betz_runtime::model::{Decoder, Head, ModelBlend};

/// The members of a blend, in their order.
pub(super) struct BlendMembers {
    first: Decoder,
    blend: ModelBlend,
    members: Vec<Member>,
}

/// A member of a blend.
enum Member {
    /// Adapts in closed form.
    Adapting(ClosedForm),
    /// Stays as it is, but for channels that are left out: a network.
    Fixed(Decoder),
}

impl BlendMembers {
    /// # Errors
    /// As [`ClosedForm::new`] for every member but recurrent ones; [`ErrorKind::InvalidArgument`] without any other.
    pub(super) fn new(
        decoder: &Decoder,
        blend: &ModelBlend,
        config: &TrainerConfig,
    ) -> Result<Self> {
        let decoders = blend.decoders(decoder.parts())?.into_iter();
        let members = decoders.map(|member| match member.head() {
            Head::Recurrent(_) => Ok(Member::Fixed(member)),
            _ => ClosedForm::new(&member, config).map(Member::Adapting),
        });
        let made = Self {
            first: decoder.clone(),
            blend: blend.clone(),
            members: members.collect::<Result<_>>()?,
        };
        if made.adapting().next().is_none() {
            return Err(Error::argument(
                "trainer: expected a blend with a linear member, a lift or experts, which adapt, got recurrent ones alone",
            ));
        }
        Ok(made)
    }

    fn adapting(&self) -> impl Iterator<Item = &ClosedForm> {
        self.members.iter().filter_map(|member| match member {
            Member::Adapting(member) => Some(member),
            Member::Fixed(_) => None,
        })
    }

    fn adapting_mut(&mut self) -> impl Iterator<Item = &mut ClosedForm> {
        self.members.iter_mut().filter_map(|member| match member {
            Member::Adapting(member) => Some(member),
            Member::Fixed(_) => None,
        })
    }

    /// The members of `current`, a blend as this began with.
    fn decoders(&self, current: &Decoder) -> Result<Vec<Decoder>> {
        match current.head() {
            Head::ModelBlend(blend) if blend.members.len() + 1 == self.members.len() => {
                blend.decoders(current.parts())
            }
            _ => Err(Error::new(
                ErrorKind::Mismatch,
                format!(
                    "trainer: expected a blend of {} members, got {}",
                    self.members.len(),
                    current.kind()
                ),
            )),
        }
    }
}

impl Adaptation for BlendMembers {
    fn first(&self) -> Result<Decoder> {
        Ok(self.first.clone())
    }

    fn set_memories(&mut self, count: usize) {
        self.adapting_mut()
            .for_each(|member| member.set_memories(count));
    }

    fn steps(&self, memory: usize) -> f64 {
        self.adapting()
            .next()
            .map_or(0.0, |member| member.steps(memory))
    }

    fn learn(
        &mut self,
        trial: &Trial,
        spikes: SpikesView<'_>,
        decoder: &Decoder,
        kept: &[f64],
    ) -> Result<()> {
        let decoders = self.decoders(decoder)?;
        for (member, decoder) in self.members.iter_mut().zip(&decoders) {
            if let Member::Adapting(member) = member {
                member.learn(trial, spikes, decoder, kept)?;
            }
        }
        Ok(())
    }

    fn forget(&mut self, memory: usize, share: f64) {
        self.adapting_mut()
            .for_each(|member| member.forget(memory, share));
    }

    fn copy_memory(&mut self, from: usize, to: usize) {
        self.adapting_mut()
            .for_each(|member| member.copy_memory(from, to));
    }

    fn solve(&mut self, memory: usize, current: &Decoder) -> Result<Option<Decoder>> {
        let mut decoders = self.decoders(current)?;
        for (member, decoder) in self.members.iter_mut().zip(&mut decoders) {
            if let Member::Adapting(member) = member {
                match member.solve(memory, decoder)? {
                    Some(solved) => *decoder = solved,
                    None => return Ok(None),
                }
            }
        }
        self.blend.joined(decoders).map(Some)
    }

    fn leave_out(&mut self, current: &Decoder, ill: &[usize]) -> Result<Decoder> {
        let mut decoders = self.decoders(current)?;
        for (member, decoder) in self.members.iter_mut().zip(&mut decoders) {
            *decoder = match member {
                Member::Adapting(member) => member.leave_out(decoder, ill)?,
                Member::Fixed(first) => {
                    let mask = mask_without(first.channel_mask(), ill, "leave out")?;
                    without_rows(first, first.weights(), &mask)?
                }
            };
        }
        self.blend.joined(decoders)
    }

    fn candidate_bytes(&self) -> usize {
        self.adapting().map(ClosedForm::candidate_bytes).sum()
    }

    /// Members learn one after the other.
    fn learning_bytes(&self) -> usize {
        self.adapting()
            .map(ClosedForm::learning_bytes)
            .max()
            .unwrap_or(0)
    }

    fn write(&self, to: &mut Writer) {
        self.adapting().for_each(|member| member.write(to));
    }

    fn read(&mut self, from: &mut Reader<'_>) -> Result<usize> {
        let mut count = None;
        for member in self.adapting_mut() {
            let own = member.read(from)?;
            if count.is_some_and(|count| count != own) {
                return Err(from.error(format_args!(
                    "expected as many memories of every member, got {own} of one"
                )));
            }
            count = Some(own);
        }
        Ok(count.unwrap_or(1))
    }

    #[cfg(test)]
    fn sums(&self, memory: usize) -> betz_gram::NormalEquations {
        let first = self.adapting().next();
        first.map_or_else(
            || betz_gram::NormalEquations::zeros(0, 0),
            |m| m.sums(memory),
        )
    }
}
