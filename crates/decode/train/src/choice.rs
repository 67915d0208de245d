//! Which device trains, and by which path: what is expected to take the least time.

use super::options::TrainOptions;
use super::search::Search;
use betz_device::cost::{Calibration, CostModel};
use betz_device::cuda::has_transforms;
use betz_device::{Device, Placement, Work as PlacedWork};
use betz_gram::gram::GramPath;
use betz_gram::gram::cost::{DOWNLOAD_CUDA, Processor, Work};
use betz_gram::psc::TRANSFORMED_ON_CPU;
use betz_recording::DatasetView;
use betz_runtime::psc::FilterBank;

/// Cholesky and its triangular solves, in f64. Rounds: what the busiest thread does of n³.
pub(super) const SOLVE_CPU: CostModel = CostModel {
    name: "solve.cpu",
    terms: &["1", "elements", "cubes"],
    defaults: &[20e-6, 2e-9, 18e-12],
};

/// Panels follow each other, so there is a term in n.
pub(super) const SOLVE_CUDA: CostModel = CostModel {
    name: "solve.cuda",
    terms: &["1", "features", "cubes"],
    defaults: &[0.13e-3, 0.76e-6, 0.015e-12],
};

/// One way to train, and the seconds it is expected to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alternative {
    /// Processor.
    pub place: Processor,
    /// How Γ is computed.
    pub gram: GramPath,
    /// Seconds for Γ, Υ and the solution (when cross-validated: those of every fold) of every bank, once
    /// the device is open.
    pub seconds: f64,
}

/// The decision of [`choose`].
#[derive(Debug)]
pub struct Choice {
    /// The CPU, or open CUDA devices; its [`Placement::fallback`] says why the quickest was not taken.
    pub placement: Placement,
    /// Dense or event, if one is to serve all banks.
    pub gram: GramPath,
    /// Every way there was, the quickest first, the start of a device included.
    pub alternatives: Vec<Alternative>,
    /// Seconds that it is expected to take at `placement`, every bank by the path that suits it there.
    pub seconds: f64,
    /// Paths to Γ of each bank.
    pub(super) paths: Vec<Paths>,
}

/// The paths by which one bank's Γ is computed, where each of them is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paths {
    /// On the CPU, as when a device falls short.
    pub(super) cpu: GramPath,
    /// Path on a device.
    pub(super) cuda: GramPath,
    /// The user left it open: where one falls short, the other will do.
    pub(super) either: bool,
}

impl Paths {
    /// `path` at either place, once it has been taken.
    pub(super) const fn taken(self, path: GramPath) -> Self {
        Self {
            cpu: path,
            cuda: path,
            either: self.either,
        }
    }
}

/// CostModel and terms of one solution for `work` at `place`.
pub(super) fn solve_terms(work: &Work, place: Processor) -> (&'static CostModel, Vec<f64>) {
    let n = work.features();
    match place {
        Processor::Cpu => (&SOLVE_CPU, vec![1.0, n * n, n * n * n / work.threads]),
        Processor::Cuda => (&SOLVE_CUDA, vec![1.0, n, n * n * n]),
    }
}

/// Work of cross-validation per bank.
#[derive(Debug, Clone, Copy)]
struct FoldCost {
    folds: usize,
    /// Systems that are solved for a fold.
    solutions: usize,
}

/// Times that Γ of a fold crosses between host and device: its sums come down, and what is solved and
/// what that is compared with go up for the coarse ridges, the refined ones and the scores.
const GRAM_TRANSFERS: f64 = 7.0;

/// Seconds to train on `work` by `gram` at `place`: Γ, Υ and a solution, or those of every fold, whose
/// sums are kept in host memory.
fn seconds(
    work: &Work,
    calibration: &Calibration,
    (place, gram): (Processor, GramPath),
    folding: Option<FoldCost>,
) -> f64 {
    let (solve, terms) = solve_terms(work, place);
    let solution = calibration.seconds(solve, &terms);
    let Some(FoldCost { folds, solutions }) = folding else {
        return work.gram_seconds(calibration, place, gram) + solution;
    };
    let transfers = match place {
        Processor::Cpu => 0.0,
        Processor::Cuda => {
            GRAM_TRANSFERS * calibration.seconds(&DOWNLOAD_CUDA, &download_terms(work))
        }
    };
    let sums = work.fold(folds).gram_seconds(calibration, place, gram);
    folds as f64 * (sums + transfers + solutions as f64 * solution)
}

