//! Recordings in NumPy's `.npz` archives; the schema is in the parent module's documentation.
//!
//! ```text
//! header   of one array                            number    every plain number of NumPy's
//! npy      the elements of one array               archive   a zip of arrays
//! read     schema ──► Recording                    write     Recording ──► schema
//! matrix   a matrix larger than memory, block by block
//! column   one array, from any place                stretches  schema ──► a stretch of time
//! features the array `spike_features`
//! ```

mod archive;
pub mod arrays;
mod column;
mod features;
mod header;
pub mod matrix;
mod npy;
mod number;
mod read;
mod stretches;
mod write;

pub use stretches::Stretches;
