//! The fast way against plain loops, on all cases and registers.

use betz_base::progress::StopAfter;
use proptest::prelude::*;

use crate::block::Rules;
use crate::cases::{self, Case};
use crate::oracle::{self, UndefinedReason};
use crate::*;

/// Largest difference between a correlation and its f64 value.
const TOLERANCE: f64 = 1e-5;

fn spec(length: usize, step: usize, threshold: f64) -> NetworkSpec {
    NetworkSpec::pearson(Window { length, step }).threshold(Threshold::Absolute(threshold))
}

/// Differences from the oracle: wrong edges, and the largest error of right ones.
fn wrong(network: &Network, signal: &Signal<'_>, spec: &NetworkSpec) -> (usize, f64) {
    let expected = cases::pearson_edges(signal, spec);
    assert_eq!(network.len(), expected.len());
    let (mut wrong, mut error) = (0, 0.0_f64);
    for (window, expected) in network.windows().zip(expected) {
        let got: Vec<_> = window.edges().collect();
        assert!(
            got.is_sorted_by(|a, b| (a.0, a.1) < (b.0, b.1)),
            "sorted, none twice"
        );
        let mut right = 0;
        for (i, j, r) in &got {
            if let Ok(at) = expected.binary_search_by(|e| (e.0, e.1).cmp(&(*i, *j))) {
                right += 1;
                error = error.max((expected[at].2 - f64::from(*r)).abs());
            }
        }
        wrong += got.len() - right + (expected.len() - right);
    }
    (wrong, error)
}

fn check(case: &Case, plan: &Plan) {
    let signal = case.signal();
    let spec = plan.spec();
    let network = plan.run(&signal, &()).unwrap();
    let (wrong, error) = wrong(&network, &signal, spec);
    let what = format!(
        "{}, {:?}, {spec:?}, chunks of {}",
        case.name,
        plan.arch(),
        plan.chunk_windows
    );
    assert_eq!(wrong, 0, "wrong edges: {what}");
    assert!(error <= TOLERANCE, "error {error:e}: {what}");
    for window in network.windows() {
        let start = window.start as usize;
        let expected: Vec<(u32, UndefinedReason)> = (0..case.nodes)
            .filter_map(|node| {
                let x: Vec<f64> = (start..start + spec.window.length)
                    .map(|t| signal.value(t, node))
                    .collect();
                Some((node as u32, oracle::moments(&x).err()?))
            })
            .collect();
        let got: Vec<_> = window
            .undefined
            .iter()
            .copied()
            .zip(window.why.iter().copied())
            .collect();
        assert_eq!(
            got, expected,
            "undefined in window {}: {what}",
            window.index
        );
    }
}

#[test]
fn edges_are_those_of_plain_loops_in_every_case() {
    for arch in Arch::available() {
        for case in cases::all() {
            for (length, step, threshold) in [
                (50, 1, 0.4),
                (40, 7, 0.3),
                (30, 29, 0.5),
                (2, 3, 0.9),
                (20, 45, 0.3),
            ] {
                let signal = case.signal();
                if case.nodes == 0 {
                    continue;
                }
                let mut plan = Plan::new(&spec(length, step, threshold), &signal)
                    .unwrap()
                    .with_arch(arch)
                    .unwrap();
                check(&case, &plan);
                plan.chunk_windows = 37;
                check(&case, &plan);
            }
        }
    }
}

#[test]
fn signs_strictness_and_threshold_nought() {
    let case = cases::communities(33, 120, 3);
    for arch in Arch::available() {
        for sign in [Sign::Both, Sign::Positive, Sign::Negative] {
            for strict in [false, true] {
                for threshold in [0.0, 1e-5, 0.2, 1.0] {
                    let spec = spec(40, 1, threshold).sign(sign).strict(strict);
                    let plan = Plan::new(&spec, &case.signal())
                        .unwrap()
                        .with_arch(arch)
                        .unwrap();
                    check(&case, &plan);
                }
            }
        }
    }
}