/// Terms of [`DOWNLOAD_CUDA`].
pub(super) fn download_terms(work: &Work) -> Vec<f64> {
    vec![1.0, work.features() * work.features()]
}

/// The paths that `gram` leaves open.
const fn paths(gram: GramPath, only_dense: bool) -> &'static [GramPath] {
    match gram {
        GramPath::Auto if only_dense => &[GramPath::Dense],
        GramPath::Auto => &[GramPath::Event, GramPath::Dense],
        GramPath::Event => &[GramPath::Event],
        GramPath::Dense => &[GramPath::Dense],
    }
}

/// The ways to train once on `work` by `gram` ([`GramPath::Auto`]: either) at `places`, the quickest
/// first.
pub fn alternatives(
    work: &Work,
    calibration: &Calibration,
    gram: GramPath,
    low_pass: bool,
    places: &[Processor],
) -> Vec<Alternative> {
    let problem = Problem {
        works: vec![*work],
        paths: paths(gram, low_pass || work.steady),
        folding: None,
        start: 0.0,
    };
    problem.ways(calibration, places)
}

/// Size of the problem, for any processor.
struct Problem {
    /// One per bank.
    works: Vec<Work>,
    paths: &'static [GramPath],
    folding: Option<FoldCost>,
    /// Seconds until a device is open.
    start: f64,
}

impl Problem {
    /// Seconds before work begins at `place`.
    fn start(&self, place: Processor) -> f64 {
        match place {
            Processor::Cuda => self.start,
            Processor::Cpu => 0.0,
        }
    }

    /// The ways by one path for all banks, the quickest first.
    fn ways(&self, calibration: &Calibration, places: &[Processor]) -> Vec<Alternative> {
        let ways = places
            .iter()
            .flat_map(|&place| self.paths.iter().map(move |&gram| (place, gram)));
        let mut ways: Vec<Alternative> = ways
            .map(|(place, gram)| Alternative {
                place,
                gram,
                seconds: (self.works.iter())
                    .map(|work| seconds(work, calibration, (place, gram), self.folding))
                    .sum(),
            })
            .collect();
        let in_all = |way: &Alternative| way.seconds + self.start(way.place);
        ways.sort_by(|a, b| in_all(a).total_cmp(&in_all(b)));
        ways
    }

    /// The path of `gram` that takes less time at each place, for each bank.
    fn quickest_paths(&self, calibration: &Calibration, gram: GramPath) -> Vec<Paths> {
        let at = |work: &Work, place: Processor| {
            let seconds = |path| seconds(work, calibration, (place, path), self.folding);
            let paths = self.paths.iter().copied();
            paths
                .min_by(|&a, &b| seconds(a).total_cmp(&seconds(b)))
                .unwrap_or(gram)
        };
        let of_bank = |work: &Work| Paths {
            cpu: at(work, Processor::Cpu),
            cuda: at(work, Processor::Cuda),
            either: gram == GramPath::Auto,
        };
        self.works.iter().map(of_bank).collect()
    }

    /// Seconds at `place`, every bank by the path that suits it there.
    fn seconds(&self, calibration: &Calibration, place: Processor) -> f64 {
        let of_bank = |work: &Work| {
            let paths = self.paths.iter();
            let ways = paths.map(|&gram| seconds(work, calibration, (place, gram), self.folding));
            ways.fold(f64::INFINITY, f64::min)
        };
        self.works.iter().map(of_bank).sum()
    }

