//! Voltage and spike counts of an emulated Synapse tap.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use betz_base::Result;

use super::TimePacket;
use crate::rig::emulate::{Emulator, FREE_PORT, SynapseTap};
use crate::rig::protobuf::{put_bytes, put_number, put_varint, zigzag};
use crate::rig::tests::*;
use crate::rig::{Arrival, Block, LossReport, Probe, Rig, RigSpike, Samples, open_rig};

const RATE: f64 = 30_000.0;

fn connect(tap: &SynapseTap, query: &str) -> Result<Box<dyn Rig>> {
    let mut rig = open_rig(&format!("synapse://{}{query}", tap.address()))?;
    while !tap.is_connected() {
        rig.take(&mut Block::new(), Duration::from_millis(5))?;
    }
    Ok(rig)
}

fn pair(channels: usize, query: &str) -> Result<(Box<dyn Rig>, SynapseTap)> {
    let tap = SynapseTap::bind(FREE_PORT, channels, RATE)?;
    Ok((connect(&tap, query)?, tap))
}

fn send(tap: &mut SynapseTap, rows: usize, channels: usize) -> Result<u64> {
    tap.send(&voltage(tap.next_row(), rows, channels))?;
    Ok(tap.next_row())
}

/// The next block.
fn next_block(rig: &mut dyn Rig) -> Result<Block> {
    let mut block = Block::new();
    while rig.take(&mut block, PATIENCE)? == Arrival::Nothing {}
    Ok(block)
}

/// The error of a rig that fails before it gives a block.
fn error_of(rig: &mut dyn Rig) -> String {
    let error = next_block(rig).err().map(|e| e.to_string());
    error.unwrap_or_default()
}

/// A message of voltage.
fn message(sequence: u64, values: &[i64], rate: u64) -> Vec<u8> {
    let (mut message, mut packed) = (Vec::new(), Vec::new());
    for value in values {
        put_varint(&mut packed, zigzag(*value));
    }
    put_number(&mut message, 2, sequence);
    put_bytes(&mut message, 3, &packed);
    put_number(&mut message, 4, rate);
    message
}

#[test]
fn rows_come_as_sent_and_losses_are_exact() -> Result<()> {
    for channels in [1, 32, 1024] {
        let (mut rig, mut tap) = pair(channels, "?microvolts=0.5")?;
        let mut lost = 0;
        for k in 0..5_u64 {
            // Rows that follow a gap are there together with those before it.
            send(&mut tap, 50, channels)?;
            tap.lose(3)?;
            let until = send(&mut tap, 50, channels)?;
            assert_eq!(take_rows(&mut *rig, until)?, (100, 77 * k + 3));
            tap.lose(77 * (k + 1))?;
            lost += 77 * k + 3;
        }
        let signal = rig.signal().map(|s| (s.channels, s.rate, s.microvolts));
        assert_eq!(signal, Some((channels, RATE, Some(0.5))));
        assert_eq!((rig.counts().lost, rig.counts().malformed), (lost, 0));
        assert_eq!(rig.loss_report(), LossReport::Exact);
    }
    Ok(())
}

#[test]
fn messages_that_wait_become_one_block() -> Result<()> {
    let (mut rig, mut tap) = pair(4, "")?;
    let until = send(&mut tap, 1000, 4)?;
    assert_eq!(take_rows(&mut *rig, until)?, (1000, 0));
    assert!(rig.counts().blocks <= 100, "{:?}", rig.counts());
    Ok(())
}

#[test]
fn parts_of_a_message_are_rows_and_a_device_that_leaves_is_no_error() -> Result<()> {
    let (mut rig, tap) = pair(2, "")?;
    let row = |k: u64| {
        voltage(k, 1, 2)
            .into_iter()
            .map(i64::from)
            .collect::<Vec<_>>()
    };
    let messages: Vec<_> = (0..50).map(|k| message(k, &row(k), 30_000)).collect();
    let parts: Vec<_> = messages.iter().map(Vec::as_slice).collect();
    tap.publish_parts(&parts)?;
    assert_eq!(take_rows(&mut *rig, 50)?, (50, 0));
    assert_eq!((rig.counts().malformed, rig.counts().blocks), (0, 1));
    drop(tap);
    let mut block = Block::new();
    for _ in 0..5 {
        let taken = rig.take(&mut block, Duration::from_millis(10))?;
        assert_eq!(taken, Arrival::Nothing);
    }
    Ok(())
}

