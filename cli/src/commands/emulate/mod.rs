//! `betz emulate`: a recording system made of software, which sends voltage by the protocol of a device in real time.

pub(crate) mod args;
mod device;
mod rows;

use std::time::{Duration, Instant};

use betz::{Error, Progress, Result};
use betz_rigs::rig::emulate::Emulator;
use serde::Serialize;

use crate::report::{self, Outcome, UntilInterrupted};
use args::Emulate;
pub(crate) use device::{Device, Place};
use rows::{Piece, Rows};

/// Longest time between two looks for requests and for the end.
const LOOK: Duration = Duration::from_millis(2);

#[derive(Serialize)]
struct EmulateReport {
    /// Address at which a session hears the device.
    from: String,
    channels: usize,
    rate: f64,
    microvolts: f64,
    /// Rows that were sent, and that were lost on the way as in the recording.
    rows: u64,
    lost: u64,
    restarts: u64,
    /// Changes of digital lines.
    edges: u64,
    seconds: f64,
}

impl Outcome for EmulateReport {
    fn print(&self) -> Result<()> {
        report::line(&format!(
            "{} of {} in {:.1} s, {} lost on the way; {}, {}",
            report::count(self.rows, "row"),
            report::count(self.channels as u64, "channel"),
            self.seconds,
            self.lost,
            report::count(self.restarts, "restart"),
            report::count(self.edges, "edge"),
        ))
    }
}

pub(crate) fn run(args: &Emulate) -> Result<()> {
    report::stop_on_interrupt();
    if args.pulse.is_some() && args.device.sync_line().is_none() {
        return Err(Error::argument(
            "--pulse: expected cerebus, nidq, openephys or spikeglx, because the protocol has no digital lines",
        ));
    }
    if let Some(rate) = args.pulse
        && !(rate > 0.0 && rate.is_finite())
    {
        return Err(Error::argument(format!(
            "--pulse: expected pulses per second above 0, got {rate}"
        )));
    }
    let mut rows = Rows::open(args, args.device.microvolts())?;
    let signal = rows.signal()?;
    let place = Place::of(
        args.device,
        args.at.as_deref(),
        args.to.as_deref(),
        &args.name,
    )?;
    let (mut emulator, from) = args.device.open(&signal, &place)?;
    eprintln!("a session hears it with from = \"{from}\"; Ctrl-C ends");
    while args.wait && !emulator.is_heard() && !UntilInterrupted.cancelled() {
        emulator.attend()?;
        std::thread::sleep(LOOK);
    }
    let mut sender = Sender {
        emulator: &mut *emulator,
        rate: signal.rate,
        channels: signal.channels,
        pulse: args.pulse.zip(args.device.sync_line()),
        started: Instant::now(),
        most: args.seconds.unwrap_or(f64::INFINITY),
        passed: 0,
        told: EmulateReport {
            from,
            channels: signal.channels,
            rate: signal.rate,
            microvolts: signal.microvolts.unwrap_or(args.device.microvolts()),
            rows: 0,
            lost: 0,
            restarts: 0,
            edges: 0,
            seconds: 0.0,
        },
    };
    while sender.wait()? {
        match rows.next()? {
            Piece::Rows(values) => sender.send(&values)?,
            Piece::Lost(count) => sender.lose(count)?,
            Piece::Edge(line, is_up) => sender.edge(line, is_up)?,
            Piece::Restart => sender.restart()?,
            Piece::End if args.repeat => {
                rows.rewind()?;
                sender.restart()?;
            }
            Piece::End => break,
        }
    }
    sender.emulator.finish()?;
    let mut told = sender.told;
    told.seconds = sender.started.elapsed().as_secs_f64();
    report::tell(&told, args.json)
}

/// Rows on their way in real time.
struct Sender<'e> {
    emulator: &'e mut dyn Emulator,
    rate: f64,
    channels: usize,
    /// Pulses per second, and their line.
    pulse: Option<(f64, u8)>,
    started: Instant,
    /// Seconds after which it ends.
    most: f64,
    /// Rows that have passed, lost ones included.
    passed: u64,
    told: EmulateReport,
}

impl Sender<'_> {
    /// Waits until the rows so far have passed, and answers requests meanwhile; false at the end.
    fn wait(&mut self) -> Result<bool> {
        loop {
            self.emulator.attend()?;
            let elapsed = self.started.elapsed();
            if UntilInterrupted.cancelled() || elapsed.as_secs_f64() >= self.most {
                return Ok(false);
            }
            let due = Duration::from_secs_f64(self.passed as f64 / self.rate);
            let left = due.saturating_sub(elapsed);
            if left.is_zero() {
                return Ok(true);
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Sends rows; pulses change their line between two of them.
    fn send(&mut self, mut values: &[i16]) -> Result<()> {
        while !values.is_empty() {
            let left = (values.len() / self.channels) as u64;
            let now = match self.pulse {
                None => left,
                Some((rate, line)) => {
                    let half = (self.rate / (2.0 * rate)).round().max(1.0) as u64;
                    if self.passed > 0 && self.passed.is_multiple_of(half) {
                        self.edge(line, (self.passed / half) % 2 == 1)?;
                    }
                    left.min(half - self.passed % half)
                }
            };
            let (these, rest) = values.split_at(now as usize * self.channels);
            self.emulator.send(these)?;
            self.passed += now;
            self.told.rows += now;
            values = rest;
        }
        Ok(())
    }

    fn lose(&mut self, rows: u64) -> Result<()> {
        self.emulator.lose(rows)?;
        self.passed += rows;
        self.told.lost += rows;
        Ok(())
    }

    fn edge(&mut self, line: u8, is_up: bool) -> Result<()> {
        self.emulator.edge(line, is_up)?;
        self.told.edges += 1;
        Ok(())
    }

    fn restart(&mut self) -> Result<()> {
        self.emulator.restart()?;
        self.told.restarts += 1;
        Ok(())
    }
}
