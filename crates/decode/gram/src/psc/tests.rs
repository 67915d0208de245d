//! Every path against the oracle, on one list of cases.

use proptest::prelude::*;

use super::{Block, Responses, oracle};
use betz_recording::{Dataset, Segment, Spikes};
use betz_runtime::psc::{Filter, FilterBank, LowPass, MAX_ORDER, RecursiveFilter};

/// Largest difference, row by row relative to the largest value expected in the row, or to `floor`
/// (cycled over the rows) where that is larger.
pub(super) fn worst(
    expected: &[f64],
    got: impl Iterator<Item = f64>,
    columns: usize,
    floor: &[f64],
) -> f64 {
    let got: Vec<f64> = got.collect();
    assert_eq!(got.len(), expected.len());
    let rows = expected
        .chunks(columns.max(1))
        .zip(got.chunks(columns.max(1)));
    let mut worst: f64 = 0.0;
    for ((expected, got), floor) in rows.zip(floor.iter().cycle()) {
        let peak = expected.iter().fold(*floor, |m, v| m.max(v.abs()));
        for (e, g) in expected.iter().zip(got) {
            worst = worst.max((e - g).abs() / peak);
        }
    }
    worst
}

/// The largest response to one spike, per filter.
pub(super) fn peaks(bank: &FilterBank, step_seconds: f64, longest: usize) -> Vec<f64> {
    let peak = |f: &Filter| {
        f.impulse(step_seconds, longest)
            .into_iter()
            .fold(1e-12, f64::max)
    };
    bank.filters().iter().map(peak).collect()
}

pub(crate) fn dataset(
    step_seconds: f64,
    channels: usize,
    segments: Vec<Segment>,
    steps: usize,
    mut spikes: Vec<(i64, u32)>,
) -> Dataset {
    spikes.sort_unstable();
    Dataset {
        step_seconds,
        steps,
        channel_names: (0..channels).map(|c| format!("c{c}")).collect(),
        spikes: Spikes::new(
            spikes.iter().map(|s| s.0).collect(),
            spikes.iter().map(|s| s.1).collect(),
        ),
        segments,
        outputs: vec![],
        behavior: vec![],
    }
}

prop_compose! {
    /// Lengths from one step, gaps between segments, spikes in the gaps, several spikes per step.
    pub(crate) fn datasets()(
        channels in 1usize..20,
        pieces in prop::collection::vec((0i64..5, prop_oneof![1i64..8, 1i64..400]), 1..6),
    )(
        spikes in {
            let steps: i64 = pieces.iter().map(|p| p.0 + p.1).sum();
            prop::collection::vec((0..steps, 0..channels as u32), 0..200)
        },
        pieces in Just(pieces),
        channels in Just(channels),
    ) -> Dataset {
        let mut segments = vec![];
        let mut at = 0;
        for (gap, len) in pieces {
            segments.push(Segment { start: at + gap, stop: at + gap + len });
            at += gap + len;
        }
        dataset(0.002, channels, segments, at as usize, spikes)
    }
}

prop_compose! {
    /// τ from a hundredth of a step to 500 steps.
    pub(crate) fn banks()(
        filters in prop::collection::vec((-2.0f64..2.7, 0..=MAX_ORDER), 1..5),
    ) -> FilterBank {
        let filters = filters
            .iter()
            .map(|&(log, order)| Filter { tau_seconds: 0.002 * 10f64.powf(log), order })
            .collect();
        FilterBank::new(filters).unwrap()
    }
}

pub(crate) fn low_passes() -> impl Strategy<Value = Option<LowPass>> {
    prop::option::of((1u32..=8, 5.0f64..200.0))
        .prop_map(|l| l.map(|(order, cutoff_hz)| LowPass { order, cutoff_hz }))
}

