//! The part of Betz that is embedded: load a decoder, step it, and nothing that a controller does not need.
//!
//! ```text
//! psc (filter shapes, streaming filters) ──► model (decoder, its file) ──► stream (session, queue, swap)
//! ```
//!
//! No thread pool, no linear algebra, no FFT, no archive reader, no CUDA.
//!
//! Without its feature `std` the crate is `no_std`: decoders, filters and sessions, whose opening allocates and whose steps
//! do not, but no files, queue, swaps, latencies or watch of channels.
//!
//! # A step
//! ```
//! use betz_runtime::model::{Decoder, DecoderParts};
//! use betz_runtime::psc::{Filter, FilterBank};
//! use betz_runtime::stream::{Session, SessionConfig};
//!
//! // A decoder comes from a file (`Decoder::load`), or is put together: two channels, one output.
//! let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
//! let channels = vec!["left".into(), "right".into()];
//! let decoder = Decoder::new(DecoderParts {
//!     weights: vec![-1.0, 1.0],
//!     ..DecoderParts::linear(0.01, bank, channels, vec!["x".into()])
//! })?;
//! let mut session = Session::open(&decoder, SessionConfig::default())?;
//! let mut x = [0.0];
//! session.step_counts(&[0, 3], &mut x)?; // three spikes on the right in this tick
//! assert!(x[0] > 0.0 && session.status().is_ok());
//! # Ok::<(), betz_base::Error>(())
//! ```
//!
//! # Two threads, and data that stop
//! ```
//! use betz_runtime::stream::{Hold, LateSpikes, Session, SessionConfig, Spike, StepStatus, spike_queue};
//! # use betz_runtime::model::{Decoder, DecoderParts};
//! # use betz_runtime::psc::{Filter, FilterBank};
//! # let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
//! # let decoder = Decoder::new(DecoderParts::linear(0.01, bank, vec!["a".into()], vec!["x".into()]))?;
//! let config = SessionConfig { hold: Some(Hold::default()), ..SessionConfig::default() };
//! let mut session = Session::open(&decoder, config)?;
//! let (mut producer, mut consumer) = spike_queue(4096, LateSpikes::Take)?;
//! // The acquisition thread: spikes as they come, and a mark for every tick that is whole.
//! producer.push(&[Spike { tick: 0, channel: 0 }]);
//! producer.mark(0);
//! // The decoding thread.
//! let mut x = [0.0];
//! consumer.step(&mut session, &mut x)?;
//! assert!(session.status().is_ok());
//! consumer.step(&mut session, &mut x)?; // tick 1 was never marked
//! assert!(session.status().contains(StepStatus::STALE | StepStatus::HELD));
//! # Ok::<(), betz_base::Error>(())
//! ```
//!
//! # Another model, while it runs
//! ```
//! use betz_runtime::stream::{Session, SessionConfig, SwapOptions, SwapState};
//! # use betz_runtime::model::{Decoder, DecoderParts};
//! # use betz_runtime::psc::{Filter, FilterBank};
//! # let bank = FilterBank::new(vec![Filter { tau_seconds: 0.1, order: 0 }])?;
//! # let first = Decoder::new(DecoderParts::linear(0.01, bank, vec!["a".into()], vec!["x".into()]))?;
//! # let second = first.clone();
//! let mut session = Session::open(&first, SessionConfig::default())?;
//! let mut swapper = session.swapper()?; // for another thread
//! let options = SwapOptions { warm_up_steps: Some(2), cross_fade_steps: 3, ..SwapOptions::default() };
//! swapper.swap_with(&second, &options)?;
//! for _ in 0..5 {
//!     session.step_spikes(&[], &mut [0.0])?;
//! }
//! assert_eq!(swapper.state(), SwapState::TakenOver);
//! # Ok::<(), betz_base::Error>(())
//! ```

#![no_std]

#[macro_use]
extern crate alloc;
#[cfg(feature = "std")]
extern crate std;

pub mod model;
pub mod psc;
pub mod stream;
mod width;
