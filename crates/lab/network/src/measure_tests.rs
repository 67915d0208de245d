//! Every measure and every kind of threshold against plain loops.

use std::collections::BTreeMap;

use crate::cases::{self, Case};
use crate::oracle::{self, reaches};
use crate::*;

/// All pairs of a window: (i, j) to value and lag.
fn values(
    signal: &Signal<'_>,
    spec: &NetworkSpec,
    start: usize,
) -> BTreeMap<(u32, u32), (f64, i16)> {
    let w = spec.window.length;
    let lags = match spec.measure {
        Measure::Lagged { lags } => lags,
        _ => 0,
    };
    let columns: Vec<Vec<f64>> = (0..signal.nodes())
        .map(|node| {
            (start - lags..start + w + lags)
                .map(|t| signal.value(t, node))
                .collect()
        })
        .collect();
    let mut all = BTreeMap::new();
    for (i, x) in columns.iter().enumerate() {
        for (j, y) in columns.iter().enumerate().skip(i + 1) {
            let value = match spec.measure {
                Measure::Pearson | Measure::GaussianInformation => {
                    let r = match spec.taper {
                        Taper::Rectangular => oracle::pearson(x, y),
                        taper => oracle::tapered(x, y, taper),
                    };
                    if spec.measure == Measure::Pearson {
                        r
                    } else {
                        r.map(oracle::gaussian_information)
                    }
                }
                Measure::Covariance => oracle::covariance(x, y),
                Measure::Euclidean { .. } => oracle::distance(x, y),
                Measure::Spearman => oracle::spearman(x, y),
                Measure::Kendall => oracle::kendall(x, y),
                Measure::PhaseLocking => oracle::phase_locking(x, y),
                Measure::ImaginaryPhaseLocking => oracle::imaginary_phase_locking(x, y),
                Measure::PhaseConsistency => oracle::phase_consistency(x, y),
                Measure::Lagged { lags } => {
                    let best = oracle::lagged(x, y, (lags, w), lags, |r| size(spec, r));
                    if let Some(best) = best {
                        all.insert((i as u32, j as u32), best);
                    }
                    continue;
                }
                Measure::Partial
                | Measure::Coherence { .. }
                | Measure::SpikeTiling { .. }
                | Measure::Distance { .. }
                | Measure::Warping { .. } => {
                    unreachable!("tested beside its code")
                }
            };
            if let Some(value) = value {
                all.insert((i as u32, j as u32), (value, 0));
            }
        }
    }
    all
}

fn size(spec: &NetworkSpec, value: f64) -> f64 {
    // −0 and 0 are the same size.
    0.0 + match (spec.measure, spec.sign) {
        (Measure::Euclidean { .. }, _) => -value,
        (_, Sign::Both) => value.abs(),
        (_, Sign::Positive) => value,
        (_, Sign::Negative) => -value,
    }
}

