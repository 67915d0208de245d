//! A device that drifts, starts again, and whose datagrams are lost and overtake each other: every lost row is counted, and the
//! replay has the same bits. Hours pass in minutes: `BETZ_SOAK_HOURS=168` is a week of them, for which the disk needs 60 GB.

use std::time::Duration;

use betz_base::Result;
use betz_live::{Live, Replay};
use betz_rigs::rig::emulate::{Emulator, FrameSender};
use betz_rigs::rig::{Arrival, Block, FrameRig, Rig, RigCounts, Signal};

use super::rigs;

const CHANNELS: usize = 24;
/// Rows per second and per datagram.
const RATE: f64 = 2000.0;
const ROWS: u64 = 20;
/// Least number of datagrams from one loss to the next, losses of a long run, and losses from one restart to the next.
const LOSS: u64 = 3000;
const LOSSES: u64 = 200;
const RESTART: u64 = 3;
/// Datagrams from one overtaking to the next.
const SWAP: u64 = 150;
/// Rows wait so long for those that they have overtaken: longer than a busy machine keeps this thread from reading.
const PATIENCE: Duration = Duration::from_millis(500);
/// Host time of the first row, in seconds.
const BASE: f64 = 1000.0;

/// Both ends of the device: it sends the next datagrams when a block is asked for, and stamps blocks with simulated time.
struct SoakRig {
    rig: FrameRig,
    sender: FrameSender,
    datagrams: u64,
    /// Datagrams from one loss to the next.
    every: u64,
    sent: u64,
    /// Rows that have passed since the start, over all restarts: lost ones included.
    passed: u64,
    /// Rows that had passed when an epoch began.
    begun: Vec<u64>,
    lost: u64,
    /// Datagrams whose rows have not been given yet.
    pending: u64,
    /// True if rows were lost before them.
    waits: bool,
    state: u64,
}

impl SoakRig {
    fn open(datagrams: u64) -> Result<Self> {
        let rig = FrameRig::bind("127.0.0.1:0", Some(CHANNELS), Some(RATE))?;
        let sender = FrameSender::new(&rig.address()?.to_string(), CHANNELS, RATE)?;
        Ok(Self {
            rig: rig.with_microvolts(Some(0.25)).reordering(PATIENCE),
            sender,
            datagrams,
            every: LOSS.max(datagrams / LOSSES / (2 * SWAP) * (2 * SWAP)),
            sent: 0,
            passed: 0,
            begun: vec![0],
            lost: 0,
            pending: 0,
            waits: false,
            state: 1,
        })
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state = (self.state.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1);
        (self.state >> 33) % below
    }

    /// Noise of about 8 µV, and now and then a spike.
    fn voltage(&mut self) -> Vec<i16> {
        (0..ROWS as usize * CHANNELS)
            .map(|_| match self.random(200) {
                0 => -600,
                _ => self.random(110) as i16 - 55,
            })
            .collect()
    }

    fn send(&mut self) -> Result<()> {
        let number = self.sent;
        if number > 0 && number.is_multiple_of(RESTART * self.every) {
            self.sender.restart()?;
            self.begun.push(self.passed);
        }
        if number % self.every == self.every / 2 {
            let rows = 1 + self.random(600);
            self.sender.lose(rows)?;
            self.passed += rows;
            self.lost += rows;
            self.waits = true;
        }
        let voltage = self.voltage();
        if number % SWAP == SWAP / 3 {
            let later = self.voltage();
            let first = self.sender.next_row();
            self.sender.send_at(first + ROWS, &later)?;
            self.sender.send_at(first, &voltage)?;
            self.sender.lose(2 * ROWS)?;
            self.sent += 2;
        } else {
            self.sender.send(&voltage)?;
            self.sent += 1;
        }
        self.pending += self.sent - number;
        self.passed += (self.sent - number) * ROWS;
        Ok(())
    }

    /// Host time at which a block has come: its clock drifts by 80 ppm, and wanders by 10.
    fn stamp(&self, block: &Block) -> i64 {
        let passed = self.begun[block.epoch as usize] + block.first + block.rows as u64;
        let device = passed as f64 / RATE;
        let wander = 10e-6 * 600.0 * (device / 600.0).sin();
        let jitter = (passed.wrapping_mul(0x9E37_79B9) >> 8) % 300;
        let jitter = jitter as f64 * 1e-6;
        ((BASE + device * (1.0 + 80e-6) + wander + 0.0003 + jitter) * 1e9) as i64
    }
}

impl Rig for SoakRig {
    fn signal(&self) -> Option<Signal> {
        self.rig.signal()
    }

    fn take(&mut self, block: &mut Block, _: Duration) -> Result<Arrival> {
        let mut is_held = false;
        loop {
            if self.pending == 0 || (is_held && !self.waits) {
                if self.sent >= self.datagrams {
                    return Ok(Arrival::Ended);
                }
                self.send()?;
            }
            // A datagram is there, or rows behind a loss wait until those before them are given up.
            if self.rig.take(block, 2 * PATIENCE)? == Arrival::Block {
                self.pending -= 1;
                self.waits = false;
                block.host_ns = self.stamp(block);
                return Ok(Arrival::Block);
            }
            is_held = true;
        }
    }

    fn counts(&self) -> RigCounts {
        self.rig.counts()
    }
}

#[test]
fn losses_are_exact_and_the_replay_equal_over_hours() {
    let hours = std::env::var("BETZ_SOAK_HOURS").ok();
    let hours: f64 = hours.map_or(0.1, |hours| hours.parse().unwrap());
    let small = rigs::small(0.0);
    let folder = tempfile::tempdir().unwrap();
    let record = format!("record.to={:?}", folder.path().to_str().unwrap());
    let plan = rigs::plan(&[
        "voltage.band=[100, 900]",
        "missing.stale_after=10000h",
        &record,
    ]);
    let datagrams = (hours * 3600.0 * RATE) as u64 / ROWS;
    let rig = SoakRig::open(datagrams).unwrap();
    // The same device without a session tells what it did.
    let (mut lost, mut restarts, mut sent) = (0, 0, 0);
    let mut probe = SoakRig::open(datagrams).unwrap();
    while probe.sent < datagrams {
        probe.send().unwrap();
        (lost, restarts, sent) = (probe.lost, probe.begun.len() as u64 - 1, probe.sent);
    }
    let mut live = Live::with_rig(plan, small.model.clone(), Box::new(rig)).unwrap();
    let steps = rigs::run(&mut live);
    let report = live.report();
    live.stop().unwrap();
    let input = report.input;
    assert_eq!(input.lost, lost);
    assert_eq!((input.rows, input.late), (sent * ROWS, 0));
    assert_eq!((input.restarts, input.bounds), (restarts, 0));
    let source = &live.sources()[0];
    assert!((source.drift_ppm.abs() - 80.0).abs() < 20.0, "{source:?}");
    assert_eq!(source.measured_rate, None);
    let told = Replay::open(live.folder().unwrap()).unwrap();
    let told = told.run(&mut |_| Ok(())).unwrap();
    assert!(told.is_equal(), "{told:?}");
    assert_eq!(told.compared, steps.len() as u64);
    assert!(told.damage.is_clean(), "{told:?}");
    eprintln!(
        "{hours} h in {} steps: {lost} rows of {} lost, {restarts} restarts",
        steps.len(),
        sent * ROWS + lost
    );
}
