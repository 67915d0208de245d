//! The trained decoder and its file.

mod decoder;

pub use crate::psc::LowPass;
pub use decoder::{Decoder, OutputScore, TrainingRecord};
