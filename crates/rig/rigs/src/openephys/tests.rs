//! Voltage and spikes of an emulated Open Ephys.

use std::time::Duration;

use betz_base::Result;

use crate::rig::emulate::{Emulator, FREE_PORT, OpenEphysPublisher};
use crate::rig::tests::*;
use crate::rig::{Arrival, Block, LossReport, Rig, RigSpike, Samples, open_rig};

fn pair(channels: usize, query: &str) -> Result<(Box<dyn Rig>, OpenEphysPublisher)> {
    let publisher = OpenEphysPublisher::bind(FREE_PORT, channels, 30_000.0, 0.195)?.with_blocks(60);
    let address = format!(
        "openephys://{}?channels={channels}{query}",
        publisher.address()
    );
    let mut rig = open_rig(&address)?;
    while !publisher.is_connected() {
        rig.take(&mut Block::new(), Duration::from_millis(5))?;
    }
    Ok((rig, publisher))
}

fn send(publisher: &mut OpenEphysPublisher, blocks: usize, channels: usize) -> Result<u64> {
    publisher.send(&voltage(publisher.next_row(), 60 * blocks, channels))?;
    Ok(publisher.next_row())
}

#[test]
fn rows_come_as_sent_and_losses_are_exact() -> Result<()> {
    for channels in [1, 64] {
        let (mut rig, mut publisher) = pair(channels, "")?;
        let mut lost = 0;
        for k in 0..5_u64 {
            let until = send(&mut publisher, 3, channels)?;
            assert_eq!(take_rows(&mut *rig, until)?, (180, 77 * k));
            publisher.lose(77 * (k + 1))?;
            lost += 77 * k;
        }
        let signal = rig.signal().map(|s| (s.channels, s.rate, s.microvolts));
        assert_eq!(signal, Some((channels, 30_000.0, Some(0.195))));
        assert_eq!((rig.counts().lost, rig.counts().malformed), (lost, 0));
        assert_eq!(rig.loss_report(), LossReport::Exact);
    }
    Ok(())
}

#[test]
fn a_block_with_a_hole_is_lost_when_the_second_one_after_it_begins() -> Result<()> {
    let (mut rig, mut publisher) = pair(4, "")?;
    let until = send(&mut publisher, 1, 4)?;
    assert_eq!(take_rows(&mut *rig, until)?, (60, 0));
    publisher.lose_messages(1);
    send(&mut publisher, 2, 4)?;
    let mut block = Block::new();
    assert_eq!(
        rig.take(&mut block, Duration::from_millis(50))?,
        Arrival::Nothing
    );
    let until = send(&mut publisher, 1, 4)?;
    assert_eq!(take_rows(&mut *rig, until)?, (120, 60));
    // A hole of a block and a half.
    publisher.lose_messages(6);
    let until = send(&mut publisher, 4, 4)?;
    assert_eq!(take_rows(&mut *rig, until)?, (120, 120));
    assert_eq!((rig.counts().lost, rig.counts().late), (180, 0));
    // Acquisition begins anew.
    publisher.restart()?;
    let until = send(&mut publisher, 1, 4)?;
    assert_eq!(take_rows(&mut *rig, until)?, (60, 0));
    assert_eq!(rig.counts().restarts, 1);
    Ok(())
}

#[test]
fn spikes_come_as_sent_with_lost_messages() -> Result<()> {
    let (mut rig, mut publisher) = pair(8, "&group=spikes&rate=30000")?;
    let (mut block, mut found, mut lost) = (Block::new(), Vec::new(), 0);
    let spikes: Vec<_> = (0..40_u32)
        .map(|k| RigSpike {
            tick: u64::from(k * 11),
            channel: k % 8,
            unit: (k % 3) as u8,
        })
        .collect();
    for (k, spike) in spikes.iter().enumerate() {
        publisher.lose_messages(u64::from(k % 10 == 5));
        publisher.spike(*spike)?;
        // An electrode that was not asked for.
        publisher.spike(RigSpike {
            channel: 8,
            ..*spike
        })?;
    }
    while found.len() < 36 {
        if rig.take(&mut block, PATIENCE)? == Arrival::Block
            && let Samples::Spikes(given) = &block.samples
        {
            found.extend(given.iter().copied());
            lost += block.lost_before.count;
        }
    }
    let expected: Vec<_> = (0..40).filter(|k| k % 10 != 5).map(|k| spikes[k]).collect();
    assert_eq!((found, lost, rig.counts().lost), (expected, 4, 4));
    assert_eq!(rig.loss_report(), LossReport::Packets);
    Ok(())
}

#[test]
fn damaged_messages_are_counted_and_change_nothing() -> Result<()> {
    let (mut rig, mut publisher) = pair(2, "")?;
    let until = send(&mut publisher, 1, 2)?;
    take_rows(&mut *rig, until)?;
    let content =
        |fields: &str| format!(r#"{{"message_num": 9, "type": "data", "content": {{{fields}}}}}"#);
    let good = r#""channel_num": 0, "num_samples": 1, "sample_num": 60, "sample_rate": 30000.0"#;
    let cases = [
        (String::new(), 4),
        ("{".into(), 4),
        ("[]".into(), 4),
        (r#"{"message_num": 9}"#.into(), 4),
        (r#"{"type": "data"}"#.into(), 4),
        (r#"{"message_num": 3, "type": "data"}"#.into(), 4),
        (content(good), 3),
        (content(good), 8),
        (content(&good.replace("30000.0", "1000.0")), 4),
        (content(&good.replace("30000.0", "0")), 4),
        (content(&good.replace("60", "-60")), 4),
        (content(&good.replace(": 1,", ": 1e18,")), 4),
        (content(&good.replace(": 1,", ": 0,")), 0),
    ];
    let mut numbered = 2;
    for (header, body) in &cases {
        numbered += u64::from(header.contains("num\": 9") || header.contains("num\": 3"));
        let header = header.replace("num\": 9", &format!("num\": {numbered}"));
        let header = header.replace("num\": 3", &format!("num\": {numbered}"));
        publisher.publish(&[b"DATA\0", header.as_bytes(), &vec![0; *body]])?;
    }
    publisher.publish(&[b"DATA\0"])?;
    let mut scramble = Scramble(2);
    for k in 0..300 {
        publisher.publish(&[&scramble.bytes(5), &scramble.bytes(k), &scramble.bytes(k)])?;
    }
    publisher.lose_messages(20);
    send(&mut publisher, 10, 2)?;
    let until = send(&mut publisher, 1, 2)?;
    let (received, lost) = take_rows(&mut *rig, until)?;
    assert_eq!((received, lost), (60, 600));
    assert_eq!(rig.counts().malformed, cases.len() as u64 + 301);
    Ok(())
}
