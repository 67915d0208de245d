//! Numbers that describe a recording before anything is trained on it.
//!
//! | function | answers |
//! |---|---|
//! | [`psth`] | How does the firing rate follow an event, over repetitions? |
//! | [`raster`] | Where are the spikes of one channel around each repetition? |
//! | [`tuning`] | How does the firing rate depend on direction, speed, position or any output? |
//! | [`intervals`] | How long are the intervals between spikes, and how irregular? |
//! | [`fano`] | How much do spike counts vary from window to window? |
//! | [`quality`] | Is this unit one neuron, and was it there all the time? |
//!
//! [`psth`] and [`raster`] read the whole recording around each event. The others use the spikes inside segments, as
//! training does: an interval or a window never crosses the border of a segment. Steps, windows and events that could
//! not be used are counted in the results.
//!
//! All functions take spikes or binned counts, and refuse signals. They return NaN if a value is not defined, such as the
//! rate of a bin that the behaviour never entered.
//!
//! ```
//! use betz_explore::{Events, Window, psth};
//! use betz_recording::{Recording, Segment, SpikeForm, Spikes};
//!
//! # fn main() -> betz_base::Result<()> {
//! // Two trials of a second; one channel fires 0.2 s after each begins.
//! let recording = Recording {
//!     tick_seconds: 0.001,
//!     ticks: 2_000,
//!     spikes: Spikes::new(vec![200, 1_200], vec![0, 0]),
//!     channel_names: vec!["left".into()],
//!     behavior: None,
//!     segments: vec![Segment { start: 0, stop: 1_000 }, Segment { start: 1_000, stop: 2_000 }],
//!     electrode_um: None,
//!     form: SpikeForm::Events,
//!     meta: None,
//! };
//! let window = Window { start_seconds: 0.0, stop_seconds: 0.5, bin_seconds: 0.1 };
//! let response = psth(&recording, &[0], &Events::segment_starts(&recording), &window)?;
//! assert_eq!(response.mean_hz, [0.0, 0.0, 10.0, 0.0, 0.0]); // one spike per trial in the third bin of 0.1 s
//! # Ok(())
//! # }
//! ```

mod check;
mod events;
mod intervals;
mod psth;
mod quality;
mod trains;
mod tuning;

pub use events::{Events, Window};
pub use intervals::{IntervalOptions, Intervals, fano, intervals};
pub use psth::{Psth, Raster, TrialPsth, psth, psth_within, raster};
pub use quality::{QualityOptions, UnitQuality, quality};
pub use tuning::{
    Axis, CosineFit, Curve, TuningCurves, TuningOptions, Variable, VectorSource, tuning,
};
