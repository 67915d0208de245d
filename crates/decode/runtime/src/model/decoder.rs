//! A decoder: the result of training, and the input of a session.

use super::{Classes, Head, Limits};
use crate::psc::{FilterBank, LowPass};
use alloc::string::String;
use alloc::vec::Vec;
use betz_base::error::Result;
use betz_base::output::OutputInfo;

/// Scores of one output on data that was not trained on.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct OutputScore {
    /// Name of the output.
    pub name: String,
    /// Unit of `rmse`; empty when unknown.
    pub unit: String,
    /// Coefficient of determination, 1 − residual / total sum of squares.
    pub r2: f64,
    /// Root mean square error, in `unit`.
    pub rmse: f64,
    /// RMSE / (max − min of the truth).
    pub nrmse_range: f64,
    /// RMSE / standard deviation of the truth.
    pub nrmse_std: f64,
}

/// Origin of a decoder: kept in its file for the people who find it later.
#[derive(Debug, Clone, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TrainingRecord {
    /// Version of Betz that trained it.
    pub betz_version: String,
    /// Steps trained on.
    pub steps: u64,
    /// Segments trained on.
    pub segments: u64,
    /// Spikes trained on.
    pub spikes: u64,
    /// Ridge λ added to the diagonal of the centred Γ.
    pub ridge: f64,
    /// How Γ was computed: `dense` or `event`.
    pub gram_path: String,
    /// Method that solved the system: `cholesky` or `inverse`.
    pub solver: String,
    /// Cross-validation folds behind `scores`; 0 when none were run.
    pub folds: u32,
    /// Cross-validated scores; empty when none were run.
    pub scores: Vec<OutputScore>,
}

/// Bytes that travel with a decoder and that no session reads: the sums behind its training, say.
///
/// They become an optional section of the model file, which readers that do not know it keep as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Four ASCII letters, the first in lower case (as a PNG's optional chunks), one attachment per tag.
    pub tag: [u8; 4],
    /// Content, in the format of its writer.
    pub bytes: Vec<u8>,
}

/// The parts of a [`Decoder`]; [`Decoder::new`] checks it.
///
/// Every decoder begins with the same linear engine: PSC filters on every channel, weighted into
/// *latents*. A [`Head`] makes the outputs of them; in a linear decoder the latents are the outputs.
#[derive(Debug, Clone, PartialEq)]
pub struct DecoderParts {
    /// Length of one step in seconds.
    pub step_seconds: f64,
    /// The PSC filters applied to every channel.
    pub bank: FilterBank,
    /// Low-pass behind the filters, if any.
    pub low_pass: Option<LowPass>,
    /// The output at step t estimates the behaviour at step t − delay; negative looks ahead.
    pub delay_steps: i64,
    /// One name per channel.
    pub channel_names: Vec<String>,
    /// False for a channel that takes no part (dead in training, or masked on request): its
    /// weights are zero.
    pub channel_mask: Vec<bool>,
    /// Mean value of each channel in training, which is taken off its values before the filters: they start at the
    /// mean, not at 0, and a gap counts as the mean. One entry per channel; empty for spikes, whose filters start from
    /// rest.
    pub channel_means: Vec<f64>,
    /// Decoding weights φ, row-major (channel, filter, latent), in units of the latent per unit-sum
    /// filtered spike.
    pub weights: Vec<f64>,
    /// One intercept per latent, in the latent's units.
    pub intercept: Vec<f64>,
    /// The step from latents to outputs.
    pub head: Head,
    /// Name and unit of each output.
    pub outputs: Vec<OutputInfo>,
    /// Limits of the input that the decoder was made for.
    pub limits: Limits,
    /// Record of its training and its scores.
    pub training: TrainingRecord,
    /// Attachments that travel with it.
    pub attachments: Vec<Attachment>,
}

impl DecoderParts {
    /// A linear decoder that says 0: every channel takes part with weight 0. The rest is for the caller
    /// to fill in, by name:
    ///
    /// ```
    /// use betz_runtime::model::{Decoder, DecoderParts};
    /// use betz_runtime::psc::{Filter, FilterBank};
    ///
    /// let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
    /// let names = vec!["left".into(), "right".into()];
    /// let decoder = Decoder::new(DecoderParts {
    ///     weights: vec![-1.0, 1.0], // (channel, filter, latent)
    ///     ..DecoderParts::linear(0.01, bank, names, vec!["x".into()])
    /// })?;
    /// assert_eq!((decoder.channels(), decoder.latents()), (2, 1));
    /// # Ok::<(), betz_base::Error>(())
    /// ```
    pub fn linear(
        step_seconds: f64,
        bank: FilterBank,
        channel_names: Vec<String>,
        outputs: Vec<OutputInfo>,
    ) -> Self {
        let channels = channel_names.len();
        Self {
            step_seconds,
            low_pass: None,
            delay_steps: 0,
            channel_mask: vec![true; channels],
            channel_means: Vec::new(),
            weights: vec![0.0; channels * bank.len() * outputs.len()],
            intercept: vec![0.0; outputs.len()],
            head: Head::Linear,
            limits: Limits::default(),
            training: TrainingRecord::default(),
            attachments: Vec::new(),
            bank,
            channel_names,
            outputs,
        }
    }

