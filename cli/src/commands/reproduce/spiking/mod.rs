//! Chapter 4 of Galbraith 2010: overdriven spiking networks.

pub(super) mod list;

use betz::Result;
use betz::device::Device;
use betz::spiking::models::galbraith::{self, STEPS};
use betz::spiking::{Engine, Network, Options, Report};

use super::Lab;
use super::figure::{Figure, Plot, Style};
use super::study::{Answer, Findings, Grid, exponent, short, whole};

/// Memory of the thesis' GPU in bytes.
const GTX_260: f64 = 896.0 * 1024.0 * 1024.0;

/// One network on every processor.
struct NetworkTimes {
    neurons: u64,
    synapses: u64,
    one_thread: f64,
    threads: f64,
    gpu: Option<f64>,
    /// All gave the same spikes.
    same: bool,
}

pub(super) fn run(lab: &Lab<'_>) -> Result<Vec<Findings>> {
    let ring = sweep(
        lab,
        "figure 4.4",
        lab.pick(
            &[100, 1_000, 10_000, 50_000, 100_000, 500_000][..],
            &[100, 1_000, 10_000, 50_000],
            &[21, 50],
        ),
        |neurons| galbraith::ring(neurons as u32, 0),
    )?;
    let full = sweep(
        lab,
        "figure 4.5",
        lab.pick(
            &[10, 32, 100, 316, 1_000][..],
            &[10, 32, 100, 316, 1_000],
            &[10],
        ),
        |neurons| galbraith::full(neurons as u32, 0),
    )?;
    let neurons = lab.pick(1_000, 1_000, 50);
    let fixed_neurons = sweep(
        lab,
        "figure 4.6",
        lab.pick(
            &[1_000, 10_000, 100_000, 500_000, 1_000_000][..],
            &[1_000, 10_000, 100_000, 1_000_000],
            &[100, 1_000],
        ),
        |synapses| galbraith::random(neurons, synapses, 0, 1),
    )?;
    let synapses = lab.pick(500_000, 500_000, 1_000);
    let fixed_synapses = sweep(
        lab,
        "figure 4.7",
        lab.pick(
            &[1_000, 10_000, 50_000, 100_000, 500_000][..],
            &[1_000, 5_000, 500_000],
            &[50, 100],
        ),
        |neurons| galbraith::random(neurons as u32, synapses, 0, 1),
    )?;
    Ok(vec![
        memory(),
        counts(lab)?,
        figure_ring(lab, &ring),
        figure_full(lab, &full),
        figure_fixed_neurons(lab, &fixed_neurons),
        figure_fixed_synapses(lab, &fixed_synapses),
        parts(lab)?,
        raster(lab)?,
    ])
}

/// Steps of a run: the thesis' 10 s, fewer in tests.
fn steps(lab: &Lab<'_>) -> u64 {
    lab.pick(STEPS, STEPS, 400)
}

fn simulate(lab: &Lab<'_>, network: &Network, device: &Device, threads: usize) -> Result<Report> {
    let options = Options {
        device: device.clone(),
        threads,
        ..Options::default()
    };
    let mut engine = Engine::build(network, &options, &lab.quiet())?;
    engine.run(steps(lab), &lab.quiet())
}

fn sweep(
    lab: &Lab<'_>,
    name: &str,
    sizes: &[u64],
    make: impl Fn(u64) -> Result<Network>,
) -> Result<Vec<NetworkTimes>> {
    let mut all = Vec::new();
    for (i, size) in sizes.iter().enumerate() {
        lab.part(name, i, sizes.len())?;
        let network = make(*size)?;
        let one = simulate(lab, &network, &Device::cpu(), 1)?;
        let many = match rayon::current_num_threads() {
            1 => one.clone(),
            threads => simulate(lab, &network, &Device::cpu(), threads)?,
        };
        let gpu = match lab.device() {
            // The first run compiles the kernels.
            Ok(cuda) => {
                simulate(lab, &network, cuda, 1)?;
                Some(simulate(lab, &network, cuda, 1)?)
            }
            Err(_) => None,
        };
        all.push(NetworkTimes {
            neurons: one.neurons,
            synapses: one.synapses,
            one_thread: one.seconds,
            threads: many.seconds,
            same: many.hash == one.hash && gpu.as_ref().is_none_or(|g| g.hash == one.hash),
            gpu: gpu.map(|g| g.seconds),
        });
    }
    Ok(all)
}