#[test]
fn the_first_channels_are_given_and_inputs_behind_electrodes_are_not() -> Result<()> {
    let (mut rig, mut tap) = pair(16, "?channels=5")?;
    tap.send(&voltage(0, 1, 16))?;
    let block = next_block(&mut *rig)?;
    assert_eq!(block.samples, Samples::Voltage(voltage(0, 1, 5)));
    // Two ranges of electrodes, then inputs, then one that no device has: electrodes behind inputs.
    let (mut rig, tap) = pair(6, "")?;
    let mut bytes = message(0, &[1, -2, 3, 4, 5, 6], 30_000);
    for (kind, count) in [(0, 1), (0, 2), (1, 2), (0, 1)] {
        let mut range = Vec::new();
        put_number(&mut range, 1, kind);
        put_number(&mut range, 2, count);
        put_bytes(&mut range, 3, &[0, 2]);
        put_bytes(&mut bytes, 5, &range);
    }
    // Fields of a later version, and one value that is not packed.
    put_number(&mut bytes, 90, 7);
    put_bytes(&mut bytes, 91, b"later");
    put_varint(&mut bytes, 3 << 3);
    put_varint(&mut bytes, zigzag(-9));
    tap.publish(&bytes)?;
    let block = next_block(&mut *rig)?;
    assert_eq!(block.samples, Samples::Voltage(vec![1, -2, 3]));
    Ok(())
}

#[test]
fn numbers_that_begin_anew_are_another_epoch() -> Result<()> {
    let (mut rig, mut tap) = pair(3, "")?;
    let until = send(&mut tap, 50, 3)?;
    assert_eq!(take_rows(&mut *rig, until)?, (50, 0));
    tap.restart()?;
    let until = send(&mut tap, 20, 3)?;
    assert_eq!(take_rows(&mut *rig, until)?, (20, 0));
    // A gap of more than ten seconds is believed to be a restart.
    tap.lose(300_001)?;
    let until = send(&mut tap, 20, 3)?;
    assert_eq!(take_rows(&mut *rig, until)?, (20, 0));
    let counts = rig.counts();
    assert_eq!((counts.restarts, counts.lost, counts.duplicates), (2, 0, 0));
    // A repeated number is left out.
    tap.publish(&message(until - 1, &[0; 3], 30_000))?;
    let until = send(&mut tap, 5, 3)?;
    assert_eq!(take_rows(&mut *rig, until)?, (5, 0));
    assert_eq!((rig.counts().duplicates, rig.counts().restarts), (1, 2));
    Ok(())
}

#[test]
fn unsigned_voltage_needs_its_offset() -> Result<()> {
    let mut tap = SynapseTap::bind(FREE_PORT, 2, RATE)?.with_offset(32_768);
    let mut rig = connect(&tap, "?offset=32768")?;
    tap.send(&[i16::MIN, i16::MAX])?;
    let block = next_block(&mut *rig)?;
    assert_eq!(block.samples, Samples::Voltage(vec![i16::MIN, i16::MAX]));
    drop(rig);
    let mut tap = SynapseTap::bind(FREE_PORT, 2, RATE)?.with_offset(32_768);
    let mut rig = connect(&tap, "")?;
    tap.send(&[i16::MAX; 40])?;
    let error = error_of(&mut *rig);
    let expected = "expected values of int16, got 65535: add offset=32768";
    assert!(error.contains(expected), "{error}");
    Ok(())
}