    /// Number of latents: outputs of the linear engine, inputs of the head.
    pub fn latents(&self) -> usize {
        self.intercept.len()
    }
}

/// A decoder with all that a session needs to run it: a linear engine x = φᵀa + intercept, and a
/// [`Head`] behind it.
///
/// Immutable, and always whole: it is made by [`new`](Self::new), which checks it, or read from a file.
/// May be shared by any number of sessions in any number of threads.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoder {
    parts: DecoderParts,
}

impl Decoder {
    /// The decoder of `parts`.
    ///
    /// Checks everything a session relies on: shapes that agree, a bank and a low-pass that can be run
    /// at this step, names that are there and differ, finite weights, masked channels with zero weights,
    /// a head and limits that make sense. Allocates a table of the names.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidModel`](betz_base::ErrorKind::InvalidModel), naming the field, the position
    /// and what was expected there.
    pub fn new(parts: DecoderParts) -> Result<Self> {
        parts.check()?;
        Ok(Self { parts })
    }

    /// The decoder's parts.
    pub fn parts(&self) -> &DecoderParts {
        &self.parts
    }

    /// The decoder's parts, to make another decoder of them.
    ///
    /// ```
    /// # use betz_runtime::model::{Decoder, DecoderParts};
    /// # use betz_runtime::psc::{Filter, FilterBank};
    /// # let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
    /// # let decoder = Decoder::new(DecoderParts::linear(0.01, bank, vec!["a".into()], vec!["x".into()]))?;
    /// let mut parts = decoder.into_parts();
    /// parts.delay_steps = 2;
    /// let later = Decoder::new(parts)?;
    /// assert_eq!(later.delay_steps(), 2);
    /// # Ok::<(), betz_base::Error>(())
    /// ```
    pub fn into_parts(self) -> DecoderParts {
        self.parts
    }

    /// Length of one step in seconds.
    pub fn step_seconds(&self) -> f64 {
        self.parts.step_seconds
    }

    /// The PSC filters applied to every channel.
    pub fn bank(&self) -> &FilterBank {
        &self.parts.bank
    }

    /// Low-pass behind the filters, if any.
    pub fn low_pass(&self) -> Option<LowPass> {
        self.parts.low_pass
    }

    /// The output at step t estimates the behaviour at step t − delay; negative looks ahead.
    pub fn delay_steps(&self) -> i64 {
        self.parts.delay_steps
    }

    /// One name per channel.
    pub fn channel_names(&self) -> &[String] {
        &self.parts.channel_names
    }

    /// False for a channel that takes no part, one entry per channel.
    pub fn channel_mask(&self) -> &[bool] {
        &self.parts.channel_mask
    }

    /// Mean value of each channel, taken off before the filters; empty for spikes.
    pub fn channel_means(&self) -> &[f64] {
        &self.parts.channel_means
    }

    /// Weights φ of the linear engine, row-major (channel, filter, latent).
    pub fn weights(&self) -> &[f64] {
        &self.parts.weights
    }

    /// One intercept per latent.
    pub fn intercept(&self) -> &[f64] {
        &self.parts.intercept
    }

    /// The step from latents to outputs.
    pub fn head(&self) -> &Head {
        &self.parts.head
    }

    /// The decoder's kind by name: `linear`, `lift`, `experts`.
    pub fn kind(&self) -> &'static str {
        self.parts.head.name()
    }

    /// Names of the classes whose probabilities a step computes, in their order; empty for a decoder without classes.
    pub fn class_names(&self) -> Vec<&str> {
        match self.parts.head.classes() {
            None => Vec::new(),
            Some((_, Some(names))) => names.iter().map(String::as_str).collect(),
            Some((_, None)) => self.parts.outputs.iter().map(|o| o.name.as_str()).collect(),
        }
    }

    /// Classes, if a step computes their probabilities.
    pub fn classes(&self) -> Option<&Classes> {
        self.parts.head.classes().map(|(classes, _)| classes)
    }

    /// Name and unit of each output.
    pub fn outputs(&self) -> &[OutputInfo] {
        &self.parts.outputs
    }

    /// Limits of the input that the decoder was made for.
    pub fn limits(&self) -> &Limits {
        &self.parts.limits
    }

    /// Record of its training and its scores.
    pub fn training(&self) -> &TrainingRecord {
        &self.parts.training
    }

    /// The same decoder with another record of its training.
    #[must_use]
    pub fn with_training(mut self, training: TrainingRecord) -> Self {
        self.parts.training = training;
        self
    }

    /// The bytes attached under `tag`; `None` where there are none.
    pub fn attachment(&self, tag: [u8; 4]) -> Option<&[u8]> {
        let mut all = self.parts.attachments.iter();
        all.find(|a| a.tag == tag).map(|a| a.bytes.as_slice())
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.parts.channel_names.len()
    }

    /// Number of features, channels × filters.
    pub fn features(&self) -> usize {
        self.channels() * self.parts.bank.len()
    }

    /// Number of latents: outputs of the linear engine, inputs of the head.
    pub fn latents(&self) -> usize {
        self.parts.latents()
    }
}
