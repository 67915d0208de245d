//! Memory caps, from ample down to the smallest that works, over many shapes.

use rand::{RngExt, SeedableRng};

use super::*;
use betz_base::error::ErrorKind;

/// Lifts the cap at the end of a test, also of one that fails.
pub(super) struct MemoryCap<'a>(&'a Context);

impl<'a> MemoryCap<'a> {
    pub(super) fn at(context: &'a Context, bytes: u64) -> Self {
        context.set_memory_cap(Some(bytes));
        Self(context)
    }
}

impl Drop for MemoryCap<'_> {
    fn drop(&mut self) {
        self.0.set_memory_cap(None);
    }
}

/// Random shapes under caps between the smallest and ample: sums stay the same, memory stays below
/// the cap, and the smallest that the error names works where a byte less does not.
#[test]
fn every_cap_down_to_the_smallest_gives_the_same_sums() {
    let Some(context) = device("caps") else {
        return;
    };
    let exhaustive = std::env::var_os("BETZ_EXHAUSTIVE").is_some();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(9);
    for round in 0..if exhaustive { 60 } else { 10 } {
        let filters = rng.random_range(1..=8usize);
        let channels = match round % 5 {
            0 if filters < 3 => rng.random_range(300..=2100 / filters),
            1 => 1,
            _ => rng.random_range(1..=260 / filters),
        };
        let mut bounds = Vec::new();
        let mut at = rng.random_range(0..50);
        for _ in 0..rng.random_range(1..5) {
            let stop = at + rng.random_range(1..1500);
            bounds.push((at, stop));
            at = stop + rng.random_range(0..300);
        }
        let steps = bounds.last().map_or(0, |b| b.1);
        let count = rng.random_range(0..5000);
        let spikes = cases::random_spikes(round, channels as u32, steps, count);
        let data = cases::dataset(channels, &bounds, spikes, rng.random_range(0..4));
        let all = [
            (10.0, 1),
            (0.4, 0),
            (4.0, 2),
            (33.0, 1),
            (250.0, 3),
            (20.0, 4),
            (3.0, 1),
            (90.0, 1),
        ];
        let (bank, delay_steps) = (cases::bank(&all[..filters]), rng.random_range(-60..200));
        let case = Case {
            name: format!("round {round}: {channels} channels, {filters} filters, {bounds:?}"),
            data,
            bank,
            delay_steps,
        };
        let (data, bank, name) = (&case.data, &case.bank, &case.name);
        // The oracle where it takes no minute, f32 sums (which are off themselves) elsewhere.
        let small = channels * filters <= 400;
        let expected = if small {
            oracle::normal_equations(data, bank, None, delay_steps).unwrap()
        } else {
            crate::gram::event::normal_equations(data, bank, delay_steps, &()).unwrap()
        };
        let slack = if small { 1.0 } else { 2.0 };
        // Spikes with a weight of one take the way of counts.
        let mut weighted = data.clone();
        weighted.spikes.weights = vec![1.0; data.spikes.len()];
        for counted in [false, true] {
            let data = if counted { &weighted } else { data };
            let run = |path| {
                let contexts = std::slice::from_ref(&context);
                normal_equations(contexts, data, bank, None, delay_steps, path, &())
                    .map(|found| found.0)
            };
            for path in [GramPath::Dense, GramPath::Event] {
                if counted && path == GramPath::Event || expected.steps == 0 {
                    continue;
                }
                let name = format!("{name}, counts: {counted}, {}", path.name());
                run(path).unwrap_or_else(|e| panic!("{name}: {e}"));
                let error = {
                    let _cap = MemoryCap::at(&context, 1000);
                    run(path).unwrap_err()
                };
                assert_eq!(error.kind(), ErrorKind::DeviceMemory, "{name}: {error}");
                let least = error.needed_bytes().unwrap();
                {
                    let _cap = MemoryCap::at(&context, least - 1);
                    let error = run(path).unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::DeviceMemory, "{name}: {error}");
                }
                // The smallest cap means thousands of tiny blocks where there are many features.
                let small = least.max((expected.features as u64).pow(2));
                let caps = if expected.features <= 100 {
                    [least, least + least / 7, 3 * least]
                } else {
                    [small, 2 * small, 7 * small]
                };
                for cap in caps {
                    let _cap = MemoryCap::at(&context, cap);
                    context.synchronize().unwrap();
                    context.take_peak_memory().unwrap();
                    let mut got = run(path).unwrap_or_else(|e| panic!("{name}, {cap}: {e}"));
                    let peak = context.take_peak_memory().unwrap();
                    assert!(peak <= cap, "{name}: {peak} bytes used of {cap}");
                    let tolerance = match path {
                        GramPath::Event => TOLERANCE,
                        _ => DENSE_TOLERANCE,
                    };
                    close(&case, &expected, &mut got, slack * tolerance);
                    assert_eq!(got, {
                        let mut again = run(path).unwrap();
                        again.output_sum.clone_from(&got.output_sum);
                        again.output_sq_sum.clone_from(&got.output_sq_sum);
                        again
                    });
                }
            }
        }
    }
}

/// A cap that is too small is an error, after which the device works as before and has its memory.
#[test]
fn a_cap_too_small_leaves_the_device_usable() {
    let Some(context) = device("cap too small") else {
        return;
    };
    let case = cases::all().remove(0);
    let run = |path| {
        normal_equations(
            std::slice::from_ref(&context),
            &case.data,
            &case.bank,
            None,
            0,
            path,
            &(),
        )
        .map(|found| found.0)
    };
    for path in [GramPath::Dense, GramPath::Event] {
        let before = run(path).unwrap();
        context.trim().unwrap();
        let free = context.available_memory().unwrap();
        {
            let _cap = MemoryCap::at(&context, 4096);
            for _ in 0..5 {
                assert_eq!(run(path).unwrap_err().kind(), ErrorKind::DeviceMemory);
            }
        }
        assert_eq!(run(path).unwrap(), before);
        context.trim().unwrap();
        assert!(context.available_memory().unwrap() + (8 << 20) >= free);
    }
}
