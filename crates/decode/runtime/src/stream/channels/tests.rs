use super::*;
use crate::model::{Blanking, DecoderParts, Limits};
use crate::psc::{Filter, FilterBank};
use crate::stream::{Hold, SessionConfig};

/// Channels with 1, 2 and 0.5 spikes per step of 0.1 s, one that was silent in training and a masked
/// one.
fn decoder() -> Decoder {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.1,
        order: 0,
    }]);
    let names = (0..5).map(|c| format!("c{c}")).collect();
    let linear = DecoderParts::linear(0.1, bank.unwrap(), names, vec!["x".into()]);
    Decoder::new(DecoderParts {
        weights: vec![1.0, 1.0, 1.0, 1.0, 0.0],
        channel_mask: vec![true, true, true, true, false],
        limits: Limits {
            blanking: Some(Blanking {
                least: 0,
                most: 1000,
                mean_counts: vec![1.0, 2.0, 0.5, 0.0, 0.0],
            }),
            ..Limits::default()
        },
        ..linear
    })
    .unwrap()
}

fn detector() -> ChannelDetector {
    ChannelDetector::new(&decoder(), ChannelRules::default()).unwrap()
}

const USUAL: [f64; 5] = [10.0, 20.0, 5.0, 0.0, 0.0];

fn with(changes: &[(usize, f64)]) -> [f64; 5] {
    let mut counts = USUAL;
    changes.iter().for_each(|&(c, n)| counts[c] = n);
    counts
}

#[test]
fn a_silent_channel_is_dead_after_what_its_rate_makes_unlikely() {
    let mut d = detector();
    // 10 spikes per second: 60 are missing in the sixth window.
    let silent = with(&[(0, 0.0)]);
    let told =
        |d: &mut ChannelDetector, counts: &[f64; 5]| (0..100).position(|_| d.observe(10, counts));
    assert_eq!(told(&mut d, &silent), Some(5));
    assert_eq!(d.state(0), Some(ChannelState::Dead));
    assert_eq!(d.ill(), [0]);
    // 5 spikes per second: found in the twelfth window. The other channels are well, and a channel
    // that never fired is not missed.
    let both = with(&[(0, 0.0), (2, 0.0)]);
    assert_eq!((told(&mut d, &both), d.ill()), (Some(11), vec![0, 2]));
    // Well again after 10 s of spikes, not at the first; after a relapse in 20.
    assert_eq!((told(&mut d, &USUAL), d.ill()), (Some(9), vec![]));
    assert_eq!((told(&mut d, &silent), d.ill()), (Some(5), vec![0]));
    assert_eq!((told(&mut d, &USUAL), d.ill()), (Some(19), vec![]));
    assert_eq!(d.state(5), None);
}

#[test]
fn a_channel_screams_far_above_its_rate_and_for_a_while() {
    let mut d = detector();
    // Above 6 × 10 Hz in two windows.
    let loud = with(&[(0, 61.0)]);
    assert!(!d.observe(10, &loud));
    assert!(!d.observe(10, &USUAL) && !d.observe(10, &loud));
    assert!(d.observe(10, &loud));
    assert_eq!(d.state(0), Some(ChannelState::Screaming));
    // 3 × 20 Hz and 40 Hz more in five; less never.
    let busy = with(&[(0, 61.0), (1, 61.0)]);
    let told = (0..6)
        .map(|_| d.observe(10, &busy))
        .position(|changed| changed);
    assert_eq!((told, d.ill()), (Some(4), vec![0, 1]));
    let mut d = detector();
    let less = with(&[(0, 49.0), (1, 59.0), (2, 44.0)]);
    assert!((0..50).all(|_| !d.observe(10, &less)));
}

#[test]
fn more_than_half_of_the_decoder_is_too_much() {
    // √(mean count) of channels 0 to 2: 1, 1.41 and 0.71 of 3.12.
    let mut d = detector();
    (0..20).for_each(|_| {
        d.observe(10, &with(&[(1, 0.0)]));
    });
    assert_eq!((d.ill(), d.is_too_much()), (vec![1], false));
    (0..20).for_each(|_| {
        d.observe(10, &with(&[(0, 0.0), (1, 0.0)]));
    });
    assert_eq!((d.ill(), d.is_too_much()), (vec![0, 1], true));
}