pub(crate) fn cases(default: u32) -> ProptestConfig {
    let exhaustive = std::env::var_os("BETZ_EXHAUSTIVE").is_some();
    ProptestConfig::with_cases(if exhaustive { 20 * default } else { default })
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn blocks_of_any_size_equal_the_oracle(
        dataset in datasets(),
        bank in banks(),
        low_pass in low_passes(),
        max_columns in prop_oneof![1usize..20, 1usize..3000],
        delay in -4i64..12,
    ) {
        let expected = oracle::responses(&dataset, &bank, low_pass).unwrap();
        let all = dataset.steps_in_segments();
        // Columns of the oracle whose partner is inside the segment, and their steps.
        let mut kept = vec![];
        let mut steps = vec![];
        let mut column = 0;
        for s in &dataset.segments {
            for t in s.start..s.stop {
                if (s.start..s.stop).contains(&(t - delay)) {
                    kept.push(column);
                    steps.push(t as usize);
                }
                column += 1;
            }
        }
        let mut walk = Responses::new(&dataset, &bank, low_pass).unwrap().paired(delay);
        let mut single = Responses::new(&dataset, &bank, low_pass).unwrap().paired(delay);
        let features = walk.features();
        // Rounding goes on in what filters hold: it is relative to a response's peak, which a block may not have in it.
        let peak = |row: &[f64]| row.iter().fold(1e-6, |m: f64, v| m.max(v.abs()));
        let peaks: Vec<f64> = expected.chunks(all.max(1)).map(peak).collect();
        let (mut block, mut block32) = (Block::<f64>::default(), Block::<f32>::default());
        let mut done = 0;
        while walk.next_block(max_columns, &mut block) {
            prop_assert!(single.next_block(max_columns, &mut block32));
            let columns = block.steps.len();
            prop_assert!(columns <= max_columns && columns > 0);
            prop_assert_eq!(&block.steps[..], &steps[done..done + columns]);
            prop_assert_eq!(&block.steps, &block32.steps);
            let part: Vec<f64> = (0..features)
                .flat_map(|f| kept[done..done + columns].iter().map(move |c| f * all + c))
                .map(|i| expected[i])
                .collect();
            let off = worst(&part, block.values.iter().copied(), columns, &peaks);
            prop_assert!(off < 1e-10, "{off:e}");
            let single = block32.values.iter().map(|&v| f64::from(v));
            prop_assert!(worst(&part, single, columns, &[1e-6]) < 1e-5);
            done += columns;
        }
        prop_assert_eq!(done, kept.len());
        prop_assert!(!single.next_block(max_columns, &mut block32));
    }

    #[test]
    fn the_streaming_filter_equals_the_oracle(dataset in datasets(), bank in banks()) {
        let expected = oracle::responses(&dataset, &bank, None).unwrap();
        let columns = dataset.steps_in_segments();
        let channels = dataset.channels();
        for (f, filter) in bank.filters().iter().enumerate() {
            let mut stream = RecursiveFilter::new(*filter, dataset.step_seconds, channels);
            let mut got = vec![0.0; channels * columns];
            let mut column = 0;
            for s in &dataset.segments {
                stream.reset();
                for t in s.start..s.stop {
                    let mut counts = vec![0.0; channels];
                    for i in dataset.spikes.range(t, t + 1) {
                        counts[dataset.spikes.channels[i] as usize] += 1.0;
                    }
                    let mut response = vec![0.0; channels];
                    stream.step(&counts, &mut response);
                    for (c, y) in response.iter().enumerate() {
                        got[c * columns + column] = *y;
                    }
                    column += 1;
                }
            }
            for channel in 0..channels {
                let row = (channel * bank.len() + f) * columns;
                let got = got[channel * columns..][..columns].iter().copied();
                prop_assert!(worst(&expected[row..row + columns], got, columns, &[1e-6]) < 1e-10);
            }
        }
    }
}

#[test]
fn long_silence_flushes_every_state() {
    for order in 0..=MAX_ORDER {
        let filter = Filter {
            tau_seconds: 0.01,
            order,
        };
        let fresh = RecursiveFilter::new(filter, 0.001, 1);
        let mut stream = fresh.clone();
        let mut response = [0.0];
        stream.step(&[1.0], &mut response);
        let mut smallest = f64::INFINITY;
        for _ in 0..20_000 {
            stream.step(&[0.0], &mut response);
            if response[0] > 0.0 {
                smallest = smallest.min(response[0]);
            }
        }
        assert_eq!(stream, fresh, "order {order}: a state outlived the silence");
        assert!(smallest > f64::MIN_POSITIVE);
    }
}

#[test]
fn a_spike_outside_the_dataset_is_refused() {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.01,
        order: 1,
    }])
    .unwrap();
    let whole = vec![Segment { start: 0, stop: 10 }];
    for spike in [(3, 2), (10, 0), (-1, 0)] {
        let dataset = dataset(0.002, 2, whole.clone(), 10, vec![spike]);
        let error = Responses::new(&dataset, &bank, None).unwrap_err();
        assert_eq!(error.kind(), betz_base::ErrorKind::Mismatch);
    }
}