#[test]
fn twins_reach_a_threshold_of_one_and_never_exceed_it() {
    let mut case = cases::communities(24, 150, 4);
    let values = case.samples.clone();
    case.change(|t, node, v| {
        if node >= 12 {
            -2.0 * values[t * 24 + node - 12]
        } else {
            v
        }
    });
    let signal = case.signal();
    let network = Plan::new(&spec(50, 1, 1.0), &signal)
        .unwrap()
        .run(&signal, &())
        .unwrap();
    for window in network.windows() {
        let pairs: Vec<_> = window.edges().collect();
        let expected: Vec<_> = (0..12).map(|i| (i, i + 12, -1.0)).collect();
        assert_eq!(pairs, expected);
    }
    let strict = Plan::new(&spec(50, 1, 1.0).strict(true), &signal).unwrap();
    assert_eq!(strict.run(&signal, &()).unwrap().edges(), 0);
}

#[test]
fn segments_are_never_crossed() {
    let case = cases::communities(14, 200, 5);
    let signal = case
        .signal()
        .with_segments(vec![5..70, 80..99, 100..190])
        .unwrap();
    let spec = spec(30, 4, 0.3);
    let network = cases::run(&spec, &signal);
    assert_eq!(wrong(&network, &signal, &spec).0, 0);
    let starts = network.window_start();
    assert!(starts.contains(&100) && !starts.iter().any(|s| (41..100).contains(s)));
    assert_eq!(network.meta().trailing, 3 + 19);
}

#[test]
fn threads_and_chunks_do_not_matter() {
    let case = cases::artefact(130, 400);
    let signal = case.signal();
    let spec = spec(60, 1, 0.3);
    let run = |threads: usize, chunk_windows: usize| {
        let mut plan = Plan::new(&spec, &signal).unwrap();
        plan.chunk_windows = chunk_windows;
        cases::on_threads(threads, || plan.run(&signal, &())).unwrap()
    };
    let one = run(1, 100);
    for threads in [2, 3, 8] {
        assert_eq!(run(threads, 100), one, "{threads} threads");
    }
    for chunk_windows in [1, 17, 341] {
        let other = run(2, chunk_windows);
        assert_eq!(
            (other.i(), other.j(), other.indptr()),
            (one.i(), one.j(), one.indptr())
        );
    }
}

/// Edges that come out wrong on `case` under `rules`.
fn wrong_under(case: &Case, threshold: f64, rules: Rules) -> usize {
    let signal = case.signal();
    let spec = spec(60, 1, threshold);
    let mut plan = Plan::new(&spec, &signal).unwrap();
    plan.rules = rules;
    let network = plan.run(&signal, &()).unwrap();
    wrong(&network, &signal, &spec).0
}

#[test]
fn without_the_rule_of_anchors_an_artefact_makes_wrong_edges() {
    let case = cases::artefact(60, 300);
    assert_eq!(wrong_under(&case, 0.3, Rules::default()), 0);
    let without = Rules {
        anchors: false,
        ..Rules::default()
    };
    assert!(wrong_under(&case, 0.3, without) > 50);
}

/// Many pairs whose correlation is the threshold to within f32: each node is a mixture with a
/// correlation of exactly 0.6 in exact arithmetic over every window of 60.
fn at_the_threshold() -> Case {
    let nodes = 60;
    let mut case = Case {
        name: "at 0.6".into(),
        samples: vec![0.0; nodes * 130],
        nodes,
    };
    // Orthogonal over 60 samples wherever the window begins: sines of different whole numbers of turns.
    let wave = |t: usize, turns: usize| (std::f64::consts::TAU * (t * turns) as f64 / 60.0).sin();
    case.change(|t, node, _| {
        let (common, own) = (wave(t, 1), wave(t, 2 + node % 27));
        let r = 0.6_f64.sqrt();
        let jitter = 1.0 + 1e-6 * (node as f64 - 30.0);
        (100.0 * (r * jitter * common + (1.0 - r * r).sqrt() * own)) as f32
    });
    case
}

#[test]
fn without_the_recheck_the_threshold_decides_wrongly() {
    let case = at_the_threshold();
    assert_eq!(wrong_under(&case, 0.6, Rules::default()), 0);
    let without = Rules {
        recheck: false,
        ..Rules::default()
    };
    assert!(wrong_under(&case, 0.6, without) > 50);
}

