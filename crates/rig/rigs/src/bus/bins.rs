//! Spikes with time stamps, put into a session's steps.

use betz_base::{Error, Result};

use super::{Content, Frame, Tally};
use crate::order::{JumpRule, LONGEST_SECONDS, TimeVerdict};

/// Spikes that wait at most.
const MOST: usize = 1 << 20;

/// Spikes of a running clock, in steps: step k holds [k·dt, (k + 1)·dt) of the sender's clock.
///
/// The sender's clock alone ends a step: anything it stamps with a later time, spike or not. A spike that comes after
/// its step is taken in the open one and counted as late. A time stamp that lies 10 s or more off must be confirmed by
/// the next one: then the clock jumped and the session starts anew, else the message was damaged.
#[derive(Debug)]
pub struct Bins {
    /// Ticks of the sender's clock in a second.
    rate: u64,
    /// Length of a step in picoseconds: steps are exact for good.
    step_picoseconds: u64,
    jump: u64,
    /// The step that is given out next, and the one that is still open.
    next: u64,
    open: Option<u64>,
    jumps: JumpRule<u64>,
    restart: bool,
    waiting: Vec<(u64, u32)>,
}

impl Bins {
    /// Bins of `step_seconds` on a clock of `rate` ticks per second.
    ///
    /// # Errors
    /// `InvalidArgument` for a rate of 0, or steps that are not positive and finite.
    pub fn new(rate: u64, step_seconds: f64) -> Result<Self> {
        let picoseconds = (step_seconds * 1e12).round();
        if rate == 0 || !(1.0..1e16).contains(&picoseconds) {
            return Err(Error::argument(format!(
                "bins: expected a clock of at least 1 tick per second and steps of 1e-12 to 1e4 s, got {rate} and {step_seconds}"
            )));
        }
        Ok(Self {
            rate,
            step_picoseconds: picoseconds as u64,
            jump: (LONGEST_SECONDS / step_seconds).ceil() as u64,
            next: 0,
            open: None,
            jumps: JumpRule::default(),
            restart: false,
            waiting: Vec::with_capacity(4096),
        })
    }

    fn step_of(&self, ticks: u64) -> u64 {
        let step = u128::from(ticks) * 1_000_000_000_000
            / (u128::from(self.rate) * u128::from(self.step_picoseconds));
        u64::try_from(step).unwrap_or(u64::MAX)
    }

    /// The sender's clock is at `ticks`, where `channel` fired, if one did.
    pub fn put(&mut self, ticks: u64, channel: Option<u32>, tally: &Tally) {
        let step = self.step_of(ticks);
        let near = |other: u64| step.abs_diff(other) < self.jump;
        let is_near = self.open.is_none_or(near);
        match self.jumps.judge(step, is_near, near) {
            TimeVerdict::Near => {}
            TimeVerdict::Doubtful => {
                tally.malformed.add(1);
                return;
            }
            TimeVerdict::Jumped => {
                tally.restarts.add(1);
                tally.dropped.add(self.waiting.len() as u64);
                self.waiting.clear();
                self.restart = true;
                self.open = None;
            }
        }
        self.open = Some(match self.open {
            Some(open) => open.max(step),
            None => {
                self.next = step;
                step
            }
        });
        let Some(channel) = channel else { return };
        if step < self.next {
            tally.late.add(1);
        }
        if self.waiting.len() < MOST {
            self.waiting.push((step, channel));
        } else {
            tally.dropped.add(1);
        }
    }

    /// The sender's clock turned out to be another one: what waits is dropped, and the session starts anew.
    #[cfg(feature = "udp")]
    pub(crate) fn begin_anew(&mut self, tally: &Tally) {
        tally.dropped.add(self.waiting.len() as u64);
        self.waiting.clear();
        self.jumps.clear();
        if self.open.take().is_some() {
            tally.restarts.add(1);
            self.restart = true;
        }
    }

    /// The next step that has ended, if one has.
    pub fn next(&mut self, frame: &mut Frame) -> bool {
        let step = self.next;
        if self.open.is_none_or(|open| step >= open) {
            return false;
        }
        frame.clear();
        frame.content = Content::Spikes;
        frame.sequence = step;
        let seconds = step as f64 * self.step_picoseconds as f64;
        frame.sent = (seconds / 1e3) as i64;
        frame.restart = std::mem::take(&mut self.restart);
        self.waiting.retain(|&(of, channel)| {
            if of <= step {
                frame.spikes.push(channel);
            }
            of > step
        });
        self.next += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_by_the_senders_clock_alone() -> Result<()> {
        let (tally, mut frame) = (Tally::default(), Frame::new(4));
        let mut bins = Bins::new(30_000, 0.02)?;
        bins.put(600 * 5, Some(3), &tally);
        bins.put(600 * 5 + 599, Some(2), &tally);
        assert!(!bins.next(&mut frame), "the step is open");
        bins.put(600 * 8, Some(1), &tally);
        let mut got = Vec::new();
        while bins.next(&mut frame) {
            got.push((frame.sequence, frame.spikes.clone()));
        }
        assert_eq!(got, [(5, vec![3, 2]), (6, vec![]), (7, vec![])]);
        bins.put(600 * 6, Some(0), &tally); // late: taken in step 8
        bins.put(600 * 9, None, &tally);
        assert!(bins.next(&mut frame));
        assert_eq!((frame.sequence, frame.spikes.as_slice()), (8, &[1, 0][..]));
        assert_eq!(tally.counts().late, 1);
        Ok(())
    }

    #[test]
    fn a_clock_that_jumps_is_believed_when_it_says_so_twice() -> Result<()> {
        let (tally, mut frame) = (Tally::default(), Frame::new(4));
        let mut bins = Bins::new(30_000, 0.02)?;
        bins.put(600 * 5000, Some(3), &tally);
        bins.put(7, Some(1), &tally);
        bins.put(600 * 5001, None, &tally);
        assert!(bins.next(&mut frame) && !frame.restart);
        assert_eq!((frame.sequence, tally.counts().malformed), (5000, 1));
        bins.put(600, Some(1), &tally);
        bins.put(1200, Some(2), &tally);
        bins.put(1800, None, &tally);
        assert!(bins.next(&mut frame) && frame.restart);
        assert_eq!((frame.sequence, frame.spikes.as_slice()), (2, &[2][..]));
        assert_eq!(tally.counts().restarts, 1);
        Ok(())
    }

    /// 3 steps per second do not divide picoseconds, and 1/30 s not ticks: no step is lost or doubled.
    #[test]
    fn steps_stay_exact() -> Result<()> {
        let bins = Bins::new(1_000_000_000, 1.0 / 60.0)?;
        assert_eq!(bins.step_of(0), 0);
        let day = 86_400 * 1_000_000_000_u64;
        assert!(bins.step_of(day).abs_diff(86_400 * 60) <= 1);
        assert!(Bins::new(0, 0.1).is_err() && Bins::new(1, f64::NAN).is_err());
        Ok(())
    }
}
