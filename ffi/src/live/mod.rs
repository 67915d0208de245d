//! A whole session (`include/betz_live.h`): source, front end, decoder, outputs and recording.

pub mod outputs;
pub mod recalibrate;
pub mod report;
pub mod session;
pub mod step;

pub use outputs::*;
pub use recalibrate::*;
pub use report::*;
pub use session::*;
pub use step::*;
