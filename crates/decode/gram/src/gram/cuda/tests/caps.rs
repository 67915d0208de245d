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

const FILTERS: [(f64, u32); 8] = [
    (10.0, 1),
    (0.4, 0),
    (4.0, 2),
    (33.0, 1),
    (250.0, 3),
    (20.0, 4),
    (3.0, 1),
    (90.0, 1),
];

/// Up to 260 features, and every fifth round up to 2,100.
fn random_case(rng: &mut impl RngExt, round: u64) -> Case {
    let filters = rng.random_range(1..=FILTERS.len());
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
    Case {
        name: format!("round {round}: {channels} channels, {filters} filters, {bounds:?}"),
        data: cases::dataset(channels, &bounds, spikes, rng.random_range(0..4)),
        bank: cases::bank(&FILTERS[..filters]),
        delay_steps: rng.random_range(-60..200),
    }
}

/// Sums of the oracle if it takes less than a minute, otherwise in f32, which are off themselves. Returns also the
/// factor that this adds to the tolerance.
fn expected_sums(case: &Case) -> (NormalEquations, f64) {
    let (data, bank, delay_steps) = (&case.data, &case.bank, case.delay_steps);
    if case.data.channel_names.len() * bank.filters().len() <= 400 {
        let sums = oracle::normal_equations(data, bank, None, delay_steps);
        (sums.unwrap(), 1.0)
    } else {
        let sums = crate::gram::event::normal_equations(data, bank, delay_steps, &());
        (sums.unwrap(), 2.0)
    }
}

/// Random shapes under caps between the smallest and ample: sums stay the same, memory stays below
/// the cap, and the smallest that the error names works where a byte less does not.
#[test]
fn every_cap_down_to_the_smallest_gives_the_same_sums() {
    let Some(context) = context() else { return };
    let exhaustive = std::env::var_os("BETZ_EXHAUSTIVE").is_some();
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(9);
    for round in 0..if exhaustive { 60 } else { 10 } {
        let case = random_case(&mut rng, round);
        let (expected, slack) = expected_sums(&case);
        if expected.steps == 0 {
            continue;
        }
        // Spikes with a weight of one take the way of counts.
        let mut counted = case.data.clone();
        counted.spikes.weights = vec![1.0; counted.spikes.len()];
        for (data, path, tolerance) in [
            (&case.data, GramPath::Dense, DENSE_TOLERANCE),
            (&case.data, GramPath::Event, TOLERANCE),
            (&counted, GramPath::Dense, DENSE_TOLERANCE),
        ] {
            let name = format!(
                "{}, {} weights, {}",
                case.name,
                data.spikes.weights.len(),
                path.name()
            );
            let capped = CappedSums {
                name,
                context: &context,
                data,
                case: &case,
                path,
            };
            capped.assert_same(&expected, slack * tolerance);
        }
    }
}

/// Sums of a case on a device, by one path.
struct CappedSums<'a> {
    name: String,
    context: &'a Arc<Context>,
    data: &'a Dataset,
    case: &'a Case,
    path: GramPath,
}

impl CappedSums<'_> {
    fn run(&self) -> Result<NormalEquations> {
        let contexts = std::slice::from_ref(self.context);
        let (bank, delay_steps) = (&self.case.bank, self.case.delay_steps);
        normal_equations(contexts, self.data, bank, None, delay_steps, self.path, &())
            .map(|found| found.0)
    }

    fn refused_at(&self, cap: u64) -> Error {
        let _cap = MemoryCap::at(self.context, cap);
        let error = self.run().unwrap_err();
        let name = &self.name;
        assert_eq!(error.kind(), ErrorKind::DeviceMemory, "{name}: {error}");
        error
    }

    fn assert_same(&self, expected: &NormalEquations, tolerance: f64) {
        let name = &self.name;
        self.run().unwrap_or_else(|e| panic!("{name}: {e}"));
        let least = self.refused_at(1000).needed_bytes().unwrap();
        self.refused_at(least - 1);
        // The smallest cap means thousands of tiny blocks where there are many features.
        let small = least.max((expected.features as u64).pow(2));
        let caps = if expected.features <= 100 {
            [least, least + least / 7, 3 * least]
        } else {
            [small, 2 * small, 7 * small]
        };
        for cap in caps {
            let _cap = MemoryCap::at(self.context, cap);
            self.context.synchronize().unwrap();
            self.context.take_peak_memory().unwrap();
            let mut got = self.run().unwrap_or_else(|e| panic!("{name}, {cap}: {e}"));
            let peak = self.context.take_peak_memory().unwrap();
            assert!(peak <= cap, "{name}: {peak} bytes used of {cap}");
            close(self.case, expected, &mut got, tolerance);
            assert_eq!(got, {
                let mut again = self.run().unwrap();
                again.output_sum.clone_from(&got.output_sum);
                again.output_sq_sum.clone_from(&got.output_sq_sum);
                again
            });
        }
    }
}

/// A cap that is too small is an error, after which the device works as before and has its memory.
#[test]
fn a_cap_too_small_leaves_the_device_usable() {
    let Some(context) = context() else { return };
    let case = cases::all().remove(0);
    let run = |path| {
        normal_equations(
            std::slice::from_ref(&*context),
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
