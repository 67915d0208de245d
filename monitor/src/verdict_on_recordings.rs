//! Verdicts on real recordings, where they are: with the rates of their first half as those of training, as they are and with
//! channels that fail.

use betz_recording::Recording;
use betz_testkit::shared;

use super::*;
use crate::session_counts::FlagCounts;

#[path = "verdict_scores.rs"]
mod scores;

/// Spikes of each channel in every whole second of a recording; `None` if it is not there.
fn counts(file: &str) -> Option<Vec<Vec<u32>>> {
    let recording = Recording::read_npz(&shared(file)?).unwrap();
    let mut seconds = vec![vec![0; recording.channels()]; recording.seconds() as usize];
    let spikes = &recording.spikes;
    for (i, (&tick, &channel)) in spikes.ticks.iter().zip(&spikes.channels).enumerate() {
        let second = (tick as f64 * recording.tick_seconds) as usize;
        if let Some(counts) = seconds.get_mut(second) {
            counts[channel as usize] += spikes.weight(i) as u32;
        }
    }
    Some(seconds)
}

/// Judges the second half of a recording, whose counts `change` has changed, second by second; steps are of 10 ms.
struct Judgement {
    usual: Vec<f64>,
    judge: Judge,
    /// Seconds with each level.
    bad: usize,
    watch: usize,
    seconds: usize,
    /// Seconds from the failure to the first verdict of a kind.
    silent_after: Option<usize>,
    noisy_after: Option<usize>,
    /// With the channels that it names.
    drift_after: Option<(usize, Vec<u32>)>,
}

fn judge_second_half(
    all: &[Vec<u32>],
    fails_at: usize,
    change: impl Fn(usize, &[f64], &mut [u32]),
) -> Judgement {
    let (first, second) = all.split_at(all.len() / 2);
    let channels = all[0].len();
    let usual: Vec<f64> = (0..channels)
        .map(|c| first.iter().map(|counts| f64::from(counts[c])).sum::<f64>() / first.len() as f64)
        .collect();
    let training = Training {
        mean_counts: usual.iter().map(|rate| rate / 100.0).collect(),
        ..Training::default()
    };
    let names: Vec<String> = (0..channels).map(|c| format!("ch{c}")).collect();
    let mut judgement = Judgement {
        judge: Judge::new(channels, 0.01, Some(&training)),
        usual,
        bad: 0,
        watch: 0,
        seconds: second.len(),
        silent_after: None,
        noisy_after: None,
        drift_after: None,
    };
    for (at, counts) in second.iter().enumerate() {
        let mut counts = counts.clone();
        change(at, &judgement.usual, &mut counts);
        let closed = ClosedSecond {
            at: at as i64,
            steps: 100,
            flags: FlagCounts::default(),
            counts: &counts,
        };
        judgement.judge.observe(&closed, (None, 0), &[], &names);
        judgement.bad += usize::from(judgement.judge.level == Level::Bad);
        judgement.watch += usize::from(judgement.judge.level == Level::Watch);
        let of = |kind| {
            judgement
                .judge
                .causes
                .iter()
                .any(|cause| cause.kind == kind)
        };
        let after = at.checked_sub(fails_at);
        judgement.silent_after = judgement
            .silent_after
            .or(after.filter(|_| of(CauseKind::Silent)));
        judgement.noisy_after = judgement
            .noisy_after
            .or(after.filter(|_| of(CauseKind::Noisy)));
        let drifting = named(&judgement, CauseKind::Drift);
        if judgement.drift_after.is_none() && !drifting.is_empty() {
            judgement.drift_after = after.map(|after| (after, drifting));
        }
    }
    judgement
}

fn named(judgement: &Judgement, kind: CauseKind) -> Vec<u32> {
    let cause = judgement
        .judge
        .causes
        .iter()
        .find(|cause| cause.kind == kind);
    cause.map_or(Vec::new(), |cause| cause.channels.clone())
}

/// A recording, judged as it is and with channels that fail from a third of the second half on.
struct Comparison {
    as_it_is: Judgement,
    /// With one channel silent and another noisy.
    failed: Judgement,
    /// With two channels that have changed places.
    swapped: Judgement,
    /// Those two: the third of all by rate, and the one in the middle.
    places: [u32; 2],
}

