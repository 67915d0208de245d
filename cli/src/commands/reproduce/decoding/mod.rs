//! Chapter 5 of Galbraith 2010: neural decoding by optimal linear decoders, and CUSUMMA.

pub(super) mod list;
mod products;

use betz::Result;
use betz::model::Decoder;
use betz::psc::{Block, Filter, FilterBank, LowPass, Responses, SampledFilter};
use betz::recording::Recording;
use betz::recording::multiunit::random_groups;
use betz::simulate::poisson;
use betz::simulate::population::{PopulationConfig, PopulationRecording, simulate};
use betz::train::gram::normal_equations;
use betz::train::solve::{FeatureNames, solve};
use betz::train::{
    GramPath, MaskPolicy, Search, Solver, TrainOptions, estimate_delay, evaluate, train_on,
    train_validated,
};

use super::figure::{Figure, Plot, Style};
use super::study::{Answer, Findings, Grid, short};
use super::{Lab, least_seconds, timed};

/// Units per channel of the multi-unit recording.
const UNITS: usize = 3;
const LOW_PASS: LowPass = LowPass {
    order: 2,
    cutoff_hz: 12.0,
};
const STEP_SECONDS: f64 = 0.000_25;
/// Longest delay of the responses that is tried.
const LONGEST_DELAY: f64 = 0.1;

/// Seconds of the parts of one population.
struct Parts {
    neurons: usize,
    /// Single units or multi-unit.
    name: &'static str,
    simulate: f64,
    gram: f64,
    inverse: f64,
    cholesky: f64,
    /// Filtering, Γ, Υ and φ at one ridge, on the CPU and on the device.
    weights_cpu: f64,
    weights_gpu: Option<f64>,
    /// Scoring on the test.
    scoring: f64,
}

pub(super) fn run(lab: &Lab<'_>) -> Result<Vec<Findings>> {
    let parts = measure(lab)?;
    Ok(vec![
        convolution(lab)?,
        components(lab, &parts),
        weights(lab, &parts),
        whole_run(lab, &parts),
        accuracy(lab)?,
        products::transfers(lab)?,
        products::square(lab)?,
        products::rectangular(lab)?,
    ])
}

fn bank() -> Result<FilterBank> {
    FilterBank::new(vec![Filter {
        tau_seconds: 0.010,
        order: 1,
    }])
}

/// The same filter as samples, over ten time constants.
fn sampled_bank() -> Result<FilterBank> {
    let tau = 0.010;
    let value = |i: usize| {
        let t = i as f64 * STEP_SECONDS;
        t * (-t / tau).exp()
    };
    let samples = (0..400).map(value).collect();
    let filter = SampledFilter::new("psc", samples, STEP_SECONDS, 0)?.with_unit_sum()?;
    FilterBank::with_sampled(vec![], vec![filter])
}

/// Figure 5.2.
fn convolution(lab: &Lab<'_>) -> Result<Findings> {
    let powers = lab.pick(
        &[10, 12, 14, 16, 18, 20][..],
        &[10, 12, 14, 16, 18],
        &[10, 11],
    );
    let channels = 16;
    let mut plot = Plot::log_log("Milliseconds per channel, CPU, all threads", "steps", "ms");
    let (mut recursion, mut samples) = (Vec::new(), Vec::new());
    for (i, power) in powers.iter().enumerate() {
        lab.part("figure 5.2", i, powers.len())?;
        let steps = 1_usize << power;
        let data = poisson(channels, 20.0, steps, STEP_SECONDS, 1)?;
        for (line, bank) in [(&mut recursion, bank()?), (&mut samples, sampled_bank()?)] {
            let (sum, seconds) = least_seconds(3, || {
                let mut responses = Responses::new(&data, &bank, None)?;
                let mut block = Block::<f32>::default();
                let mut sum = 0.0;
                while responses.next_block(2048, &mut block) {
                    sum += f64::from(block.values[block.values.len() / 2]);
                }
                Ok(sum)
            })?;
            debug_assert!(f64::is_finite(sum));
            line.push((steps as f64, 1e3 * seconds / channels as f64));
        }
    }
    plot.add("recursion", Style::Measured, recursion);
    plot.add(
        "samples, by spikes or by Fourier transform",
        Style::Measured,
        samples,
    );
    let no_kernel = match lab.device() {
        Err(reason) => reason,
        Ok(_) => "on a device, Betz feeds responses straight into Γ and keeps no convolved signal",
    };
    Ok(Findings {
        sizes: format!(
            "{channels} channels at 20 spikes/s, 2^{} to 2^{} steps",
            powers[0],
            powers[powers.len() - 1]
        ),
        figures: vec![Figure::Plot(plot)],
        answers: vec![
            Answer::decided(
                (100.0 / STEP_SECONDS).round() == 400_000.0,
                "400,000",
                "the quotient is another",
            ),
            Answer::unavailable(no_kernel),
            Answer::unavailable(no_kernel),
        ],
        ..Findings::default()
    })
}