#[test]
fn the_edge_set_does_not_depend_on_the_margin() {
    let case = at_the_threshold();
    // Lower ends of the margin that f32 rounds down, among the pairs' correlations.
    let ends: Vec<f64> = (0..200)
        .map(|n| 0.6 + 1e-8 * f64::from(n))
        .filter(|end| f64::from(*end as f32) < end - 2e-8)
        .step_by(8)
        .take(3)
        .collect();
    assert_eq!(ends.len(), 3);
    let total = |one_sided: bool| -> usize {
        (ends.iter().zip([1e-5, 3e-5, 1e-4]))
            .map(|(end, margin)| {
                let rules = Rules {
                    margin: Some(margin),
                    one_sided,
                    ..Rules::default()
                };
                wrong_under(&case, end + margin, rules)
            })
            .sum()
    };
    assert_eq!(total(true), 0);
    assert!(
        total(false) > 0,
        "a two-sided test lets pairs slip through below its lower end"
    );
}

#[test]
fn little_memory_means_fewer_windows_at_a_time() {
    let case = cases::communities(100, 400, 4);
    let signal = case.signal();
    let plan = Plan::new(&spec(50, 1, 0.4), &signal).unwrap();
    let all = plan.run(&signal, &()).unwrap();
    let bytes = plan.estimate().bytes;
    let less = plan.clone().with_memory(bytes / 5).unwrap();
    assert!(less.estimate().bytes <= bytes / 5 && less.chunk_windows < plan.chunk_windows);
    let same = less.run(&signal, &()).unwrap();
    assert_eq!((all.i, all.j, all.indptr), (same.i, same.j, same.indptr));
    let error = plan.with_memory(1000).unwrap_err();
    assert!(
        error.message().contains("memory: expected at least"),
        "{error}"
    );
}

#[test]
fn too_many_edges_are_refused_and_a_stop_is_heard() {
    let case = cases::communities(60, 200, 6);
    let signal = case.signal();
    let plan = |most: u64| Plan::new(&spec(50, 1, 0.0).max_edges(most), &signal).unwrap();
    let all = 151 * 60 * 59 / 2;
    assert_eq!(plan(all).run(&signal, &()).unwrap().edges(), all);
    let error = plan(all - 1).run(&signal, &()).unwrap_err();
    assert!(error.message().contains("higher threshold"), "{error}");
    let error = plan(all).run(&signal, &StopAfter::new(0)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Interrupted);
}

#[test]
fn no_nodes_and_one_node_have_no_edges() {
    for nodes in [0, 1] {
        let samples = vec![0.5_f32; 100 * nodes];
        let signal = Signal::new(&samples, nodes).unwrap();
        let Ok(plan) = Plan::new(&spec(10, 1, 0.5), &signal) else {
            assert_eq!(nodes, 0, "no samples, no window");
            continue;
        };
        let network = plan.run(&signal, &()).unwrap();
        assert_eq!(
            (network.len(), network.edges(), network.undefined()),
            (91, 0, (91, 0))
        );
    }
}

#[test]
fn wrong_specifications_are_named() {
    let case = cases::communities(5, 100, 1);
    let signal = case.signal();
    let pearson = spec(10, 1, 0.5);
    let measured = |measure| NetworkSpec::new(measure, pearson.window);
    for (spec, word) in [
        (spec(10, 1, -0.1), "threshold"),
        (spec(10, 1, 1.1), "threshold"),
        (spec(10, 1, f64::NAN), "threshold"),
        (spec(101, 1, 0.5), "101"),
        (spec(1, 1, 0.5), "length"),
        (spec(10, 0, 0.5), "step"),
        (pearson.threshold(Threshold::Density(0.0)), "density"),
        (pearson.threshold(Threshold::Density(1.5)), "density"),
        (pearson.threshold(Threshold::Top(0)), "strongest"),
        (pearson.threshold(Threshold::Top(3)).strict(true), "strict"),
        (measured(Measure::PhaseLocking).sign(Sign::Positive), "sign"),
        (measured(Measure::Euclidean { hold: 0 }), "hold"),
        (measured(Measure::Lagged { lags: 1 << 20 }), "lags"),
        (measured(Measure::Lagged { lags: 46 }), "102"),
    ] {
        let error = Plan::new(&spec, &signal).unwrap_err();
        assert!(error.message().contains(word), "{word}: {error}");
    }
    let plan = Plan::new(&pearson, &signal).unwrap();
    let other = cases::communities(5, 101, 1);
    assert!(plan.run(&other.signal(), &()).is_err());
}

