//! Recordings in NumPy's `.npz` archives; the schema is in the parent module's documentation.
//!
//! ```text
//! header   of one array                            number    every plain number of NumPy's
//! npy      the elements of one array               archive   a zip of arrays
//! read     schema ──► Recording                    write     Recording ──► schema
//! ```

mod archive;
pub mod arrays;
mod header;
mod npy;
mod number;
mod read;
mod write;
