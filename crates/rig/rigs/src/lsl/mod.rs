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
use crate::clock::age_ns;

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
pub(crate) struct Correction {
    /// f64's bits, in seconds.
    seconds: AtomicU64,
    stop: AtomicBool,
}

impl Correction {
    pub(crate) fn start(inlet: &Arc<Inlet>) -> Result<Arc<Self>> {
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
    pub(crate) fn seconds(&self) -> f64 {
        f64::from_bits(self.seconds.load(Ordering::Relaxed))
    }

    /// Ends the measurements.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
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

/// Steps of a stream, by its name. It waits for the stream: put it [on a thread of its own](crate::bus::threads).
pub struct LslSource {
    search: Search,
    channels: usize,
    open: Option<(Arc<Inlet>, Arc<Correction>)>,
    was_open: bool,
    /// The last sample's time, whether the stream was gone since, and a time far from it that the next one has yet to
    /// confirm.
    last: Option<f64>,
    doubtful: Option<f64>,
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
            doubtful: None,
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
        let is_near = |from: f64| (-JUMP_SECONDS..JUMP_SECONDS).contains(&(time - from));
        if let Some(last) = self.last {
            let since = time - last;
            let gone = std::mem::take(&mut self.gone);
            if gone && rate > 0.0 && (0.0..3600.0).contains(&since) {
                let missed = (since * rate).round() as u64;
                frame.skipped = missed.saturating_sub(1);
                self.tally.lost.add(frame.skipped);
            } else if !is_near(last) {
                // One time may be wrong; a second one is believed.
                if !(gone || self.doubtful.is_some_and(is_near)) {
                    self.doubtful = Some(time);
                    return;
                }
                frame.restart = true;
                self.tally.restarts.add(1);
            } else if since < 0.0 {
                self.tally.late.add(1);
            }
        }
        (self.last, self.doubtful) = (Some(time), None);
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
        let (rate, correction) = (inlet.rate, correction.seconds());
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
            correction.stop();
        }
    }
}

impl Drop for LslSource {
    fn drop(&mut self) {
        self.close();
    }
}

/// Outputs as a stream of float32, stamped with the arrival of the input that they were made of, on LSL's clock; without
/// input, with now. Stamps never go back.
pub struct LslSink {
    outlet: Outlet,
    last: f64,
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
            last: 0.0,
            tally: Tally::default(),
        })
    }
}

impl Sink for LslSink {
    fn give(&mut self, decoded: &Estimate<'_>) -> Result<()> {
        // The host's clock of arrivals is not LSL's: only their difference from now is the same on both.
        let seconds = self.outlet.now() - age_ns(decoded.host_ns) as f64 * 1e-9;
        self.last = self.last.max(seconds);
        if self.outlet.push(decoded.values, self.last) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_jump_of_the_times_is_believed_after_the_second_one() -> Result<()> {
        let Ok(mut source) = LslSource::named("none", 1) else {
            eprintln!("skipped: no liblsl");
            return Ok(());
        };
        let mut judge = |times: &[f64]| -> Vec<bool> {
            let mut frame = Frame::new(1);
            (times.iter())
                .map(|time| {
                    frame.clear();
                    source.judge(*time, 100.0, &mut frame);
                    frame.restart
                })
                .collect()
        };
        assert_eq!(judge(&[50.0, 50.01, 1e9, 50.03, 0.0, 50.05]), [false; 6]);
        let jump = judge(&[7.0, 7.01, 7.02]);
        assert_eq!(jump, [false, true, false]);
        assert_eq!(judge(&[f64::NAN, 7.04]), [false, false]);
        assert_eq!(source.counts().restarts, 1);
        Ok(())
    }
}
