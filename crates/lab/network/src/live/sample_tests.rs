//! Networks of samples as they come: those of the same samples offline, whatever the pieces.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::SampleNetwork;
use crate::cases;
use crate::*;

/// Edges of windows as they came: (start, i, j, r, lag, undefined).
type Came = (u64, Vec<u32>, Vec<u32>, Vec<f32>, Vec<i16>, Vec<u32>);

fn copied(window: &WindowEdges<'_>) -> Came {
    (
        window.start,
        window.i.to_vec(),
        window.j.to_vec(),
        window.r.to_vec(),
        window.lag.to_vec(),
        window.undefined.to_vec(),
    )
}

/// Feeds the segments of `signal` in random pieces, the samples between them as lost; returns the windows.
fn fed(live: &mut SampleNetwork, samples: &[f32], signal: &Signal<'_>, seed: u64) -> Vec<Came> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let nodes = signal.nodes() * signal.axes();
    let mut came = Vec::new();
    let mut at = 0;
    let mut update = |live: &mut SampleNetwork| {
        let before = came.len() as u64;
        let index = live.counts().windows;
        let windows = live
            .update(&(), |window| {
                assert_eq!(window.index as u64, index + came.len() as u64 - before);
                came.push(copied(window));
                Ok(())
            })
            .unwrap();
        assert_eq!(came.len() as u64 - before, windows);
        assert_eq!(live.ready(), 0);
    };
    for segment in signal.segments() {
        if segment.start > at || at > 0 {
            update(live);
            live.gap((segment.start - at) as u64);
        }
        at = segment.start;
        while at < segment.end {
            let end = (at + rng.random_range(0..40)).min(segment.end);
            live.push(&samples[at * nodes..end * nodes]).unwrap();
            at = end;
            if rng.random_bool(0.5) {
                update(live);
            }
        }
    }
    update(live);
    came
}

/// Compares with the offline network; values of sums in f32 within rounding.
fn check(came: &[Came], offline: &Network, what: &str) {
    assert_eq!(came.len(), offline.len(), "{what}");
    for (came, window) in came.iter().zip(offline.windows()) {
        assert_eq!(came.0, window.start, "{what}");
        assert_eq!((&came.1[..], &came.2[..]), (window.i, window.j), "{what}");
        assert_eq!(came.4, window.lag, "{what}");
        assert_eq!(came.5, window.undefined, "{what}");
        for (a, b) in came.3.iter().zip(window.r) {
            assert!((a - b).abs() <= 2e-5 * b.abs().max(1.0), "{what}: {a} {b}");
        }
    }
}

fn specs(window: Window) -> Vec<NetworkSpec> {
    let of = |measure| NetworkSpec::new(measure, window);
    let warping = Measure::Warping {
        band: 4,
        normalised: true,
    };
    vec![
        of(Measure::Pearson).threshold(Threshold::Absolute(0.4)),
        of(Measure::Pearson).threshold(Threshold::Density(0.2)),
        (of(Measure::Pearson).threshold(Threshold::Absolute(0.3))).taper(Taper::Hann),
        of(Measure::Covariance).threshold(Threshold::TopPerNode(2)),
        of(Measure::GaussianInformation).threshold(Threshold::Absolute(0.1)),
        of(Measure::Spearman).threshold(Threshold::Absolute(0.4)),
        of(Measure::Kendall).threshold(Threshold::Top(9)),
        of(Measure::Lagged { lags: 3 }).threshold(Threshold::Absolute(0.4)),
        of(Measure::Euclidean { hold: 1 }).threshold(Threshold::Absolute(12.0)),
        of(Measure::Euclidean { hold: 4 }).threshold(Threshold::Absolute(12.0)),
        of(Measure::PhaseLocking).threshold(Threshold::Absolute(0.3)),
        of(Measure::Partial).threshold(Threshold::Absolute(0.2)),
        of(warping).threshold(Threshold::Top(5)),
    ]
}