/// Compares the first `seconds` of a recording; all of it without a number.
fn compare(file: &str, seconds: Option<usize>) -> Option<Comparison> {
    let mut all = counts(file)?;
    all.truncate(seconds.unwrap_or(usize::MAX));
    let fails_at = all.len() / 6;
    let as_it_is = judge_second_half(&all, fails_at, |_, _, _| {});
    let mut by_rate: Vec<usize> = (0..all[0].len()).collect();
    by_rate.sort_by(|a, b| as_it_is.usual[*b].total_cmp(&as_it_is.usual[*a]));
    let (silent, noisy) = (by_rate[3], by_rate[5]);
    let failed = judge_second_half(&all, fails_at, |at, usual, counts| {
        if at >= fails_at {
            counts[silent] = 0;
            counts[noisy] = (20.0 * usual[noisy] + 60.0) as u32;
        }
    });
    let (busy, quiet) = (by_rate[2], by_rate[by_rate.len() / 2]);
    let swapped = judge_second_half(&all, fails_at, |at, _, counts| {
        if at >= fails_at {
            counts.swap(busy, quiet);
        }
    });
    let places = [busy as u32, quiet as u32];
    println!(
        "{file}: {} s as they are: bad in {}, watched in {} ({}); failed channels are named after {:?} and {:?} s; \
         channels {places:?} swapped: named at first {:?}, at last {:?}",
        as_it_is.seconds,
        as_it_is.bad,
        as_it_is.watch,
        as_it_is.judge.words(),
        failed.silent_after,
        failed.noisy_after,
        swapped.drift_after,
        named(&swapped, CauseKind::Drift)
    );
    assert!(
        named(&failed, CauseKind::Silent).contains(&(silent as u32)),
        "{file}"
    );
    assert_eq!(named(&failed, CauseKind::Noisy), [noisy as u32], "{file}");
    Some(Comparison {
        as_it_is,
        failed,
        swapped,
        places,
    })
}

#[test]
fn failed_channels_of_the_motor_cortex_are_named_and_no_others() {
    // A unit of the last recording has not one spike in its second half.
    let gone: [(&str, &[u32]); 3] = [
        ("reach95.npz", &[]),
        ("decode/chewie_a.npz", &[]),
        ("decode/mihi_a.npz", &[136]),
    ];
    for (file, gone) in gone {
        let Some(Comparison {
            as_it_is, failed, ..
        }) = compare(file, None)
        else {
            continue;
        };
        assert_eq!(named(&as_it_is, CauseKind::Silent), gone, "{file}");
        assert_eq!(as_it_is.watch, 0, "{file}: {}", as_it_is.judge.words());
        assert!(as_it_is.bad == 0 || !gone.is_empty(), "{file}");
        assert_eq!(
            named(&failed, CauseKind::Silent).len(),
            gone.len() + 1,
            "{file}"
        );
        assert!(failed.silent_after.is_some_and(|s| s <= 3), "{file}");
        assert!(failed.noisy_after.is_some_and(|s| s <= 3), "{file}");
    }
}

/// Rates of place cells follow the animal's place. Their own spread tells that from a failure.
#[test]
fn place_cells_are_judged_by_their_own_spread() {
    // The rat of the first recording leaves its track after 960 s.
    for (file, seconds) in [("linear_track.npz", Some(960)), ("decode/field1.npz", None)] {
        let Some(compared) = compare(file, seconds) else {
            continue;
        };
        let Comparison {
            as_it_is,
            failed,
            swapped,
            places,
        } = compared;
        assert_eq!(as_it_is.bad, 0, "{file}: {}", as_it_is.judge.words());
        assert!(as_it_is.watch * 10 <= as_it_is.seconds, "{file}");
        assert!(failed.silent_after.is_some_and(|s| s <= 240), "{file}");
        assert!(failed.noisy_after.is_some_and(|s| s <= 3), "{file}");
        // Of the second recording, no rate is beyond what its cells do by themselves.
        if seconds.is_some() {
            let (after, drifting) = swapped.drift_after.unwrap();
            assert!(after <= 120 && drifting.iter().all(|c| places.contains(c)));
        }
    }
}

/// At rest beside its track, most of the rat's cells fire otherwise than on it. That is seldom taken for a failure.
#[test]
fn rest_is_seldom_taken_for_a_failure() {
    if let Some(all) = counts("linear_track.npz") {
        let rested = judge_second_half(&all, 0, |_, _, _| {});
        println!(
            "at rest: bad in {}, watched in {} of {} s",
            rested.bad, rested.watch, rested.seconds
        );
        assert!((rested.bad + rested.watch) * 10 <= rested.seconds);
    }
}
