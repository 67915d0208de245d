//! Shared by the benches of a CUDA device: problems of a stated size, timing, and the choice of parts.

// Each bench takes what it needs.
#![allow(dead_code)]

use std::fmt;
use std::time::Instant;

use betz::device::Device;
use betz::psc::{Filter, FilterBank};
use betz::recording::Dataset;
use betz::simulate;

/// Length of a step: that of the papers' figures.
pub(crate) const STEP_SECONDS: f64 = 0.00025;

/// `channels` Poisson trains of 20 Hz over `steps`, and two smooth outputs.
pub(crate) fn dataset(channels: usize, steps: usize) -> Dataset {
    simulate::poisson(channels, 20.0, steps, STEP_SECONDS, 1).unwrap()
}

/// The first `filters` (at most eight) of a fixed list, of order one.
pub(crate) fn bank(filters: usize) -> FilterBank {
    let taus = [0.01, 0.005, 0.02, 0.04, 0.003, 0.08, 0.03, 0.015];
    let filter = |&tau_seconds| Filter {
        tau_seconds,
        order: 1,
    };
    FilterBank::new(taus[..filters].iter().map(filter).collect()).unwrap()
}

/// Milliseconds of the first run, and the median and the least of those after it.
pub(crate) struct Times {
    pub(crate) first: f64,
    pub(crate) median: f64,
    pub(crate) least: f64,
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "first {:.2} ms, median {:.3} ms, least {:.3} ms",
            self.first, self.median, self.least
        )
    }
}

/// Times one run, which warms up, and `runs` more.
pub(crate) fn measure(runs: usize, mut work: impl FnMut()) -> Times {
    let mut once = || {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e3
    };
    let first = once();
    let mut times: Vec<f64> = (0..runs).map(|_| once()).collect();
    times.sort_by(f64::total_cmp);
    Times {
        first,
        median: times[runs / 2],
        least: times[0],
    }
}

/// [`measure`], printed behind `name`; the median in milliseconds.
pub(crate) fn time(name: &str, runs: usize, work: impl FnMut()) -> f64 {
    let times = measure(runs, work);
    println!("{name}: {times}");
    times.median
}

/// The first CUDA device; where there is none, says why and gives `None`.
pub(crate) fn cuda() -> Option<Device> {
    let device = Device::cuda(0)
        .inspect_err(|error| println!("no CUDA device: {}", error.message()))
        .ok()?;
    println!(
        "{:?}, {} threads",
        device.contexts()[0].info(),
        rayon::current_num_threads()
    );
    Some(device)
}

/// True if the command line names the part `name`, or no part at all.
pub(crate) fn wants(name: &str) -> bool {
    let asked: Vec<String> = (std::env::args().skip(1))
        .filter(|a| a != "--bench")
        .collect();
    asked.is_empty() || asked.iter().any(|a| a == name)
}
