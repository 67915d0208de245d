//! PSC filtering of whole recordings: every channel's response to every filter of a bank.

pub(crate) mod cuda;
pub mod oracle;
mod responses;
mod sample;
mod sampled;
#[cfg(test)]
pub(crate) mod tests;
mod weighted;

pub use responses::{Block, Responses, responses};
pub use sample::Sample;
pub(crate) use sampled::HAS_TRANSFORMS;
pub use sampled::{SAMPLED_CPU, SAMPLED_ON_CPU, TRANSFORMED_ON_CPU};
pub use weighted::SampledSums;
