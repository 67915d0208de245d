//! The mining papers: Feng et al., Patnaik et al., Cao et al.

mod data;
pub(super) mod list;
mod two_pass;

use betz::device::Device;
use betz::episode::count::{CountJob, count};
use betz::episode::{Alphabet, Clock, Events, Interval, MineOptions, Pattern, mine};
use betz::simulate::network::NetworkConfig;
use betz::{Error, ErrorKind, Result};

use super::figure::{Figure, Plot, Style};
use super::study::{Answer, Findings, Grid, short, whole};
use super::{Lab, least_seconds};
use crate::commands::mine::strategy_on;
use data::DataSet;

/// Lengths of data sets 1 to 8 in seconds.
const SECONDS: [f64; 8] = [4000.0, 2000.0, 1000.0, 500.0, 200.0, 100.0, 50.0, 20.0];
/// Their numbers of events.
const EVENTS: [u64; 8] = [
    12_840_684, 6_422_449, 3_277_130, 1_636_463, 655_133, 328_067, 163_849, 65_428,
];
/// The three compactions with the papers' names.
const COMPACTIONS: [(&str, &str); 3] = [
    ("local-tracking", "CountScanWrite"),
    ("local-tracking-atomic", "AtomicCompact"),
    ("local-tracking-flags", "CudppCompact"),
];
/// A strategy and the processor that it ran on.
type Run = (&'static str, &'static str);
/// Two runs whose times are divided.
type Comparison = (Run, Run);
/// The reason for ratios of GPU times that were measured on a CPU.
const CPU_ALONE: &str = "the strategy ran on the CPU";

pub(super) fn run(lab: &Lab<'_>) -> Result<Vec<Findings>> {
    // An unknown strategy says that this build has none of the published ones.
    strategy_on("map-concat", &Device::cpu())?;
    let sets = lab.pick(0..8, 3..8, 7..8);
    let mut made = Vec::new();
    for i in sets {
        lab.part("data sets", made.len(), 8)?;
        made.push((i, DataSet::new(lab.pick(SECONDS[i], SECONDS[i], 4.0))?));
    }
    let largest = &made[0].1;
    let [thirty, one] = by_events(lab, &made)?;
    Ok(vec![
        worked()?,
        data_sets(lab, &made)?,
        thirty,
        one,
        by_length(lab, largest)?,
        by_frequency(lab, largest)?,
        profile(),
        two_pass::by_size(lab)?,
        two_pass::by_threshold(lab)?,
        resources(),
        several_threads(lab, largest)?,
    ])
}

/// The counts of a strategy and its seconds: the least of some runs. On a device, a first run moves the events and
/// compiles the kernels.
fn counted(
    lab: &Lab<'_>,
    name: &str,
    device: &Device,
    events: &Events,
    patterns: &[Pattern],
    threshold: Option<u64>,
) -> Result<(Vec<u64>, f64)> {
    let strategy = strategy_on(name, device)?;
    let quiet = lab.quiet();
    let job = CountJob {
        threshold,
        progress: &quiet,
        ..CountJob::new(events, patterns)
    };
    if !device.is_cpu() {
        strategy.count(&job)?;
    }
    least_seconds(3, || strategy.count(&job))
}

/// Ends the run if a strategy counts differently.
fn same(name: &str, counts: &[u64], expected: &[u64]) -> Result<()> {
    match counts == expected {
        true => Ok(()),
        false => Err(Error::new(
            ErrorKind::Internal,
            format!("{name}: expected the counts of latest-start, got others"),
        )),
    }
}

/// The papers' example of nine events.
fn worked() -> Result<Findings> {
    let clock = Clock::from_tick_seconds(0.001)?;
    let alphabet = Alphabet::new(vec!["A".into(), "B".into(), "C".into()], clock)?;
    let ticks = [1, 2, 5, 8, 10, 13, 15, 18, 20];
    let events = Events::new(alphabet, &ticks, &[0, 0, 1, 1, 0, 0, 2, 1, 2])?;
    let edges = vec![Interval::new(5, 10)?, Interval::new(10, 15)?];
    let pattern = [Pattern::new(vec![0, 1, 2], edges)?];
    let serial = strategy_on("serial", &Device::cpu())?;
    let counts = serial.count(&CountJob::new(&events, &pattern))?;
    same("serial", &counts, &count(&events, &pattern)?)?;
    Ok(Findings {
        answers: vec![Answer::decided(
            counts == [1],
            whole(counts[0]),
            "the count is another",
        )],
        ..Findings::default()
    })
}

