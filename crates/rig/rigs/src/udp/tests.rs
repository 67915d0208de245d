//! Rows in plain datagrams.

use std::time::Duration;

use betz_base::Result;

use crate::rig::emulate::{Emulator, FrameSender, Sender};
use crate::rig::tests::*;
use crate::rig::{Arrival, Block, FrameRig, LossReport, Rig};

fn pair(channels: usize) -> Result<(FrameRig, FrameSender)> {
    let rig = FrameRig::bind("127.0.0.1:0", None, None)?;
    let sender = FrameSender::new(&rig.address()?.to_string(), channels, 30_000.0)?;
    Ok((rig, sender))
}

#[test]
fn rows_in_datagrams_come_as_sent_and_losses_are_exact() -> Result<()> {
    for channels in [1, 96, 1024] {
        let (mut rig, mut sender) = pair(channels)?;
        let (mut scramble, mut lost) = (Scramble(channels as u64), 0);
        for k in 0..58 {
            let rows = 1 + scramble.next(45);
            let first = sender.next_row();
            if k % 7 == 3 {
                lost += rows as u64;
                sender.lose(rows as u64)?;
                continue;
            }
            sender.send(&voltage(first, rows, channels))?;
            let found = take_rows(&mut rig, first + rows as u64)?;
            assert_eq!(found.0, rows as u64);
        }
        let counts = rig.counts();
        assert_eq!((counts.lost, counts.rows), (lost, sender.next_row() - lost));
        assert_eq!(
            (
                counts.late,
                counts.duplicates,
                counts.malformed,
                counts.restarts
            ),
            (0, 0, 0, 0)
        );
        let signal = rig.signal().map(|s| (s.channels, s.rate));
        assert_eq!(signal, Some((channels, 30_000.0)));
        assert_eq!(rig.loss_report(), LossReport::Exact);
    }
    Ok(())
}

#[test]
fn late_repeated_and_restarted_rows_are_told_apart() -> Result<()> {
    let (rig, mut sender) = pair(4)?;
    // Nothing waits for what it has overtaken.
    let mut rig = rig.reordering(Duration::ZERO);
    for k in [0, 1, 3, 2, 3, 0, 4] {
        sender.send_at(10 * k, &voltage(10 * k, 10, 4))?;
    }
    assert_eq!(take_rows(&mut rig, 50)?, (50, 10));
    let counts = rig.counts();
    assert_eq!((counts.lost, counts.late, counts.duplicates), (0, 1, 2));
    sender.send_at(50, &voltage(50, 950, 4))?;
    assert_eq!(take_rows(&mut rig, 1000)?, (950, 0));
    // A sender that begins again, or jumps by more than ten seconds, loses no row.
    sender.restart()?;
    for _ in 0..9 {
        sender.send(&voltage(sender.next_row(), 10, 4))?;
    }
    assert_eq!(take_rows(&mut rig, 90)?, (90, 0));
    sender.lose(400_000)?;
    let first = sender.next_row();
    for _ in 0..2 {
        sender.send(&voltage(sender.next_row(), 10, 4))?;
    }
    assert_eq!(take_rows(&mut rig, first + 20)?, (20, 0));
    assert_eq!((rig.counts().restarts, rig.counts().lost), (2, 0));
    Ok(())
}

#[test]
fn datagrams_that_were_overtaken_are_put_in_order() -> Result<()> {
    let (rig, mut sender) = pair(4)?;
    let mut rig = rig.reordering(Duration::from_secs(60));
    for k in [0, 1, 3, 2, 4, 7, 6, 5, 8] {
        sender.send_at(10 * k, &voltage(10 * k, 10, 4))?;
    }
    assert_eq!(take_rows(&mut rig, 90)?, (90, 0));
    let counts = rig.counts();
    assert_eq!((counts.lost, counts.late, counts.duplicates), (0, 0, 0));
    Ok(())
}

#[test]
fn damaged_datagrams_are_counted_and_change_nothing() -> Result<()> {
    let (mut rig, mut sender) = pair(6)?;
    let raw = Sender::new(&rig.address()?.to_string())?;
    sender.send(&voltage(0, 5, 6))?;
    assert_eq!(take_rows(&mut rig, 5)?, (5, 0));
    let whole = sender.datagram(5, &voltage(5, 5, 6)).to_vec();
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|cut| whole[..cut].to_vec()).collect();
    // Cuts between two rows are whole datagrams of fewer rows.
    damaged.retain(|d| d.len() <= 32 || (d.len() - 32) % 12 != 0);
    // Magic, version, content, channels and rate.
    for at in [0, 3, 4, 5, 6, 7, 28, 31] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x11;
        damaged.push(bytes);
    }
    let mut scramble = Scramble(5);
    damaged.extend((0..1000 * effort()).map(|k| scramble.bytes(k % 200)));
    let (mut block, sent) = (Block::new(), damaged.len() as u64);
    for bytes in &damaged {
        raw.send(bytes)?;
        assert_eq!(rig.take(&mut block, PATIENCE)?, Arrival::Nothing);
    }
    sender.send_at(5, &voltage(5, 5, 6))?;
    assert_eq!(take_rows(&mut rig, 10)?, (5, 0));
    assert_eq!(rig.counts().malformed, sent);
    Ok(())
}

#[test]
fn settings_that_nothing_fits_are_an_error() -> Result<()> {
    for (channels, rate, expected) in [
        (Some(8), None, "expected rows of 8 channels, got 4"),
        (
            None,
            Some(0.0),
            "expected the rate in each datagram or as rate=HZ, got neither",
        ),
    ] {
        let mut rig = FrameRig::bind("127.0.0.1:0", channels, None)?;
        let rate = rate.unwrap_or(30_000.0);
        let mut sender = FrameSender::new(&rig.address()?.to_string(), 4, rate)?;
        let (mut block, mut answers) = (Block::new(), Vec::new());
        for _ in 0..8 {
            sender.send(&voltage(sender.next_row(), 2, 4))?;
            answers.push(rig.take(&mut block, PATIENCE));
        }
        let Some(Err(error)) = answers.pop() else {
            panic!("expected an error");
        };
        assert!(error.to_string().contains(expected), "{error}");
        assert!(answers.iter().all(Result::is_ok));
    }
    Ok(())
}

#[test]
fn a_full_buffer_loses_rows_that_are_counted_here_and_by_the_system() -> Result<()> {
    let (rig, mut sender) = pair(100)?;
    let mut rig = rig.with_buffer(1 << 16);
    let granted = rig.socket_buffer().unwrap_or(0);
    for _ in 0..200 {
        sender.send(&voltage(sender.next_row(), 10, 100))?;
    }
    let (mut block, mut received) = (Block::new(), 0);
    while rig.take(&mut block, Duration::from_millis(1))? == Arrival::Block {
        received += block.rows as u64;
    }
    sender.send(&voltage(sender.next_row(), 10, 100))?;
    let (last, lost) = take_rows(&mut rig, sender.next_row())?;
    assert_eq!(received + last + lost, 2010);
    if granted > 0 {
        assert!(
            lost > 0 && granted < 1 << 18,
            "{lost} lost of a buffer of {granted}"
        );
        assert_eq!(rig.counts().dropped_by_host, lost / 10);
    }
    Ok(())
}