/// The pairs that `spec` keeps, by plain sorting.
fn sort_and_keep(
    all: &BTreeMap<(u32, u32), (f64, i16)>,
    spec: &NetworkSpec,
    nodes: usize,
) -> Vec<(u32, u32)> {
    let mut sorted: Vec<((u32, u32), f64)> =
        all.iter().map(|(p, (v, _))| (*p, size(spec, *v))).collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    let mut kept: Vec<(u32, u32)> = match spec.threshold {
        Threshold::Absolute(value) => {
            let threshold = if matches!(spec.measure, Measure::Euclidean { .. }) {
                -value
            } else {
                value
            };
            (sorted.iter())
                .filter(|(_, s)| reaches(*s, threshold, spec.strict))
                .map(|(p, _)| *p)
                .collect()
        }
        Threshold::Density(share) => {
            let pairs = nodes * (nodes - 1) / 2;
            let count = (share * pairs as f64).round() as usize;
            sorted.iter().take(count).map(|(p, _)| *p).collect()
        }
        Threshold::Top(count) => sorted.iter().take(count).map(|(p, _)| *p).collect(),
        Threshold::TopPerNode(count) => (0..nodes as u32)
            .flat_map(|node| {
                sorted
                    .iter()
                    .filter(move |((i, j), _)| *i == node || *j == node)
                    .take(count)
                    .map(|(p, _)| *p)
            })
            .collect(),
    };
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// All pairs of each window, by plain loops.
fn all_values(case: &Case, spec: &NetworkSpec) -> Vec<BTreeMap<(u32, u32), (f64, i16)>> {
    let signal = case.signal();
    let plan = Plan::new(spec, &signal).unwrap();
    plan.windows()
        .starts()
        .map(|start| values(&signal, spec, start))
        .collect()
}

/// For each pair: its value and its lag.
type PairValues = BTreeMap<(u32, u32), (f64, i16)>;

fn check(case: &Case, spec: &NetworkSpec, arch: Arch, all: &[PairValues]) {
    let signal = case.signal();
    let plan = Plan::new(spec, &signal).unwrap().with_arch(arch).unwrap();
    let network = plan.run(&signal, &()).unwrap();
    assert_eq!(network.len(), all.len());
    for (window, all) in network.windows().zip(all) {
        let what = format!("{}, {arch:?}, {spec:?}, window {}", case.name, window.index);
        let got: Vec<(u32, u32)> = window
            .i
            .iter()
            .copied()
            .zip(window.j.iter().copied())
            .collect();
        assert_eq!(got, sort_and_keep(all, spec, case.nodes), "{what}");
        for (at, pair) in got.iter().enumerate() {
            let (value, lag) = all[pair];
            // Against the deviations of the two nodes where these are not 1.
            let scale = match spec.measure {
                Measure::Covariance => {
                    let x = |node: u32| -> Vec<f64> {
                        let start = window.start as usize;
                        (start..start + spec.window.length)
                            .map(|t| signal.value(t, node as usize))
                            .collect()
                    };
                    let variance = |node: u32| oracle::covariance(&x(node), &x(node)).unwrap();
                    (variance(pair.0) * variance(pair.1)).sqrt()
                }
                Measure::Euclidean { .. } => value,
                _ => 1.0,
            };
            let error = (f64::from(window.r[at]) - f64::from(value as f32)).abs();
            assert!(
                error <= 1e-5 * scale + 1e-12 || window.r[at] == value as f32,
                "{what}: error {error:e}, {value}"
            );
            if let Measure::Lagged { .. } = spec.measure {
                assert_eq!(window.lag[at], lag, "{what}, {pair:?}");
            } else {
                assert!(window.lag.is_empty());
            }
        }
    }
}

fn some_cases() -> Vec<Case> {
    let names = [
        "communities, 33",
        "communities, 2 ",
        "artefact",
        "few values",
        "not finite",
        "falls silent",
        "twins",
        "bursts of 1e20",
        "1e6",
    ];
    let few = |case: &Case| names.iter().any(|name| case.name.contains(name));
    let mut cases: Vec<Case> = cases::all().into_iter().filter(few).collect();
    assert_eq!(cases.len(), names.len());
    for case in &mut cases {
        case.samples.truncate(case.nodes * 170);
    }
    cases
}

fn with_thresholds(measure: Measure, window: Window, absolute: f64) -> Vec<NetworkSpec> {
    let spec = NetworkSpec::new(measure, window);
    [
        Threshold::Absolute(absolute),
        Threshold::Density(0.05),
        Threshold::Top(7),
        Threshold::TopPerNode(2),
    ]
    .map(|threshold| spec.threshold(threshold))
    .into()
}

fn check_on(cases: &[Case], measure: Measure, absolute: f64, signs: &[Sign]) {
    for case in cases {
        for window in [Window::new(40, 9), Window::new(30, 25)] {
            for sign in signs {
                let specs: Vec<_> = with_thresholds(measure, window, absolute)
                    .into_iter()
                    .map(|s| s.sign(*sign))
                    .collect();
                let all = all_values(case, &specs[0]);
                for spec in &specs {
                    for arch in Arch::available() {
                        check(case, spec, arch, &all);
                    }
                }
            }
        }
    }
}

fn check_all(measure: Measure, absolute: f64, signs: &[Sign]) {
    check_on(&some_cases(), measure, absolute, signs);
}

const SIGNS: [Sign; 3] = [Sign::Both, Sign::Positive, Sign::Negative];

#[test]
fn pearson() {
    check_all(Measure::Pearson, 0.3, &SIGNS);
}

#[test]
fn tapered() {
    let weights = Taper::Hann.weights(40);
    assert!(weights.iter().all(|w| *w > 0.0) && (weights[19] - weights[20]).abs() < 1e-12);
    for case in some_cases() {
        for step in [1, 9] {
            let window = Window { length: 40, step };
            for sign in SIGNS {
                let mut all = Vec::new();
                for spec in with_thresholds(Measure::Pearson, window, 0.3) {
                    let spec = spec.sign(sign).taper(Taper::Hann);
                    if all.is_empty() {
                        all = all_values(&case, &spec);
                    }
                    check(&case, &spec, Arch::best(), &all);
                }
            }
        }
    }
    let case = cases::communities(12, 100, 3);
    let window = Window::new(30, 7);
    let spec = NetworkSpec::new(Measure::GaussianInformation, window)
        .threshold(Threshold::Absolute(0.1))
        .taper(Taper::Hann);
    check(&case, &spec, Arch::best(), &all_values(&case, &spec));
    let refused = NetworkSpec::new(Measure::Spearman, window).taper(Taper::Hann);
    assert!(Plan::new(&refused, &case.signal()).is_err());
}

#[test]
fn gaussian_information() {
    // Twins and bursts have correlations of 1 to within rounding, whose informations are in no order.
    let cases: Vec<Case> = some_cases()
        .into_iter()
        .filter(|c| !c.name.contains("twins") && !c.name.contains("bursts"))
        .collect();
    check_on(&cases, Measure::GaussianInformation, 0.1, &[Sign::Both]);
}

#[test]
fn spearman() {
    check_all(Measure::Spearman, 0.3, &SIGNS);
    // Long windows, steps that keep the order of samples up.
    let case = cases::communities(12, 300, 3);
    for step in [1, 7, 80] {
        let window = Window { length: 270, step };
        let spec = NetworkSpec::new(Measure::Spearman, window).threshold(Threshold::Absolute(0.2));
        check(&case, &spec, Arch::best(), &all_values(&case, &spec));
    }
}

#[test]
fn kendall() {
    check_all(Measure::Kendall, 0.25, &SIGNS);
    for case in some_cases() {
        for (length, step) in [(40, 1), (33, 2), (2, 1), (64, 50)] {
            let window = Window { length, step };
            let spec = NetworkSpec::new(Measure::Kendall, window);
            let spec = spec.threshold(Threshold::Absolute(0.3));
            check(&case, &spec, Arch::best(), &all_values(&case, &spec));
        }
    }
}

#[test]
fn covariance() {
    check_all(Measure::Covariance, 3.0, &SIGNS);
}

#[test]
fn euclidean() {
    check_all(Measure::Euclidean { hold: 1 }, 150.0, &[Sign::Both]);
}

#[test]
fn lagged() {
    check_all(
        Measure::Lagged { lags: 4 },
        0.4,
        &[Sign::Both, Sign::Negative],
    );
}

#[test]
fn a_delay_is_found_with_its_sign() {
    let base = cases::communities(1, 200, 9);
    // Node 1 is node 0 three samples later.
    let samples: Vec<f32> = (0..190)
        .flat_map(|t| [base.samples[t + 3], base.samples[t]])
        .collect();
    let signal = Signal::new(&samples, 2).unwrap();
    let window = Window::new(50, 10);
    let spec =
        NetworkSpec::new(Measure::Lagged { lags: 5 }, window).threshold(Threshold::Absolute(0.99));
    let network = cases::run(&spec, &signal);
    assert_eq!(network.lag(), vec![3; network.len()]);
    assert_eq!(
        network.window_start()[0],
        5,
        "windows keep the lags away from the start"
    );
}

#[test]
fn phases() {
    let names = ["communities, 33", "few values", "not finite"];
    let few = |case: &Case| names.iter().any(|name| case.name.contains(name));
    let mut cases: Vec<Case> = some_cases().into_iter().filter(few).collect();
    for case in &mut cases {
        case.change(|_, _, v| v * 0.05);
    }
    for measure in [
        Measure::PhaseLocking,
        Measure::ImaginaryPhaseLocking,
        Measure::PhaseConsistency,
    ] {
        check_on(&cases, measure, 0.3, &[Sign::Both]);
    }
}

#[test]
fn distances_that_last() {
    let case = cases::communities(20, 170, 2);
    let signal = case.signal().with_segments(vec![0..80, 85..170]).unwrap();
    let window = Window::new(20, 2);
    let run = |hold: usize| {
        let spec = NetworkSpec::new(Measure::Euclidean { hold }, window)
            .threshold(Threshold::Absolute(90.0));
        cases::run(&spec, &signal)
    };
    let (plain, held) = (run(1), run(4));
    let starts = plain.window_start();
    for (k, window) in held.windows().enumerate() {
        let near = |k: usize, pair: (u32, u32)| {
            plain
                .window(k)
                .unwrap()
                .edges()
                .any(|(i, j, _)| (i, j) == pair)
        };
        let expected: Vec<_> = (plain.window(k).unwrap().edges())
            .map(|(i, j, _)| (i, j))
            .filter(|pair| {
                k >= 3 && starts[k] - starts[k - 3] == 6 && (1..4).all(|back| near(k - back, *pair))
            })
            .collect();
        let got: Vec<_> = window.edges().map(|(i, j, _)| (i, j)).collect();
        assert_eq!(got, expected, "window {k}");
    }
    assert!(held.edges() > 0 && held.edges() < plain.edges());
}

#[test]
fn partial_networks_keep_what_is_asked_for() {
    let mut case = cases::communities(15, 120, 5);
    case.change(|_, node, v| if node == 4 { 1.0 } else { v });
    let signal = case.signal();
    let window = Window::new(40, 20);
    let run = |threshold: Threshold, sign: Sign| {
        let spec = NetworkSpec::new(Measure::Partial, window)
            .threshold(threshold)
            .sign(sign);
        cases::run(&spec, &signal)
    };
    let all = run(Threshold::Absolute(0.0), Sign::Both);
    assert_eq!(
        all.edges(),
        5 * 14 * 13 / 2,
        "all pairs of the 14 that are not constant"
    );
    assert_eq!(all.undefined(), (5, 0));
    for (threshold, sign) in [
        (Threshold::Absolute(0.1), Sign::Positive),
        (Threshold::Top(9), Sign::Negative),
        (Threshold::TopPerNode(1), Sign::Both),
    ] {
        let spec = NetworkSpec::new(Measure::Partial, window)
            .threshold(threshold)
            .sign(sign);
        let some = run(threshold, sign);
        for (window, all) in some.windows().zip(all.windows()) {
            let values: BTreeMap<_, _> = all
                .edges()
                .map(|(i, j, r)| ((i, j), (f64::from(r), 0)))
                .collect();
            let got: Vec<_> = window.edges().map(|(i, j, _)| (i, j)).collect();
            assert_eq!(got, sort_and_keep(&values, &spec, 15));
        }
    }
    let samples = vec![0_u8; 5000 * 3];
    let wide = Signal::new(&samples, 5000).unwrap();
    let error = Plan::new(
        &NetworkSpec::new(Measure::Partial, Window::new(3, 1)),
        &wide,
    )
    .unwrap_err();
    assert!(error.message().contains("4096"), "{error}");
}

#[test]
fn the_strongest_are_the_same_for_any_number_of_threads() {
    let case = cases::communities(150, 140, 31);
    let signal = case.signal();
    for threshold in [Threshold::Density(0.01), Threshold::TopPerNode(3)] {
        let spec = NetworkSpec::pearson(Window::new(50, 1)).threshold(threshold);
        let run = |threads: usize| cases::on_threads(threads, || cases::run(&spec, &signal));
        let one = run(1);
        for threads in [2, 5] {
            let other = run(threads);
            assert_eq!(
                (one.i(), one.j(), one.r()),
                (other.i(), other.j(), other.r())
            );
        }
        assert!(one.edges() > 0);
    }
}
