//! Waveforms and spikes of an emulated Intan RHX.

use std::time::{Duration, Instant};

use betz_base::Result;

use super::channel_names;
use crate::rig::emulate::{Emulator, FREE_PORT, RhxServer};
use crate::rig::tests::*;
use crate::rig::{Arrival, Block, LossReport, Rig, RigSpike, Samples, open_rig};

/// A connected pair, whose rig is opened with `query` besides.
fn pair(channels: usize, query: &str) -> Result<(Box<dyn Rig>, RhxServer)> {
    let server = RhxServer::open(FREE_PORT, channels, 30_000.0)?;
    let mut rig = open_rig(&format!("{}{query}", server.address()))?;
    while !server.is_connected() {
        rig.take(&mut Block::new(), Duration::from_millis(5))?;
    }
    Ok((rig, server))
}

/// Waits until the server has obeyed `count` commands: it reads them on a thread of its own, after the rig was served.
fn wait_for_commands(server: &RhxServer, count: usize) {
    let start = Instant::now();
    while server.commands().len() < count && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends whole blocks; the rig gives the last one when the number of the one after it has come, at the beginning.
fn send(server: &mut RhxServer, blocks: usize, channels: usize) -> Result<u64> {
    for _ in 0..blocks {
        server.send(&voltage(server.next_row(), 128, channels))?;
    }
    Ok(server.next_row())
}

#[test]
fn rows_come_as_sent_in_any_pieces_and_losses_are_exact() -> Result<()> {
    for (channels, piece) in [(128, usize::MAX), (1, 1), (3, 100), (7, 129)] {
        let (mut rig, mut server) = pair(channels, "")?;
        server.set_piece(piece);
        let until = send(&mut server, 2, channels)?;
        assert_eq!(take_rows(&mut *rig, until)?, (256, 0));
        let mut lost = 0;
        for k in 1..6_u64 {
            server.lose(k * 77)?;
            lost += k * 77;
            let until = send(&mut server, 2, channels)?;
            assert_eq!(take_rows(&mut *rig, until)?, (256, k * 77));
        }
        // A controller whose memory overflowed within a block.
        server.send(&voltage(server.next_row(), 50, channels))?;
        server.lose(500)?;
        server.send(&voltage(server.next_row(), 78, channels))?;
        assert_eq!(take_rows(&mut *rig, server.next_row())?, (128, 500));
        let counts = rig.counts();
        assert_eq!((counts.lost, counts.rows), (lost + 500, 256 * 6 + 128));
        assert_eq!(
            (counts.malformed, counts.restarts, counts.reconnects),
            (0, 0, 0)
        );
        let signal = rig.signal().map(|s| (s.channels, s.rate, s.microvolts));
        assert_eq!(signal, Some((channels, 30_000.0, Some(0.195))));
        // Nothing was asked for, so that nothing is changed.
        wait_for_commands(&server, 1);
        assert_eq!(server.commands(), ["execute ConnectTCPWaveformDataOutput"]);
        assert!(!server.is_running());
    }
    Ok(())
}

#[test]
fn named_channels_are_enabled_and_the_controller_is_started() -> Result<()> {
    let (mut rig, mut server) = pair(4, "&enable=A-001..A-003,B-000&blocks=2&band=high")?;
    let until = send(&mut server, 3, 4)?;
    take_rows(&mut *rig, until)?;
    let expected = [
        "execute ClearAllDataOutputs",
        "set TCPNumberDataBlocksPerWrite 2",
        "set A-001.TCPDataOutputEnabledHigh true",
        "set A-002.TCPDataOutputEnabledHigh true",
        "set A-003.TCPDataOutputEnabledHigh true",
        "set B-000.TCPDataOutputEnabledHigh true",
        "execute ConnectTCPWaveformDataOutput",
        "set runmode run",
    ];
    wait_for_commands(&server, expected.len());
    assert_eq!(server.commands(), expected);
    assert!(server.is_running());
    // More channels than come.
    let (mut rig, mut server) = pair(2, "&enable=A-000..A-003")?;
    send(&mut server, 3, 2)?;
    let error = rig
        .take(&mut Block::new(), PATIENCE)
        .err()
        .map(|e| e.to_string());
    let error = error.unwrap_or_default();
    assert!(
        error.contains("expected 4 signals in a sample, got 2"),
        "{error}"
    );
    Ok(())
}

#[test]
fn spikes_come_as_sent_and_other_bytes_are_counted() -> Result<()> {
    let (mut rig, mut server) = pair(2, "&enable=A-000..A-127,B-000&band=spikes")?;
    let mut sent = Vec::new();
    for k in 0..60_u32 {
        let unit = [0, 1, 2, 3, 4, 255][k as usize % 6];
        let spike = RigSpike {
            tick: u64::from(k * 31),
            channel: (k * 5) % 129,
            unit,
        };
        server.spike(spike)?;
        sent.push(spike);
    }
    // A channel that was not enabled.
    server.spike(RigSpike {
        tick: 5,
        channel: 200,
        unit: 0,
    })?;
    let (mut block, mut found) = (Block::new(), Vec::new());
    while found.len() < sent.len() || rig.counts().malformed == 0 {
        if rig.take(&mut block, Duration::from_millis(20))? == Arrival::Block
            && let Samples::Spikes(spikes) = &block.samples
        {
            found.extend(spikes.iter().copied());
        }
    }
    assert_eq!(found, sent);
    assert_eq!(
        (rig.loss_report(), rig.counts().malformed),
        (LossReport::Unknown, 1)
    );
    let error = open_rig("rhx://127.0.0.1:1?band=spikes")
        .err()
        .map(|e| e.to_string());
    assert!(error.unwrap_or_default().contains("expected enable="));
    Ok(())
}

#[test]
fn damage_is_counted_and_rows_are_found_again_within_two_blocks() -> Result<()> {
    let (mut rig, mut server) = pair(5, "")?;
    let until = send(&mut server, 2, 5)?;
    take_rows(&mut *rig, until)?;
    let mut scramble = Scramble(11);
    for k in 0..50 {
        let bytes = scramble.bytes(1 + 37 * k);
        server.send_bytes(&bytes)?;
        let until = send(&mut server, 3, 5)?;
        let (received, lost) = take_rows(&mut *rig, until)?;
        assert!(
            received >= 128 && received + lost == 384,
            "{k}: {received} and {lost}"
        );
    }
    assert_eq!(rig.counts().malformed, 50);
    // The controller begins anew, and then RHX is closed and opened.
    server.restart()?;
    let until = send(&mut server, 2, 5)?;
    assert_eq!(take_rows(&mut *rig, until)?, (256, 0));
    server.disconnect();
    while !server.is_connected() {
        rig.take(&mut Block::new(), Duration::from_millis(5))?;
    }
    let until = send(&mut server, 2, 5)?;
    assert_eq!(take_rows(&mut *rig, until)?, (256, 0));
    assert_eq!((rig.counts().restarts, rig.counts().reconnects), (1, 1));
    Ok(())
}

#[test]
fn numbers_of_32_bits_go_round() -> Result<()> {
    let (mut rig, mut server) = pair(1, "")?;
    server.lose(u64::from(u32::MAX) - 127)?;
    let zeros = vec![0; 128];
    for _ in 0..4 {
        server.send(&zeros)?;
    }
    let (mut block, mut firsts) = (Block::new(), Vec::new());
    while firsts.len() < 4 {
        if rig.take(&mut block, PATIENCE)? == Arrival::Block {
            firsts.push(block.first);
        }
    }
    let begin = u64::from(u32::MAX) - 127;
    assert_eq!(firsts, [begin, begin + 128, begin + 256, begin + 384]);
    assert_eq!((rig.counts().lost, rig.counts().restarts), (0, 0));
    Ok(())
}

#[test]
fn names_of_channels_are_lists_and_ranges() {
    let names = channel_names("A-000..A-002,C-031").unwrap_or_default();
    assert_eq!(names, ["A-000", "A-001", "A-002", "C-031"]);
    for list in [
        "",
        "A",
        "A-1",
        "A-000..",
        "A-002..A-001",
        "A-000..B-001",
        "a-000",
        "A-0000",
        "AB-00",
    ] {
        assert!(channel_names(list).is_err(), "{list}");
    }
}