#[test]
fn windows_of_any_pieces_are_those_of_the_whole_signal() {
    let samples = cases::nine_nodes(3);
    // One segment is too short for a window, and two follow each other without a loss.
    let segments = vec![0..250, 250..300, 310..330, 337..700];
    for (length, step) in [(60, 1), (40, 7), (30, 45)] {
        for spec in specs(Window { length, step }) {
            let signal = Signal::new(&samples, cases::NINE_NODES).unwrap();
            let signal = signal.with_segments(segments.clone()).unwrap();
            let offline = cases::run(&spec, &signal);
            assert!(offline.edges() > 0, "{spec:?}");
            for seed in 0..3 {
                let mut live = SampleNetwork::new(spec, cases::NINE_NODES).unwrap();
                let came = fed(&mut live, &samples, &signal, seed);
                check(&came, &offline, &format!("{spec:?}, seed {seed}"));
                let counts = live.counts();
                assert_eq!((counts.rows, counts.lost, counts.gaps), (683, 17, 3));
                assert_eq!((counts.edges, counts.skipped), (offline.edges(), 0));
                assert_eq!(live.meta().trailing, offline.meta().trailing, "{spec:?}");
                assert_eq!((live.rows(), live.meta().samples), (700, 700));
            }
        }
    }
}

#[test]
fn places_that_come_are_those_of_the_whole_signal() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut place = vec![0.0_f32; 12];
    let samples: Vec<f32> = (0..400)
        .flat_map(|_| {
            (place.iter_mut()).for_each(|v| *v = 0.97 * *v + rng.random_range(-1.0..1.0));
            place.clone()
        })
        .collect();
    let signal = Signal::places(&samples, 6, 2).unwrap();
    let measure = Measure::Distance {
        near: 10,
        gap: 2,
        earth: false,
    };
    let spec = NetworkSpec::new(measure, Window::new(50, 10)).threshold(Threshold::Absolute(3.0));
    let offline = cases::run(&spec, &signal);
    assert!(offline.edges() > 0);
    let mut live = SampleNetwork::places(spec, 6, 2).unwrap();
    check(&fed(&mut live, &samples, &signal, 1), &offline, "places");
}

#[test]
fn edges_are_those_of_plain_loops() {
    let case = cases::communities(40, 500, 7);
    let spec = NetworkSpec::pearson(Window::new(80, 20)).threshold(Threshold::Absolute(0.3));
    let expected = cases::pearson_edges(&case.signal(), &spec);
    let mut live = SampleNetwork::new(spec, case.nodes).unwrap();
    let came = fed(&mut live, &case.samples, &case.signal(), 2);
    assert_eq!(came.len(), expected.len());
    for (came, expected) in came.iter().zip(expected) {
        let pairs: Vec<_> = came.1.iter().zip(&came.2).map(|(i, j)| (*i, *j)).collect();
        let wanted: Vec<_> = expected.iter().map(|(i, j, _)| (*i, *j)).collect();
        assert_eq!(pairs, wanted);
        for (r, (_, _, wanted)) in came.3.iter().zip(expected) {
            assert!((f64::from(*r) - wanted).abs() < 1e-5);
        }
    }
}

/// The windows that are ready.
fn taken(live: &mut SampleNetwork) -> Vec<Came> {
    let mut came = Vec::new();
    live.update(&(), |window| {
        came.push(copied(window));
        Ok(())
    })
    .unwrap();
    came
}

fn starts(live: &mut SampleNetwork) -> Vec<u64> {
    taken(live).iter().map(|came| came.0).collect()
}

