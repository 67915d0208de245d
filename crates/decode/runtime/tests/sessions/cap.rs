//! A cap on the spikes of a step.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use super::common::{decoder, rng};
use betz_base::ErrorKind;
use betz_runtime::stream::{
    LateSpikes, Session, SessionConfig, Spike, StepStatus, UnknownChannels, spike_queue,
};

fn open(max_spikes: Option<usize>) -> betz_base::Result<Session> {
    let decoder = decoder(&mut rng(0), 8, 2, &[(0.05, 1)], None);
    Session::open(
        &decoder,
        SessionConfig {
            max_spikes,
            unknown_channels: UnknownChannels::Refuse,
            ..SessionConfig::default()
        },
    )
}

#[test]
fn spikes_beyond_the_cap_are_left_out_flagged_and_counted() {
    let (mut capped, mut reference) = (open(Some(3)).unwrap(), open(None).unwrap());
    let health = capped.health();
    let (mut out, mut expected) = ([0.0; 2], [0.0; 2]);
    for spikes in [
        &[1, 2, 3, 4, 5][..],
        &[7, 7],
        &[],
        &[0, 1, 2],
        &[6, 6, 6, 6],
    ] {
        capped.step_spikes(spikes, &mut out).unwrap();
        reference
            .step_spikes(&spikes[..spikes.len().min(3)], &mut expected)
            .unwrap();
        assert_eq!(out, expected);
        let says = capped.status().contains(StepStatus::CAPPED);
        assert_eq!(says, spikes.len() > 3, "{spikes:?}");
    }
    assert_eq!((capped.stats().capped, capped.stats().spikes), (3, 11));
    assert_eq!((health.read().capped, health.read().spikes), (3, 11));
    // A refused step counts nothing, and the list beyond the cap is not looked at.
    assert!(capped.step_spikes(&[0, 99, 0, 0], &mut out).is_err());
    assert_eq!((capped.stats().capped, out), (3, expected));
    capped.step_spikes(&[0, 1, 2, 99], &mut out).unwrap();
    capped.warm();
    assert_eq!(capped.stats().capped, 4);
    // Counts have no cap: their time does not grow with the spikes.
    capped.step_counts(&[9; 8], &mut out).unwrap();
    assert!(!capped.status().contains(StepStatus::CAPPED));
    capped.clear_stats();
    assert_eq!(capped.stats().capped, 0);
    assert_eq!(
        open(Some(0)).unwrap_err().kind(),
        ErrorKind::InvalidArgument
    );
}

#[test]
fn a_queue_leaves_out_the_spikes_beyond_the_cap() {
    let (mut capped, mut reference) = (open(Some(4)).unwrap(), open(None).unwrap());
    let (mut producer, mut consumer) = spike_queue(100, LateSpikes::Take).unwrap();
    let (mut out, mut expected) = ([0.0; 2], [0.0; 2]);
    for tick in 0..3 {
        let spikes: Vec<Spike> = (0..20)
            .map(|i| Spike {
                tick,
                channel: i % 8,
            })
            .collect();
        producer.push(&spikes);
        producer.mark(tick);
        consumer.step(&mut capped, &mut out).unwrap();
        reference.step_spikes(&[0, 1, 2, 3], &mut expected).unwrap();
        assert_eq!(out, expected);
        assert_eq!(capped.status(), StepStatus::CAPPED);
        assert_eq!(consumer.waiting(), 0);
    }
    assert_eq!((capped.stats().capped, capped.stats().dropped), (48, 0));
}