#[test]
fn a_watch_sees_every_kind_of_input_and_tells_the_steps() {
    let decoder = decoder();
    let config = SessionConfig {
        hold: Some(Hold::default()),
        ..SessionConfig::default()
    };
    let mut session = Session::open(&decoder, config).unwrap();
    let mut watch = (session.watch_channels(&decoder, ChannelRules::default())).unwrap();
    let mut out = [0.0];
    let step = |session: &mut Session, i: usize, silent: bool, out: &mut [f32]| {
        let first = if silent { 0 } else { 1 };
        match i % 4 {
            0 => session.step_counts(&[first, 2, 1, 0, 0], out).unwrap(),
            1 => session
                .step_counts_u8(&[first as u8, 2, 0, 0, 0], out)
                .unwrap(),
            2 => {
                let half = f32::from(first);
                session
                    .step_counts_f32(&[half, 2.0, 0.5, 0.0, 0.0], out)
                    .unwrap();
            }
            _ if silent => session.step_spikes(&[1, 1, 2, 9], out).unwrap(),
            _ => session.step_spikes(&[1, 0, 1, 9], out).unwrap(),
        }
    };
    let mut changed = 0;
    for i in 0..400 {
        step(&mut session, i, false, &mut out);
        changed += usize::from(watch.look());
    }
    assert_eq!((changed, watch.detector().ill()), (0, vec![]));
    for i in 0..80 {
        step(&mut session, i, true, &mut out);
        changed += usize::from(watch.look());
    }
    assert_eq!((changed, watch.detector().ill()), (1, vec![0]));
    assert!(session.status().contains(StepStatus::CHANNELS));
    assert!(
        !session
            .status()
            .intersects(StepStatus::UNTRUSTED | StepStatus::HELD)
    );
    // All gone: held, whatever is decoded.
    for _ in 0..1500 {
        session.step_spikes(&[], &mut out).unwrap();
        watch.look();
    }
    let said = StepStatus::CHANNELS | StepStatus::UNTRUSTED | StepStatus::HELD;
    assert!(session.status().contains(said), "{}", session.status());
    assert_eq!(out, [0.0]);
    drop(watch);
    session.step_spikes(&[], &mut out).unwrap();
    assert!(!session.status().intersects(StepStatus::CHANNELS));
}

#[test]
fn a_session_watches_itself_until_another_does() {
    let decoder = decoder();
    let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
    (session.watch_itself(&decoder, ChannelRules::default())).unwrap();
    let mut out = [0.0];
    let run = |session: &mut Session, first: u16, steps: usize, out: &mut [f32]| {
        for _ in 0..steps {
            session.step_counts(&[first, 2, 1, 0, 0], out).unwrap();
        }
        session.status().contains(StepStatus::CHANNELS)
    };
    assert!(!run(&mut session, 1, 300, &mut out));
    assert!(run(&mut session, 0, 80, &mut out));
    // Well again, after the seconds that it takes.
    assert!(!run(&mut session, 1, 400, &mut out));
    assert!(run(&mut session, 0, 80, &mut out));
    let watch = (session.watch_channels(&decoder, ChannelRules::default())).unwrap();
    assert!(
        !run(&mut session, 0, 80, &mut out),
        "somebody else is to look"
    );
    drop(watch);
    assert!(!run(&mut session, 0, 80, &mut out));
}

#[test]
fn what_cannot_be_watched_is_refused() {
    let decoder = decoder();
    let mut session = Session::open(&decoder, SessionConfig::default()).unwrap();
    let mut parts = decoder.clone().into_parts();
    parts.limits.blanking = None;
    let unknowing = Decoder::new(parts).unwrap();
    let rules = ChannelRules::default;
    let refused = session.watch_channels(&unknowing, rules()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InsufficientData);
    let mut parts = decoder.clone().into_parts();
    parts.step_seconds = 0.05;
    let other = Decoder::new(parts).unwrap();
    let refused = session.watch_channels(&other, rules()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Mismatch);
    let none = ChannelRules {
        scream_windows: 0,
        ..rules()
    };
    assert!(session.watch_channels(&decoder, none).is_err());
    let nan = ChannelRules {
        window_seconds: f64::NAN,
        ..rules()
    };
    assert!(session.watch_channels(&decoder, nan).is_err());
}