    /// The place of `places` that takes less time, every bank by the path that suits it there.
    fn quickest(&self, calibration: &Calibration, places: &[Processor]) -> Option<Processor> {
        let in_all = |place: Processor| self.start(place) + self.seconds(calibration, place);
        let places = places.iter().copied();
        places.min_by(|&a, &b| in_all(a).total_cmp(&in_all(b)))
    }
}

/// Where and how to train on `data`, once or with cross-validation's `search`: on `device` itself where
/// the user named it, else wherever this host's calibration (`betz info --calibrate`) expects less time,
/// counting the start of a device that this process has not opened yet. [`train_on`](super::train_on) and
/// [`train_validated_on`](super::train_validated_on) ask this once, and carry the answer along.
pub fn choose<'d>(
    device: &Device,
    data: impl Into<DatasetView<'d>>,
    options: &TrainOptions,
    search: Option<&Search>,
) -> Choice {
    let data = &data.into();
    let banks = match search {
        Some(search) if !search.banks.is_empty() => &search.banks,
        _ => std::slice::from_ref(&options.bank),
    };
    let works = banks.iter().map(|bank| Work::new(data, bank)).collect();
    choose_for(device, works, options, search)
}

/// [`choose`] for data of which only the size is known, bank by bank.
pub(super) fn choose_for(
    device: &Device,
    works: Vec<Work>,
    options: &TrainOptions,
    search: Option<&Search>,
) -> Choice {
    let calibration = Calibration::current();
    let sampled = works.iter().any(|work| work.samples > 0.0);
    let steady = works.iter().any(|work| work.steady);
    let weighted = works.iter().any(|work| work.weighted);
    let needs_transforms = sampled && (weighted || options.low_pass.is_some());
    let problem = Problem {
        works,
        paths: paths(
            options.gram,
            options.low_pass.is_some() || steady || sampled,
        ),
        folding: search.map(|search| FoldCost {
            folds: search.folds,
            solutions: search.solutions(),
        }),
        start: device.start_seconds(&calibration),
    };
    let named = device.is_explicit();
    let without_transforms = needs_transforms && !device.is_cpu() && !has_transforms();
    let mut places = match (named, named && device.is_cpu()) {
        (true, true) => &[Processor::Cpu][..],
        _ if without_transforms => &[Processor::Cpu],
        (true, false) => &[Processor::Cuda],
        _ => &[Processor::Cpu, Processor::Cuda],
    };
    let quickest = problem.quickest(&calibration, places);
    let placement = match without_transforms {
        true => Placement::cpu_instead(device, TRANSFORMED_ON_CPU),
        false => Placement::decide(device, PlacedWork::Gains(quickest == Some(Processor::Cuda))),
    };
    let place = match placement.is_cpu() {
        true => Processor::Cpu,
        false => Processor::Cuda,
    };
    if quickest != Some(place) {
        places = &[Processor::Cpu];
    }
    let alternatives = problem.ways(&calibration, places);
    let taken = alternatives.iter().find(|way| way.place == place);
    Choice {
        placement,
        gram: taken.map_or(options.gram, |way| way.gram),
        alternatives,
        seconds: problem.seconds(&calibration, place),
        paths: problem.quickest_paths(&calibration, options.gram),
    }
}

/// Seconds that the sums of `folds` folds with `bank` and one solution for each are expected to take on the CPU.
pub(super) fn seconds_of_folds(
    data: &DatasetView<'_>,
    options: &TrainOptions,
    (bank, folds): (&FilterBank, usize),
) -> f64 {
    let work = Work::new(data, bank);
    let only_dense = options.low_pass.is_some() || work.steady || work.samples > 0.0;
    let problem = Problem {
        works: vec![work],
        paths: paths(options.gram, only_dense),
        folding: Some(FoldCost {
            folds,
            solutions: 1,
        }),
        start: 0.0,
    };
    problem.seconds(&Calibration::current(), Processor::Cpu)
}

/// Most channels that [`crossover`] looks at.
const MOST_CHANNELS: u32 = 100_000;

