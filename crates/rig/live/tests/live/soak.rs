//! A device that drifts, starts again, and whose datagrams are lost and overtake each other: every lost row is counted, and the
//! replay has the same bits. Hours pass in seconds: `BETZ_SOAK_HOURS=168` is a week of them, for which the disk needs 12 GB.

use std::time::Duration;

use betz_base::Result;
use betz_live::{Live, Replay};
use betz_recording::OutputInfo;
use betz_rigs::rig::emulate::{Emulator, FrameSender};
use betz_rigs::rig::{Arrival, Block, FrameRig, Rig, RigCounts, Signal};
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};

use super::rigs;

const CHANNELS: usize = 8;
/// Rows per second and per datagram.
const RATE: f64 = 1000.0;
const ROWS: u64 = 50;
/// Steps are as long as datagrams.
const STEP_SECONDS: f64 = ROWS as f64 / RATE;
/// Least number of datagrams from one loss to the next, losses of a long run, and losses from one restart to the next.
const LOSS: u64 = 600;
const LOSSES: u64 = 200;
const RESTART: u64 = 3;
/// Datagrams from one overtaking to the next.
const SWAP: u64 = 30;
/// Rows wait so long for those that they have overtaken: longer than a busy machine keeps this thread from reading.
const PATIENCE: Duration = Duration::from_millis(500);
/// Host time of the first row, in seconds.
const BASE: f64 = 1000.0;

/// Both ends of the device: it sends the next datagrams when a block is asked for, and stamps blocks with simulated time.
struct SoakRig {
    rig: FrameRig,
    sender: FrameSender,
    /// False for a device that only says what it would do.
    sends: bool,
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
    /// States of the generators of losses and of voltage.
    losses: u64,
    noise: u64,
}

/// A number below `below`, and the generator's next state.
fn random(state: &mut u64, below: u64) -> u64 {
    *state = (state.wrapping_mul(6_364_136_223_846_793_005)).wrapping_add(1);
    (*state >> 33) % below
}

impl SoakRig {
    fn open(datagrams: u64, sends: bool) -> Result<Self> {
        let rig = FrameRig::bind("127.0.0.1:0", Some(CHANNELS), Some(RATE))?;
        let sender = FrameSender::new(&rig.address()?.to_string(), CHANNELS, RATE)?;
        Ok(Self {
            rig: rig.with_microvolts(Some(0.25)).reordering(PATIENCE),
            sender,
            sends,
            datagrams,
            every: LOSS.max(datagrams / LOSSES / (2 * SWAP) * (2 * SWAP)),
            sent: 0,
            passed: 0,
            begun: vec![0],
            lost: 0,
            pending: 0,
            waits: false,
            losses: 1,
            noise: 1,
        })
    }

    /// Noise of about 8 µV, and now and then a spike.
    fn voltage(&mut self) -> Vec<i16> {
        (0..ROWS as usize * CHANNELS)
            .map(|_| match random(&mut self.noise, 200) {
                0 => -600,
                _ => random(&mut self.noise, 110) as i16 - 55,
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
            let rows = 1 + random(&mut self.losses, 300);
            self.sender.lose(rows)?;
            self.passed += rows;
            self.lost += rows;
            self.waits = true;
        }
        let is_overtaken = number % SWAP == SWAP / 3;
        self.sent += if is_overtaken { 2 } else { 1 };
        if self.sends {
            self.send_datagrams(is_overtaken)?;
        }
        self.pending += self.sent - number;
        self.passed += (self.sent - number) * ROWS;
        Ok(())
    }

    /// Sends the next datagram, or two of which the second overtakes the first.
    fn send_datagrams(&mut self, is_overtaken: bool) -> Result<()> {
        let voltage = self.voltage();
        if !is_overtaken {
            return self.sender.send(&voltage);
        }
        let later = self.voltage();
        let first = self.sender.next_row();
        self.sender.send_at(first + ROWS, &later)?;
        self.sender.send_at(first, &voltage)?;
        self.sender.lose(2 * ROWS)
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

/// A decoder whose weights differ by channel.
fn decoder() -> Decoder {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.2,
        order: 1,
    }])
    .unwrap();
    let names = (0..CHANNELS).map(|c| format!("channel {c}")).collect();
    let outputs = ["x", "y"].map(OutputInfo::from).to_vec();
    Decoder::new(DecoderParts {
        weights: (0..2 * CHANNELS).map(|w| 0.01 * (w % 7) as f64).collect(),
        ..DecoderParts::linear(STEP_SECONDS, bank, names, outputs)
    })
    .unwrap()
}

#[test]
fn losses_are_exact_and_the_replay_equal_over_hours() {
    let hours = std::env::var("BETZ_SOAK_HOURS").ok();
    let hours: f64 = hours.map_or(0.1, |hours| hours.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let record = format!("record.to={:?}", folder.path().to_str().unwrap());
    let plan = rigs::plan(&[
        "voltage.band=[100, 450]",
        "missing.stale_after=10000h",
        &record,
    ]);
    let datagrams = (hours * 3600.0 * RATE) as u64 / ROWS;
    let rig = SoakRig::open(datagrams, true).unwrap();
    // The same device without a session tells what it did.
    let (mut lost, mut restarts, mut sent) = (0, 0, 0);
    let mut probe = SoakRig::open(datagrams, false).unwrap();
    while probe.sent < datagrams {
        probe.send().unwrap();
        (lost, restarts, sent) = (probe.lost, probe.begun.len() as u64 - 1, probe.sent);
    }
    let mut live = Live::with_rig(plan, decoder(), Box::new(rig)).unwrap();
    let mut steps = 0;
    rigs::run_paced(&mut live, &mut |_| steps += 1);
    let report = live.report();
    live.stop().unwrap();
    let input = report.input;
    assert_eq!(input.lost, lost);
    // If this thread is kept from reading for longer than rows wait, those that were overtaken are late. They are no loss.
    assert_eq!(input.rows + input.late, sent * ROWS);
    assert!(input.late.is_multiple_of(ROWS) && input.late < sent * ROWS / 1000);
    assert_eq!((input.restarts, input.bounds), (restarts, 0));
    let source = &live.sources()[0];
    assert!((source.drift_ppm.abs() - 80.0).abs() < 20.0, "{source:?}");
    assert_eq!(source.measured_rate, None);
    let told = Replay::open(live.folder().unwrap()).unwrap();
    let told = told.run(&mut |_| Ok(())).unwrap();
    assert!(told.is_equal(), "{told:?}");
    assert_eq!(told.compared, steps);
    assert!(told.damage.is_clean(), "{told:?}");
    eprintln!(
        "{hours} h in {steps} steps: {lost} rows of {} lost, {restarts} restarts",
        sent * ROWS + lost
    );
}
