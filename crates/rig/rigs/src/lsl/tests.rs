//! Voltage of streams that liblsl sends. Without liblsl these tests say so and pass.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use betz_base::Result;

use super::library::{Format, Lsl, Pull, Room};
use super::{LslSink, Search};
use crate::bus::{Estimate, Sink, Stream};
use crate::rig::emulate::{Emulator, LslOutlet};
use crate::rig::tests::*;
use crate::rig::{Arrival, Block, LossReport, Rig, Samples, open_rig, to_bits};

const RATE: f64 = 1000.0;

/// False, with the reason printed, where there is no liblsl.
fn has_library() -> bool {
    match Lsl::load() {
        Ok(_) => true,
        Err(e) => {
            eprintln!("skipped: {e}");
            false
        }
    }
}

/// A name that no other stream of the network has.
fn name() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("betz-test-{}-{number}", std::process::id())
}

/// Takes from the rig until it reads the stream.
fn connect(rig: &mut dyn Rig, outlet: &LslOutlet) -> Result<()> {
    let (mut block, started) = (Block::new(), Instant::now());
    while !outlet.is_heard() {
        let taken = rig.take(&mut block, Duration::from_millis(20))?;
        assert_eq!(taken, Arrival::Nothing);
        assert!(
            started.elapsed() < 3 * PATIENCE,
            "the rig did not find the stream"
        );
    }
    Ok(())
}

fn pair(channels: usize, query: &str) -> Result<(Box<dyn Rig>, LslOutlet)> {
    let name = name();
    let outlet = LslOutlet::open(&name, channels, RATE)?;
    let mut rig = open_rig(&format!("lsl://{name}{query}"))?;
    connect(&mut *rig, &outlet)?;
    Ok((rig, outlet))
}

fn send(outlet: &mut LslOutlet, rows: usize, channels: usize) -> Result<u64> {
    outlet.send(&voltage(outlet.next_row(), rows, channels))?;
    Ok(outlet.next_row())
}

/// Takes `rows` rows; each must be the one that was sent under its number. Returns the losses before them.
fn take(rig: &mut dyn Rig, rows: u64) -> Result<Vec<(u64, u64)>> {
    let (mut block, mut losses, mut received) = (Block::new(), Vec::new(), 0);
    while received < rows {
        assert_eq!(
            rig.take(&mut block, PATIENCE)?,
            Arrival::Block,
            "after {received} rows"
        );
        let channels = rig.signal().map_or(0, |s| s.channels);
        let expected = Samples::Voltage(voltage(block.first, block.rows, channels));
        assert_eq!(block.samples, expected, "rows from {}", block.first);
        if block.lost_before.at_least {
            losses.push((block.first, block.lost_before.count));
        }
        received += block.rows as u64;
    }
    assert_eq!(received, rows);
    Ok(losses)
}

/// The error of a rig that fails before it gives a block.
fn error_of(rig: &mut dyn Rig) -> String {
    let mut block = Block::new();
    match rig.take(&mut block, PATIENCE) {
        Ok(other) => panic!("expected an error, got {other:?}"),
        Err(e) => e.to_string(),
    }
}

#[test]
fn microvolts_become_the_nearest_int16() {
    let cases = [
        (0.0, 0),
        (0.195, 1),
        (-0.0974, 0),
        (-0.0976, -1),
        (19.5, 100),
        (1e9, i16::MAX),
        (f32::NEG_INFINITY, i16::MIN),
        (f32::NAN, 0),
    ];
    for (microvolts, expected) in cases {
        let bits = (1.0 / 0.195) as f32;
        assert_eq!(to_bits(microvolts, bits), expected, "{microvolts}");
    }
}

