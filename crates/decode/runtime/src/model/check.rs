//! The conditions that every decoder meets, wherever it came from.

use alloc::collections::BTreeSet;
use alloc::string::String;

use super::{DecoderParts, Head, format};
use crate::psc::Convolution;
use betz_base::error::{Error, ErrorKind, Result};

/// Largest number of channels of a decoder.
pub const MAX_CHANNELS: usize = 1 << 20;
/// Largest number of outputs of a decoder.
pub const MAX_OUTPUTS: usize = 4096;
/// Largest number of filters of a decoder's bank.
pub const MAX_FILTERS: usize = 256;
/// Largest delay, either way, in steps.
pub const MAX_DELAY_STEPS: i64 = 1 << 40;
/// Largest absolute weight or intercept: outputs are f32, and states in f64 then never overflow.
pub const MAX_WEIGHT: f64 = f32::MAX as f64;

impl DecoderParts {
    /// The promise of [`Decoder::new`](super::Decoder::new).
    pub(super) fn check(&self) -> Result<()> {
        self.check_shape()?;
        self.check_filters()?;
        self.check_names()?;
        self.check_weights()?;
        let (latents, outputs) = (self.latents(), self.outputs.len());
        self.head.check(latents, outputs)?;
        if let Head::ModelBlend(blend) = &self.head {
            blend.check_members(self)?;
        }
        self.limits
            .check(self.channel_names.len(), self.outputs.len())?;
        self.check_attachments()
    }

    fn check_shape(&self) -> Result<()> {
        check_sizes(
            ErrorKind::InvalidModel,
            self.channel_names.len(),
            self.bank.len(),
            self.outputs.len(),
        )?;
        if self.head == Head::Linear {
            self.head.check(self.latents(), self.outputs.len())?;
        }
        let lengths = [
            (
                "channel_mask",
                self.channel_mask.len(),
                self.channel_names.len(),
            ),
            (
                "channel_means",
                self.channel_means.len(),
                match self.channel_means.is_empty() {
                    true => 0,
                    false => self.channel_names.len(),
                },
            ),
            (
                "weights",
                self.weights.len(),
                (self.channel_names.len() * self.bank.len()).saturating_mul(self.latents()),
            ),
        ];
        for (what, got, expected) in lengths {
            if got != expected {
                return refuse(format!("{what}: expected {expected} values, got {got}"));
            }
        }
        if self.latents() == 0 || self.latents() > MAX_OUTPUTS {
            return refuse(format!(
                "intercept: expected one per latent, 1 to {MAX_OUTPUTS}, got {}",
                self.latents()
            ));
        }
        if !(self.step_seconds.is_finite() && self.step_seconds > 0.0) {
            return refuse(format!(
                "step_seconds: expected a finite step > 0 s, got {}",
                self.step_seconds
            ));
        }
        if self.delay_steps.unsigned_abs() > MAX_DELAY_STEPS.unsigned_abs() {
            return refuse(format!(
                "delay_steps: expected at most {MAX_DELAY_STEPS} either way, got {}",
                self.delay_steps
            ));
        }
        Ok(())
    }

    fn check_filters(&self) -> Result<()> {
        // A bank that was decoded never went through its constructor.
        let bank = self.bank.check();
        let steps = self.bank.check_step(self.step_seconds);
        // Before a session takes memory for them: a filter that begins late is large there and small in a file.
        let sampled = self.bank.sampled();
        let room = Convolution::check_room(sampled, self.latents(), self.bank.ahead());
        let low_pass = self
            .low_pass
            .map_or(Ok(()), |low_pass| low_pass.check(self.step_seconds));
        bank.and(steps)
            .and(room)
            .and(low_pass)
            .map_err(|error| Error::new(ErrorKind::InvalidModel, error.message()))
    }

    fn check_names(&self) -> Result<()> {
        // Names that ascend, as numbered ones do, need no table to tell that none comes twice.
        let before = |a: &String, b: &String| (a.len(), a) < (b.len(), b);
        let ascend = (self.channel_names.windows(2)).all(|pair| before(&pair[0], &pair[1]));
        let mut seen = BTreeSet::new();
        for (channel, name) in self.channel_names.iter().enumerate() {
            if ascend {
                break;
            }
            if !seen.insert(name.as_str()) {
                return refuse(format!(
                    "channel_names[{channel}]: {name:?} is the name of an earlier channel"
                ));
            }
        }
        for (i, output) in self.outputs.iter().enumerate() {
            if self.outputs[..i].iter().any(|o| o.name == output.name) {
                return refuse(format!(
                    "outputs[{i}]: {:?} is the name of an earlier output",
                    output.name
                ));
            }
        }
        Ok(())
    }

    fn check_weights(&self) -> Result<()> {
        let latents = self.latents();
        let rows = self.weights.chunks_exact(self.bank.len() * latents);
        for (channel, (row, &takes_part)) in rows.zip(&self.channel_mask).enumerate() {
            for (i, &weight) in row.iter().enumerate() {
                let at = || {
                    format!(
                        "weights of channel {channel} ({:?}), filter {}, latent {}",
                        self.channel_names[channel],
                        i / latents,
                        i % latents
                    )
                };
                if weight.is_nan() || weight.abs() > MAX_WEIGHT {
                    return refuse(format!(
                        "{}: expected a finite value of at most {MAX_WEIGHT:e}, got {weight}",
                        at()
                    ));
                }
                if !takes_part && weight != 0.0 {
                    return refuse(format!(
                        "{}: expected 0 on a masked channel, got {weight}",
                        at()
                    ));
                }
            }
        }
        for (channel, &mean) in self.channel_means.iter().enumerate() {
            if mean.is_nan() || mean.abs() > MAX_WEIGHT {
                return refuse(format!(
                    "channel_means[{channel}]: expected a finite value of at most {MAX_WEIGHT:e}, got {mean}"
                ));
            }
        }
        for (latent, &value) in self.intercept.iter().enumerate() {
            if value.is_nan() || value.abs() > MAX_WEIGHT {
                return refuse(format!(
                    "intercept[{latent}]: expected a finite value of at most {MAX_WEIGHT:e}, got {value}"
                ));
            }
        }
        Ok(())
    }
}

impl DecoderParts {
    fn check_attachments(&self) -> Result<()> {
        for (i, attachment) in self.attachments.iter().enumerate() {
            let tag = attachment.tag;
            format::check_letters(tag)?;
            if !format::is_optional(tag) {
                return refuse(format!(
                    "attachment {}: expected a tag that begins in lower case",
                    tag.escape_ascii()
                ));
            }
            if self.attachments[..i].iter().any(|a| a.tag == tag) {
                return refuse(format!(
                    "attachment {}: expected each tag once",
                    tag.escape_ascii()
                ));
            }
        }
        Ok(())
    }
}

/// Refuses with `kind` the sizes that no decoder has.
pub fn check_sizes(kind: ErrorKind, channels: usize, filters: usize, outputs: usize) -> Result<()> {
    let sizes = [
        ("channels", channels, MAX_CHANNELS),
        ("filters", filters, MAX_FILTERS),
        ("outputs", outputs, MAX_OUTPUTS),
    ];
    for (what, got, most) in sizes {
        if got == 0 || got > most {
            let text = format!("expected 1 to {most} {what}, got {got}");
            return Err(Error::new(kind, text));
        }
    }
    Ok(())
}

fn refuse(reason: String) -> Result<()> {
    Err(Error::new(ErrorKind::InvalidModel, reason))
}
