//! Datagrams over the loopback: whole, short, out of order, twice, never.

use std::net::UdpSocket;
use std::time::Duration;

use betz_rigs::bus::{
    Content, Estimate, Frame, Reception, Sink, Source, Stream, open_sink, open_source,
};
use betz_rigs::cerebus::{CerebusSource, Protocol};
use betz_rigs::udp::{UdpSink, UdpSource};

/// Long enough that it never ends a wait for what was sent before.
const PATIENCE: Duration = Duration::from_secs(20);

fn datagram(kind: u8, sequence: u64, entries: u16, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"BETZ\x01".to_vec();
    bytes.push(kind);
    bytes.extend(entries.to_le_bytes());
    bytes.extend(sequence.to_le_bytes());
    bytes.extend((sequence as i64 * 10).to_le_bytes());
    bytes.extend([0; 8]);
    bytes.extend(body);
    bytes
}

fn counts(sequence: u64) -> Vec<u8> {
    datagram(1, sequence, 2, &[sequence as u8, 0, 7, 1])
}

#[test]
fn what_goes_wrong_with_datagrams_is_counted() {
    let mut source = UdpSource::bind("127.0.0.1:0", 2).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = source.address().unwrap();
    let send = |bytes: &[u8]| socket.send_to(bytes, to).unwrap();
    let mut sent = 0;
    // 3 never comes, 5 comes late, 6 twice.
    for sequence in [1, 2, 4, 6, 5, 6, 7] {
        send(&counts(sequence));
        sent += 1;
    }
    let whole = counts(8);
    let nan = datagram(2, 8, 2, &[0, 0, 192, 127, 0, 0, 0, 0]);
    let wrong: [&[u8]; 7] = [
        &[],
        &whole[..31],
        &whole[..35],
        &[&whole[..], &[0]].concat(),
        &datagram(1, 8, 3, &[0; 6]), // another number of channels
        &datagram(9, 8, 2, &[0; 4]),
        &nan,
    ];
    for bytes in wrong {
        send(bytes);
        sent += 1;
    }
    send(&datagram(3, 8, 3, &[1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0]));
    send(&datagram(2, 9, 2, &[0, 0, 128, 63, 0, 0, 0, 191]));
    let mut frame = Frame::new(2);
    let mut got = Vec::new();
    while source.counts().messages < sent + 2 {
        if source.take(&mut frame, PATIENCE).unwrap() == Reception::Step {
            assert_eq!(frame.sent, frame.sequence as i64 * 10);
            got.push((frame.sequence, frame.skipped));
            match frame.sequence {
                8 => assert_eq!(frame.spikes, [1, 0, 9]),
                9 => assert_eq!(
                    (frame.content, &frame.features[..]),
                    (Content::Features, &[1.0, -0.5][..])
                ),
                n => assert_eq!(frame.counts, [n as u16, 263]),
            }
        }
    }
    assert_eq!(
        got,
        [(1, 0), (2, 0), (4, 1), (6, 1), (7, 0), (8, 0), (9, 0)]
    );
    let counted = source.counts();
    assert_eq!(
        (
            counted.lost,
            counted.late,
            counted.duplicated,
            counted.malformed,
            counted.steps
        ),
        (1, 1, 1, 7, 7)
    );
}

/// A spin ends before, with, or after the patience; what comes is had in each case, and nothing is waited for longer.
#[test]
fn a_source_that_spins_takes_what_one_that_sleeps_does() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    for spin in [0, 50, 1_000, 100_000] {
        let source = UdpSource::bind("127.0.0.1:0", 2).unwrap();
        let mut source = source.spinning(Duration::from_micros(spin));
        let mut frame = Frame::new(2);
        for sequence in 0..5 {
            let nothing = source.take(&mut frame, Duration::from_millis(1)).unwrap();
            assert_eq!(nothing, Reception::Nothing);
            let to = source.address().unwrap();
            socket.send_to(&counts(sequence), to).unwrap();
            assert_eq!(source.take(&mut frame, PATIENCE).unwrap(), Reception::Step);
            assert_eq!(frame.sequence, sequence);
        }
    }
}

