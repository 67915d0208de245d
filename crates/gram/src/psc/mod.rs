//! PSC filtering of whole recordings: every channel's response to every filter of a bank.

pub(crate) mod cuda;
pub mod oracle;
mod responses;
mod sample;
#[cfg(test)]
pub(crate) mod tests;

pub use responses::{Block, Responses, responses};
pub use sample::Sample;
