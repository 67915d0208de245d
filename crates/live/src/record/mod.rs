//! The recording of a session: append-only segments of checked frames in a folder.

mod folder;
pub mod frame;
mod reader;
mod writer;

pub(crate) use folder::unix_seconds;
pub use folder::{Facts, Recording, start};
pub use reader::{Damage, Reader, Record};
pub use writer::{Recorder, RecorderCounts};
