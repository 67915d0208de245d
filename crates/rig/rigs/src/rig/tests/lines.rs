//! Digital lines: changes come at the rows at which they were made.

use std::time::Duration;

use betz_base::Result;

use super::{PATIENCE, Scramble, take_rows, voltage};
use crate::cerebus::Protocol;
use crate::rig::emulate::{CerebusDevice, Emulator, FREE_PORT, OpenEphysPublisher, SpikeGlxServer};
use crate::rig::{
    Arrival, Block, CerebusRig, Group, LineEdge, OpenEphysRig, Rig, Samples, SpikeGlxRig,
    SpikeGlxStream,
};

const CHANNELS: usize = 4;

/// Sends rows with changes of two lines between them; returns the changes, by rows.
fn send_with_edges(device: &mut dyn Emulator) -> Result<Vec<LineEdge>> {
    let mut scramble = Scramble(7);
    let mut sent = Vec::new();
    let mut states = [false; 2];
    for _ in 0..40 {
        let rows = 1 + scramble.next(90);
        device.send(&voltage(device.next_row(), rows, CHANNELS))?;
        let at = scramble.next(2);
        states[at] = !states[at];
        let edge = LineEdge {
            epoch: 0,
            row: device.next_row(),
            line: [3, 7][at],
            is_up: states[at],
        };
        device.edge(edge.line, edge.is_up)?;
        sent.push(edge);
    }
    device.send(&voltage(device.next_row(), 600, CHANNELS))?;
    Ok(sent)
}

fn edges(rig: &mut dyn Rig) -> Vec<LineEdge> {
    let mut edges = Vec::new();
    rig.take_edges(&mut edges);
    edges
}

#[test]
fn lines_of_open_ephys_change_at_their_samples() -> Result<()> {
    let mut device =
        OpenEphysPublisher::bind(FREE_PORT, CHANNELS, 30_000.0, 0.195)?.with_blocks(60);
    let mut rig = OpenEphysRig::voltage(&device.address().to_string(), CHANNELS, None)?;
    while !device.is_connected() {
        rig.take(&mut Block::new(), Duration::from_millis(10))?;
    }
    let sent = send_with_edges(&mut device)?;
    take_rows(&mut rig, device.next_row() - 120)?;
    assert_eq!(edges(&mut rig), sent);
    assert_eq!(rig.counts().malformed, 0);
    // A body that is cut short is damaged, and other events are none.
    let header = |kind: u8| {
        format!(
            r#"{{"message_num": 9999999, "type": "event", "content": {{"type": {kind}, "sample_num": 5}}, "data_size": 1}}"#
        )
    };
    device.publish(&[b"EVENT\0", header(3).as_bytes(), &[1]])?;
    device.publish(&[b"EVENT\0", header(5).as_bytes(), &[1, 1]])?;
    while rig.counts().malformed == 0 {
        rig.take(&mut Block::new(), Duration::from_millis(10))?;
    }
    rig.take(&mut Block::new(), Duration::from_millis(10))?;
    assert_eq!((rig.counts().malformed, edges(&mut rig).len()), (1, 0));
    Ok(())
}

#[test]
fn lines_of_a_probe_change_at_their_rows() -> Result<()> {
    let mut device = SpikeGlxServer::open(FREE_PORT, CHANNELS, 30_000.0, 2.34375, 100_000)?;
    let stream = SpikeGlxStream { kind: 2, index: 0 };
    let mut rig = SpikeGlxRig::new(&device.address().to_string(), stream, None)?.with_lines();
    device.send(&voltage(device.next_row(), 30, CHANNELS))?;
    let mut block = Block::new();
    // The reader begins at the newest row.
    for _ in 0..100 {
        if rig.signal().is_some() {
            break;
        }
        rig.take(&mut block, Duration::from_millis(10))?;
    }
    rig.take(&mut block, Duration::from_millis(10))?;
    let sent = send_with_edges(&mut device)?;
    take_rows(&mut rig, device.next_row())?;
    assert_eq!(edges(&mut rig), sent);
    assert_eq!(rig.signal().map(|s| s.channels), Some(CHANNELS));
    Ok(())
}