#[test]
fn changes_come_with_the_next_window_and_need_no_new_rows() {
    let samples = cases::nine_nodes(3);
    let nodes = cases::NINE_NODES;
    let spec = NetworkSpec::pearson(Window::new(60, 20)).threshold(Threshold::Absolute(0.4));
    let mut live = SampleNetwork::new(spec, nodes).unwrap();
    live.push(&samples[..150 * nodes]).unwrap();
    assert_eq!(starts(&mut live), [0, 20, 40, 60, 80]);
    // Another threshold: the grid goes on.
    let lower = spec.threshold(Threshold::Absolute(0.1));
    live.set_spec(lower).unwrap();
    assert!(starts(&mut live).is_empty());
    live.push(&samples[150 * nodes..170 * nodes]).unwrap();
    let came = taken(&mut live);
    let signal = Signal::new(&samples[..170 * nodes], nodes).unwrap();
    let offline = cases::run(&lower, &signal);
    let last = offline.window(offline.len() - 1).unwrap();
    assert_eq!((came[0].0, &came[0].1[..]), (100, last.i));
    assert_eq!(came.len(), 1);
    // A shorter window: the newest one is there already. Row 170 has come last.
    let shorter = NetworkSpec {
        window: Window::new(40, 5),
        ..lower
    };
    live.set_spec(shorter).unwrap();
    assert_eq!(starts(&mut live), [130]);
    // A longer one fills with rows that are still held, and those that come.
    let longer = NetworkSpec {
        window: Window::new(100, 5),
        ..lower
    };
    live.set_spec(longer).unwrap();
    live.push(&samples[170 * nodes..300 * nodes]).unwrap();
    let begun = starts(&mut live);
    assert!(begun[0] <= 130 && begun.windows(2).all(|w| w[1] - w[0] == 5));
    assert!(*begun.last().unwrap() > 195);
    // A measure that looks further than the rows before.
    let spec = NetworkSpec::new(Measure::Euclidean { hold: 9 }, longer.window);
    live.set_spec(spec.threshold(Threshold::Absolute(12.0)))
        .unwrap();
    live.push(&samples[300 * nodes..400 * nodes]).unwrap();
    assert_eq!(taken(&mut live).len(), 20);
}

#[test]
fn what_is_left_out_is_counted() {
    let samples = cases::nine_nodes(3);
    let nodes = cases::NINE_NODES;
    let spec = NetworkSpec::pearson(Window::new(60, 20)).threshold(Threshold::Absolute(0.4));
    let mut live = SampleNetwork::new(spec, nodes).unwrap();
    assert_eq!(live.skip(), 0);
    live.gap(7);
    live.push(&samples[..150 * nodes]).unwrap();
    assert_eq!((live.ready(), live.skip(), live.ready()), (5, 4, 1));
    assert_eq!(starts(&mut live), [80]);
    live.push(&samples[150 * nodes..220 * nodes]).unwrap();
    live.gap(0);
    let counts = live.counts();
    // Windows at 100, 120, 140 and 160 were complete before the gap, and nothing was lost before the first row.
    assert_eq!((counts.skipped, counts.gaps, counts.lost), (8, 1, 0));
    assert_eq!(counts.windows, 1);
}

#[test]
fn rows_before_an_error_are_not_computed_again() {
    let samples = cases::nine_nodes(3);
    let spec = NetworkSpec::pearson(Window::new(60, 20)).threshold(Threshold::Absolute(0.4));
    let mut live = SampleNetwork::new(spec, cases::NINE_NODES).unwrap();
    live.push(&samples[..150 * cases::NINE_NODES]).unwrap();
    let mut accepted = Vec::new();
    let stopped = live.update(&(), |window| {
        if window.start == 40 {
            return Err(Error::argument("enough"));
        }
        accepted.push(window.start);
        Ok(())
    });
    assert_eq!(stopped.unwrap_err().message(), "enough");
    assert_eq!(accepted, [0, 20]);
    assert_eq!(starts(&mut live), [40, 60, 80]);
    assert_eq!(live.counts().windows, 5);
}

