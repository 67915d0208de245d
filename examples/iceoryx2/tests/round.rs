//! A source and a sink between the ends that a rig has, in one process.

use std::time::Duration;

use betz_base::Result;
use betz_iceoryx2::{
    Receiver, Sender, SharedSink, SharedSource, StepHeader, counts_of, movement_of,
};
use betz_rigs::bus::{Estimate, Frame, Sink, Source, Reception};

/// The bound only ends a test that has failed.
const PATIENCE: Duration = Duration::from_secs(20);

fn step(sequence: u64) -> StepHeader {
    StepHeader {
        sequence,
        sent: 1000 + sequence as i64,
        ..StepHeader::default()
    }
}

/// Services of this test alone.
fn named(test: &str) -> String {
    format!("betz-test/{test}/{}", std::process::id())
}

#[test]
fn steps_come_with_their_numbers_and_gaps_are_counted() -> Result<()> {
    let name = named("in");
    let rig = Sender::open(&counts_of(&name), 4)?;
    let mut source = SharedSource::open(&name, 3, Duration::ZERO)?;
    let mut frame = Frame::new(3);
    rig.send(step(0), &[1_u16, 0, 2])?;
    rig.send(step(1), &[1, 0])?; // of other channels
    rig.send(step(4), &[0, 7, 0])?; // two lost, and the malformed one
    assert_eq!(source.take(&mut frame, PATIENCE)?, Reception::Step);
    assert_eq!((frame.sequence, frame.sent, frame.skipped), (0, 1000, 0));
    assert_eq!(frame.counts, [1, 0, 2]);
    assert_eq!(source.take(&mut frame, PATIENCE)?, Reception::Nothing);
    assert_eq!(source.take(&mut frame, PATIENCE)?, Reception::Step);
    assert_eq!((frame.sequence, frame.sent, frame.skipped), (4, 1004, 3));
    assert_eq!(frame.counts, [0, 7, 0]);
    assert_eq!(
        source.take(&mut frame, Duration::from_millis(1))?,
        Reception::Nothing
    );
    let counts = source.counts();
    assert_eq!(
        (counts.messages, counts.steps, counts.malformed, counts.lost),
        (3, 2, 1, 3)
    );
    Ok(())
}

#[test]
fn whoever_sends_too_fast_overwrites_the_oldest_and_that_is_counted() -> Result<()> {
    let name = named("fast");
    let mut source = SharedSource::open(&name, 1, Duration::ZERO)?;
    let rig = Sender::open(&counts_of(&name), 1)?;
    let mut frame = Frame::new(1);
    rig.send(step(0), &[0_u16])?;
    assert_eq!(source.take(&mut frame, PATIENCE)?, Reception::Step);
    for sequence in 1..=1000 {
        rig.send(step(sequence), &[0])?;
    }
    while frame.sequence < 1000 {
        assert_eq!(source.take(&mut frame, PATIENCE)?, Reception::Step);
    }
    let counts = source.counts();
    assert!(counts.lost > 0, "{counts:?}");
    assert_eq!(counts.steps + counts.lost, 1001);
    Ok(())
}

#[test]
fn a_rig_that_comes_back_is_heard_again() -> Result<()> {
    let name = named("again");
    let mut source = SharedSource::open(&name, 1, Duration::from_micros(50))?;
    let mut frame = Frame::new(1);
    for life in 0..3_u64 {
        let rig = Sender::open(&counts_of(&name), 2)?;
        rig.send(step(4), &[1_u16, 1])?; // of other channels
        assert_eq!(source.take(&mut frame, PATIENCE)?, Reception::Nothing);
        for sequence in 5..7 {
            rig.send(step(sequence), &[1_u16])?;
            assert_eq!(source.take(&mut frame, PATIENCE)?, Reception::Step);
            let begins = life > 0 && sequence == 5;
            assert_eq!(
                (frame.sequence, frame.restart, frame.skipped),
                (sequence, begins, 0)
            );
        }
        assert!(
            Sender::<u16>::open(&counts_of(&name), 1).is_err(),
            "two rigs"
        );
    }
    let counts = source.counts();
    assert_eq!((counts.steps, counts.restarts, counts.late), (6, 2, 0));
    Ok(())
}

#[test]
fn movement_goes_out_and_waits_for_nobody() -> Result<()> {
    let name = named("out");
    let mut sink = SharedSink::open(&name, 2)?;
    let give = |sink: &mut SharedSink, sequence| {
        sink.give(&Estimate {
            sequence,
            device: 0,
            host_ns: 0,
            sent: Some(-5),
            status: 3,
            values: &[0.5, -2.0],
        })
    };
    // Nobody reads.
    for sequence in 0..500 {
        give(&mut sink, sequence)?;
    }
    let mut reader = Receiver::<f32>::open(&movement_of(&name), Duration::ZERO)?;
    give(&mut sink, 500)?;
    let came = reader.take(PATIENCE, |header, values, _| (*header, values.to_vec()))?;
    let header = StepHeader {
        sequence: 500,
        sent: -5,
        status: 3,
        reserved: 0,
    };
    assert_eq!(came, Some((header, vec![0.5, -2.0])));
    let counts = sink.counts();
    assert_eq!((counts.steps, counts.unsent), (501, 0));
    Ok(())
}

#[test]
fn a_service_of_other_types_is_refused_by_name() -> Result<()> {
    let name = named("types");
    let _rig = Sender::<f32>::open(&counts_of(&name), 1)?;
    let refused = SharedSource::open(&name, 1, Duration::ZERO).err();
    let said = refused.map(|e| e.to_string()).unwrap_or_default();
    assert!(said.contains(&counts_of(&name)), "{said:?}");
    Ok(())
}