/// A rig of `device`'s NI stream that has begun at its newest row.
fn ni_rig(device: &mut SpikeGlxServer, channels: usize) -> Result<SpikeGlxRig> {
    let stream = SpikeGlxStream { kind: 0, index: 0 };
    let mut rig = SpikeGlxRig::new(&device.address().to_string(), stream, None)?.with_lines();
    device.send(&voltage(device.next_row(), 30, channels))?;
    let mut block = Block::new();
    while rig.signal().is_none() {
        rig.take(&mut block, Duration::from_millis(10))?;
    }
    rig.take(&mut block, Duration::from_millis(10))?;
    Ok(rig)
}

#[test]
fn lines_of_all_words_of_a_ni_device_change_at_their_rows() -> Result<()> {
    for words in 1..=4_u8 {
        let mut device =
            SpikeGlxServer::open_ni(FREE_PORT, CHANNELS, words.into(), 25_000.0, 152.6, 100_000)?;
        let mut rig = ni_rig(&mut device, CHANNELS)?;
        let mut sent = Vec::new();
        for number in 0..40_u8 {
            device.send(&voltage(
                device.next_row(),
                1 + 7 * number as usize,
                CHANNELS,
            ))?;
            // Lines of every word, its first and its last among them, each up and then down.
            let line = [1, 16, 9][usize::from(number / 2 % 3)] + 16 * (number / 6 % words);
            let is_up = number % 2 == 0;
            device.edge(line, is_up)?;
            sent.push(LineEdge {
                epoch: 0,
                row: device.next_row(),
                line,
                is_up,
            });
        }
        // A line that the device does not have.
        device.edge(16 * words + 1, true)?;
        device.send(&voltage(device.next_row(), 30, CHANNELS))?;
        take_rows(&mut rig, device.next_row())?;
        assert_eq!(edges(&mut rig), sent, "{words} words");
        assert_eq!(rig.signal().map(|s| s.channels), Some(CHANNELS));
        assert_eq!(rig.counts().malformed, 0);
    }
    Ok(())
}

#[test]
fn a_ni_device_without_analogue_inputs_gives_its_words() -> Result<()> {
    let mut device = SpikeGlxServer::open_ni(FREE_PORT, 1, 2, 25_000.0, 152.6, 100_000)?;
    device.hide_channels();
    let mut rig = ni_rig(&mut device, 1)?;
    device.send(&voltage(device.next_row(), 10, 1))?;
    device.edge(3, true)?;
    device.edge(32, true)?;
    device.send(&voltage(device.next_row(), 20, 1))?;
    let row = device.next_row();
    device.edge(3, false)?;
    device.send(&voltage(row, 5, 1))?;
    let mut words = Vec::new();
    let mut block = Block::new();
    while block.first + block.rows as u64 != row + 5 {
        if rig.take(&mut block, PATIENCE)? == Arrival::Block {
            let Samples::Voltage(values) = &block.samples else {
                panic!("expected words, got {:?}", block.samples);
            };
            words.extend_from_slice(values);
        }
    }
    let expected = [[4, i16::MIN], [0, i16::MIN]];
    let of_rows = [expected[0]; 20].into_iter().chain([expected[1]; 5]);
    let expected: Vec<i16> = of_rows.flatten().collect();
    assert!(words.ends_with(&expected), "{words:?}");
    let changes: Vec<_> = (edges(&mut rig).iter())
        .map(|edge| (edge.row, edge.line, edge.is_up))
        .collect();
    let before = row - 20;
    assert_eq!(
        changes,
        [(before, 3, true), (before, 32, true), (row, 3, false)]
    );
    assert_eq!(
        rig.signal().map(|s| (s.channels, s.rate)),
        Some((2, 25_000.0))
    );
    Ok(())
}