fn data_sets(lab: &Lab<'_>, made: &[(usize, DataSet)]) -> Result<Findings> {
    let mut answers: Vec<Answer> = (0..8)
        .map(|_| Answer::unavailable("this run is a smaller one"))
        .collect();
    for (i, set) in made {
        let (here, paper) = (set.events.len() as u64, EVENTS[*i]);
        let apart = 100.0 * (here as f64 / paper as f64 - 1.0);
        answers[*i] = Answer::decided(
            apart.abs() <= 2.0,
            format!("{} ({apart:+.1} %)", whole(here)),
            "the papers do not give the strength of a connection, which sets the rates along a chain",
        );
    }
    let seconds = lab.pick(60.0, 60.0, 4.0);
    let sym26 = DataSet::of(&NetworkConfig {
        seconds,
        ..NetworkConfig::sym26()
    })?;
    answers.push(Answer::reproduced("20 spikes/s (an input)"));
    let (events, expected) = (sym26.events.len() as f64, 50_000.0 * seconds / 60.0);
    answers.push(Answer::decided(
        (events / expected - 1.0).abs() <= 0.05,
        whole(events as u64),
        "the papers do not give the lengths of the two chains",
    ));
    let threshold = (8.0 * seconds) as u64;
    let options = MineOptions::new(vec![sym26.delays()?], threshold);
    let mined = mine(&sym26.events, &options, &lab.quiet())?;
    let found = sym26.chains.iter().filter(|chain| {
        let is_it = |e: &betz::episode::Episode| e.pattern.symbols() == chain.as_slice();
        mined.episodes.iter().any(is_it)
    });
    let found = found.count();
    answers.push(Answer::decided(
        found == 2,
        format!("{found} found by mining"),
        "a chain was not mined",
    ));
    answers.push(Answer::unavailable(
        "the recordings are not part of Betz; a simulated culture stands for them",
    ));
    Ok(Findings {
        sizes: format!("data sets {} to 8", made.first().map_or(8, |(i, _)| i + 1)),
        answers,
        ..Findings::default()
    })
}

/// Figures 9 and 10: thirty episodes, and one, by the number of events.
fn by_events(lab: &Lab<'_>, made: &[(usize, DataSet)]) -> Result<[Findings; 2]> {
    let names = [
        ("serial", "serial"),
        ("map-concat", "MapConcat"),
        COMPACTIONS[0],
        COMPACTIONS[1],
        ("latest-start", "latest start (Betz)"),
    ];
    let mut findings = Vec::new();
    for (number, place) in [(30, "figure 9"), (1, "figure 10")] {
        let mut devices = vec![(Device::cpu(), "CPU")];
        if let Ok(cuda) = lab.device() {
            devices.push((cuda.clone(), "GPU"));
        }
        let mut plot = Plot::log_log(
            &format!("Milliseconds to count {number} episodes of nine symbols"),
            "events",
            "ms",
        );
        let mut grid = Grid::new("Milliseconds", &["strategy", "device"]);
        grid.columns
            .extend(made.iter().map(|(i, _)| format!("data set {}", i + 1)));
        let mut at_largest = std::collections::HashMap::new();
        let total = devices.len() * names.len() * made.len();
        let mut done = 0;
        for (device, place_name) in &devices {
            for (name, paper_name) in names {
                let mut points = Vec::new();
                for (i, set) in made {
                    lab.part(place, done, total)?;
                    done += 1;
                    let patterns = set.episodes(number)?;
                    let expected = count(&set.events, &patterns)?;
                    let (counts, seconds) =
                        counted(lab, name, device, &set.events, &patterns, None)?;
                    same(name, &counts, &expected)?;
                    points.push((set.events.len() as f64, 1e3 * seconds));
                    if *i == made[0].0 {
                        at_largest.insert((name, *place_name), seconds);
                    }
                }
                let cells = points.iter().map(|p| short(p.1));
                let head = [paper_name.to_owned(), (*place_name).to_owned()];
                grid.row(head.into_iter().chain(cells));
                plot.add(
                    format!("{paper_name}, {place_name}"),
                    Style::Measured,
                    points,
                );
            }
        }
        let ratio =
            |a: Run, b: Run| -> Option<f64> { Some(at_largest.get(&a)? / at_largest.get(&b)?) };
        let best = |place: &'static str| {
            let tracked = COMPACTIONS[..2].iter().map(|(name, _)| (*name, place));
            tracked.min_by(|a, b| {
                let of = |key| at_largest.get(key).copied().unwrap_or(f64::INFINITY);
                of(a).total_cmp(&of(b))
            })
        };
        let best = |place| best(place).unwrap_or((COMPACTIONS[0].0, place));
        findings.push(Findings {
            sizes: sizes(made),
            figures: vec![Figure::Plot(plot)],
            grids: vec![grid],
            answers: answers(number, lab, &ratio, best("CPU"), best("GPU")),
        });
    }
    let one = findings.pop().unwrap_or_default();
    let thirty = findings.pop().unwrap_or_default();
    Ok([thirty, one])
}