/// Figure and table of a sweep, without answers.
fn shown(
    lab: &Lab<'_>,
    runs: &[NetworkTimes],
    axis: &'static str,
    of: fn(&NetworkTimes) -> u64,
) -> Findings {
    let seconds = steps(lab) as f64 * galbraith::STEP_MS / 1e3;
    let mut plot = Plot::log_log(&format!("Seconds of a run of {seconds} s"), axis, "s");
    let line = |seconds: &dyn Fn(&NetworkTimes) -> Option<f64>| -> Vec<(f64, f64)> {
        let points = runs
            .iter()
            .filter_map(|r| Some((of(r) as f64, seconds(r)?)));
        points.collect()
    };
    plot.add("one thread", Style::Measured, line(&|r| Some(r.one_thread)));
    let threads = rayon::current_num_threads();
    if threads > 1 {
        plot.add(
            format!("{threads} threads"),
            Style::Measured,
            line(&|r| Some(r.threads)),
        );
    }
    plot.add("CUDA device", Style::Measured, line(&|r| r.gpu));
    let mut grid = Grid::new(
        "Seconds",
        &[
            "neurons",
            "synapses",
            "one thread",
            "all threads",
            "CUDA device",
            "same spikes",
        ],
    );
    for run in runs {
        grid.row([
            whole(run.neurons),
            whole(run.synapses),
            short(run.one_thread),
            short(run.threads),
            run.gpu.map_or_else(|| "–".to_owned(), short),
            if run.same { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let last = runs.last().map_or(0, of);
    Findings {
        sizes: format!("up to {} {axis}, {seconds} s", whole(last)),
        figures: vec![Figure::Plot(plot)],
        grids: vec![grid],
        answers: Vec::new(),
    }
}

/// The first size from which on the device is faster than all threads, in words.
fn crossover(runs: &[NetworkTimes], of: fn(&NetworkTimes) -> u64) -> Option<u64> {
    let faster = |r: &&NetworkTimes| r.gpu.is_some_and(|gpu| gpu < r.one_thread.min(r.threads));
    let slower = runs.iter().rposition(|r| !faster(&r));
    runs.get(slower.map_or(0, |at| at + 1)).map(of)
}

/// An answer about the device, or the reason why there is none.
fn about_device(lab: &Lab<'_>, answer: impl FnOnce() -> Answer) -> Answer {
    match lab.device() {
        Ok(_) => answer(),
        Err(reason) => Answer::unavailable(reason),
    }
}

const OTHER: &str = "processor, device and program are others";

fn memory() -> Findings {
    let (n, s) = (1e5, 1e6);
    let bytes = |filter: f64| 50.0 * n + 24.0 * s + 4.0 * filter * (n + s);
    let rows = [16.0 + 16.0 + 16.0 + 2.0, 16.0 + 8.0];
    let mib = |bytes: f64| format!("{:.0} MiB", bytes / 1024.0 / 1024.0);
    Findings {
        sizes: "computed from the rows of the table".to_owned(),
        answers: vec![
            Answer::decided(
                rows == [50.0, 24.0],
                "50 N + 24 S + 4 pscFilterSize (N + S)",
                "the rows have another sum",
            ),
            Answer::reproduced("50 (⌈5 · 2.5 ms / 0.25 ms⌉)"),
            Answer::decided(
                bytes(50.0) > GTX_260,
                format!(
                    "{} with 50 values, {} with 200",
                    mib(bytes(50.0)),
                    mib(bytes(200.0))
                ),
                "by the table they would fit with filters of up to about 200 values; the thesis does not give the length of those that did not",
            ),
        ],
        ..Findings::default()
    }
}

fn counts(lab: &Lab<'_>) -> Result<Findings> {
    lab.part("§4.4.2", 0, 2)?;
    let mut engine = Engine::build(&galbraith::ring(100, 0)?, &Options::default(), &lab.quiet())?;
    engine.run(STEPS, &lab.quiet())?;
    let counted = engine.counts();
    let mut answers = vec![
        Answer::decided(STEPS == 40_000, whole(STEPS), "the step is another"),
        Answer::decided(
            (STEPS / 9, STEPS % 9) == (4_444, 4),
            format!("{}; {}", whole(STEPS / 9), STEPS % 9),
            "the division is another",
        ),
    ];
    for (range, expected) in [(0..3, 4_445), (3..12, 4_444), (12..21, 4_443)] {
        let own = &counted[range];
        let (low, high) = (own.iter().min(), own.iter().max());
        answers.push(Answer::decided(
            own.iter().all(|count| u64::from(*count) == expected),
            format!(
                "{} to {}",
                whole(low.map_or(0, |c| u64::from(*c))),
                whole(high.map_or(0, |c| u64::from(*c)))
            ),
            "the counts are others",
        ));
    }
    answers.push(Answer::decided(
        STEPS.div_ceil(u64::from(counted[0])) == 9,
        "8 (a spike every nine steps)",
        "neurons fire at another rate",
    ));
    lab.part("§4.4.2", 1, 2)?;
    let total = |order: u32| -> Result<f64> {
        let network = galbraith::full(lab.pick(1_000, 200, 20), order)?;
        let report = simulate(lab, &network, &Device::cpu(), 1)?;
        Ok(report.spikes as f64)
    };
    let more = 100.0 * (total(0)? / total(1)? - 1.0);
    answers.push(Answer::decided(
        (more - 4.0).abs() < 1.0,
        format!("{more:.1} % in a fully connected network"),
        "the MPI version also integrated the current of the step before, and neither the network nor the parameters of the comparison are given",
    ));
    Ok(Findings {
        sizes: "a ring of 100 neurons, 40,000 steps".to_owned(),
        answers,
        ..Findings::default()
    })
}

fn figure_ring(lab: &Lab<'_>, runs: &[NetworkTimes]) -> Findings {
    let neurons = |r: &NetworkTimes| r.neurons;
    let first = about_device(lab, || match crossover(runs, neurons) {
        Some(from) => Answer::decided(
            from == 50_000,
            format!("from {} neurons on", whole(from)),
            OTHER,
        ),
        None => Answer::differs("at no size", OTHER),
    });
    let slowest = runs.iter().map(|r| r.threads).fold(0.0, f64::max);
    let last = runs.last();
    let ratio = last.and_then(|r| Some(r.gpu? / r.threads));
    Findings {
        answers: vec![
            first,
            Answer::differs(
                format!(
                    "at most {} s on {} threads",
                    short(slowest),
                    rayon::current_num_threads()
                ),
                "threads of one machine share their memory, where 16 cores on four machines sent messages",
            ),
            about_device(lab, || {
                let ratio = ratio.unwrap_or(f64::NAN);
                Answer::decided(
                    (0.5..2.0).contains(&ratio),
                    format!(
                        "the device takes {} × the time of all threads",
                        short(ratio)
                    ),
                    OTHER,
                )
            }),
        ],
        ..shown(lab, runs, "neurons", neurons)
    }
}

fn figure_full(lab: &Lab<'_>, runs: &[NetworkTimes]) -> Findings {
    let slower = runs
        .iter()
        .filter(|r| r.gpu.is_some_and(|gpu| gpu > r.threads));
    let slower = slower.count();
    Findings {
        answers: vec![
            Answer::decided(
                1_000_u64.pow(2) == 1_000_000,
                "1,000,000",
                "the square is another",
            ),
            about_device(lab, || {
                Answer::decided(
                    2 * slower > runs.len(),
                    format!(
                        "slower than all threads at {slower} of {} sizes",
                        runs.len()
                    ),
                    "Betz visits the synapses of neurons that fire, where the thesis visits every synapse in every step",
                )
            }),
        ],
        ..shown(lab, runs, "synapses", |r| r.synapses)
    }
}

/// Seconds of the largest network over those of the smallest.
fn growth(runs: &[NetworkTimes], seconds: impl Fn(&NetworkTimes) -> Option<f64>) -> f64 {
    let ends = [runs.first(), runs.last()].map(|r| r.and_then(&seconds));
    match ends {
        [Some(first), Some(last)] => last / first,
        _ => f64::NAN,
    }
}

fn figure_fixed_neurons(lab: &Lab<'_>, runs: &[NetworkTimes]) -> Findings {
    let n = 1_000.0_f64;
    let ends = [1e3, 1e6].map(|s| 100.0 * s / n.powi(2));
    Findings {
        answers: vec![
            Answer::decided(
                ends == [0.1, 100.0],
                format!("{} to {} %", ends[0], ends[1]),
                "the shares are others",
            ),
            about_device(lab, || {
                let slower = growth(runs, |r| r.gpu);
                Answer::decided(
                    slower > 2.0,
                    format!("{} × the time at the largest number", short(slower)),
                    "Betz visits the synapses of neurons that fire, where the thesis visits every synapse in every step",
                )
            }),
        ],
        ..shown(lab, runs, "synapses", |r| r.synapses)
    }
}

fn figure_fixed_synapses(lab: &Lab<'_>, runs: &[NetworkTimes]) -> Findings {
    let share = |neurons: f64| 100.0 * 5e5 / neurons.powi(2);
    let neurons = |r: &NetworkTimes| r.neurons;
    let points: Vec<(f64, f64)> = (runs.iter())
        .map(|r| (r.neurons as f64, r.one_thread))
        .collect();
    let sparse = "a random network of few synapses per neuron does not pass its first spike on, so that the largest one hardly fires";
    Findings {
        answers: vec![
            Answer::decided(
                share(1e3) == 50.0,
                format!("{} %", share(1e3)),
                "the share is another",
            ),
            Answer::decided(
                (share(5e5) - 0.0002).abs() < 1e-9,
                format!("{:.4} %", share(5e5)),
                "the share is another",
            ),
            about_device(lab, || {
                let ratio = growth(runs, |r| r.gpu);
                Answer::decided(
                    (0.5..2.0).contains(&ratio),
                    format!("{} × the time at the largest number", short(ratio)),
                    OTHER,
                )
            }),
            Answer::decided(
                (0.8..1.2).contains(&exponent(&points)),
                format!("power {:.2} on one thread", exponent(&points)),
                sparse,
            ),
            about_device(lab, || {
                let ratio = runs.first().and_then(|r| Some(r.gpu? / r.threads));
                let ratio = ratio.unwrap_or(f64::NAN);
                Answer::decided(
                    (5.0..20.0).contains(&ratio),
                    format!("{} × the time", short(ratio)),
                    OTHER,
                )
            }),
            about_device(lab, || match crossover(runs, neurons) {
                Some(from) => Answer::decided(
                    from == 100_000,
                    format!("from {} neurons on", whole(from)),
                    OTHER,
                ),
                None => Answer::differs("not at the largest number", sparse),
            }),
        ],
        ..shown(lab, runs, "neurons", neurons)
    }
}

/// Figures 4.8 and 4.9: parts of a step on one thread.
fn parts(lab: &Lab<'_>) -> Result<Findings> {
    let neurons = lab.pick(1_000, 1_000, 50);
    let synapses = lab.pick(
        &[1_000, 10_000, 100_000, 1_000_000][..],
        &[1_000, 10_000, 100_000, 1_000_000],
        &[100, 1_000],
    );
    let mut plot = Plot::log_log("Microseconds per step, one thread", "synapses", "µs");
    let mut lines = [Vec::new(), Vec::new()];
    for (i, synapses) in synapses.iter().enumerate() {
        lab.part("figure 4.8", i, 4)?;
        let options = Options {
            time_phases: true,
            ..Options::default()
        };
        let network = galbraith::random(neurons, *synapses, 0, 1)?;
        let mut engine = Engine::build(&network, &options, &lab.quiet())?;
        let phases = engine.run(steps(lab), &lab.quiet())?.phases;
        let per_step = |seconds: f64| 1e6 * seconds / steps(lab) as f64;
        lines[0].push((*synapses as f64, per_step(phases.update_seconds)));
        lines[1].push((*synapses as f64, per_step(phases.deliver_seconds)));
    }
    let dominates = lines[0]
        .iter()
        .zip(&lines[1])
        .filter(|(u, d)| d.1 > u.1)
        .count();
    let of = lines[0].len();
    let power = exponent(&lines[1]);
    let [update, deliver] = lines;
    plot.add(
        "stimulus, dendrites, soma (update)",
        Style::Measured,
        update,
    );
    plot.add("synapses (deliver)", Style::Measured, deliver);
    Ok(Findings {
        sizes: format!("{} neurons on one thread", whole(u64::from(neurons))),
        figures: vec![Figure::Plot(plot)],
        answers: vec![
            Answer::decided(
                dominates == of,
                format!("at {dominates} of {of} numbers of synapses"),
                "only synapses of neurons that fire are visited",
            ),
            Answer::decided(
                (0.8..1.2).contains(&power),
                format!("power {power:.2}"),
                "only synapses of neurons that fire are visited, many of them at once",
            ),
        ],
        ..Findings::default()
    })
}

/// Figure 4.10: the raster of a network of 1,000 neurons that is connected to 1 %.
fn raster(lab: &Lab<'_>) -> Result<Findings> {
    lab.part("figure 4.10", 0, 1)?;
    let (neurons, drawn, window) = (lab.pick(1_000, 1_000, 50), 50, 120);
    let synapses = u64::from(neurons).pow(2) / 100;
    let network = galbraith::random(neurons, synapses, 0, 1)?;
    let options = Options {
        record_spikes: 10_000_000,
        ..Options::default()
    };
    let mut engine = Engine::build(&network, &options, &lab.quiet())?;
    let total = lab.pick(4_000, 4_000, 400);
    engine.run(total, &lab.quiet())?;
    let spikes = engine.spikes();
    let seen = spikes
        .iter()
        .filter(|s| s.step + window >= total && s.neuron < drawn);
    let mut plot = Plot::new(
        "Spikes of 50 neurons in the last 120 steps",
        "step",
        "neuron",
        false,
        false,
    );
    plot.add(
        "spike",
        Style::Marks,
        seen.map(|s| (s.step as f64, f64::from(s.neuron))),
    );
    Ok(Findings {
        sizes: format!(
            "{} neurons, {} synapses; 50 neurons and 120 steps are drawn",
            whole(u64::from(neurons)),
            whole(synapses)
        ),
        figures: vec![Figure::Plot(plot)],
        answers: vec![
            Answer::reproduced(whole(1_000 * 1_000 / 100)),
            Answer::differs(
                format!("{} ms", 1_000.0 * galbraith::STEP_MS),
                "1,000 steps of 0.25 ms are 250 ms; the printed number is the length of one step",
            ),
        ],
        ..Findings::default()
    })
}
