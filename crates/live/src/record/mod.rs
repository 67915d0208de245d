//! The recording of a session: append-only segments of checked frames in a folder.

mod folder;
pub mod frame;
mod reader;
mod writer;

pub use folder::{Facts, Recording, start};
pub(crate) use folder::{check_place, free_bytes, unix_seconds};
pub use reader::{Damage, Reader, Record};
pub use writer::{Recorder, RecorderCounts};