#[test]
fn a_sender_that_begins_anew_is_believed() {
    let mut source = UdpSource::bind("127.0.0.1:0", 2).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = source.address().unwrap();
    for sequence in (500..510).chain(0..10).chain([1 << 40, (1 << 40) + 1]) {
        socket.send_to(&counts(sequence), to).unwrap();
    }
    let (mut frame, mut got) = (Frame::new(2), Vec::new());
    while source.counts().messages < 22 {
        if source.take(&mut frame, PATIENCE).unwrap() == Reception::Step {
            got.push((frame.sequence, frame.restart));
        }
    }
    let restarts: Vec<_> = got.iter().filter(|(_, restart)| *restart).collect();
    assert_eq!(restarts, [&(1, true), &((1 << 40) + 1, true)]);
    assert_eq!((source.counts().restarts, source.counts().late), (2, 2));
}

#[test]
fn outputs_are_datagrams_and_nothing_waits_for_whoever_takes_them() {
    let taker = UdpSocket::bind("127.0.0.1:0").unwrap();
    let mut sink = UdpSink::to(&taker.local_addr().unwrap().to_string(), 2).unwrap();
    let values = [1.5, -2.0];
    sink.give(&Estimate {
        sequence: 3,
        device: 0,
        host_ns: 0,
        sent: Some(-9),
        status: 64,
        values: &values,
    })
    .unwrap();
    let mut bytes = [0; 100];
    let length = taker.recv(&mut bytes).unwrap();
    let mut expected = b"BETZ\x01\x10\x02\x00".to_vec();
    expected.extend(3_u64.to_le_bytes());
    expected.extend((-9_i64).to_le_bytes());
    expected.extend([64, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend(
        1.5_f32
            .to_le_bytes()
            .iter()
            .chain(&(-2.0_f32).to_le_bytes()),
    );
    assert_eq!(&bytes[..length], expected);
    // Nobody takes any, and nothing waits: what the kernel's buffer has no room for is its affair.
    for sequence in 0..10_000 {
        sink.give(&Estimate {
            sequence,
            device: 0,
            host_ns: 0,
            sent: Some(0),
            status: 0,
            values: &values,
        })
        .unwrap();
    }
    let counted = sink.counts();
    assert_eq!(counted.steps + counted.unsent, 10_001);
}

fn packet(protocol: Protocol, time: u64, chid: u16, words: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    if protocol == Protocol::V311 {
        bytes.extend((time as u32).to_le_bytes());
        bytes.extend(chid.to_le_bytes());
        bytes.extend([0, words]);
    } else {
        bytes.extend(time.to_le_bytes());
        bytes.extend(chid.to_le_bytes());
        match protocol {
            Protocol::V40 => bytes.extend([0, words, 0, 0, 0, 0]),
            _ => bytes.extend([0, 0, words, 0, 0, 0]),
        }
    }
    bytes.extend(vec![0; 4 * usize::from(words)]);
    bytes
}

#[test]
fn cerebus_packets_of_every_version_end_steps() {
    for protocol in [Protocol::V311, Protocol::V40, Protocol::V41] {
        let mut source = CerebusSource::bind("127.0.0.1:0", protocol, 0.02).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (to, step) = (source.address().unwrap(), protocol.rate() / 50);
        // A clock of 32 bits goes round within these steps.
        let zero = ((1_u64 << 32) / step - 2) * step;
        let mut first = packet(protocol, zero + step / 2, 3, 28);
        first.extend(packet(protocol, zero + step / 2 + 1, 0, 10)); // a group of samples
        first.extend(packet(protocol, zero + step * 2, 96, 28));
        socket.send_to(&first, to).unwrap();
        let heartbeat = packet(protocol, zero + step * 4, 0x8000, 0);
        let cut = &packet(protocol, zero + step * 4, 5, 28)[..60];
        socket.send_to(&[&heartbeat, cut].concat(), to).unwrap();
        let (mut frame, mut got) = (Frame::new(96), Vec::new());
        while got.len() < 4 {
            if source.take(&mut frame, PATIENCE).unwrap() == Reception::Step {
                got.push(frame.spikes.clone());
            }
        }
        assert_eq!(got, [vec![2], vec![], vec![95], vec![]], "{protocol:?}");
        let counted = source.counts();
        assert_eq!((counted.malformed, counted.ignored), (1, 2), "{protocol:?}");
    }
}

/// Packets of a device under 4.1 that is no Gemini count 1/30,000 s, which two heartbeats or its name tell.
#[test]
fn the_unit_of_cerebus_times_is_the_devices() {
    let mut name = packet(Protocol::V41, 0, 0x8000, 20);
    name[10] = 0x21;
    name[24..36].copy_from_slice(b"player nPlay");
    let heartbeats: Vec<u8> = [600_u64 * 50 - 600, 600 * 50 - 300]
        .iter()
        .flat_map(|time| packet(Protocol::V41, *time, 0x8000, 0))
        .collect();
    for told in [name, heartbeats] {
        let mut source = CerebusSource::bind("127.0.0.1:0", Protocol::V41, 0.02).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let to = source.address().unwrap();
        socket.send_to(&told, to).unwrap();
        for (tick, chid) in [(600 * 50 + 1, 1), (600 * 51 + 1, 2), (600 * 53, 0x8000)] {
            let one = packet(Protocol::V41, tick, chid, 0);
            socket.send_to(&one, to).unwrap();
        }
        let (mut frame, mut got) = (Frame::new(96), Vec::new());
        while got.len() < 3 {
            if source.take(&mut frame, PATIENCE).unwrap() == Reception::Step && frame.sequence >= 50
            {
                got.push((frame.sequence, frame.spikes.clone()));
            }
        }
        assert_eq!(got, [(50, vec![0]), (51, vec![1]), (52, vec![])]);
    }
}

#[test]
fn cerebus_packets_that_never_come_are_counted() {
    let mut source = CerebusSource::bind("127.0.0.1:0", Protocol::V40, 0.02).unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = source.address().unwrap();
    let samples = |ticks: std::ops::Range<u64>| -> Vec<u8> {
        let group = |tick| {
            let mut bytes = packet(Protocol::V40, tick, 0, 2);
            bytes[10] = 5;
            bytes
        };
        ticks.flat_map(group).collect()
    };
    socket.send_to(&samples(3000..3300), to).unwrap();
    socket.send_to(&samples(3340..3700), to).unwrap();
    let mut frame = Frame::new(96);
    while source.take(&mut frame, PATIENCE).unwrap() != Reception::Step {}
    assert_eq!(source.counts().lost, 40);
}

/// Any bytes are packets, or are not; nothing else comes of them.
#[test]
fn bytes_of_chance_are_no_packets_beyond_their_end() {
    let mut state = 1_u64;
    let mut random = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    for length in 0..2000 {
        let bytes: Vec<u8> = (0..length % 300).map(|_| random()).collect();
        for protocol in [Protocol::V311, Protocol::V40, Protocol::V41] {
            if let Some((_, taken)) = protocol.first(&bytes) {
                assert!(taken >= 8 && taken <= bytes.len());
            }
        }
    }
}

#[test]
fn addresses_that_are_none_are_refused_with_what_was_expected() {
    let outputs = ["x".to_string()];
    let stream = Stream {
        channels: 2,
        outputs: &outputs,
        step_seconds: 0.02,
    };
    for (address, says) in [
        (
            "127.0.0.1:1",
            "expected an address that begins with one of udp://",
        ),
        ("ftp://127.0.0.1:1", "got ftp://"),
        ("udp://127.0.0.1", "expected HOST:PORT"),
        ("udp://127.0.0.1:1?rate=3", "expected spin=…"),
        (
            "udp://127.0.0.1:1?spin=long",
            "expected a whole number, got long",
        ),
        (
            "cerebus://127.0.0.1:0?version=2",
            "expected 3.11, 4.0 or 4.1, got 2",
        ),
        ("udp://", "expected a place after ://"),
    ] {
        let error = open_source(address, &stream).err().expect(address);
        assert!(error.message().contains(says), "{address}: {error}");
    }
    assert!(open_sink("cerebus://127.0.0.1:1", &stream).is_err());
}