/// The fewest channels of `rate` spikes per second, over `seconds` in steps of `step_seconds` with
/// one filter and two outputs, from which on an open CUDA device is expected to train sooner than
/// the CPU; `None` when it is not at 100,000 channels.
pub fn crossover(
    calibration: &Calibration,
    rate: f64,
    seconds: f64,
    step_seconds: f64,
) -> Option<u32> {
    let places = &[Processor::Cpu, Processor::Cuda];
    last_change(MOST_CHANNELS, |channels| {
        let work = Work {
            channels: f64::from(channels),
            filters: 1.0,
            samples: 0.0,
            spikes: f64::from(channels) * rate * seconds,
            weighted: false,
            steady: false,
            steps: seconds / step_seconds,
            outputs: 2.0,
            threads: rayon::current_num_threads() as f64,
        };
        alternatives(&work, calibration, GramPath::Auto, false, places)
            .first()
            .is_some_and(|way| way.place == Processor::Cuda)
    })
}

/// The least number from which on `wins` holds up to `most`, to the density of a grid on which
/// neighbours differ by a sixteenth: looked for from above, so that a dip further down does not count.
fn last_change(most: u32, wins: impl Fn(u32) -> bool) -> Option<u32> {
    if !wins(most) {
        return None;
    }
    let mut high = most;
    // Down the grid as long as it holds, to `low`, where it does not.
    let mut low = loop {
        if high == 1 {
            return Some(1);
        }
        let next = high - (high / 16).max(1);
        if !wins(next) {
            break next;
        }
        high = next;
    };
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if wins(middle) {
            high = middle;
        } else {
            low = middle;
        }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use betz_gram::cases;

    fn work(channels: f64, seconds: f64) -> Work {
        Work {
            channels,
            filters: 1.0,
            samples: 0.0,
            spikes: channels * 20.0 * seconds,
            weighted: false,
            steady: false,
            steps: seconds / 0.00025,
            outputs: 2.0,
            threads: 2.0,
        }
    }

    #[test]
    fn small_problems_stay_on_the_cpu_and_large_ones_leave_it() {
        let none = Calibration::default();
        let both = &[Processor::Cpu, Processor::Cuda];
        let first = |work: &Work| alternatives(work, &none, GramPath::Auto, false, both)[0];
        let small = first(&work(4.0, 1.0));
        assert_eq!((small.place, small.gram), (Processor::Cpu, GramPath::Event));
        assert_eq!(first(&work(1000.0, 100.0)).place, Processor::Cuda);
        let least = crossover(&none, 20.0, 100.0, 0.00025).unwrap();
        assert!((1..1000).contains(&least), "{least}");
    }

    #[test]
    fn what_the_user_named_stands() {
        let case = &cases::all()[0];
        let mut options = TrainOptions::new(case.bank.clone());
        let choice = choose(&Device::cpu(), &case.data, &options, None);
        assert!(choice.placement.is_cpu() && choice.placement.fallback().is_none());
        assert!(
            choice
                .alternatives
                .iter()
                .all(|w| w.place == Processor::Cpu)
        );
        options.gram = GramPath::Dense;
        let auto = Device::auto();
        let choice = choose(&auto, &case.data, &options, None);
        assert_eq!(choice.gram, GramPath::Dense);
        // Far too small to start a device for.
        assert!(choice.placement.is_cpu() && !auto.is_open());
        assert_eq!(choice.paths[0].cpu, GramPath::Dense);
        assert!(!choice.paths[0].either);
    }

    #[test]
    fn every_bank_of_a_search_counts_by_its_own_cost() {
        let none = Calibration::default();
        let of = |filters: f64| Work {
            filters,
            ..work(100.0, 100.0)
        };
        let seconds = |works: Vec<Work>| {
            let problem = Problem {
                works,
                paths: paths(GramPath::Event, false),
                folding: Some(FoldCost {
                    folds: 5,
                    solutions: Search::ridge().solutions(),
                }),
                start: 0.0,
            };
            problem.ways(&none, &[Processor::Cuda])[0].seconds
        };
        let (one, nine) = (seconds(vec![of(1.0)]), seconds(vec![of(9.0)]));
        assert!((seconds(vec![of(1.0), of(9.0)]) - one - nine).abs() < 1e-12);
        // The widest twice would be far from it.
        assert!(nine > 10.0 * one, "{one} {nine}");
    }

    #[test]
    fn cross_validation_counts_every_solution_and_what_crosses_to_the_device() {
        let none = Calibration::default();
        let work = work(300.0, 100.0);
        let n = work.features();
        for place in [Processor::Cpu, Processor::Cuda] {
            let way = (place, GramPath::Event);
            let gram = work.gram_seconds(&none, place, GramPath::Event);
            let (solve, terms) = solve_terms(&work, place);
            let solution = none.seconds(solve, &terms);
            let once = seconds(&work, &none, way, None);
            assert!((once - gram - solution).abs() < 1e-12);
            let transfer = match place {
                Processor::Cpu => 0.0,
                Processor::Cuda => none.seconds(&DOWNLOAD_CUDA, &[1.0, n * n]),
            };
            let folded = |folds, solutions| {
                let folding = FoldCost { folds, solutions };
                seconds(&work, &none, way, Some(folding))
            };
            // One fold is the whole.
            let expected = gram + GRAM_TRANSFERS * transfer + 3.0 * solution;
            assert!((folded(1, 3) - expected).abs() < 1e-12);
            // Each fold has its share of the spikes, but all of Γ and its own solutions.
            assert!(folded(5, 12) > 5.0 * (GRAM_TRANSFERS * transfer + 12.0 * solution));
            assert!(folded(5, 12) < 5.0 * folded(1, 12));
        }
        assert_eq!(Search::ridge().solutions(), 12);
        assert_eq!(Search::scores_only(5).solutions(), 2);
    }

    #[test]
    fn the_place_is_chosen_with_each_bank_by_the_path_that_suits_it() {
        let none = Calibration::default();
        // Few spikes in long time suit the event path, many in short time the dense one.
        let sparse = Work {
            spikes: 1e4,
            weighted: false,
            steady: false,
            ..work(100.0, 1000.0)
        };
        let busy = Work {
            spikes: 1e8,
            weighted: false,
            steady: false,
            filters: 4.0,
            ..work(100.0, 10.0)
        };
        let problem = |works: Vec<Work>| Problem {
            works,
            paths: paths(GramPath::Auto, false),
            folding: None,
            start: 0.0,
        };
        let best = |work: Work| problem(vec![work]).ways(&none, &[Processor::Cpu])[0];
        assert_eq!(best(sparse).gram, GramPath::Event);
        assert_eq!(best(busy).gram, GramPath::Dense);
        let both = problem(vec![sparse, busy]);
        let mixed = best(sparse).seconds + best(busy).seconds;
        let uniform = both.ways(&none, &[Processor::Cpu])[0].seconds;
        assert!(mixed < uniform);
        // A start between the two tells which of them was compared.
        let cuda = |work: Work| problem(vec![work]).ways(&none, &[Processor::Cuda])[0].seconds;
        let late = Problem {
            start: (mixed + uniform) / 2.0 - cuda(sparse) - cuda(busy),
            ..problem(vec![sparse, busy])
        };
        let both = &[Processor::Cpu, Processor::Cuda];
        assert_eq!(late.quickest(&none, both), Some(Processor::Cpu));
    }

    #[test]
    fn a_dip_below_the_crossing_does_not_count() {
        let from = |least: u32| move |n: u32| n >= least;
        for least in [1, 2, 3, 17, 999, 31_622, 99_999, 100_000] {
            assert_eq!(last_change(100_000, from(least)), Some(least));
        }
        assert_eq!(last_change(100_000, |_| false), None);
        // Bisection would look at 50,000, 25,000, … and end in the dip.
        let dips = |n: u32| n >= 60_000 || (20_000..52_000).contains(&n);
        assert_eq!(last_change(100_000, dips), Some(60_000));
    }
}