/// Figures 5.3 to 5.5: every population size, single units and multi-unit.
fn measure(lab: &Lab<'_>) -> Result<Vec<Parts>> {
    let sizes = lab.pick(&[10, 80, 150, 300, 1_000][..], &[10, 80, 150], &[10]);
    let mut all = Vec::new();
    for (i, neurons) in sizes.iter().enumerate() {
        lab.part("figure 5.3", i, sizes.len())?;
        let config = population(lab, *neurons);
        let (made, simulate_seconds) = timed(|| simulate(&config, 1))?;
        let groups = random_groups(*neurons, UNITS, 1);
        let multi = (made.train.combine(&groups)?, made.test.combine(&groups)?);
        let pairs = [("SU", &made.train, &made.test), ("MU", &multi.0, &multi.1)];
        for (name, train, test) in pairs {
            all.push(parts(lab, *neurons, name, train, test, simulate_seconds)?);
        }
    }
    Ok(all)
}

fn population(lab: &Lab<'_>, neurons: usize) -> PopulationConfig {
    let whole = PopulationConfig::default();
    PopulationConfig {
        neurons,
        train_seconds: lab.pick(whole.train_seconds, whole.train_seconds, 4.0),
        test_seconds: lab.pick(whole.test_seconds, whole.test_seconds, 2.0),
        ..whole
    }
}

fn parts(
    lab: &Lab<'_>,
    neurons: usize,
    name: &'static str,
    train: &Recording,
    test: &Recording,
    simulate: f64,
) -> Result<Parts> {
    let data = train.align(STEP_SECONDS)?;
    let bank = bank()?;
    let quiet = lab.quiet();
    let ((sums, _), gram) =
        timed(|| normal_equations(&data, &bank, None, 0, GramPath::Auto, &quiet))?;
    let ridge = 1e-3 * sums.gram[0];
    let solved = |solver: Solver| {
        let names = FeatureNames {
            channels: &data.channel_names,
            bank: &bank,
        };
        least_seconds(3, || solve(&sums, ridge, solver, MaskPolicy::Mask, names))
    };
    let (inverse, cholesky) = (solved(Solver::Inverse)?.1, solved(Solver::Cholesky)?.1);
    let options = TrainOptions::new(bank.clone());
    let on = |device: &betz::device::Device| -> Result<(Decoder, f64)> {
        let (trained, seconds) = timed(|| train_on(device, &data, &options, &quiet))?;
        Ok((trained.decoder, seconds))
    };
    let (decoder, weights_cpu) = on(&betz::device::Device::cpu())?;
    let weights_gpu = match lab.device() {
        Ok(cuda) => {
            on(cuda)?;
            Some(on(cuda)?.1)
        }
        Err(_) => None,
    };
    let test = test.align(STEP_SECONDS)?;
    let (_, scoring) = timed(|| evaluate(&decoder, &test))?;
    Ok(Parts {
        neurons,
        name,
        simulate,
        gram,
        inverse,
        cholesky,
        weights_cpu,
        weights_gpu,
        scoring,
    })
}

fn sizes(parts: &[Parts]) -> String {
    let mut neurons: Vec<String> = parts.iter().map(|p| p.neurons.to_string()).collect();
    neurons.dedup();
    format!("{} neurons", neurons.join(", "))
}

fn components(lab: &Lab<'_>, parts: &[Parts]) -> Findings {
    let mut grid = Grid::new(
        "Seconds on the CPU",
        &[
            "neurons",
            "recording",
            "filtering, Γ and Υ",
            "Γ⁻¹ and φ",
            "Cholesky and φ",
        ],
    );
    let mut plot = Plot::log_log("Seconds of the parts, single units, CPU", "neurons", "s");
    for p in parts {
        grid.row([
            p.neurons.to_string(),
            p.name.to_owned(),
            short(p.gram),
            short(p.inverse),
            short(p.cholesky),
        ]);
    }
    let single = |of: fn(&Parts) -> f64| {
        let own = parts.iter().filter(|p| p.name == "SU");
        own.map(move |p| (p.neurons as f64, of(p)))
            .collect::<Vec<_>>()
    };
    plot.add("filtering, Γ and Υ", Style::Measured, single(|p| p.gram));
    plot.add("Γ⁻¹ and φ", Style::Measured, single(|p| p.inverse));
    plot.add("Cholesky and φ", Style::Measured, single(|p| p.cholesky));
    let dominates = parts.iter().filter(|p| p.gram > p.inverse).count();
    Findings {
        sizes: sizes(parts),
        figures: vec![Figure::Plot(plot)],
        grids: vec![grid],
        answers: vec![
            Answer::reproduced(format!("{:.1} GB", 1e3 * 4e5 * 4.0 / 1e9)),
            Answer::decided(
                dominates == parts.len(),
                format!("in {dominates} of {} rows", parts.len()),
                "Γ is made from the spikes, without the signal",
            ),
            match lab.device() {
                Err(reason) => Answer::unavailable(reason),
                Ok(_) => {
                    Answer::unavailable("training on a device is timed as one piece (Figure 5.4)")
                }
            },
        ],
    }
}

