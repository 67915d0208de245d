//! Which device trains, and by which path: what is expected to take the least time.

use super::gram::GramPath;
use super::gram::cost::{Place, Work};
use super::options::TrainOptions;
use crate::device::Device;
use crate::device::cost::{Calibration, Model, START_CUDA};
use crate::psc::FilterBank;
use crate::recording::Dataset;

/// Cholesky and its triangular solves, in f64. Rounds: what the busiest thread does of n³.
pub(super) const SOLVE_CPU: Model = Model {
    name: "solve.cpu",
    terms: &["1", "elements", "cubes"],
    defaults: &[20e-6, 2e-9, 18e-12],
};

/// Panels follow each other, so there is a term in n.
pub(super) const SOLVE_CUDA: Model = Model {
    name: "solve.cuda",
    terms: &["1", "features", "cubes"],
    defaults: &[0.13e-3, 0.76e-6, 0.015e-12],
};

/// One way to train, and the seconds it is expected to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alternative {
    /// Where.
    pub place: Place,
    /// How Γ is computed.
    pub gram: GramPath,
    /// Seconds for Γ, Υ and one solution, once the device is open.
    pub seconds: f64,
}

/// What [`choose`] settled on.
#[derive(Debug, Clone)]
pub struct Choice {
    /// The CPU, or open CUDA devices.
    pub device: Device,
    /// Dense or event.
    pub gram: GramPath,
    /// Every way there was, the quickest first.
    pub alternatives: Vec<Alternative>,
    /// Why the quickest was not taken: the device it needs cannot be had.
    pub fallback: Option<String>,
}

/// Model and terms of one solution for `work` at `place`.
pub(super) fn solve_terms(work: &Work, place: Place) -> (&'static Model, Vec<f64>) {
    let n = work.features();
    match place {
        Place::Cpu => (&SOLVE_CPU, vec![1.0, n * n, n * n * n / work.threads]),
        Place::Cuda => (&SOLVE_CUDA, vec![1.0, n, n * n * n]),
    }
}

/// The ways to train by `gram` ([`GramPath::Auto`]: either) at `places`, the quickest first.
pub fn alternatives(
    work: &Work,
    calibration: &Calibration,
    gram: GramPath,
    low_pass: bool,
    places: &[Place],
) -> Vec<Alternative> {
    let paths = match gram {
        GramPath::Auto if low_pass => &[GramPath::Dense][..],
        GramPath::Auto => &[GramPath::Event, GramPath::Dense],
        GramPath::Event => &[GramPath::Event],
        GramPath::Dense => &[GramPath::Dense],
    };
    let mut ways: Vec<Alternative> = places
        .iter()
        .flat_map(|&place| paths.iter().map(move |&gram| (place, gram)))
        .map(|(place, gram)| {
            let (solve, terms) = solve_terms(work, place);
            Alternative {
                place,
                gram,
                seconds: work.gram_seconds(calibration, place, gram)
                    + calibration.seconds(solve, &terms),
            }
        })
        .collect();
    ways.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    ways
}

