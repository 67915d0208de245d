//! Sample groups and spikes of an emulated Cerebus device.

use std::time::Duration;

use betz_base::Result;

use super::{CerebusRig, Group, Protocol};
use crate::rig::emulate::{CerebusDevice, Emulator, Sender};
use crate::rig::tests::*;
use crate::rig::{Arrival, Block, LossReport, Rig, RigSpike, Samples};

/// Every layout of packets and unit of times.
const DEVICES: [(Protocol, bool); 4] = [
    (Protocol::V311, false),
    (Protocol::V40, false),
    (Protocol::V41, false),
    (Protocol::V41, true),
];

/// A rig that asks instead of sleeping, because what was sent over the loopback is there at once.
fn bind(protocol: Option<Protocol>, group: Group, channels: Option<usize>) -> Result<CerebusRig> {
    let rig = CerebusRig::bind("127.0.0.1:0", protocol, group, channels)?;
    Ok(rig.spinning(Duration::from_millis(1)))
}

/// Time in which a rig asks once at least.
const ONCE: Duration = Duration::from_micros(20);

/// Sends rows one by one until the rig has recognised the device and given some.
fn warm_up(rig: &mut CerebusRig, device: &mut CerebusDevice, channels: usize) -> Result<()> {
    let mut block = Block::new();
    for _ in 0..200 {
        device.send(&voltage(device.next_row(), 1, channels))?;
        drain(rig, &mut block)?;
        if rig.counts().rows > 0 {
            return Ok(());
        }
    }
    panic!("the device was not recognised: {:?}", rig.protocol());
}

/// Takes all that has come; on the loopback that is all that was sent.
fn drain(rig: &mut CerebusRig, block: &mut Block) -> Result<Vec<Block>> {
    let mut blocks = Vec::new();
    loop {
        let before = rig.datagrams();
        match rig.take(block, ONCE)? {
            Arrival::Block => blocks.push(block.clone()),
            _ if rig.datagrams() == before => return Ok(blocks),
            _ => {}
        }
    }
}

#[test]
fn groups_come_as_sent_and_losses_are_exact_in_every_version() -> Result<()> {
    for (protocol, gemini) in DEVICES {
        for (group, channels) in [(5, 32), (6, 3), (1, 8)] {
            let mut rig = bind(None, Group::Samples(group), Some(channels))?;
            let to = rig.address()?.to_string();
            let mut device = CerebusDevice::new(&to, protocol, gemini, group, channels)?;
            warm_up(&mut rig, &mut device, channels)?;
            assert_eq!(rig.protocol(), Some(protocol));
            let (mut scramble, mut expected) = (Scramble(u64::from(group)), (0, 0));
            for k in 0..60 {
                let rows = 1 + scramble.next(70);
                let first = device.next_row();
                if k % 6 == 2 {
                    device.lose(rows as u64)?;
                    expected.1 += rows as u64;
                    continue;
                }
                device.send(&voltage(first, rows, channels))?;
                expected.0 += rows as u64;
                take_rows(&mut rig, first + rows as u64)?;
            }
            let counts = rig.counts();
            let before = device.next_row() - expected.0 - expected.1;
            assert!(counts.rows - expected.0 <= before);
            assert_eq!(counts.lost, expected.1, "{protocol:?} {gemini} {group}");
            assert_eq!(
                (
                    counts.malformed,
                    counts.restarts,
                    counts.late,
                    counts.duplicates
                ),
                (0, 0, 0, 0)
            );
            device.describe()?;
            drain(&mut rig, &mut Block::new())?;
            assert_eq!(rig.group_channels().len(), channels);
        }
    }
    Ok(())
}

/// A pair for spikes of 40 channels beside group 5, warmed up; the group's rows are cut off where the device has no
/// group.
fn spike_pair(protocol: Protocol) -> Result<(CerebusRig, CerebusDevice)> {
    let rig = bind(Some(protocol), Group::Spikes, Some(40))?;
    let to = rig.address()?.to_string();
    let mut device = CerebusDevice::new(&to, protocol, true, 5, 4)?;
    device.describe()?;
    Ok((rig, device))
}

fn spike(tick: u64, channel: u32) -> RigSpike {
    RigSpike {
        tick,
        channel,
        unit: (tick % 3) as u8,
    }
}

/// Ticks of the device's clock at a row of group 5.
fn ticks(protocol: Protocol, row: u64) -> u64 {
    match protocol {
        Protocol::V41 => row * 100_000 / 3,
        _ => row,
    }
}

