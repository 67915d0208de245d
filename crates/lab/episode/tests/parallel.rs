//! Parallel episodes against the oracle; their text.

#![allow(clippy::unwrap_used)] // tests stop where something fails

use betz_base::error::ErrorKind;
use betz_episode::{Alphabet, Clock, Events, Frequency, ParallelEpisode, oracle, read_parallel};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Events on a clock of one millisecond, of symbols n0, n1, …
fn events(symbols: u32, mut pairs: Vec<(i64, u32)>) -> Events {
    pairs.sort_unstable();
    let (ticks, names): (Vec<i64>, Vec<u32>) = pairs.into_iter().unzip();
    let labels = (0..symbols).map(|s| format!("n{s}")).collect();
    let clock = Clock::from_tick_seconds(1e-3).unwrap();
    Events::new(Alphabet::new(labels, clock).unwrap(), &ticks, &names).unwrap()
}

/// Few symbols, so that they repeat, and few ticks, so that they tie.
fn random_events(rng: &mut ChaCha8Rng, symbols: u32) -> Events {
    let n = rng.random_range(1..15);
    let ticks = rng.random_range(1..=2 * n);
    let pairs = (0..n).map(|_| (rng.random_range(0..ticks), rng.random_range(0..symbols)));
    let pairs = pairs.collect();
    events(symbols, pairs)
}

fn frequencies(span: i64) -> [Frequency; 4] {
    [
        Frequency::NonOverlapped,
        Frequency::Minimal { span: None },
        Frequency::Minimal { span: Some(span) },
        Frequency::Windows { width: span },
    ]
}

#[test]
fn each_counts_what_its_definition_says() {
    let mut rng = ChaCha8Rng::seed_from_u64(1997);
    let mut met = [0; 4];
    let mut repeated = 0;
    for _ in 0..3_000 {
        let symbols = rng.random_range(1..=3);
        let events = random_events(&mut rng, symbols);
        let episodes: Vec<ParallelEpisode> = (0..4)
            .map(|_| {
                let size = rng.random_range(1..=4);
                let names = (0..size).map(|_| rng.random_range(0..symbols)).collect();
                ParallelEpisode::new(names, rng.random_range(0..12)).unwrap()
            })
            .collect();
        for (frequency, met) in frequencies(rng.random_range(1..12))
            .into_iter()
            .zip(&mut met)
        {
            let counts = frequency.count_parallel(&events, &episodes, &()).unwrap();
            for (episode, count) in episodes.iter().zip(counts) {
                assert_eq!(
                    Some(count),
                    oracle::parallel_frequency(&events, episode, frequency),
                    "{frequency:?} of {episode:?} in {:?}",
                    events.iter().collect::<Vec<_>>()
                );
                *met += u64::from(count > 1 && episode.symbols().len() > 2);
                let repeats = episode.symbols().windows(2).any(|s| s[0] == s[1]);
                repeated += u64::from(count > 1 && repeats);
            }
        }
    }
    assert!(met.iter().all(|&n| n > 200), "{met:?}");
    assert!(repeated > 1_000, "{repeated}");
}

#[test]
fn ties_and_repeated_symbols() {
    let count = |events: &Events, symbols: &[u32], span| {
        let episode = [ParallelEpisode::new(symbols.to_vec(), span).unwrap()];
        frequencies(3).map(|f| f.count_parallel(events, &episode, &()).unwrap()[0])
    };
    // Different symbols may lie in one tick; events of one symbol in one tick are one event.
    let tie = events(2, vec![(5, 0), (5, 0), (5, 1)]);
    assert_eq!(count(&tie, &[1, 0], 0), [1, 1, 1, 3]);
    assert_eq!(count(&tie, &[0, 0], 9), [0; 4]);
    // The three events of one symbol are two apart at least; a window of three ticks holds a pair in one position.
    let row = events(1, vec![(0, 0), (2, 0), (4, 0)]);
    assert_eq!(count(&row, &[0, 0], 2), [1, 2, 2, 2]);
    assert_eq!(count(&row, &[0, 0], 1), [0; 4]);
    assert_eq!(count(&row, &[0, 0, 0], 4), [1, 1, 0, 0]);
}

#[test]
fn frequencies_of_ordered_episodes_are_refused() {
    let tie = events(1, vec![(5, 0)]);
    let one = [ParallelEpisode::new(vec![0], 1).unwrap()];
    for frequency in [Frequency::Distinct, Frequency::Total { span: None }] {
        assert_eq!(oracle::parallel_frequency(&tie, &one[0], frequency), None);
        let error = frequency.count_parallel(&tie, &one, &()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let words = format!("{}: not defined for parallel episodes", frequency.name());
        assert!(error.message().contains(&words), "{error}");
    }
}

#[test]
fn text_goes_round() {
    let labels = ["a", "b}", "{", "left 3", "a->b"]
        .map(String::from)
        .to_vec();
    let alphabet = Alphabet::new(labels, Clock::from_tick_seconds(1e-3).unwrap()).unwrap();
    for symbols in [vec![0], vec![4, 0, 0], vec![0, 1, 2, 3, 4], vec![2, 1]] {
        let episode = ParallelEpisode::new(symbols, 20).unwrap();
        let text = episode.display(&alphabet).to_string();
        assert_eq!(
            ParallelEpisode::parse(&text, &alphabet).unwrap(),
            episode,
            "{text}"
        );
    }
    let text = "{\"left 3\" a a} within 0.02";
    let read = ParallelEpisode::parse(text, &alphabet).unwrap();
    assert_eq!((read.symbols(), read.span()), (&[0, 0, 3][..], 20));
}

#[test]
fn text_that_is_not_understood_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("list");
    let tie = events(2, vec![(5, 0), (6, 1)]);
    for (line, words) in [
        ("n0 n1", "expected `{A B C} within SECONDS`, got \"n0 n1\""),
        ("{n0 n1", "expected `{A B C} within SECONDS`"),
        (
            "{n0 n1}",
            "expected `within SECONDS` after the labels, got \"\"",
        ),
        ("{n0} within", "expected `within SECONDS`"),
        (
            "{n0} within soon",
            "expected seconds of at least 0 after `within`, got \"soon\"",
        ),
        (
            "{n0} within -1",
            "expected seconds of at least 0 after `within`, got \"-1\"",
        ),
        ("{n0} within inf", "expected seconds of at least 0"),
        ("{n0} within 1e300", "expected seconds that ticks"),
        ("{} within 1", "expected 1 to 256 symbols, got 0"),
        (
            "{n0->n1} within 1",
            "expected labels with blanks between them, got \"n0->n1\"",
        ),
        ("{n0 n7} within 1", "expected one of 2 (n0, n1), got \"n7\""),
        ("{\"n0} within 1", "expected a quote that closes it"),
    ] {
        std::fs::write(&path, format!("# a list\n{{n0 n1}} within 0.01\n{line}\n")).unwrap();
        let error = read_parallel(&path, tie.alphabet()).unwrap_err();
        assert!(error.message().contains(words), "{line}: {error}");
        assert!(error.message().contains("list, line 3: "), "{error}");
    }
    std::fs::write(&path, "# none\n").unwrap();
    let error = read_parallel(&path, tie.alphabet()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InsufficientData);
}
