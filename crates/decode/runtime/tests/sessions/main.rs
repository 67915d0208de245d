//! Sessions as their users drive them: steps, queue, swap, checkpoint, tap.

#[path = "../common/mod.rs"]
mod common;

mod bare;
mod bits;
mod blend;
mod cap;
mod checkpoint;
mod classes;
mod debt;
mod faults;
mod from_outside;
mod heads;
#[cfg(feature = "layers")]
mod layers;
mod means;
mod model_swap;
mod phases;
mod recurrent;
mod sampled;
mod samples;
mod session;
mod skip;
mod spike_queue;
mod tap;
mod warm;
