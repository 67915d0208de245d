//! PSC filtering of whole recordings: every channel's response to every filter of a bank.

mod convolve;
pub mod cuda;
pub mod oracle;
mod responses;
mod sample;
#[cfg(test)]
pub(crate) mod tests;

pub use convolve::{Convolver, ConvolverScratch};
pub use responses::{Block, Responses, responses};
pub use sample::Sample;
