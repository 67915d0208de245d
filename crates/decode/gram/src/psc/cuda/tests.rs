//! Every case of the CPU's suite on a device, against the same oracle.

use proptest::prelude::*;
use proptest::test_runner::{TestCaseError, TestRunner};

use super::*;
use crate::psc::oracle;
use crate::psc::tests::{banks, cases, dataset, datasets, low_passes, peaks, worst};
use betz_device::cuda::Context;
use betz_recording::{Dataset, Segment};
use betz_runtime::psc::{Filter, FilterBank, LowPass};
use betz_testkit::context;

/// Largest error of responses; see `worst`.
const TOLERANCE: f64 = 1e-5;

/// Counts of every channel and step, row-major (channels, steps).
fn counts(data: &Dataset) -> Vec<f32> {
    let mut counts = vec![0.0; data.channels() * data.steps];
    for (&t, &c) in data.spikes.ticks.iter().zip(&data.spikes.channels) {
        counts[c as usize * data.steps + t as usize] += 1.0;
    }
    counts
}

/// Values inside segments, in the oracle's layout; checks that all others are zero.
fn inside(data: &Dataset, rows: &[f32]) -> Vec<f64> {
    let mut values = vec![];
    for row in rows.chunks_exact(data.steps) {
        let mut outside = row.to_vec();
        for s in &data.segments {
            let steps = s.start as usize..s.stop as usize;
            values.extend(row[steps.clone()].iter().map(|&v| f64::from(v)));
            outside[steps].fill(0.0);
        }
        assert!(outside.iter().all(|&v| v == 0.0));
    }
    values
}

/// Responses of all channels, `slice` steps at a time.
fn responses(
    context: &Context,
    data: &Dataset,
    bank: &FilterBank,
    low_pass: Option<LowPass>,
    slice: usize,
) -> Vec<f32> {
    let (channels, steps) = (data.channels(), data.steps);
    let counts = counts(data);
    let mut recursion = Recursion::new(context, bank, data.step_seconds, channels).unwrap();
    let mut low_pass =
        low_pass.map(|l| LowPassScan::new(context, l, data.step_seconds, channels).unwrap());
    let rows = channels * bank.len();
    let mut result = vec![0.0; rows * steps];
    for from in (0..steps).step_by(slice) {
        let to = steps.min(from + slice);
        let stride = to - from;
        let layout = Layout::new(&data.segments, from as i64, to as i64);
        let layout = layout.upload(context).unwrap();
        let here: Vec<f32> = (counts.chunks_exact(steps))
            .flat_map(|row| row[from..to].iter().copied())
            .collect();
        let mut here = context.upload(&here).unwrap();
        if let Some(low_pass) = &mut low_pass {
            low_pass.run(&mut here, stride, &layout).unwrap();
        }
        let mut made = context.alloc(rows * stride).unwrap();
        recursion
            .run(
                here.read(),
                stride,
                &layout,
                &mut made,
                (bank.len(), stride),
            )
            .unwrap();
        let made: Vec<f32> = context.download(&made, rows * stride).unwrap();
        for (row, made) in made.chunks_exact(stride).enumerate() {
            result[row * steps + from..row * steps + to].copy_from_slice(made);
        }
    }
    result
}

#[test]
fn the_recursion_equals_the_oracle_in_every_case() {
    let Some(context) = context() else { return };
    let mut runner = TestRunner::new(cases(48));
    let strategy = (datasets(), banks(), low_passes());
    let outcome = runner.run(&strategy, |(data, bank, low_pass)| {
        let expected = oracle::responses(&data, &bank, low_pass).unwrap();
        let columns = data.steps_in_segments();
        let longest = data.segments.iter().map(Segment::len).max().unwrap_or(0);
        let floor = peaks(&bank, data.step_seconds, longest);
        let got = responses(&context, &data, &bank, low_pass, data.steps);
        let error = worst(&expected, inside(&data, &got).into_iter(), columns, &floor);
        prop_assert!(error < TOLERANCE, "{error:e}");
        Ok::<(), TestCaseError>(())
    });
    outcome.unwrap_or_else(|e| panic!("{e}"));
}

/// Some trials, one over many tiles, and a bank from brief to slow.
fn long_recording() -> (Dataset, FilterBank) {
    let segments = [
        (3, 4),
        (10, 4096),
        (4100, 21_000),
        (21_000, 21_001),
        (21_050, 30_011),
    ];
    let segments = segments.map(|(start, stop)| Segment { start, stop });
    let spikes = (0..9000u64).map(|i| ((i * i * 7 % 30_100) as i64, (i * 13 % 5) as u32));
    let data = dataset(0.001, 5, segments.to_vec(), 30_100, spikes.collect());
    let filters = [(0.0002, 2), (0.01, 1), (0.05, 4), (3.0, 0), (40.0, 1)];
    let filters = filters.map(|(tau_seconds, order)| Filter { tau_seconds, order });
    (data, FilterBank::new(filters.to_vec()).unwrap())
}

#[test]
fn tiles_and_slices_do_not_show() {
    let Some(context) = context() else { return };
    let (data, bank) = long_recording();
    for low_pass in [None, Some((8, 4.0)), Some((3, 60.0)), Some((5, 499.0))] {
        let low_pass = low_pass.map(|(order, cutoff_hz)| LowPass { order, cutoff_hz });
        let expected = crate::psc::responses::<f64>(&data, &bank, low_pass).unwrap();
        let columns = expected.steps.len();
        let floor = peaks(&bank, data.step_seconds, columns);
        for slice in [data.steps, 3 * TILE, TILE] {
            let got = responses(&context, &data, &bank, low_pass, slice);
            let got = inside(&data, &got).into_iter();
            let error = worst(&expected.values, got, columns, &floor);
            assert!(error < TOLERANCE, "{slice} steps, {low_pass:?}: {error:e}");
        }
    }
}
