//! Lab Streaming Layer in and out. Its library is looked for at run time: a build runs unchanged where there is none.
//!
//! One client finds a stream (`Search`) and reads it (`Inlet`). To [`LslSource`] a sample is a step, with one value per
//! channel; `LslRig` reads voltage, and `notes` markers. Samples have times and
//! no numbers, so that liblsl's own losses of steps are told only across a reconnection, by the times of a stream of
//! regular rate. The clocks' difference is found out on a thread of its own, every few seconds.

#[cfg(feature = "emulate")]
pub(crate) mod emulate;
mod library;
#[cfg(feature = "rig")]
pub(crate) mod notes;
mod steps;
#[cfg(all(test, feature = "emulate"))]
mod tests;
#[cfg(feature = "rig")]
mod times;
#[cfg(feature = "rig")]
mod voltage;

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};

use self::library::{Inlet, Lsl, Resolver, Room};
pub use self::steps::{LslSink, LslSource};
#[cfg(feature = "rig")]
pub use self::voltage::LslRig;

/// Between two measurements of the clocks' difference.
const CORRECTED_EVERY: Duration = Duration::from_secs(5);
/// Between two looks at what a search has found.
const LOOKED_EVERY: Duration = Duration::from_millis(20);

/// An open stream whose sender's times are corrected for the difference of the clocks.
struct CorrectedInlet {
    inlet: Arc<Inlet>,
    correction: Arc<Correction>,
}

impl CorrectedInlet {
    /// Starts to measure the difference of the clocks.
    ///
    /// # Errors
    /// `Io` if the system has no thread for it.
    fn start(inlet: Inlet) -> Result<Self> {
        let inlet = Arc::new(inlet);
        let correction = Correction::start(&inlet)?;
        Ok(Self { inlet, correction })
    }

    /// A sender's time in nanoseconds of LSL's clock here.
    fn nanoseconds(&self, time: f64) -> i64 {
        ((time + self.correction.seconds()) * 1e9) as i64
    }
}

impl Drop for CorrectedInlet {
    fn drop(&mut self) {
        self.correction.stop.store(true, Ordering::Relaxed);
    }
}

/// Correction of the sender's times, kept up to date beside the stream.
struct Correction {
    /// f64's bits, in seconds.
    seconds: AtomicU64,
    stop: AtomicBool,
}

impl Correction {
    fn start(inlet: &Arc<Inlet>) -> Result<Arc<Self>> {
        let correction = Arc::new(Self {
            seconds: AtomicU64::new(0_f64.to_bits()),
            stop: AtomicBool::new(false),
        });
        let (mine, inlet) = (Arc::clone(&correction), Arc::downgrade(inlet));
        (std::thread::Builder::new().name("betz-lsl-clock".into()))
            .spawn(move || mine.run(&inlet))
            .map_err(|e| Error::new(ErrorKind::Io, format!("starting a thread: {e}")))?;
        Ok(correction)
    }

    /// Seconds to add to the sender's times.
    fn seconds(&self) -> f64 {
        f64::from_bits(self.seconds.load(Ordering::Relaxed))
    }

    fn run(&self, inlet: &Weak<Inlet>) {
        while !self.stop.load(Ordering::Relaxed) {
            let Some(inlet) = inlet.upgrade() else { return };
            if let Some(seconds) = inlet.correction() {
                self.seconds.store(seconds.to_bits(), Ordering::Relaxed);
            }
            drop(inlet);
            std::thread::park_timeout(CORRECTED_EVERY);
        }
    }
}

/// Search for a stream by its name.
struct Search {
    lsl: Arc<Lsl>,
    name: CString,
    looking: Option<Resolver>,
}

impl Search {
    /// A search for the stream called `name`, which begins with the first look.
    ///
    /// # Errors
    /// `Io` where there is no liblsl, `InvalidArgument` for a name with a zero byte.
    fn new(name: &str) -> Result<Self> {
        Ok(Self {
            lsl: Lsl::load()?,
            name: CString::new(name)
                .map_err(|_| Error::argument("stream: expected a name without a zero byte"))?,
            looking: None,
        })
    }

    /// Opens the stream with `room`, if it was found; otherwise waits a little, at most `patience`.
    ///
    /// # Errors
    /// `Io` if liblsl refuses the search or the stream.
    fn open(&mut self, room: Room, patience: Duration) -> Result<Option<Inlet>> {
        let looking = match self.looking.take() {
            Some(looking) => looking,
            None => Resolver::new(&self.lsl, &self.name)?,
        };
        let Some(info) = looking.found() else {
            self.looking = Some(looking);
            std::thread::sleep(patience.min(LOOKED_EVERY));
            return Ok(None);
        };
        // One that does not answer any more is looked for anew.
        Inlet::open(&info, room)
    }
}
