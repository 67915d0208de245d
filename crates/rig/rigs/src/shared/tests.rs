//! Rows in shared memory.

use betz_base::Result;

use super::SharedRig;
use crate::rig::Rig;
use crate::rig::emulate::{Emulator, SharedWriter};
use crate::rig::tests::*;

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