#[test]
fn a_share_of_less_than_a_pair_is_no_edge() {
    let case = cases::communities(30, 60, 1);
    let signal = case.signal();
    let spec = spec(20, 10, 0.5).threshold(Threshold::Density(0.001));
    let network = Plan::new(&spec, &signal).unwrap().run(&signal, &());
    assert_eq!(network.unwrap().edges(), 0);
}

#[test]
fn a_run_that_is_stopped_keeps_whole_windows_if_asked() {
    let case = cases::communities(12, 400, 2);
    let signal = case.signal();
    let mut plan = Plan::new(&spec(20, 1, 0.3), &signal).unwrap();
    plan.chunk_windows = 8;
    let whole = plan.run(&signal, &()).unwrap();
    let mut kept = Vec::new();
    for questions in [0, 12, 40] {
        let stop = || StopAfter::new(questions);
        let plain = plan.run(&signal, &stop()).unwrap_err();
        assert_eq!(plain.kind(), ErrorKind::Interrupted);
        let run = Run {
            keep_finished: true,
            ..Run::default()
        };
        match plan.run_with(run, &signal, &stop()) {
            Ok(Some(part)) => {
                assert!(part.len() < whole.len());
                for (a, b) in part.windows().zip(whole.windows()) {
                    assert_eq!(a, b);
                }
                kept.push(part.len());
            }
            Ok(None) => panic!("expected a network without a team"),
            Err(e) => assert_eq!(e.kind(), ErrorKind::Interrupted),
        }
    }
    assert!(!kept.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_shape(
        (nodes, samples, seed) in (1_usize..60, 20_usize..150, 0_u64..1000),
        (length, step) in (2_usize..20, 1_usize..30),
        threshold in 0.05_f64..0.95,
    ) {
        let case = cases::communities(nodes, samples, seed);
        for arch in Arch::available() {
            check(&case, &Plan::new(&spec(length, step, threshold), &case.signal()).unwrap().with_arch(arch).unwrap());
        }
    }

    #[test]
    fn order_scale_and_offset_of_nodes_do_not_matter(seed in 0_u64..1000, shift in 1_usize..39) {
        let case = cases::communities(40, 120, seed);
        let spec = spec(30, 1, 0.45);
        let run = |case: &Case| Plan::new(&spec, &case.signal()).unwrap().run(&case.signal(), &()).unwrap();
        let plain = run(&case);
        let mut moved = case.clone();
        moved.change(|t, node, _| {
            let v = case.samples[t * 40 + (node + shift) % 40];
            if node % 2 == 0 { -2.0 * v } else { v * 4.0 }
        });
        let moved = run(&moved);
        for (a, b) in plain.windows().zip(moved.windows()) {
            let expected: Vec<(u32, u32)> = a.edges().map(|(i, j, _)| (i, j)).collect();
            let mut got: Vec<(u32, u32)> = b
                .edges()
                .map(|(i, j, _)| ((i + shift as u32) % 40, (j + shift as u32) % 40))
                .map(|(i, j)| (i.min(j), i.max(j)))
                .collect();
            got.sort_unstable();
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn every_second_window_and_slices_are_the_same(seed in 0_u64..1000) {
        let case = cases::communities(20, 90, seed);
        let signal = case.signal();
        let run = |spec: NetworkSpec, signal: &Signal<'_>| Plan::new(&spec, signal).unwrap().run(signal, &()).unwrap();
        let (one, two) = (run(spec(30, 1, 0.4), &signal), run(spec(30, 2, 0.4), &signal));
        for (k, window) in two.windows().enumerate() {
            let other = one.window(2 * k).unwrap();
            prop_assert_eq!((window.i, window.j), (other.i, other.j));
            let slice = &case.samples[2 * k * 20..(2 * k + 30) * 20];
            let alone = run(spec(30, 1, 0.4), &Signal::new(slice, 20).unwrap());
            prop_assert_eq!((alone.i(), alone.j()), (other.i, other.j));
        }
    }
}