#[test]
fn lines_of_cerebus_change_at_the_times_of_their_packets() -> Result<()> {
    for (protocol, gemini) in [
        (Protocol::V311, false),
        (Protocol::V40, false),
        (Protocol::V41, true),
    ] {
        let mut rig = CerebusRig::bind(
            "127.0.0.1:0",
            Some(protocol),
            Group::Samples(5),
            Some(CHANNELS),
        )?
        .with_buffer(8 << 20);
        let to = rig.address()?.to_string();
        let mut device = CerebusDevice::new(&to, protocol, gemini, 5, CHANNELS)?;
        rig = rig.with_digital(device.digital_channel());
        device.describe()?;
        device.send(&voltage(0, 30, CHANNELS))?;
        let sent = send_with_edges(&mut device)?;
        take_rows(&mut rig, device.next_row())?;
        assert_eq!(edges(&mut rig), sent, "{protocol:?}");
        // Its packets are no spikes.
        let mut spikes = CerebusRig::bind("127.0.0.1:0", Some(protocol), Group::Spikes, Some(99))?
            .with_digital(5);
        let to = spikes.address()?.to_string();
        let mut device = CerebusDevice::new(&to, protocol, gemini, 5, CHANNELS)?;
        device.describe()?;
        device.send(&voltage(0, 600, CHANNELS))?;
        device.edge(1, true)?;
        let mut found = Vec::new();
        while found.is_empty() {
            let taken = spikes.take(&mut Block::new(), PATIENCE)?;
            assert_ne!(taken, Arrival::Block);
            found = edges(&mut spikes);
        }
        assert_eq!((found[0].line, found[0].is_up, found.len()), (1, true, 1));
    }
    Ok(())
}

/// The requests of pycbsdk 0.4.1 when it connects, and the answers that it needs.
#[test]
fn a_cerebus_device_answers_the_handshake() -> Result<()> {
    let client = std::net::UdpSocket::bind("127.0.0.1:0")
        .map_err(|e| betz_base::Error::new(betz_base::ErrorKind::Io, format!("binding: {e}")))?;
    let to = client.local_addr().map(|a| a.to_string());
    let to = to.unwrap_or_default();
    let mut device = CerebusDevice::new(&to, Protocol::V41, true, 6, 3)?.bound_to("127.0.0.1:0")?;
    let address = device.address()?;
    let request = |kind: u16, body: &[u8]| {
        let mut bytes = 1_u64.to_le_bytes().to_vec();
        bytes.extend(0x8000_u16.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(((body.len() / 4) as u16).to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(body);
        client.send_to(&bytes, address).map(drop)
    };
    let answers = |device: &mut CerebusDevice| -> Vec<(u16, Vec<u8>)> {
        let mut all = Vec::new();
        let mut bytes = vec![0; 1 << 16];
        while all.is_empty() {
            assert_eq!(device.answer(true).ok(), Some(0));
            let _ = client.set_nonblocking(true);
            while let Ok(length) = client.recv(&mut bytes) {
                let mut rest = &bytes[..length];
                while let Some((packet, taken)) = Protocol::V41.first(rest) {
                    all.push((packet.kind, rest[16..taken].to_vec()));
                    rest = &rest[taken..];
                }
            }
        }
        all
    };
    let mut level = vec![0; 24];
    level[16] = 50;
    assert!(request(0x92, &level).is_ok());
    let told = answers(&mut device);
    assert!(
        told.iter()
            .all(|(kind, body)| (*kind, body[16]) == (0x12, 50))
    );
    assert!(request(0x88, &[]).is_ok());
    let mut told = Vec::new();
    while told.last().is_none_or(|(kind, _)| *kind != 0x10) {
        told.extend(answers(&mut device));
    }
    let kinds: Vec<u16> = told.iter().map(|(kind, _)| *kind).collect();
    let expected = [
        0x08, 0x21, 0x30, 0x30, 0x30, 0x30, 0x30, 0x30, 0x40, 0x40, 0x40, 0x40, 0x10,
    ];
    assert_eq!(kinds, expected);
    // Channels that the processor says it has, and those of the group.
    assert_eq!((told[1].1[76], &told[1].1[108..]), (4, &[1, 0, 4, 0][..]));
    assert_eq!((told[7].1[4], told[7].1[28], told[7].1[32]), (6, 3, 1));
    assert!(told[8].1.len() == 664 && told[8].1[168..].starts_with(b"elec1"));
    // A request of another length, or of nothing, is no reason to stop.
    assert!(request(0x92, &[]).is_ok() && request(0xc8, &[]).is_ok());
    assert!(request(0xc8, &[2, 0, 0, 0]).is_ok());
    assert_eq!(answers(&mut device)[0].0, 0x48);
    Ok(())
}
