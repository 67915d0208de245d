//! The trained decoder and its file.

mod check;
mod decoder;
mod file;
mod format;

pub use crate::psc::LowPass;
pub use check::{MAX_CHANNELS, MAX_DELAY_STEPS, MAX_FILTERS, MAX_OUTPUTS, MAX_WEIGHT, check_sizes};
pub use decoder::{Decoder, OutputScore, TrainingRecord};
pub use file::FORMAT_VERSION;
pub use format::MAX_BYTES;
