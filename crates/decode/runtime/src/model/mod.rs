//! The trained decoder and its file.
//!
//! A [`Decoder`] is a linear engine (PSC filters on every channel, weighted into latents) and a [`Head`]
//! that makes the outputs of the latents: none for the linear decoder, cosine features for a [`Lift`],
//! gated linear readouts for [`Experts`], the recursion of a [`Kalman`] filter, Bayes' rule on a grid for [`Place`],
//! layers of gated units for [`Recurrent`], multinomial logistic regression for [`Classes`], which may gate linear
//! outputs ([`VelocityGate`]), whole decoders side by side for [`ModelBlend`].

mod check;
mod decoder;
mod file;
mod format;
pub(crate) mod head;
mod limits;
mod precision;
mod variance;

pub use crate::psc::LowPass;
pub use check::{MAX_CHANNELS, MAX_DELAY_STEPS, MAX_FILTERS, MAX_OUTPUTS, MAX_WEIGHT, check_sizes};
pub use decoder::{Attachment, Decoder, DecoderParts, OutputScore, TrainingRecord};
pub use file::FORMAT_VERSION;
pub use format::MAX_BYTES;
#[cfg(feature = "layers")]
pub use head::{Activation, Layer, Layers};
pub use head::{
    Belief, Blend, BlendMember, Cell, Classes, Cosines, EventRule, Experts, FilteredReadout, Gate,
    Head, Kalman, Lift, MAX_BLEND_MEMBERS, MAX_CELLS, MAX_CLASSES, MAX_EXPERTS, MAX_LATENTS,
    MAX_LAYER_UNITS, MAX_LAYERS, MAX_MEMBERS, MAX_STATES, MAX_UNITS, Markov, ModelBlend, Place,
    Recurrent, RecurrentLayer, RecurrentMember, VelocityGate, sigmoid, tanh,
};
pub use limits::{Blanking, Limits, OutputRange};
pub use precision::WeightPrecision;
pub use variance::LogVariance;
