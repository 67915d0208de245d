//! A stream of an emulated SpikeGLX.

use std::time::Duration;

use betz_base::Result;

use crate::rig::emulate::{Emulator, FREE_PORT, SpikeGlxServer};
use crate::rig::tests::*;
use crate::rig::{Arrival, Block, Rig, open_rig};

fn pair(channels: usize, room: usize) -> Result<(Box<dyn Rig>, SpikeGlxServer)> {
    let server = SpikeGlxServer::open(FREE_PORT, channels, 30_000.0, 2.34375, room)?;
    let mut rig = open_rig(&format!("spikeglx://{}?js=2&ip=0", server.address()))?;
    // Begins at the newest row.
    while rig.probe().is_none() {
        rig.take(&mut Block::new(), Duration::from_millis(10))?;
    }
    Ok((rig, server))
}

fn send(server: &mut SpikeGlxServer, rows: usize, channels: usize) -> Result<u64> {
    server.send(&voltage(server.next_row(), rows, channels))?;
    Ok(server.next_row())
}

#[test]
fn rows_come_as_sent_in_any_pieces() -> Result<()> {
    for (channels, piece, rounds) in [(384, usize::MAX, 20), (3, 1, 2), (16, 7, 4)] {
        let (mut rig, mut server) = pair(channels, 3000)?;
        server.set_piece(piece);
        for k in 0..rounds {
            let until = send(&mut server, 1 + 97 * k % 400, channels)?;
            take_rows(&mut *rig, until)?;
        }
        let signal = rig.signal().map(|s| (s.channels, s.rate, s.microvolts));
        assert_eq!(signal, Some((channels, 30_000.0, Some(2.34375))));
        let counts = rig.counts();
        assert_eq!((counts.rows, counts.lost), (server.next_row() - 1, 0));
        assert_eq!(
            (counts.malformed, counts.reconnects, counts.restarts),
            (0, 0, 0)
        );
    }
    Ok(())
}

#[test]
fn rows_that_left_the_servers_memory_are_lost_to_the_row() -> Result<()> {
    let (mut rig, mut server) = pair(4, 500)?;
    let until = send(&mut server, 100, 4)?;
    assert_eq!(take_rows(&mut *rig, until)?, (100, 0));
    server.lose(1234)?;
    // The rig goes on at the newest row, which it asks for.
    for _ in 0..20 {
        rig.take(&mut Block::new(), Duration::from_millis(5))?;
    }
    let until = send(&mut server, 300, 4)?;
    assert_eq!(take_rows(&mut *rig, until)?, (300, 1234));
    assert_eq!((rig.counts().lost, rig.counts().restarts), (1234, 0));
    Ok(())
}

#[test]
fn another_run_is_another_epoch() -> Result<()> {
    let (mut rig, mut server) = pair(4, 5000)?;
    let until = send(&mut server, 1000, 4)?;
    take_rows(&mut *rig, until)?;
    server.restart()?;
    let mut block = Block::new();
    while rig.counts().restarts == 0 {
        rig.take(&mut block, Duration::from_millis(20))?;
    }
    send(&mut server, 50, 4)?;
    while rig.take(&mut block, PATIENCE)? != Arrival::Block {}
    assert_eq!(
        (block.epoch, rig.counts().restarts, rig.counts().lost),
        (1, 1, 0)
    );
    Ok(())
}

#[test]
fn damaged_replies_are_counted_and_asked_for_again() -> Result<()> {
    let (mut rig, mut server) = pair(8, 5000)?;
    server.damage(3);
    let until = send(&mut server, 900, 8)?;
    assert_eq!(take_rows(&mut *rig, until)?, (900, 0));
    let counts = rig.counts();
    assert_eq!((counts.malformed, counts.reconnects), (3, 3));
    Ok(())
}

#[test]
fn a_stream_that_does_not_exist_is_an_error_in_the_servers_words() -> Result<()> {
    let server = SpikeGlxServer::open(FREE_PORT, 4, 30_000.0, 1.0, 10)?;
    for (query, expected) in [
        (
            "js=2&ip=3",
            "js=2&ip=3, the server says: ERROR GETSTREAMSAMPLERATE",
        ),
        ("channels=9", "9 channels asked for, of 4"),
    ] {
        let mut rig = open_rig(&format!("spikeglx://{}?{query}", server.address()))?;
        let error = rig
            .take(&mut Block::new(), PATIENCE)
            .err()
            .map(|e| e.to_string());
        assert!(
            error.clone().unwrap_or_default().contains(expected),
            "{error:?}"
        );
    }
    assert!(open_rig("spikeglx://127.0.0.1:1?js=7").is_err());
    Ok(())
}

#[test]
fn what_answers_at_random_is_left_and_counted() -> Result<()> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0");
    let listener = listener.map_err(|e| betz_base::Error::argument(e.to_string()))?;
    let place = listener
        .local_addr()
        .map_err(|e| betz_base::Error::argument(e.to_string()))?;
    std::thread::spawn(move || {
        let mut scramble = Scramble(3);
        for stream in listener.incoming().flatten() {
            use std::io::Write;
            let mut bytes = scramble.bytes(20_000);
            // No end of a line at all.
            bytes
                .iter_mut()
                .filter(|b| **b == b'\n')
                .for_each(|b| *b = 1);
            let _ = (&stream).write_all(&bytes);
        }
    });
    let mut rig = open_rig(&format!("spikeglx://{place}"))?;
    while rig.counts().malformed < 2 {
        assert_eq!(
            rig.take(&mut Block::new(), Duration::from_millis(50))?,
            Arrival::Nothing
        );
    }
    Ok(())
}
