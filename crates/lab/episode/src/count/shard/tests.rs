//! Shards joined against the oracle and the plain count.

use super::bytes::{CONTENT, VERSION};
use super::*;
use crate::cases::{bursts, random_case, random_segments, reader, recording};
use crate::count::count;
use crate::events::Events;
use betz_base::error::ErrorKind;
use betz_base::frame;
use betz_base::team::Shard;
use betz_recording::{Recording, Spikes};
use proptest::prelude::*;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn part(recording: &Recording, shard: Shard, cuts: Vec<i64>, patterns: &[Pattern]) -> CountPart {
    let events = ShardEvents::new(recording, cuts, reader(recording)).unwrap();
    let part = CountPart::count(shard, 7, &events, patterns.to_vec(), &()).unwrap();
    CountPart::from_bytes(&part.to_bytes()).unwrap()
}

/// Shards between `bounds`, each in two chunks where it is long enough; the last one first.
fn parts(recording: &Recording, bounds: &[i64], patterns: &[Pattern]) -> Vec<CountPart> {
    let of = bounds.len() - 1;
    (0..of)
        .rev()
        .map(|k| {
            let (from, to) = (bounds[k], bounds[k + 1]);
            let mut cuts = vec![from, (from + to) / 2, to];
            cuts.dedup();
            part(recording, Shard::new(k + 1, of).unwrap(), cuts, patterns)
        })
        .collect()
}

fn counts(joined: &JoinedCounts) -> Vec<u64> {
    joined.episodes.iter().map(|e| e.count).collect()
}

#[test]
fn a_cut_at_every_place_and_more_shards_than_events_give_the_oracles_counts() {
    for seed in 0..60 {
        let case = random_case(seed, 40, 12);
        let recording = recording(&case.events, Vec::new());
        let expected = case.oracle_counts();
        let end = recording.ticks;
        let one = (0..=end).map(|at| vec![0, at, end]);
        // A shard for every tick, and each of them followed by an empty one.
        let each = [
            (0..=end).collect(),
            (0..=end).flat_map(|t| [t, t]).collect(),
        ];
        for bounds in one.chain(each) {
            let joined = CountPart::join(parts(&recording, &bounds, &case.patterns)).unwrap();
            assert_eq!(counts(&joined), expected, "seed {seed}, cuts {bounds:?}");
            assert_eq!(joined.events, case.events.len() as u64);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]
    #[test]
    fn random_cuts_of_bursts_and_trials_give_the_counts_of_the_whole(
        seed in any::<u64>(),
        longest in 1_i64..40,
        cuts in prop::collection::vec(0.0_f64..=1.0, 0..9),
        trials in any::<bool>(),
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let case = bursts(&mut rng, 1..900, longest);
        let mut recording = recording(&case.events, Vec::new());
        if trials {
            recording.segments = random_segments(&mut rng, recording.ticks, 0..30, 1..300);
        }
        let mut bounds: Vec<i64> = (cuts.iter())
            .map(|cut| (recording.ticks as f64 * cut) as i64)
            .chain([0, recording.ticks])
            .collect();
        bounds.sort_unstable();
        let joined = CountPart::join(parts(&recording, &bounds, &case.patterns));
        match Events::from_recording(&recording) {
            Ok(whole) => {
                let expected = count(&whole, &case.patterns).unwrap();
                prop_assert_eq!(counts(&joined.unwrap()), expected);
            }
            Err(e) => prop_assert_eq!(joined.err().map(|e| e.kind()), Some(e.kind())),
        }
    }
}

#[test]
fn what_does_not_belong_together_is_refused_by_name() {
    let case = random_case(3, 60, 8);
    let whole = recording(&case.events, Vec::new());
    let end = whole.ticks;
    let bounds = [0, end / 3, end / 2, end];
    let all = parts(&whole, &bounds, &case.patterns);
    let refused = |parts: Vec<CountPart>, words: &str| {
        let error = CountPart::join(parts).unwrap_err();
        assert!(error.message().contains(words), "{words}: {error}");
    };
    refused(Vec::new(), "got none");
    refused(
        all[..2].to_vec(),
        "expected all 3 shards, got 2: none of number 1",
    );
    refused(
        vec![
            all[0].clone(),
            all[1].clone(),
            all[1].clone(),
            all[2].clone(),
        ],
        "expected each shard once, got shard 2",
    );
    // Another one in the place of the second.
    let with = |second: CountPart| vec![all[0].clone(), second, all[2].clone()];
    let second = |recording: &Recording, patterns: &[Pattern], bounds: &[i64]| {
        parts(recording, bounds, patterns)[1].clone()
    };
    refused(
        with(parts(&whole, &[0, 1, 2, 3, end], &case.patterns)[1].clone()),
        "got shards 4 instead of 3",
    );
    refused(
        with(second(&whole, &case.patterns[1..], &bounds)),
        "got episodes 7 instead of 8",
    );
    let mut turned = case.patterns.clone();
    turned.rotate_left(1);
    refused(with(second(&whole, &turned, &bounds)), "got other episodes");
    refused(
        with(second(&whole, &case.patterns, &[0, end / 4, end / 2, end])),
        "expected the chunk from tick",
    );
    let mut longer = whole.clone();
    longer.ticks += 1;
    refused(with(second(&longer, &case.patterns, &bounds)), "got ticks ");
    let mut renamed = whole.clone();
    renamed.channel_names[0] = "other".to_owned();
    refused(
        with(second(&renamed, &case.patterns, &bounds)),
        "got other channels",
    );
    let mut other = all[1].clone();
    other.whole.recording += 1;
    refused(
        with(other),
        "a recording of hash 0000000000000008 instead of 0000000000000007",
    );
    let mut silent = whole.clone();
    silent.spikes = Spikes::default();
    let error = CountPart::join(parts(&silent, &bounds, &case.patterns)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
}

#[test]
fn damaged_bytes_are_refused() {
    let case = random_case(3, 60, 8);
    let whole = recording(&case.events, Vec::new());
    let bytes = parts(&whole, &[0, whole.ticks / 2, whole.ticks], &case.patterns)[0].to_bytes();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 0x10;
        assert!(CountPart::from_bytes(&changed).is_err(), "byte {at}");
        assert!(CountPart::from_bytes(&bytes[..at]).is_err(), "{at} bytes");
        // A whole frame around what may be none: no panic, and no memory that it has no bytes for.
        if (frame::HEADER..bytes.len() - 8).contains(&at) {
            for value in [[0xff; 4], [0; 4]] {
                let mut changed = bytes.clone();
                changed[at..at + 4].copy_from_slice(&value);
                frame::seal(CONTENT, VERSION, &mut changed);
                let _ = CountPart::from_bytes(&changed).map(|part| CountPart::join(vec![part]));
            }
        }
    }
    let mut newer = bytes.clone();
    frame::seal(CONTENT, VERSION + 1, &mut newer);
    let error = CountPart::from_bytes(&newer).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnsupportedVersion);
    // The header as a machine of the other byte order would have written it.
    let mut swapped = bytes.clone();
    swapped[8..12].reverse();
    swapped[12..20].reverse();
    let error = CountPart::from_bytes(&swapped).unwrap_err();
    assert!(
        error.message().contains("expected little-endian"),
        "{error}"
    );
}
