//! The default strategy against the oracle and the public reference counts, and events of segments.

use super::cases::{
    alphabet, check_known_counts, check_largest_ticks, check_random_cases, check_reference,
    check_thresholds, check_unknown_symbols, trials,
};
use super::count::{LatestStart, Strategy};
use super::*;

#[test]
fn the_default_strategy_counts_exactly() {
    let default: [Box<dyn Strategy>; 1] = [Box::new(LatestStart)];
    check_random_cases(&default);
    check_known_counts(&default);
    check_thresholds(&default);
    check_largest_ticks(&default);
    check_reference(&default);
}

#[test]
fn a_symbol_that_is_not_there_is_refused() {
    check_unknown_symbols(&[Box::new(LatestStart)]);
    assert_eq!(alphabet(2).symbol("c"), None);
}

#[test]
fn spikes_outside_the_segments_do_not_count() {
    let ticks = vec![5, 9, 100, 104, 199, 200, 204];
    let channels = vec![0, 1, 0, 1, 0, 0, 1];
    let pair = [Pattern::uniform(vec![0, 1], Interval::new(0, 5).unwrap()).unwrap()];
    let cut = |segments: &[(i64, i64)]| trials(2, 300, segments, ticks.clone(), channels.clone());
    let all = cut(&[(0, 300)]);
    assert_eq!(
        (all.len(), count::count(&all, &pair).unwrap()),
        (7, vec![3])
    );
    assert_eq!(all.iter().map(|e| e.0).collect::<Vec<_>>(), ticks);
    let one = cut(&[(100, 201)]);
    assert_eq!(
        (one.len(), count::count(&one, &pair).unwrap()),
        (4, vec![1])
    );
    assert_eq!((one.first_tick(), one.recording_tick(0)), (0, 100));
    assert_eq!(one.segment_bounds(), [(0, 100)]);
    // The interval is not held against a gap that is not there.
    let long = Pattern::uniform(vec![0, 1], Interval::new(0, 100_000).unwrap()).unwrap();
    assert!(long.check(&one).is_ok());
    let two = cut(&[(0, 100), (100, 300)]);
    assert!(long.check(&two).is_err());
    assert_eq!(two.segment_bounds(), [(0, 99), (60_100, 60_299)]);
}