#[test]
fn spikes_come_as_sent_and_packets_lost_beside_a_group_are_flagged() -> Result<()> {
    for protocol in [Protocol::V311, Protocol::V40, Protocol::V41] {
        let (mut rig, mut device) = spike_pair(protocol)?;
        let (mut sent, mut found, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        let mut block = Block::new();
        for k in 0..200_u64 {
            match k {
                50..55 => device.lose(100)?,
                _ => device.send(&voltage(device.next_row(), 100, 4))?,
            }
            let row = device.next_row();
            device.spike(spike(row, (k % 40) as u32))?;
            // A digital input has a channel of its own, which is no electrode.
            device.spike(spike(row, 150))?;
            let expected = spike(row, (k % 40) as u32);
            sent.push(RigSpike {
                tick: ticks(protocol, row),
                ..expected
            });
            for block in drain(&mut rig, &mut block)? {
                let Samples::Spikes(spikes) = block.samples else {
                    panic!("expected spikes");
                };
                assert_eq!(block.first, spikes[0].tick);
                found.extend(spikes);
                losses.push(block.lost_before);
            }
        }
        assert_eq!(found, sent);
        let told: u64 = losses.iter().map(|l| l.count).sum();
        assert_eq!((told, rig.counts().lost), (500, 500));
        assert!(losses.iter().all(|l| l.at_least || l.count == 0));
        // A lost monitor is a bound as well, which the next one tells.
        let bounds = losses.iter().filter(|l| l.at_least).count() as u64;
        assert!((1..=2).contains(&bounds) && rig.counts().bounds == bounds);
    }
    Ok(())
}

#[test]
fn clocks_that_begin_anew_are_another_epoch_and_one_odd_time_is_not() -> Result<()> {
    let (mut rig, mut device) = spike_pair(Protocol::V40)?;
    let mut block = Block::new();
    let mut epochs = Vec::new();
    for part in 0..3 {
        for k in 0..20 {
            device.send(&voltage(device.next_row(), 30, 4))?;
            // One time that is hours away, of a damaged packet.
            let odd = if part == 0 && k == 10 { 1 << 40 } else { 0 };
            device.spike(spike(device.next_row() + odd, 3))?;
        }
        epochs.extend(drain(&mut rig, &mut block)?.iter().map(|b| b.epoch));
        match part {
            0 => device.lose(30_000 * 3)?,
            _ => device.restart()?,
        }
    }
    assert_eq!(epochs[..39], [vec![0; 19], vec![0; 20]].concat());
    assert!(epochs[39..].iter().all(|e| *e == 1) && epochs.len() == 59);
    assert_eq!((rig.counts().restarts, rig.counts().malformed), (1, 2));
    Ok(())
}

#[test]
fn damaged_packets_neither_panic_nor_go_uncounted() -> Result<()> {
    for (protocol, gemini) in DEVICES {
        let given = Some(protocol);
        let mut rig = bind(given, Group::Samples(5), Some(8))?;
        let to = rig.address()?.to_string();
        let mut device = CerebusDevice::new(&to, protocol, gemini, 5, 8)?;
        warm_up(&mut rig, &mut device, 8)?;
        let raw = Sender::new(&to)?;
        let (mut scramble, mut block) = (Scramble(9), Block::new());
        let whole = device.packet(&voltage(0, 1, 8));
        for cut in 1..whole.len() {
            raw.send(&whole[..cut])?;
        }
        drain(&mut rig, &mut block)?;
        assert_eq!(rig.counts().malformed, whole.len() as u64 - 1);
        // A row of another number of channels.
        raw.send(&device.packet(&voltage(0, 1, 6)))?;
        drain(&mut rig, &mut block)?;
        assert_eq!(rig.counts().malformed, whole.len() as u64);
        for k in 0..1000 * effort() {
            raw.send(&scramble.bytes(k % 300))?;
            rig.take(&mut block, ONCE)?;
        }
        // Random bytes may be whole packets, with random times; the device is found again among them.
        let first = device.next_row();
        for _ in 0..10 {
            device.send(&voltage(device.next_row(), 20, 8))?;
        }
        let blocks = drain(&mut rig, &mut block)?;
        let rows: usize = blocks.iter().map(|b| b.rows).sum();
        assert!(
            rows >= 180,
            "{protocol:?}: {rows} rows of 200 from {first} on"
        );
    }
    Ok(())
}

#[test]
fn spikes_lost_without_a_group_are_counted_by_monitors() -> Result<()> {
    for protocol in [Protocol::V311, Protocol::V41] {
        let (mut rig, device) = spike_pair(protocol)?;
        let mut device = device.without_group();
        let (mut block, mut losses) = (Block::new(), Vec::new());
        for k in 0..400_u64 {
            // Seven spikes of 100 intervals between two monitors.
            device.set_cut((100..107).contains(&k));
            device.spike(spike(device.next_row(), (k % 40) as u32))?;
            device.set_cut(false);
            // An interval of 10 ms.
            device.send(&voltage(device.next_row(), 300, 4))?;
            losses.extend(drain(&mut rig, &mut block)?.iter().map(|b| b.lost_before));
        }
        let told: u64 = losses.iter().map(|l| l.count).sum();
        assert_eq!(
            (told, rig.counts().lost, rig.counts().bounds),
            (7, 7, 0),
            "{protocol:?}"
        );
        assert_eq!(
            (losses.len(), rig.loss_report()),
            (393, LossReport::Packets)
        );
        // Monitors that are lost themselves: what they told of is unknown, which numbered ones reveal.
        device.set_cut(true);
        device.send(&voltage(device.next_row(), 900, 4))?;
        device.set_cut(false);
        for _ in 0..20 {
            device.spike(spike(device.next_row(), 1))?;
            device.send(&voltage(device.next_row(), 300, 4))?;
        }
        drain(&mut rig, &mut block)?;
        let expected = u64::from(protocol == Protocol::V41);
        assert_eq!(rig.counts().bounds, expected, "{protocol:?}");
    }
    Ok(())
}

#[test]
fn a_group_of_another_width_is_an_error() -> Result<()> {
    let mut rig = bind(Some(Protocol::V40), Group::Samples(5), Some(16))?;
    let mut device = CerebusDevice::new(&rig.address()?.to_string(), Protocol::V40, false, 5, 8)?;
    device.send(&voltage(0, 20, 8))?;
    let error = rig
        .take(&mut Block::new(), PATIENCE)
        .err()
        .map(|e| e.to_string());
    let error = error.unwrap_or_default();
    assert!(
        error.contains("expected rows of 16 channels, got 8"),
        "{error}"
    );
    Ok(())
}

#[test]
fn flipped_bits_never_give_a_row_of_another_width() -> Result<()> {
    for (protocol, gemini) in DEVICES {
        for group in [Group::Samples(5), Group::Spikes] {
            let mut rig = bind(None, group, Some(6))?;
            let to = rig.address()?.to_string();
            let mut device = CerebusDevice::new(&to, protocol, gemini, 5, 6)?;
            device.describe()?;
            let raw = Sender::new(&to)?;
            let (mut scramble, mut block) = (Scramble(4), Block::new());
            for _ in 0..400 * effort() {
                device.send(&voltage(device.next_row(), 1 + scramble.next(3), 6))?;
                let mut bytes = device.packet(&voltage(device.next_row(), 1, 6));
                for _ in 0..1 + scramble.next(4) {
                    let at = scramble.next(bytes.len());
                    bytes[at] ^= 1 << scramble.next(8);
                }
                bytes.truncate(bytes.len() - scramble.next(2) * scramble.next(9));
                raw.send(&bytes)?;
                for block in drain(&mut rig, &mut block)? {
                    match &block.samples {
                        Samples::Voltage(voltage) => assert_eq!(voltage.len(), 6 * block.rows),
                        Samples::Spikes(spikes) => assert!(spikes.iter().all(|s| s.channel < 6)),
                        Samples::Features(_) => panic!("expected voltage or spikes"),
                    }
                }
            }
        }
    }
    Ok(())
}

#[test]
fn the_devices_time_is_asked_for_only_where_it_was_wanted() -> Result<()> {
    for (protocol, group) in [
        (Protocol::V40, Group::Samples(5)),
        (Protocol::V41, Group::Samples(5)),
        (Protocol::V41, Group::Spikes),
    ] {
        for has_field in [true, false] {
            let mut rig = bind(Some(protocol), group, Some(4))?;
            let to = rig.address()?.to_string();
            let mut device = CerebusDevice::new(&to, protocol, true, 5, 4)?;
            device.describe()?;
            let mut block = Block::new();
            device.send(&voltage(0, 30, 4))?;
            drain(&mut rig, &mut block)?;
            assert_eq!((device.answer(has_field)?, rig.probe()), (0, None));
            let mut rig = rig.with_probe(&device.address()?.to_string())?;
            let before = crate::rig::host_ns();
            device.send(&voltage(30, 30, 4))?;
            drain(&mut rig, &mut block)?;
            // One question at a time.
            assert_eq!(device.answer(has_field)?, 1);
            drain(&mut rig, &mut block)?;
            let Some(probe) = rig.probe() else {
                panic!("expected an answer");
            };
            let expected = match group {
                Group::Samples(_) => 60,
                Group::Spikes => ticks(protocol, 60),
            };
            assert_eq!(probe.device, expected, "{protocol:?} {group:?}");
            assert!(before <= probe.asked_ns && probe.asked_ns <= probe.answered_ns);
            assert_eq!((rig.probe(), rig.counts().malformed), (None, 0));
        }
    }
    assert!(
        bind(None, Group::Spikes, None)?
            .with_probe("nowhere")
            .is_err()
    );
    Ok(())
}
