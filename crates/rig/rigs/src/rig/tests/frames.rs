//! Rows in plain datagrams, and in shared memory.

use betz_base::Result;

use super::*;
use crate::rig::emulate::{Emulator, FrameSender, Sender};
use crate::rig::{FrameRig, LossReport};

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

#[cfg(target_os = "linux")]
mod shared {
    use super::*;
    use crate::rig::SharedRig;
    use crate::rig::emulate::SharedWriter;

    fn pair(test: &str, room: u64) -> Result<(SharedRig, SharedWriter)> {
        let name = format!("betz-test-{test}-{}", std::process::id());
        let writer = SharedWriter::create(&name, 5, 30_000.0, 0.5, room)?;
        Ok((SharedRig::open(&name)?, writer))
    }

    #[test]
    fn rows_come_as_written_and_overwritten_ones_are_lost_to_the_row() -> Result<()> {
        let (mut rig, mut writer) = pair("rows", 256)?;
        let facts = rig.signal().map(|s| (s.channels, s.rate, s.microvolts));
        assert_eq!(facts, Some((5, 30_000.0, Some(0.5))));
        let mut scramble = Scramble(1);
        for _ in 0..100 {
            let rows = 1 + scramble.next(224);
            writer.send(&voltage(writer.next_row(), rows, 5))?;
            assert_eq!(take_rows(&mut rig, writer.next_row())?, (rows as u64, 0));
        }
        // Seven eighths of the room are safe from the writer.
        for rows in [225, 256, 1000] {
            writer.send(&voltage(writer.next_row(), rows, 5))?;
            assert_eq!(
                take_rows(&mut rig, writer.next_row())?,
                (224, rows as u64 - 224)
            );
        }
        writer.restart()?;
        writer.send(&voltage(0, 7, 5))?;
        assert_eq!(take_rows(&mut rig, 7)?, (7, 0));
        assert_eq!(
            (rig.counts().restarts, rig.counts().lost),
            (1, 1 + 32 + 776)
        );
        Ok(())
    }

    #[test]
    fn a_writer_beside_a_reader_never_shows_a_torn_row() -> Result<()> {
        let (mut rig, mut writer) = pair("torn", 64)?;
        let all = 40_000;
        let writing = std::thread::spawn(move || -> Result<SharedWriter> {
            while writer.next_row() < all {
                writer.send(&voltage(writer.next_row(), 8, 5))?;
            }
            Ok(writer)
        });
        let (received, lost) = take_rows(&mut rig, all)?;
        drop(writing.join());
        assert_eq!(received + lost, all);
        assert_eq!(rig.counts().lost, lost);
        Ok(())
    }

    #[test]
    fn memory_of_another_layout_is_refused() -> Result<()> {
        let (_, writer) = pair("layout", 64)?;
        for (at, bytes) in [
            (0, &b"BETZSHM2"[..]),
            (8, &[0; 4]),
            (16, &[0xff; 8]),
            (32, &[65]),
            (32, &[0, 0, 0, 1]),
        ] {
            let before = writer.overwrite(at, bytes)?;
            assert!(SharedRig::open(writer.name()).is_err(), "{at}");
            writer.overwrite(at, &before)?;
        }
        SharedRig::open(writer.name()).map(drop)
    }
}
