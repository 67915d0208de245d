//! Decoders under feedback: a simulated user sees the cursor late and corrects what the decoder does.
//!
//! A decoder that ranks first on recordings need not do so in use, where its user steers against its
//! errors and its delay (Cunningham et al. 2011). The loop here is
//!
//! ```text
//! target ─► User (delay, gain, noise) ─► Units (tuned LIF neurons) ─► Decoder ─► cursor ─┐
//!              ▲                                                                         │
//!              └──────────────────────── seen late ◄─────────────────────────────────────┘
//! ```
//!
//! one step of it a bin of spike counts. What a ranking shows is how decoders fare with *this* user;
//! its defaults are chosen with the Kalman filter and ReFIT alone (`docs/spiking.md` says how close they
//! come to published factors), so that others can be judged by it.
//!
//! ```
//! use betz_closed_loop::{Loop, Ole, Setup, Units, reaches};
//!
//! let setup = Setup::default();
//! let mut units = Units::tuned(&setup.units, setup.seed)?;
//! let data = reaches(&setup, &mut units, 40)?;
//! let mut decoder = Ole::train(&data, 0.05, 1e-3)?;
//! let mut test = Loop::new(&setup, units)?;
//! let session = test.run(&mut decoder, 8)?;
//! println!("{:.2} s to a target", session.scores(1).time_to_target_s.mean);
//! # assert!(session.trials.len() == 8);
//! # Ok::<(), betz_closed_loop::Error>(())
//! ```

mod data;
mod fault;
mod kalman;
mod linear;
mod ole;
mod score;
mod session;
mod task;
mod units;
mod user;

pub use betz_base::{Error, ErrorKind, Result};
pub use data::{Observation, TrainingData, intention, reaches};
pub use fault::{Fault, FaultKind};
pub use kalman::{Kalman, KalmanConfig};
pub use ole::Ole;
pub use score::{Interval, Scores, Trial};
pub use session::{Bin, Loop, Session, Setup};
pub use task::Task;
pub use units::{Units, UnitsConfig};
pub use user::{Aim, User};

/// A decoder: it turns spike counts into a velocity of the cursor.
///
/// A session of the decoding runtime plugs in here: counts in, velocity out, no look ahead.
pub trait Decoder {
    /// Forgets what came before: a new session begins.
    fn reset(&mut self);

    /// The velocity in cm/s for the counts of one bin. `cursor` is where the cursor stands, in cm,
    /// for decoders that take its position as known.
    fn step(&mut self, counts: &[u32], cursor: [f64; 2]) -> [f64; 2];

    /// The bin is lost: no counts came. The default decodes silence.
    fn missed(&mut self, units: usize, cursor: [f64; 2]) -> [f64; 2] {
        self.step(&vec![0; units], cursor)
    }

    /// Before what the step just taken is followed by: what is known of it, which decoders that learn while they
    /// are used make a label from.
    fn label(&mut self, _aim: &Aim) {}

    /// A trial has ended.
    fn trial_ended(&mut self, _success: bool) {}
}