fn weights(lab: &Lab<'_>, parts: &[Parts]) -> Findings {
    let mut plot = Plot::log_log("Seconds from spikes to weights", "neurons", "s");
    for name in ["SU", "MU"] {
        let own = || parts.iter().filter(|p| p.name == name);
        let x = |p: &Parts| p.neurons as f64;
        plot.add(
            format!("{name}, CPU"),
            Style::Measured,
            own().map(|p| (x(p), p.weights_cpu)),
        );
        plot.add(
            format!("{name}, CUDA device"),
            Style::Measured,
            own().filter_map(|p| Some((x(p), p.weights_gpu?))),
        );
    }
    let answer = match lab.device() {
        Err(reason) => Answer::unavailable(reason),
        Ok(_) => {
            let single = parts.iter().filter(|p| p.name == "SU");
            let faster = |p: &&Parts| p.weights_gpu.is_some_and(|gpu| gpu < p.weights_cpu);
            match single.clone().find(faster) {
                Some(p) => Answer::decided(
                    p.neurons == 150,
                    format!("from {} neurons on", p.neurons),
                    "device and processor are others",
                ),
                None => Answer::differs(
                    "at no size",
                    "Γ is made from the spikes, for which the CPU is quick",
                ),
            }
        }
    };
    Findings {
        sizes: sizes(parts),
        figures: vec![Figure::Plot(plot)],
        answers: vec![answer],
        ..Findings::default()
    }
}

fn whole_run(lab: &Lab<'_>, parts: &[Parts]) -> Findings {
    let mut plot = Plot::log_log(
        "Seconds of the whole experiment, single units",
        "neurons",
        "s",
    );
    let single = || parts.iter().filter(|p| p.name == "SU");
    let cpu = |p: &Parts| p.simulate + p.weights_cpu + p.scoring;
    let gpu = |p: &Parts| Some(p.simulate + p.weights_gpu? + p.scoring);
    let x = |p: &Parts| p.neurons as f64;
    plot.add("CPU", Style::Measured, single().map(|p| (x(p), cpu(p))));
    plot.add(
        "weights on the CUDA device",
        Style::Measured,
        single().filter_map(|p| Some((x(p), gpu(p)?))),
    );
    let last = single().next_back();
    let ratio = last.and_then(|p| Some(cpu(p) / gpu(p)?));
    let seconds = last.map_or(f64::NAN, cpu);
    let neurons = last.map_or(0, |p| p.neurons);
    Findings {
        sizes: sizes(parts),
        figures: vec![Figure::Plot(plot)],
        answers: vec![
            match (ratio, lab.device()) {
                (Some(ratio), _) => Answer::ratio(
                    ratio,
                    6.0,
                    &format!(" at {neurons} neurons"),
                    "Betz simulates on the CPU, which takes most of the time, and filters by a recursion instead of Fourier transforms",
                ),
                (None, reason) => Answer::unavailable(reason.err().unwrap_or("no CUDA device")),
            },
            Answer::differs(
                format!("{} s for {neurons} neurons", short(seconds)),
                "the machine and the algorithms are others",
            ),
        ],
        ..Findings::default()
    }
}

/// The experiment of §5.1.2, and its errors at other sizes of the population.
fn accuracy(lab: &Lab<'_>) -> Result<Findings> {
    let seeds: u64 = lab.pick(10, 2, 1);
    let sizes = lab.pick(&[10, 80, 150, 300][..], &[150], &[12]);
    let main = lab.pick(150, 150, 12);
    let mut plot = Plot::new("x of the test, and its estimates", "s", "x", false, false);
    let mut grid = Grid::new(
        "NRMSE (RMSE over standard deviation, mean of x and y): mean ± standard deviation",
        &[
            "neurons",
            "SU, PSC",
            "MU, PSC",
            "SU, PSC and low-pass",
            "MU, PSC and low-pass",
        ],
    );
    let mut of_main: [Vec<f64>; 4] = Default::default();
    for (i, neurons) in sizes.iter().enumerate() {
        let mut cells: [Vec<f64>; 4] = Default::default();
        for seed in 1..=seeds {
            let done = i * seeds as usize + seed as usize - 1;
            lab.part("§5.1.2", done, sizes.len() * seeds as usize)?;
            let drawn = (seed == 1 && *neurons == main).then_some(&mut plot);
            let errors = errors(lab, *neurons, seed, drawn)?;
            cells
                .iter_mut()
                .zip(errors)
                .for_each(|(cell, error)| cell.push(error));
        }
        let told = cells.iter().map(|cell| spread(cell));
        grid.row(std::iter::once(neurons.to_string()).chain(told));
        if *neurons == main {
            of_main = cells;
        }
    }
    let [_, _, single, multi] = &of_main;
    let why = "the thesis gives neither the ranges of the population's parameters nor the normaliser of NRMSE";
    let worst = mean(multi);
    Ok(Findings {
        sizes: format!("up to {} neurons, {seeds} seeds", sizes[sizes.len() - 1]),
        figures: vec![Figure::Plot(plot)],
        grids: vec![grid],
        answers: vec![
            Answer::differs(spread(single), why),
            Answer::differs(spread(multi), why),
            Answer::decided(
                worst < 0.2,
                format!("NRMSE {worst:.3} of the worse estimate"),
                "there are too few neurons",
            ),
        ],
    })
}