/// Where and how to train on `data` with each of `banks`: on `device` itself where the user named
/// it, else wherever this host's calibration (`betz info --calibrate`) expects less time, counting
/// the start of a device that is not open yet.
pub fn choose(
    device: &Device,
    data: &Dataset,
    banks: &[FilterBank],
    options: &TrainOptions,
) -> Choice {
    let calibration = Calibration::current();
    // Banks of one search differ little in cost: the widest stands for all.
    let own = std::slice::from_ref(&options.bank);
    let banks = if banks.is_empty() { own } else { banks };
    let widest = banks.iter().max_by_key(|b| b.len());
    let work = Work::new(data, widest.unwrap_or(&options.bank));
    let named = device.is_explicit();
    let places = match (named, named && device.is_cpu()) {
        (true, true) => &[Place::Cpu][..],
        (true, false) => &[Place::Cuda],
        _ => &[Place::Cpu, Place::Cuda],
    };
    let ways = |places| {
        let low_pass = options.low_pass.is_some();
        alternatives(&work, &calibration, options.gram, low_pass, places)
    };
    let mut alternatives = ways(places);
    let start = if device.is_open() {
        0.0
    } else {
        calibration.seconds(&START_CUDA, &[1.0])
    };
    let in_all = |way: &Alternative| {
        way.seconds * banks.len() as f64
            + match way.place {
                Place::Cuda => start,
                Place::Cpu => 0.0,
            }
    };
    alternatives.sort_by(|a, b| in_all(a).total_cmp(&in_all(b)));
    let mut chosen = Device::cpu();
    let mut fallback = None;
    if alternatives
        .first()
        .is_some_and(|way| way.place == Place::Cuda)
    {
        if device.is_cpu() {
            fallback = device.fallback().map(str::to_owned);
            alternatives = ways(&[Place::Cpu]);
        } else {
            chosen = device.clone();
        }
    }
    Choice {
        device: chosen,
        gram: alternatives.first().map_or(options.gram, |way| way.gram),
        alternatives,
        fallback,
    }
}

/// The fewest channels of `rate` spikes a second, over `seconds` in steps of `step_seconds` with
/// one filter and two outputs, from which on an open CUDA device is expected to train sooner than
/// the CPU; `None` when it is not at 100,000 channels.
pub fn crossover(
    calibration: &Calibration,
    rate: f64,
    seconds: f64,
    step_seconds: f64,
) -> Option<u32> {
    let wins = |channels: u32| {
        let work = Work {
            channels: f64::from(channels),
            filters: 1.0,
            spikes: f64::from(channels) * rate * seconds,
            steps: seconds / step_seconds,
            outputs: 2.0,
            threads: rayon::current_num_threads() as f64,
        };
        let places = &[Place::Cpu, Place::Cuda];
        alternatives(&work, calibration, GramPath::Auto, false, places)
            .first()
            .is_some_and(|way| way.place == Place::Cuda)
    };
    // From above, so that a dip of the CPU's cost further down does not count as the crossing.
    let mut least = None;
    let (mut low, mut high) = (1, 100_000);
    if wins(high) {
        while low < high {
            let middle = low + (high - low) / 2;
            if wins(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        least = Some(low);
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::cases;

    fn work(channels: f64, seconds: f64) -> Work {
        Work {
            channels,
            filters: 1.0,
            spikes: channels * 20.0 * seconds,
            steps: seconds / 0.00025,
            outputs: 2.0,
            threads: 2.0,
        }
    }

    #[test]
    fn small_problems_stay_on_the_cpu_and_large_ones_leave_it() {
        let none = Calibration::default();
        let both = &[Place::Cpu, Place::Cuda];
        let first = |work: &Work| alternatives(work, &none, GramPath::Auto, false, both)[0];
        let small = first(&work(4.0, 1.0));
        assert_eq!((small.place, small.gram), (Place::Cpu, GramPath::Event));
        assert_eq!(first(&work(1000.0, 100.0)).place, Place::Cuda);
        let least = crossover(&none, 20.0, 100.0, 0.00025).unwrap();
        assert!((1..1000).contains(&least), "{least}");
    }

    #[test]
    fn what_the_user_named_stands() {
        let case = &cases::all()[0];
        let mut options = TrainOptions::new(case.bank.clone());
        let choice = choose(&Device::cpu(), &case.data, &[], &options);
        assert!(choice.device.is_cpu() && choice.fallback.is_none());
        assert!(choice.alternatives.iter().all(|w| w.place == Place::Cpu));
        options.gram = GramPath::Dense;
        let auto = Device::auto();
        let choice = choose(&auto, &case.data, &[], &options);
        assert_eq!(choice.gram, GramPath::Dense);
        // Far too small to start a device for.
        assert!(choice.device.is_cpu() && !auto.is_open());
    }
}