/// Answers of figure 9 (30 episodes) or 10 (one), from ratios at the largest data set.
fn answers(
    number: usize,
    lab: &Lab<'_>,
    ratio: &dyn Fn(Run, Run) -> Option<f64>,
    on_cpu: Run,
    on_gpu: Run,
) -> Vec<Answer> {
    let serial = ("serial", "CPU");
    let pairs: Vec<[Comparison; 2]> = match number {
        30 => vec![
            [
                (("map-concat", "GPU"), serial),
                (("map-concat", "CPU"), serial),
            ],
            [
                (("map-concat", "GPU"), on_gpu),
                (("map-concat", "CPU"), on_cpu),
            ],
        ],
        _ => vec![[(serial, on_gpu), (serial, on_cpu)]],
    };
    let papers = if number == 30 {
        [4.0, 11.0]
    } else {
        [6.0, 6.0]
    };
    let answer = |([gpu, cpu], paper): ([Comparison; 2], f64)| {
        let cpu = ratio(cpu.0, cpu.1).unwrap_or(f64::NAN);
        match (ratio(gpu.0, gpu.1), lab.device()) {
            (Some(gpu), _) => Answer::ratio(
                gpu,
                paper,
                &format!(" on the GPU, {} × on the CPU", short(cpu)),
                "today's GPU and CPU stand in another relation",
            ),
            (None, reason) => Answer::differs(
                format!("{} × on the CPU", short(cpu)),
                format!("{CPU_ALONE}: {}", reason.err().unwrap_or("no CUDA device")),
            ),
        }
    };
    pairs.into_iter().zip(papers).map(answer).collect()
}

fn sizes(made: &[(usize, DataSet)]) -> String {
    let lengths: Vec<String> = (made.iter())
        .map(|(_, set)| whole(set.events.len() as u64))
        .collect();
    format!("{} events", lengths.join(", "))
}

/// The device of the comparison of compactions: CUDA if there is one.
fn preferred(lab: &Lab<'_>) -> (Device, &'static str) {
    match lab.device() {
        Ok(cuda) => (cuda.clone(), "GPU"),
        Err(_) => (Device::cpu(), "CPU"),
    }
}

fn by_length(lab: &Lab<'_>, set: &DataSet) -> Result<Findings> {
    let (device, on) = preferred(lab);
    let mut plot = Plot::new(
        &format!("Milliseconds to count one episode, on the {on}"),
        "symbols of the episode",
        "ms",
        false,
        true,
    );
    let mut times = Vec::new();
    for (k, (name, paper_name)) in COMPACTIONS.into_iter().enumerate() {
        let mut points = Vec::new();
        for size in 1..=9 {
            lab.part("figure 11", 9 * k + size, 27)?;
            let patterns = set.beginning(size)?;
            let (counts, seconds) = counted(lab, name, &device, &set.events, &patterns, None)?;
            same(name, &counts, &count(&set.events, &patterns)?)?;
            points.push((size as f64, 1e3 * seconds));
        }
        times.push(points.iter().map(|p| p.1).collect::<Vec<f64>>());
        plot.add(paper_name, Style::Measured, points);
    }
    let [scan, atomic, flags] = [&times[0], &times[1], &times[2]];
    let share = |of: &dyn Fn(usize) -> bool, range: std::ops::Range<usize>| {
        let n = range.len();
        (range.filter(|i| of(*i)).count(), n)
    };
    let slowest = share(&|i| flags[i] >= scan[i].max(atomic[i]), 1..9);
    let short_scan = share(&|i| scan[i] <= atomic[i].min(flags[i]), 1..4);
    let long_atomic = share(&|i| atomic[i] <= scan[i].min(flags[i]), 6..9);
    let growth = atomic[8] / atomic[1];
    let why = format!("lists are compacted otherwise on this {on}; times are near each other");
    let told = |(n, of): (usize, usize)| format!("at {n} of {of} lengths, on the {on}");
    let most = |(n, of): (usize, usize)| 2 * n > of;
    Ok(Findings {
        sizes: format!("{} events, the first chain", whole(set.events.len() as u64)),
        figures: vec![Figure::Plot(plot)],
        answers: vec![
            Answer::decided(most(slowest), told(slowest), why.clone()),
            Answer::decided(most(short_scan), told(short_scan), why.clone()),
            Answer::decided(most(long_atomic), told(long_atomic), why.clone()),
            Answer::decided(
                (0.5..2.0).contains(&growth),
                format!(
                    "nine symbols take {} × the time of two, on the {on}",
                    short(growth)
                ),
                "each level is a pass over lists, which here costs more than sorting at the end",
            ),
        ],
        ..Findings::default()
    })
}