#[test]
fn other_messages_than_expected_are_an_error() -> Result<()> {
    let counts = |tap: &mut SynapseTap| tap.send_counts(&[1; 40]);
    let rows = |tap: &mut SynapseTap| tap.send(&[1; 40]);
    let (mut rig, mut tap) = pair(4, "")?;
    counts(&mut tap)?;
    let error = error_of(&mut *rig);
    assert!(
        error.contains("synapse.BroadbandFrame, got others"),
        "{error}"
    );
    let (mut rig, mut tap) = pair(4, "?group=spikes")?;
    rows(&mut tap)?;
    let error = error_of(&mut *rig);
    assert!(
        error.contains("synapse.SpiketrainFrame, got others"),
        "{error}"
    );
    let (mut rig, mut tap) = pair(4, "?channels=5")?;
    rows(&mut tap)?;
    let error = error_of(&mut *rig);
    assert!(
        error.contains("expected messages of 5 channels, got 4"),
        "{error}"
    );
    // A configuration that changes while the rig is read.
    for (values, rate, expected) in [
        (
            &[1; 6][..],
            30_000,
            "expected messages of 4 channels, got 6",
        ),
        (&[1; 3], 30_000, "expected messages of 4 channels, got 3"),
        (
            &[1; 4],
            20_000,
            "expected 30000 messages per second as before, got 20000",
        ),
    ] {
        let (mut rig, mut tap) = pair(4, "?channels=2")?;
        rows(&mut tap)?;
        while rig.counts().rows < 10 {
            next_block(&mut *rig)?;
        }
        (10..18).try_for_each(|k| tap.publish(&message(k, values, rate)))?;
        let error = error_of(&mut *rig);
        assert!(error.contains(expected), "{error}");
        assert_eq!(rig.counts().malformed, 8);
    }
    // Messages without a rate need one.
    let (mut rig, tap) = pair(4, "")?;
    (0..8).try_for_each(|k| tap.publish(&message(k, &[1; 4], 0)))?;
    let error = error_of(&mut *rig);
    assert!(error.contains("as rate=HZ, got neither"), "{error}");
    let (mut rig, tap) = pair(4, "?rate=1000")?;
    tap.publish(&message(0, &[1; 4], 0))?;
    next_block(&mut *rig)?;
    assert_eq!(rig.signal().map(|s| s.rate), Some(1000.0));
    Ok(())
}

#[test]
fn damaged_messages_are_counted_and_change_nothing() -> Result<()> {
    let (mut rig, mut tap) = pair(8, "")?;
    let until = send(&mut tap, 10, 8)?;
    take_rows(&mut *rig, until)?;
    let mut damaged = 0;
    let mut publish = |bytes: &[u8]| {
        damaged += 1;
        tap.publish(bytes)
    };
    // Every message that is cut: without its values, its rate or its number it is none either.
    let whole = message(10, &[300; 8], 30_000);
    (0..whole.len()).try_for_each(|cut| publish(&whole[..cut]))?;
    // A value that is no int16, one channel more, too many channels, a range that has more than there are.
    publish(&message(10, &[40_000; 8], 30_000))?;
    publish(&message(10, &[1; 9], 30_000))?;
    publish(&message(10, &[0; (1 << 16) + 1], 30_000))?;
    publish(&[&whole[..], b"\x2a\x02\x10\x09"].concat())?;
    publish(
        &[
            &whole[..],
            b"\x2a\x0b\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        ]
        .concat(),
    )?;
    // Voltage of another type, and a group.
    publish(&[&whole[..], b"\x1d\0\0\0\0"].concat())?;
    publish(&[&whole[..], b"\x1b"].concat())?;
    let mut scramble = Scramble(5);
    for k in 0..500 * effort() {
        publish(&scramble.bytes(k % 300))?;
        if k % 100 == 0 {
            rig.take(&mut Block::new(), Duration::ZERO)?;
        }
    }
    tap.lose(20)?;
    let until = send(&mut tap, 10, 8)?;
    assert_eq!(take_rows(&mut *rig, until)?, (10, 20));
    let counts = rig.counts();
    assert_eq!((counts.malformed, counts.restarts), (damaged, 0));
    Ok(())
}

#[test]
fn counts_of_bins_become_spikes_in_ticks() -> Result<()> {
    let mut tap = SynapseTap::bind(FREE_PORT, 3, 100.0)?;
    let mut rig = connect(&tap, "?group=spikes&channels=2")?;
    tap.send_counts(&[0, 0, 9, 2, 0, 9])?;
    tap.lose(4)?;
    tap.send_counts(&[1, 3, 9])?;
    let (mut found, mut bins, mut lost) = (Vec::new(), Vec::new(), 0);
    while bins.len() < 3 {
        let block = next_block(&mut *rig)?;
        bins.extend((0..block.rows as u64).map(|k| block.first + k));
        lost += block.lost_before.count;
        if let Samples::Spikes(spikes) = &block.samples {
            found.extend(spikes.iter().copied());
        }
    }
    let spike = |tick, channel| RigSpike {
        tick,
        channel,
        unit: 0,
    };
    let expected = [(1, 0), (1, 0), (6, 0), (6, 1), (6, 1), (6, 1)].map(|(t, c)| spike(t, c));
    assert_eq!((found, bins, lost), (expected.to_vec(), vec![0, 1, 6], 4));
    let signal = rig.signal().map(|s| (s.channels, s.rate));
    assert_eq!(signal, Some((2, 100.0)));
    // More spikes than a bin can hold.
    tap.send_counts(&[1001, 0, 0])?;
    tap.send_counts(&[1000, 0, 0])?;
    assert_eq!(next_block(&mut *rig)?.lost_before.count, 1);
    assert_eq!((rig.counts().malformed, rig.counts().lost), (1, 5));
    Ok(())
}

/// Takes blocks, and does `also` between them, until the rig has an answer about the time.
fn await_probe(rig: &mut dyn Rig, mut also: impl FnMut() -> Result<()>) -> Result<Option<Probe>> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        rig.take(&mut Block::new(), Duration::from_millis(2))?;
        also()?;
        if let Some(probe) = rig.probe() {
            return Ok(Some(probe));
        }
    }
    Ok(None)
}

