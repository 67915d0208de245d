//! The trained decoder and its file.

mod decoder;

pub use decoder::{Decoder, LowPass, OutputScore, TrainingRecord};
