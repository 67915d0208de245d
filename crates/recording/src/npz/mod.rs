//! Recordings in NumPy's `.npz` archives; the schema is in the parent module's documentation.
//!
//! ```text
//! npy      one array: header and elements          archive   a zip of arrays
//! read     schema ──► Recording                    write     Recording ──► schema
//! ```

mod archive;
pub mod arrays;
mod npy;
mod read;
mod write;