#[test]
fn the_devices_time_is_asked_for_only_where_it_was_wanted() -> Result<()> {
    let (mut rig, mut tap) = pair(4, "")?;
    let until = send(&mut tap, 30, 4)?;
    take_rows(&mut *rig, until)?;
    rig.take(&mut Block::new(), Duration::from_millis(2))?;
    assert_eq!((tap.answer()?, rig.probe()), (0, None));
    drop(rig);
    let mut rig = connect(&tap, &format!("?probe={}", tap.clock_address()?))?;
    let before = crate::rig::host_ns();
    // Questions are asked while rows come.
    let probe = await_probe(&mut *rig, || {
        let until = send(&mut tap, 1, 4)?;
        tap.answer()?;
        assert!(until < 1 << 20);
        Ok(())
    })?;
    let Some(probe) = probe else {
        panic!("expected an answer");
    };
    assert!((30..=tap.next_row()).contains(&probe.device), "{probe:?}");
    assert!(before <= probe.asked_ns && probe.asked_ns <= probe.answered_ns);
    assert_eq!(rig.counts().malformed, 0);
    Ok(())
}

#[test]
fn answers_of_another_clock_are_refused() -> Result<()> {
    let io = |e| betz_base::Error::new(betz_base::ErrorKind::Io, format!("{e}"));
    let device = UdpSocket::bind("127.0.0.1:0").map_err(io)?;
    device.set_nonblocking(true).map_err(io)?;
    let mut tap = SynapseTap::bind(FREE_PORT, 4, RATE)?;
    let mut rig = connect(
        &tap,
        &format!("?probe={}", device.local_addr().map_err(io)?),
    )?;
    let started = Instant::now();
    let mut asked = 0;
    while rig.counts().malformed < 2 && started.elapsed() < PATIENCE {
        send(&mut tap, 1, 4)?;
        rig.take(&mut Block::new(), Duration::from_millis(2))?;
        let mut bytes = [0; 100];
        let Ok((length, from)) = device.recv_from(&mut bytes) else {
            continue;
        };
        let question = TimePacket::read(&bytes[..length]);
        let Some(mut answer) = question else {
            panic!("expected a question");
        };
        asked += 1;
        // Of another question, damaged, without times, and of a clock that began elsewhere.
        let other = TimePacket {
            sequence: answer.sequence + 1,
            times: [1; 4],
            ..answer
        };
        device.send_to(&other.to_bytes(), from).map_err(io)?;
        device.send_to(b"\x0d\0", from).map_err(io)?;
        device.send_to(&answer.to_bytes(), from).map_err(io)?;
        answer.times[1] = 5;
        device.send_to(&answer.to_bytes(), from).map_err(io)?;
    }
    assert_eq!((asked, rig.counts().malformed, rig.probe()), (1, 2, None));
    Ok(())
}

#[test]
fn time_packets_are_those_of_the_makers_library_and_cut_ones_are_not() {
    let packet = TimePacket {
        client: 3,
        sequence: 4,
        times: [5, 6, 7, 8],
    };
    let bytes = packet.to_bytes();
    // The bytes that science-synapse 2.8.4 makes of it.
    let expected = b"\x0d\x03\0\0\0\x15\x04\0\0\0\x19\x05\0\0\0\0\0\0\0\x21\x06\0\0\0\0\0\0\0\x29\x07\0\0\0\0\0\0\0\x31\x08\0\0\0\0\0\0\0";
    assert_eq!(bytes, expected);
    assert_eq!(TimePacket::read(&bytes), Some(packet));
    for cut in 0..bytes.len() {
        assert_ne!(TimePacket::read(&bytes[..cut]), Some(packet), "{cut}");
    }
    let mut scramble = Scramble(8);
    for k in 0..1000 * effort() {
        let _ = TimePacket::read(&scramble.bytes(k % 60));
    }
}