fn by_frequency(lab: &Lab<'_>, set: &DataSet) -> Result<Findings> {
    let (device, on) = preferred(lab);
    let patterns = set.by_frequency()?;
    let counts = count(&set.events, &patterns)?;
    let mut plot = Plot::new(
        &format!("Milliseconds to count one episode of three symbols, on the {on}"),
        "frequency of the episode",
        "ms",
        false,
        false,
    );
    let mut fits = Vec::new();
    for (k, (name, paper_name)) in COMPACTIONS.into_iter().enumerate() {
        let mut points = Vec::new();
        for (i, (pattern, expected)) in patterns.iter().zip(&counts).enumerate() {
            lab.part("figure 12", k * patterns.len() + i, 3 * patterns.len())?;
            let one = std::slice::from_ref(pattern);
            let (got, seconds) = counted(lab, name, &device, &set.events, one, None)?;
            same(name, &got, std::slice::from_ref(expected))?;
            points.push((*expected as f64, 1e3 * seconds));
        }
        let r = correlation(&points);
        fits.push((r, format!("r = {r:.2} ({paper_name})")));
        plot.add(paper_name, Style::Marks, points);
    }
    let linear = fits.iter().filter(|(r, _)| *r > 0.8).count();
    let told: Vec<String> = fits.into_iter().map(|(_, told)| told).collect();
    Ok(Findings {
        sizes: format!(
            "{} events, {} episodes",
            whole(set.events.len() as u64),
            patterns.len()
        ),
        figures: vec![Figure::Plot(plot)],
        answers: vec![
            Answer::decided(
                linear == COMPACTIONS.len(),
                format!("on the {on}: {}", told.join(", ")),
                "times are short beside the noise of the machine",
            ),
            Answer::unavailable(
                "the papers do not name the episodes, whose overlapping occurrences made the bump",
            ),
        ],
        ..Findings::default()
    })
}

/// Pearson's r.
fn correlation(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (mx, my) = (mean(&|p| p.0), mean(&|p| p.1));
    let covariance = mean(&|p| (p.0 - mx) * (p.1 - my));
    covariance / (mean(&|p| (p.0 - mx).powi(2)) * mean(&|p| (p.1 - my).powi(2))).sqrt()
}

fn profile() -> Findings {
    let why = "these are counters of the Visual Profiler of compute capability 1.3; later devices count other things";
    Findings {
        answers: (0..6).map(|_| Answer::unavailable(why)).collect(),
        ..Findings::default()
    }
}

fn resources() -> Findings {
    let why = "registers and memory are those that the compiler of 2009 gave a kernel for compute capability 1.3";
    let mut answers: Vec<Answer> = (0..4).map(|_| Answer::unavailable(why)).collect();
    answers.push(Answer::unavailable(
        "its points are in a picture, and its counters are those of compute capability 1.3",
    ));
    Findings {
        answers,
        ..Findings::default()
    }
}

/// §5.1 of Cao et al.: one thread per episode (`serial` on a device) or several (`map-concat`).
fn several_threads(lab: &Lab<'_>, set: &DataSet) -> Result<Findings> {
    let mut answers = vec![Answer::reproduced(whole(30 * 32))];
    let mut found = Findings::default();
    match lab.device() {
        Err(reason) => answers.push(Answer::unavailable(reason)),
        Ok(cuda) => {
            let mut plot = Plot::log_log(
                "Milliseconds to count M episodes of nine symbols",
                "M",
                "ms",
            );
            let mut lines = [Vec::new(), Vec::new()];
            let numbers = lab.pick(
                &[1, 10, 30, 100, 300, 1000, 3000][..],
                &[1, 30, 300],
                &[1, 4],
            );
            for (i, number) in numbers.iter().enumerate() {
                lab.part("§5.1", i, numbers.len())?;
                let patterns = set.episodes(*number)?;
                for (line, name) in lines.iter_mut().zip(["serial", "map-concat"]) {
                    let (_, seconds) = counted(lab, name, cuda, &set.events, &patterns, None)?;
                    line.push((*number as f64, 1e3 * seconds));
                }
            }
            let pairs = lines[0].iter().zip(&lines[1]);
            let crossover = pairs.clone().find(|(one, several)| one.1 <= several.1);
            let few = pairs
                .clone()
                .next()
                .is_some_and(|(one, several)| several.1 < one.1);
            answers.push(Answer::decided(
                few,
                crossover.map_or("no crossover up to the largest M".to_owned(), |(p, _)| {
                    format!("one thread per episode is faster from {} episodes", p.0)
                }),
                "one thread per episode is faster throughout on this device",
            ));
            let [one, several] = lines;
            plot.add("one thread per episode", Style::Measured, one);
            plot.add("several threads per episode", Style::Measured, several);
            found.figures.push(Figure::Plot(plot));
        }
    }
    answers.push(Answer::unavailable(
        "the text at hand ends before the results on several GPUs; benches/record/episode_gpu.md has those of Betz",
    ));
    Ok(Findings { answers, ..found })
}
