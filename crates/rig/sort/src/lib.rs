//! Spike sorting: from voltage to units.
//!
//! ```text
//! int16 rows ──► FrontEnd ──► Matching ──────────────────► Spike { sample, unit, … }
//!                (band-pass,  (templates, the largest first) ──► what is left ──► crossings of no unit
//!                 reference, noise, artefacts)
//!                └────────────────────────────── Sorting ──────────────────────────────┘
//! recording ──► train ──► Sorter (a file) ──► Sorting::open
//! ```
//!
//! [`train`] learns a [`Sorter`] from a recording; [`Sorting`] labels spikes as samples come, without allocating, the same
//! for any cut of the samples into blocks.
//!
//! | module | what it is for |
//! |---|---|
//! | [`score`] | sorted spikes against a known truth |
//! | [`synthetic`] | voltage with a known truth |
//!
//! ```
//! use betz_sort::synthetic::{Synthetic, make};
//! use betz_sort::{InMemory, Settings, Sorting, TrainOptions, train};
//!
//! let of = Synthetic { seconds: 3.0, ..Synthetic::tetrode(1) };
//! let made = make(&of)?;
//! let places = of.places.iter().map(|place| Some(*place)).collect();
//! let options = TrainOptions::new(Settings::new(of.rate_hz, of.gain), places);
//! let sorter = train(&mut InMemory::new(&made.samples, 4)?, &options, &())?.sorter;
//!
//! let mut sorting = Sorting::open(&sorter)?;
//! let mut labelled = 0;
//! for millisecond in made.samples.chunks(4 * 30) {
//!     sorting.push(millisecond, &mut |spike| labelled += u32::from(spike.unit.is_some()))?;
//! }
//! assert!(labelled > 30);
//! # Ok::<(), betz_sort::Error>(())
//! ```

#[cfg(feature = "train")]
mod border;
#[cfg(feature = "train")]
mod cluster;
#[cfg(feature = "train")]
mod collect;
#[cfg(feature = "train")]
mod echo;
// A sorter at work has templates; of features it keeps the axes alone, for training anew.
#[cfg_attr(not(feature = "train"), allow(dead_code))]
mod feature;
mod file;
mod front;
#[cfg(feature = "train")]
mod groups;
#[cfg(feature = "train")]
mod import;
#[cfg(feature = "train")]
mod learn;
mod matching;
#[cfg(feature = "train")]
mod members;
#[cfg(feature = "train")]
pub mod score;
mod settings;
mod sorter;
mod sorting;
#[cfg(feature = "train")]
mod survey;
#[cfg(feature = "train")]
pub mod synthetic;
mod template;
#[cfg(feature = "train")]
mod train;
mod voltage;

pub use betz_base::{Error, ErrorKind, Progress, Result};
#[cfg(feature = "train")]
pub use cluster::Separation;
pub use front::{
    ArtefactCounts, BandPower, BlockFrontEnd, BlockOptions, Crossing, CrossingRule, FrontEnd,
    Layout, MAX_CHANNELS, MAX_REGRESSED,
};
#[cfg(feature = "train")]
pub use import::{ImportedUnit, KnownUnit, SorterImport, import};
pub use settings::{Reference, Settings};
pub use sorter::{Beyond, Edit, Group, Sorter, UNLABELLED, Unit, UnitMove};
pub use sorting::{Sorting, Spike};
#[cfg(feature = "train")]
pub use train::{TrainOptions, TrainedSorter, train};
pub use voltage::{InMemory, Voltage};
