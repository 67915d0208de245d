//! The trained decoder and its file.

mod check;
pub(crate) mod decode;
mod decoder;
mod file;
mod format;

pub use crate::psc::LowPass;
pub(crate) use check::check_sizes;
pub use check::{MAX_CHANNELS, MAX_DELAY_STEPS, MAX_FILTERS, MAX_OUTPUTS, MAX_WEIGHT};
pub use decode::{channel_order, choose as choose_device, decode, decode_on};
pub use decoder::{Decoder, OutputScore, TrainingRecord};
pub use file::FORMAT_VERSION;
pub use format::MAX_BYTES;