#[test]
fn rows_come_as_sent_and_gaps_in_the_times_are_losses() -> Result<()> {
    if !has_library() {
        return Ok(());
    }
    for channels in [1, 32, 200] {
        let (mut rig, mut outlet) = pair(channels, "?microvolts=0.5")?;
        for _ in 0..15 {
            send(&mut outlet, 100, channels)?;
        }
        assert_eq!(take(&mut *rig, 1500)?, []);
        assert!(rig.counts().blocks <= 200, "{:?}", rig.counts());
        // Rows that follow a gap may be there together with those before it.
        send(&mut outlet, 50, channels)?;
        outlet.lose(30)?;
        send(&mut outlet, 50, channels)?;
        assert_eq!(take(&mut *rig, 100)?, [(1580, 30)]);
        let signal = rig.signal().map(|s| (s.channels, s.rate, s.microvolts));
        assert_eq!(signal, Some((channels, RATE, Some(0.5))));
        let counts = rig.counts();
        assert_eq!((counts.lost, counts.bounds, counts.rows), (30, 1, 1600));
        assert_eq!((counts.restarts, counts.reconnects), (0, 0));
        assert_eq!(rig.loss_report(), LossReport::Unknown);
    }
    Ok(())
}

#[test]
fn a_stream_that_comes_again_goes_on_where_its_times_say() -> Result<()> {
    if !has_library() {
        return Ok(());
    }
    let (mut rig, mut outlet) = pair(4, "")?;
    send(&mut outlet, 100, 4)?;
    assert_eq!(take(&mut *rig, 100)?, []);
    outlet.lose(77)?;
    outlet.connect()?;
    connect(&mut *rig, &outlet)?;
    send(&mut outlet, 100, 4)?;
    assert_eq!(take(&mut *rig, 100)?, [(177, 77)]);
    let counts = rig.counts();
    assert_eq!((counts.reconnects, counts.lost, counts.bounds), (1, 77, 1));
    // Another clock is another epoch.
    outlet.restart()?;
    connect(&mut *rig, &outlet)?;
    send(&mut outlet, 100, 4)?;
    assert_eq!(take(&mut *rig, 100)?, []);
    let counts = rig.counts();
    assert_eq!(
        (counts.reconnects, counts.restarts, counts.lost),
        (2, 1, 77)
    );
    Ok(())
}

#[test]
fn the_first_channels_are_given() -> Result<()> {
    if !has_library() {
        return Ok(());
    }
    let (mut rig, mut outlet) = pair(16, "?channels=5")?;
    outlet.send(&voltage(0, 1, 16))?;
    assert_eq!(take(&mut *rig, 1)?, []);
    assert_eq!(rig.signal().map(|s| s.microvolts), Some(None));
    let name = name();
    let _outlet = LslOutlet::open(&name, 4, RATE)?;
    let error = error_of(&mut *open_rig(&format!("lsl://{name}?channels=5"))?);
    assert!(
        error.contains("expected at least 5 channels, got 4"),
        "{error}"
    );
    Ok(())
}

#[test]
fn float32_becomes_int16_and_other_formats_are_refused() -> Result<()> {
    if !has_library() {
        return Ok(());
    }
    let name = name();
    let mut outlet = LslOutlet::with_format(&name, 3, RATE, Format::FLOAT32)?;
    let mut rig = open_rig(&format!("lsl://{name}?microvolts=0.5"))?;
    connect(&mut *rig, &outlet)?;
    outlet.send(&[0, 10, -16_000, 1, 20_000, -20_000])?;
    let (mut block, mut rows) = (Block::new(), Vec::<i16>::new());
    while rows.len() < 6 {
        assert_eq!(rig.take(&mut block, PATIENCE)?, Arrival::Block);
        if let Samples::Voltage(voltage) = &block.samples {
            rows.extend(voltage);
        }
    }
    assert_eq!(rows, [0, 20, -32_000, 2, i16::MAX, i16::MIN]);
    let mut rig = open_rig(&format!("lsl://{name}"))?;
    let started = Instant::now();
    while rig.signal().is_none() && started.elapsed() < 3 * PATIENCE {
        rig.take(&mut block, Duration::from_millis(20))?;
    }
    assert_eq!(rig.signal().and_then(|s| s.microvolts), Some(0.195));
    for (code, called) in [(2, "double64"), (4, "int32"), (6, "int8"), (7, "int64")] {
        let name = self::name();
        let _outlet = LslOutlet::with_format(&name, 3, RATE, Format::of_code(code))?;
        let error = error_of(&mut *open_rig(&format!("lsl://{name}"))?);
        let expected = format!("lsl://{name}: expected int16 or float32, got {called}");
        assert!(error.contains(&expected), "{error}");
    }
    Ok(())
}