/// NRMSE of single units and of multi-unit channels, by PSCs alone and with the thesis' low-pass. `plot` takes the
/// estimates of the latter.
fn errors(
    lab: &Lab<'_>,
    neurons: usize,
    seed: u64,
    mut plot: Option<&mut Plot>,
) -> Result<[f64; 4]> {
    let made = simulate(&population(lab, neurons), seed)?;
    let groups = random_groups(neurons, UNITS, seed);
    let multi = PopulationRecording {
        train: made.train.combine(&groups)?,
        test: made.test.combine(&groups)?,
        neurons: Vec::new(),
    };
    let mut errors = [0.0; 4];
    for (k, low_pass) in [None, Some(LOW_PASS)].into_iter().enumerate() {
        for (j, (name, recording)) in [("SU", &made), ("MU", &multi)].into_iter().enumerate() {
            let (nrmse, decoder) = decoded(lab, recording, low_pass)?;
            errors[2 * k + j] = nrmse;
            if let (Some(plot), Some(_)) = (plot.as_deref_mut(), low_pass) {
                draw(plot, name, &decoder, &recording.test)?;
            }
        }
    }
    Ok(errors)
}

/// NRMSE on the test, and the decoder.
fn decoded(
    lab: &Lab<'_>,
    recording: &PopulationRecording,
    low_pass: Option<LowPass>,
) -> Result<(f64, Decoder)> {
    let bank = bank()?;
    let train = recording.train.align(STEP_SECONDS)?;
    let quiet = lab.quiet();
    let delay_steps = match low_pass {
        None => (0.015 / STEP_SECONDS) as i64,
        Some(_) => {
            let most = (LONGEST_DELAY / STEP_SECONDS) as usize;
            estimate_delay(&train, &bank, low_pass, most, &quiet)?.delay_steps
        }
    };
    let options = TrainOptions {
        low_pass,
        delay_steps,
        ..TrainOptions::new(bank)
    };
    let decoder = train_validated(&train, &options, &Search::ridge(), &quiet)?;
    let scores = evaluate(&decoder, &recording.test.align(STEP_SECONDS)?)?.outputs;
    let nrmse = scores.iter().map(|s| s.nrmse_std).sum::<f64>() / scores.len() as f64;
    Ok((nrmse, decoder))
}

/// Adds x of the test, once, and its estimate, every 20 ms of 5 s.
fn draw(plot: &mut Plot, name: &str, decoder: &Decoder, test: &Recording) -> Result<()> {
    let data = test.align(STEP_SECONDS)?;
    let estimates = betz::model::decode(decoder, &data)?;
    let delay = decoder.delay_steps().max(0) as usize;
    let steps = (0..20_000_usize).step_by(80);
    let x_of =
        |values: &[f32], step: usize| values.get(2 * step).copied().map_or(f64::NAN, f64::from);
    let time = |step: usize| step as f64 * STEP_SECONDS;
    if plot.series.is_empty() {
        let truth = steps.clone().map(|i| (time(i), x_of(&data.behavior, i)));
        plot.add("input", Style::Line, truth);
    }
    plot.add(
        format!("{name} estimate"),
        Style::Line,
        steps.map(|i| (time(i), x_of(&estimates, i + delay))),
    );
    Ok(())
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Mean and standard deviation.
fn spread(values: &[f64]) -> String {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    match values.len() {
        0 | 1 => format!("{mean:.3}"),
        n => format!("{mean:.3} ± {:.3}", (squares / (n - 1) as f64).sqrt()),
    }
}

#[cfg(test)]
mod tests {
    use super::spread;

    #[test]
    fn a_spread_is_a_mean_and_a_deviation() {
        assert_eq!(spread(&[1.0]), "1.000");
        assert_eq!(spread(&[1.0, 3.0]), "2.000 ± 1.414");
    }
}
