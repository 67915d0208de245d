//! State of an online trainer, as bytes.
//!
//! ```text
//! first model, model in use        length u64, model file each; the second 0 where it is the first
//! best score, labelled seconds     f64 each
//! trials, accepted, refused, rolled back    u64 each
//! labels: count f64, then sum, sum of squares, least and greatest f64 of each output
//! memories of sums: count u64, then of each: steps f64, length u64, sums as a model retains them
//! ```
//!
//! The first model says what the latents mean. What was compared is not kept, nor which channels are ill, nor the trials
//! of a recurrent decoder: all of these begin anew.

use super::{Learner, Memory};
use crate::online::config::TrainerConfig;
use betz_base::error::{Error, ErrorKind, Result};
use betz_base::frame::Content;
use betz_base::wire::{Reader, Writer};
use betz_runtime::model::Decoder;

/// The first bytes of what was learned.
pub const MAGIC: [u8; 8] = *b"BETZLRND";

const CONTENT: Content = Content {
    magic: MAGIC,
    name: "what a trainer has learned",
    damaged: ErrorKind::InvalidModel,
};

const VERSION: u32 = 1;

impl Learner {
    /// All that was learned, but what is being compared.
    ///
    /// # Errors
    /// The same as for [`Decoder::to_bytes`].
    pub(in crate::online) fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut to = Writer::framed();
        let first = self.adaptation.first()?;
        put_all(&mut to, &first.to_bytes()?);
        if self.current == first {
            to.u64(0);
        } else {
            put_all(&mut to, &self.current.to_bytes()?);
        }
        for number in [self.best, self.labelled_seconds] {
            to.f64(number);
        }
        for count in [self.trials, self.accepted, self.refused, self.rolled_back] {
            to.u64(count);
        }
        let labels = &self.labels;
        let sums = labels.sum.iter().zip(&labels.squares).zip(&labels.extremes);
        let numbers = sums.flat_map(|((a, b), (low, high))| {
            let (low, high) = (f64::from(*low), f64::from(*high));
            [*a, *b, low, high]
        });
        for number in std::iter::once(labels.count).chain(numbers) {
            to.f64(number);
        }
        self.adaptation.write(&mut to);
        Ok(to.seal(CONTENT, VERSION))
    }

    /// Reads the saved trainer `bytes`, to continue at the pace of `config` for the steps of `like`.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`] for bytes that are none of [`to_bytes`](Self::to_bytes), or damaged;
    /// [`ErrorKind::UnsupportedVersion`]; [`ErrorKind::Mismatch`] for those of other channels, outputs, filters or another step;
    /// as [`Learner::new`].
    pub(in crate::online) fn from_bytes(
        bytes: &[u8],
        config: &TrainerConfig,
        like: &Decoder,
    ) -> Result<Self> {
        let (_, mut from) = CONTENT.read(bytes, VERSION..=VERSION)?;
        let from = &mut from;
        let first = Decoder::from_bytes(list(from)?)?;
        same_steps(like, &first)?;
        let current = match list(from)? {
            [] => first.clone(),
            bytes => Decoder::from_bytes(bytes)?,
        };
        same_steps(&first, &current)?;
        let mut learner = Self::new(&first, config)?;
        learner.best = number(from)?;
        learner.labelled_seconds = number(from)?;
        learner.trials = from.u64()?;
        learner.accepted = from.u64()?;
        learner.refused = from.u64()?;
        learner.rolled_back = from.u64()?;
        learner.labels.count = number(from)?;
        let labels = &mut learner.labels;
        let sums = labels.sum.iter_mut().zip(&mut labels.squares);
        for ((sum, square), extremes) in sums.zip(&mut labels.extremes) {
            (*sum, *square) = (number(from)?, number(from)?);
            *extremes = (bound(from)?, bound(from)?);
        }
        let count = learner.adaptation.read(from)?;
        from.end()?;
        learner.memories.clear();
        learner.memories.resize_with(count, Memory::new);
        learner.current = current;
        learner.set_half_life(config.half_life_seconds);
        Ok(learner)
    }
}

/// Refuses models whose sums cannot go on in each other's place.
fn same_steps(expected: &Decoder, got: &Decoder) -> Result<()> {
    let (a, b) = (expected.parts(), got.parts());
    let differs = [
        ("step", a.step_seconds != b.step_seconds),
        ("channels", a.channel_names != b.channel_names),
        ("outputs", a.outputs != b.outputs),
        ("filters", a.bank != b.bank || a.low_pass != b.low_pass),
        ("delay", a.delay_steps != b.delay_steps),
    ];
    match differs.iter().find(|(_, differs)| *differs) {
        None => Ok(()),
        Some((what, _)) => Err(Error::mismatch(format!(
            "{}: expected the {what} of the trainer's model, got others",
            CONTENT.name
        ))),
    }
}

fn put_all(to: &mut Writer, content: &[u8]) {
    to.u64(content.len() as u64);
    to.bytes.extend_from_slice(content);
}

/// A finite number.
fn number(from: &mut Reader<'_>) -> Result<f64> {
    let value = from.f64()?;
    if value.is_finite() {
        return Ok(value);
    }
    Err(CONTENT.error(format_args!("expected finite numbers, got {value}")))
}

/// A number that may be infinite.
fn bound(from: &mut Reader<'_>) -> Result<f32> {
    let value = from.f64()? as f32;
    if !value.is_nan() {
        return Ok(value);
    }
    Err(CONTENT.error("expected bounds, got NaN"))
}

/// Bytes behind their number.
fn list<'a>(from: &mut Reader<'a>) -> Result<&'a [u8]> {
    let count = from.u64()?;
    from.bytes(count)
}