#[test]
fn what_cannot_be_computed_is_refused_at_the_beginning() {
    let spec = NetworkSpec::pearson(Window::new(60, 20));
    for (spec, words) in [
        (
            spec.threshold(Threshold::Absolute(2.0)),
            "threshold of pearson: expected 0 to 1, got 2",
        ),
        (
            NetworkSpec::pearson(Window::new(1, 1)),
            "expected at least 2 samples, got 1",
        ),
        (
            NetworkSpec::new(Measure::SpikeTiling { reach: 1 }, spec.window),
            "expected spike times",
        ),
        (
            NetworkSpec::pearson(Window::new(usize::MAX, 1)),
            "a window: expected",
        ),
        (
            NetworkSpec::new(
                Measure::Distance {
                    near: 3,
                    gap: 0,
                    earth: false,
                },
                spec.window,
            ),
            "expected places",
        ),
    ] {
        let error = SampleNetwork::new(spec, 5).unwrap_err();
        assert!(error.message().contains(words), "{error}");
        let mut live = SampleNetwork::new(NetworkSpec::pearson(Window::new(60, 20)), 5).unwrap();
        assert!(live.set_spec(spec).is_err());
        assert_eq!(live.window(), Window::new(60, 20));
    }
    let mut live = SampleNetwork::new(spec, 5).unwrap();
    live.push(&[0_u8; 10][..]).unwrap();
    let error = live.push(&[0_u8; 9][..]).unwrap_err();
    assert!(error.message().contains("5 nodes, got 9 values"), "{error}");
    let error = live.push(&[0_f32; 10][..]).unwrap_err();
    assert!(
        error.message().contains("expected samples of u8"),
        "{error}"
    );
    assert_eq!((live.counts().rows, live.rows()), (2, 2));
    for seconds in [0.0, f64::NAN] {
        let live = SampleNetwork::new(spec, 5).unwrap();
        assert!(live.with_sample_seconds(seconds).is_err());
    }
}

#[test]
fn windows_that_are_pushed_make_the_same_network() {
    let samples = cases::nine_nodes(3);
    let signal = Signal::new(&samples, cases::NINE_NODES).unwrap();
    for spec in specs(Window::new(60, 20)) {
        let offline = cases::run(&spec, &signal);
        let mut copy = Network::empty(offline.meta().clone());
        for window in offline.windows() {
            copy.push(&window).unwrap();
        }
        assert_eq!(copy, offline, "{spec:?}");
        let last = offline.window(offline.len() - 1).unwrap();
        let error = copy.push(&last).unwrap_err();
        assert!(
            error.message().contains("expected a start after"),
            "{error}"
        );
        let edge = WindowEdges {
            start: last.start + 1,
            i: &[3],
            j: &[3],
            r: &[0.5],
            lag: &[],
            ..last
        };
        assert!(copy.push(&edge).is_err());
        let edge = WindowEdges { j: &[9], ..edge };
        assert!(copy.push(&edge).is_err());
    }
}

#[test]
fn live_windows_on_a_gpu_are_those_of_the_cpu() {
    let device = match betz_device::Device::cuda(0) {
        Ok(device) => device,
        Err(error) => {
            eprintln!("skipped: {}", error.message());
            return;
        }
    };
    let case = cases::communities(300, 600, 11);
    let window = Window::new(80, 10);
    for spec in [
        NetworkSpec::pearson(window).threshold(Threshold::Absolute(0.4)),
        NetworkSpec::pearson(window).threshold(Threshold::Top(50)),
        NetworkSpec::new(Measure::Spearman, window).threshold(Threshold::Absolute(0.4)),
        NetworkSpec::new(Measure::Kendall, window).threshold(Threshold::Absolute(0.3)),
    ] {
        let offline = cases::run(&spec, &case.signal());
        assert!(offline.edges() > 0);
        let live = SampleNetwork::new(spec, case.nodes).unwrap();
        let mut live = live.on(&device).unwrap();
        let came = fed(&mut live, &case.samples, &case.signal(), 4);
        assert!(live.meta().device.starts_with("cuda"), "{:?}", live.meta());
        check(&came, &offline, &format!("{spec:?} on a GPU"));
    }
}
