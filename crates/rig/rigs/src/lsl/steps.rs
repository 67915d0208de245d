//! Whole steps of a stream, and outputs as one.

use std::time::Duration;

use betz_base::{Error, Result};

use super::library::{Format, Lsl, Outlet, OutletPlan, Pull, Room};
use super::{CorrectedInlet, Search};
use crate::bus::{Content, Counts, Estimate, Frame, Reception, Sink, Source, Stream, Tally};
use crate::clock::age_ns;
use crate::order::{JumpRule, LONGEST_SECONDS, TimeVerdict};

/// Room for steps that nobody has taken yet.
const ROOM: Room = Room {
    seconds: 60.0,
    irregular_rate: 100.0,
};

/// Steps of a stream, by its name. It waits for the stream: put it [on a thread of its own](crate::bus::threads).
pub struct LslSource {
    search: Search,
    channels: usize,
    open: Option<CorrectedInlet>,
    was_open: bool,
    /// The last sample's time, and whether the stream was gone since.
    last: Option<f64>,
    gone: bool,
    jumps: JumpRule<f64>,
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
            jumps: JumpRule::default(),
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
        self.open = Some(CorrectedInlet::start(inlet)?);
        self.tally.reconnects.add(u64::from(self.was_open));
        self.was_open = true;
        Ok(())
    }

    /// Judges a sample's time against the one before.
    fn judge(&mut self, time: f64, rate: f64, frame: &mut Frame) {
        let near = |from: f64| (-LONGEST_SECONDS..LONGEST_SECONDS).contains(&(time - from));
        if let Some(last) = self.last {
            let since = time - last;
            let gone = std::mem::take(&mut self.gone);
            if gone && rate > 0.0 && (0.0..3600.0).contains(&since) {
                let missed = (since * rate).round() as u64;
                frame.skipped = missed.saturating_sub(1);
                self.tally.lost.add(frame.skipped);
            } else {
                match self.jumps.judge(time, near(last), near) {
                    TimeVerdict::Near => self.tally.late.add(u64::from(since < 0.0)),
                    TimeVerdict::Doubtful if !gone => return,
                    TimeVerdict::Doubtful | TimeVerdict::Jumped => {
                        frame.restart = true;
                        self.tally.restarts.add(1);
                    }
                }
            }
        }
        self.jumps.clear();
        self.last = Some(time);
    }
}

impl Source for LslSource {
    fn take(&mut self, frame: &mut Frame, patience: Duration) -> Result<Reception> {
        let Some(open) = &self.open else {
            self.find(patience)?;
            return Ok(Reception::Nothing);
        };
        frame.features.resize(self.channels, 0.0);
        match open.inlet.pull(&mut frame.features, patience) {
            Pull::Nothing => return Ok(Reception::Nothing),
            Pull::Gone => {
                (self.open, self.gone) = (None, true);
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
                frame.sent = open.nanoseconds(time);
                let rate = open.inlet.rate;
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
