//! Lab Streaming Layer in and out. Its library is looked for at run time: a build runs unchanged where there is none.
//!
//! To [`LslSource`] a sample is a step, with one value per channel; `rig::LslRig` reads voltage. Samples have times and
//! no numbers, so that liblsl's own losses of steps are told only across a reconnection, by the times of a stream of
//! regular rate. The clocks' difference is found out on a thread of its own, every few seconds.

pub(crate) mod library;

use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use betz_base::{Error, ErrorKind, Result};

use self::library::{Format, Inlet, Lsl, Outlet, OutletPlan, Pull, Resolver, Room};
use crate::bus::{Content, Counts, Estimate, Frame, Reception, Sink, Source, Stream, Tally};

/// Between two measurements of the clocks' difference.
const CORRECTED_EVERY: Duration = Duration::from_secs(5);
/// Between two looks at what a search has found.
const LOOKED_EVERY: Duration = Duration::from_millis(20);
/// Room for steps that nobody has taken yet.
const ROOM: Room = Room {
    seconds: 60.0,
    irregular_rate: 100.0,
};
/// A time stamp that is further from the one before is a jump of the sender's clock.
const JUMP_SECONDS: f64 = 10.0;

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
pub(crate) struct Search {
    lsl: Arc<Lsl>,
    name: CString,
    looking: Option<Resolver>,
}

impl Search {
    /// A search for the stream called `name`, which begins with the first look.
    ///
    /// # Errors
    /// `Io` where there is no liblsl, `InvalidArgument` for a name with a zero byte.
    pub(crate) fn new(name: &str) -> Result<Self> {
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
    pub(crate) fn open(&mut self, room: Room, patience: Duration) -> Result<Option<Inlet>> {
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

/// Steps of a stream, by its name. It waits for the stream: put it [on a thread of its own](crate::bus::beside).
pub struct LslSource {
    search: Search,
    channels: usize,
    open: Option<(Arc<Inlet>, Arc<Correction>)>,
    was_open: bool,
    /// The last sample's time on our clock, and whether the stream was gone since.
    last: Option<f64>,
    gone: bool,
    tally: Tally,
}

impl LslSource {
    /// The stream called `name`, for a model of `channels`; it is looked for with the first step.
    ///
    /// # Errors
    /// `Io` where there is no liblsl, `InvalidArgument` for a name with a zero byte.
    pub fn named(name: &str, channels: usize) -> Result<Self> {
        Ok(Self {
            search: Search::new(name)?,
            channels,
            open: None,
            was_open: false,
            last: None,
            gone: false,
            tally: Tally::default(),
        })
    }

    fn find(&mut self, patience: Duration) -> Result<()> {
        let Some(inlet) = self.search.open(ROOM, patience)? else {
            return Ok(());
        };
        if inlet.channels != self.channels {
            return Err(Error::mismatch(format!(
                "LSL stream {:?}: expected {} channels, one per channel of the model, got {}",
                self.search.name, self.channels, inlet.channels
            )));
        }
        let inlet = Arc::new(inlet);
        let correction = Correction::start(&inlet)?;
        self.open = Some((inlet, correction));
        self.tally.reconnects.add(u64::from(self.was_open));
        self.was_open = true;
        Ok(())
    }

    /// Judges a sample's time against the one before.
    fn judge(&mut self, time: f64, rate: f64, frame: &mut Frame) {
        if let Some(last) = self.last {
            let since = time - last;
            if std::mem::take(&mut self.gone) && rate > 0.0 && (0.0..3600.0).contains(&since) {
                let missed = (since * rate).round() as u64;
                frame.skipped = missed.saturating_sub(1);
                self.tally.lost.add(frame.skipped);
            } else if !(-JUMP_SECONDS..JUMP_SECONDS).contains(&since) {
                frame.restart = true;
                self.tally.restarts.add(1);
            } else if since < 0.0 {
                self.tally.late.add(1);
            }
        }
        self.last = Some(time);
    }
}

impl Source for LslSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        let Some((inlet, correction)) = &self.open else {
            self.find(patience)?;
            return Ok(Reception::Nothing);
        };
        frame.features.resize(self.channels, 0.0);
        let pulled = inlet.pull(&mut frame.features, patience);
        let (rate, correction) = (
            inlet.rate,
            f64::from_bits(correction.seconds.load(Ordering::Relaxed)),
        );
        match pulled {
            Pull::Nothing => return Ok(Reception::Nothing),
            Pull::Gone => {
                self.close();
                self.gone = true;
                return Ok(Reception::Nothing);
            }
            Pull::Sample(time) => {
                self.tally.messages.add(1);
                frame.received = std::time::Instant::now();
                frame.content = Content::Features;
                (frame.skipped, frame.restart) = (0, false);
                if !frame.features.iter().all(|v| v.is_finite()) {
                    self.tally.malformed.add(1);
                    return Ok(Reception::Nothing);
                }
                frame.sequence = self.tally.steps.get();
                frame.sent = ((time + correction) * 1e9) as i64;
                self.judge(time, rate, frame);
            }
        }
        self.tally.steps.add(1);
        Ok(Reception::Step)
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}

impl LslSource {
    fn close(&mut self) {
        if let Some((_, correction)) = self.open.take() {
            correction.stop.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for LslSource {
    fn drop(&mut self) {
        self.close();
    }
}

/// Outputs as a stream of float32, stamped with the time of the input that they were made of.
pub struct LslSink {
    outlet: Outlet,
    tally: Tally,
}

impl LslSink {
    /// A stream called `name` with a channel for each output of `stream`.
    ///
    /// # Errors
    /// `Io` where there is no liblsl or it refuses the stream, `InvalidArgument` for a name with a zero byte.
    pub fn named(name: &str, stream: &Stream<'_>) -> Result<Self> {
        let plan = OutletPlan {
            name,
            kind: c"Movement",
            channels: stream.outputs.len(),
            labels: stream.outputs,
            rate: 1.0 / stream.step_seconds,
            format: Format::FLOAT32,
        };
        Ok(Self {
            outlet: Outlet::new(Lsl::load()?, &plan)?,
            tally: Tally::default(),
        })
    }
}

impl Sink for LslSink {
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()> {
        // 0 lets liblsl stamp it.
        if self.outlet.push(decoded.values, decoded.sent as f64 / 1e9) {
            self.tally.messages.add(1);
            self.tally.steps.add(1);
        } else {
            self.tally.unsent.add(1);
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.tally.counts()
    }
}