#[test]
fn a_stream_of_irregular_rate_needs_rate() -> Result<()> {
    if !has_library() {
        return Ok(());
    }
    let open = |name: &str| LslOutlet::open(name, 2, RATE)?.without_rate();
    let name = name();
    let refused = open(&name)?;
    let error = error_of(&mut *open_rig(&format!("lsl://{name}"))?);
    assert!(error.contains("add rate=HZ"), "{error}");
    // Another stream, because this one may not know yet that its reader is gone.
    drop(refused);
    let name = self::name();
    let mut outlet = open(&name)?;
    let mut rig = open_rig(&format!("lsl://{name}?rate={RATE}"))?;
    connect(&mut *rig, &outlet)?;
    // liblsl gives all rows of a chunk the same time.
    for _ in 0..30 {
        send(&mut outlet, 100, 2)?;
    }
    assert_eq!(take(&mut *rig, 3000)?, []);
    assert_eq!(rig.signal().map(|s| s.rate), Some(RATE));
    Ok(())
}

/// Stamps of outputs are times of LSL's clock, whatever the sender's clock says, and never go back.
#[test]
fn outputs_carry_lsl_times() -> Result<()> {
    if !has_library() {
        return Ok(());
    }
    let (name, outputs) = (name(), ["x".to_owned()]);
    let stream = Stream {
        channels: 1,
        outputs: &outputs,
        step_seconds: 0.02,
    };
    let mut sink = LslSink::named(&name, &stream)?;
    let mut search = Search::new(&name)?;
    let room = Room {
        seconds: 10.0,
        irregular_rate: 100.0,
    };
    let started = Instant::now();
    let inlet = loop {
        if let Some(inlet) = search.open(room, Duration::from_millis(20))? {
            break inlet;
        }
        assert!(started.elapsed() < 3 * PATIENCE, "the stream is not found");
    };
    let lsl = Lsl::load()?;
    let mut give = |host_ns: i64| {
        sink.give(&Estimate {
            sequence: 0,
            device: 0,
            // A UNIX time.
            sent: Some(1_900_000_000_000_000_000),
            host_ns,
            status: 0,
            values: &[0.0],
        })
    };
    // With data, without data, and with data that came before the step without.
    let before = lsl.now();
    let arrival = crate::clock::host_ns();
    give(arrival)?;
    let first_end = lsl.now();
    give(0)?;
    give(arrival)?;
    let after = lsl.now();
    let mut stamps = Vec::new();
    while stamps.len() < 3 {
        if let Pull::Sample(time) = inlet.pull(&mut [0.0], PATIENCE) {
            stamps.push(time);
        }
        assert!(started.elapsed() < 6 * PATIENCE, "{} samples", stamps.len());
    }
    // The clocks' rates differ by less than 1 in 1000.
    let slack = 1e-3 * (after - before) + 1e-6;
    assert!(
        (before - slack..=first_end + slack).contains(&stamps[0]),
        "{before} {stamps:?}"
    );
    assert!(
        (stamps[0]..=after + slack).contains(&stamps[1]),
        "{stamps:?} {after}"
    );
    assert!(
        (stamps[1]..=after + slack).contains(&stamps[2]),
        "{stamps:?} {after}"
    );
    Ok(())
}
