//! The thesis on correlation networks: Purgato 2016.

pub(super) mod list;
mod video;

use betz::device::Device;
use betz::network::file::NetworkFile;
use betz::network::{NetworkSpec, Plan, Signal, Threshold, Window};
use betz::{Error, Result};

use super::figure::{Figure, Plot, Style};
use super::study::{Answer, Findings, Grid, exponent, short, whole};
use super::{Lab, timed};
use list::{ROWS, Row};
use video::Video;

/// Frames of the video.
const FRAMES: usize = 1000;
/// Least size of a correlation that is an edge.
const EDGE: f64 = 0.9;
/// Memory of a GPU of the thesis in its own unit, of 1,024 bytes.
const GPU_MEMORY: f64 = 4.0 * 1024.0 * 1024.0;

/// Seconds of a row here: means over its windows.
struct RowTimes {
    row: &'static Row,
    /// Pairs times windows.
    pair_windows: f64,
    edges: f64,
    /// Edges found, on the CPU.
    cpu: f64,
    /// The same with the file written.
    with_file: f64,
    /// Edges found, on the CUDA device.
    gpu: Option<f64>,
}

pub(super) fn run(lab: &Lab<'_>) -> Result<Vec<Findings>> {
    let most = lab.pick(usize::MAX, 1600, 100);
    let rows: Vec<&Row> = ROWS.iter().filter(|row| row.nodes <= most).collect();
    lab.part("video", 0, 1)?;
    let video = Video::new(lab.pick(FRAMES, FRAMES, 220));
    let mut measured = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        lab.part("Table II", i, rows.len())?;
        measured.push(measure(lab, row, &video)?);
    }
    Ok(vec![
        table_1(&measured),
        table_2(lab, &measured),
        figure_15(&measured),
        figure_16(&measured),
        table_3(lab, &measured, &video)?,
        figure_17(),
        figure_18(),
    ])
}

fn spec(length: usize) -> NetworkSpec {
    NetworkSpec::pearson(Window { length, step: 1 })
        .threshold(Threshold::Absolute(EDGE))
        .max_edges(u64::MAX)
}

fn measure(lab: &Lab<'_>, row: &'static Row, video: &Video) -> Result<RowTimes> {
    let samples = video.pixels(row.nodes);
    let folder = std::env::temp_dir().join(format!("betz-reproduce-{}", std::process::id()));
    let quiet = lab.quiet();
    // A quick run takes the shortest, a middle and the longest window.
    let windows: Vec<usize> = match (lab.pick(1, 3, 7), row.windows) {
        (every, many) if many.len() > 1 => many.iter().copied().step_by(every).collect(),
        (_, one) => one.to_vec(),
    };
    let mut sums = [0.0; 5];
    for length in &windows {
        let signal = Signal::new(&samples[..], row.nodes)?;
        let run = |device: &Device| {
            timed(|| {
                let plan = Plan::new(&spec(*length), &signal)?.on(device)?;
                plan.run(&signal, &quiet)
            })
        };
        let (network, cpu) = run(&Device::cpu())?;
        if let Ok(cuda) = lab.device() {
            // The first run compiles the kernels.
            run(cuda)?;
            sums[4] += run(cuda)?.1;
        }
        sums[0] += network.len() as f64;
        sums[1] += network.edges() as f64;
        sums[2] += cpu;
        let ((), writing) = timed(|| write_and_remove(&folder, network))?;
        sums[3] += cpu + writing;
    }
    let [count, edges, cpu, with_file, gpu] = sums.map(|sum| sum / windows.len() as f64);
    let pairs = row.nodes as f64 * (row.nodes as f64 - 1.0) / 2.0;
    Ok(RowTimes {
        row,
        pair_windows: pairs * count,
        edges,
        cpu,
        with_file,
        gpu: lab.device().is_ok().then_some(gpu),
    })
}

/// Writes a network into a folder of its own, and removes both.
fn write_and_remove(folder: &std::path::Path, network: betz::network::Network) -> Result<()> {
    std::fs::create_dir_all(folder).map_err(|e| Error::io("making", folder, &e))?;
    let written = NetworkFile::new(network).write(&folder.join("network.npz"));
    std::fs::remove_dir_all(folder).map_err(|e| Error::io("removing", folder, &e))?;
    written.map(drop)
}

/// Answers for all rows: those that ran, and a reason for the others.
fn rows(measured: &[RowTimes], answer: impl Fn(&RowTimes) -> Answer) -> Vec<Answer> {
    let of = |row: &Row| {
        let ran = measured.iter().find(|m| m.row.nodes == row.nodes);
        ran.map_or_else(|| Answer::unavailable("this run is a smaller one"), &answer)
    };
    ROWS.iter().map(of).collect()
}

fn table_1(measured: &[RowTimes]) -> Findings {
    let answer = |row: &Row| {
        let n = row.nodes as u64;
        let windows = row
            .listed
            .iter()
            .map(|w| (FRAMES - w + 1) as f64)
            .sum::<f64>();
        let windows = windows / row.listed.len() as f64;
        let printed = row.coefficients / (n * n);
        let coefficients = ((n * n) as f64 * windows) as u64;
        Answer::decided(
            coefficients == row.coefficients,
            format!(
                "{} = {}² × {windows}; each pair once: {}",
                whole(coefficients),
                whole(n),
                whole(((n * (n - 1) / 2) as f64 * windows) as u64)
            ),
            format!(
                "the printed number is {}² × {printed}, and {}",
                whole(n),
                match printed {
                    887 =>
                        "1,000 − W windows were counted, where there are 1,001 − W (in the mean 888.5)",
                    112 =>
                        "112 is the mean length of the other rows' windows, where there are 901 windows",
                    _ =>
                        "100 is the length of the windows of the row above, where there are 801 windows",
                }
            ),
        )
    };
    let mut answers: Vec<Answer> = ROWS.iter().map(answer).collect();
    answers.push(Answer::reproduced(whole(130 * 172)));
    let mut grid = Grid::new(
        "Work of this run",
        &["nodes", "pairs × windows", "pairs that are edges"],
    );
    for m in measured {
        grid.row([
            whole(m.row.nodes as u64),
            format!("{:.4e}", m.pair_windows),
            format!("{:.3} %", 100.0 * m.edges / m.pair_windows),
        ]);
    }
    Findings {
        sizes: "the numbers are computed; the table below is of this run".to_owned(),
        grids: vec![grid],
        answers,
        ..Findings::default()
    }
}

fn sizes(measured: &[RowTimes]) -> String {
    format!(
        "up to {} nodes",
        whole(measured.last().map_or(0, |m| m.row.nodes as u64))
    )
}

fn table_2(lab: &Lab<'_>, measured: &[RowTimes]) -> Findings {
    let mut plot = Plot::log_log("Seconds by the number of nodes", "nodes", "s");
    let nodes = |m: &RowTimes| m.row.nodes as f64;
    let printed = |of: fn(&Row) -> f64| ROWS.iter().map(move |r| (r.nodes as f64, of(r)));
    plot.add("paper: total", Style::Paper, printed(|r| r.total));
    plot.add("paper: three GPUs", Style::Paper, printed(|r| r.gpu));
    plot.add(
        "edges, CPU",
        Style::Measured,
        measured.iter().map(|m| (nodes(m), m.cpu)),
    );
    plot.add(
        "edges and file, CPU",
        Style::Measured,
        measured.iter().map(|m| (nodes(m), m.with_file)),
    );
    let gpu = measured.iter().filter_map(|m| Some((nodes(m), m.gpu?)));
    plot.add("edges, CUDA device", Style::Measured, gpu);
    let why = "the machine is another, and only edges are kept";
    let mut answers = rows(measured, |m| {
        let gpu = match (m.gpu, lab.device()) {
            (Some(gpu), _) => format!("CUDA device {}", short(gpu)),
            (None, reason) => reason.err().unwrap_or("no CUDA device").to_owned(),
        };
        Answer::differs(
            format!(
                "CPU {}, with the file {}; {gpu}",
                short(m.cpu),
                short(m.with_file)
            ),
            why,
        )
    });
    let shares = |of: fn(&Row) -> f64| -> Vec<f64> {
        ROWS.iter().map(|r| 100.0 * of(r) / r.total).collect()
    };
    let gpu_printed = [0.299, 0.336, 0.398, 0.41, 0.41, 0.413, 0.42, 0.36, 0.711];
    let waiting_printed = [
        96.444, 98.37, 98.393, 98.64, 98.805, 98.843, 98.801, 98.844, 98.453,
    ];
    answers.push(percentages(&shares(|r| r.gpu), &gpu_printed, 0.0006));
    answers.push(percentages(&shares(|r| r.waiting), &waiting_printed, 0.006));
    let apart = ROWS.iter().map(|row| {
        let steps = f64::from(row.steps) * (row.covariance_ms + row.correlation_ms) / 1e3;
        (steps / row.gpu - 1.0).abs()
    });
    let apart = apart.fold(0.0, f64::max);
    answers.push(Answer::decided(
        apart < 0.005,
        format!("in all rows within {:.2} %", 100.0 * apart),
        "a row is not their product",
    ));
    Findings {
        sizes: sizes(measured),
        figures: vec![Figure::Plot(plot)],
        answers,
        ..Findings::default()
    }
}

/// Percentages of the printed seconds, against the printed percentages.
fn percentages(computed: &[f64], printed: &[f64], tolerance: f64) -> Answer {
    let told: Vec<String> = computed.iter().map(|c| format!("{c:.3}")).collect();
    let wrong = computed.iter().zip(printed).zip(&ROWS);
    let wrong: Vec<String> = wrong
        .filter(|((c, p), _)| (*c - *p).abs() > tolerance)
        .map(|((c, p), row)| format!("{} nodes: {c:.3}, printed {p}", whole(row.nodes as u64)))
        .collect();
    Answer::decided(
        wrong.is_empty(),
        told.join(", "),
        format!(
            "the printed seconds give another percentage ({})",
            wrong.join("; ")
        ),
    )
}

fn figure_15(measured: &[RowTimes]) -> Findings {
    let shares: Vec<f64> = (measured.iter())
        .map(|m| 100.0 * (m.with_file - m.cpu) / m.with_file)
        .collect();
    let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = shares.iter().copied().fold(0.0, f64::max);
    Findings {
        sizes: sizes(measured),
        answers: vec![Answer::differs(
            format!("{least:.0} to {largest:.0} % writes the file"),
            "only edges are written, and as numbers",
        )],
        ..Findings::default()
    }
}

fn figure_16(measured: &[RowTimes]) -> Findings {
    let paper: Vec<(f64, f64)> = ROWS.iter().map(|r| (r.nodes as f64, r.gpu)).collect();
    let ours: Vec<(f64, f64)> = (measured.iter())
        .filter(|m| m.row.nodes >= 400)
        .map(|m| (m.row.nodes as f64, m.gpu.unwrap_or(m.cpu)))
        .collect();
    let here = match ours.len() {
        0 | 1 => "too few sizes".to_owned(),
        _ => format!("power {:.2} from 400 nodes on", exponent(&ours)),
    };
    let mut plot = Plot::log_log("Seconds of the computation", "nodes", "s");
    plot.add("paper: three GPUs", Style::Paper, paper.clone());
    plot.add("here", Style::Measured, ours);
    Findings {
        sizes: sizes(measured),
        figures: vec![Figure::Plot(plot)],
        answers: vec![Answer::differs(
            here,
            format!(
                "the thesis' own points grow with power {:.2} of the number of nodes; only its axis, which doubles, makes a line of them",
                exponent(&paper)
            ),
        )],
        ..Findings::default()
    }
}

fn table_3(lab: &Lab<'_>, measured: &[RowTimes], video: &Video) -> Result<Findings> {
    let mut answers = rows(measured, |m| {
        let seconds = m.gpu.unwrap_or(m.cpu);
        Answer::differs(
            format!(
                "{} ms for {} windows",
                short(1e3 * seconds / f64::from(m.row.steps)),
                m.row.windows_per_step
            ),
            "Betz finds covariance, correlation and edges in one pass, on another machine",
        )
    });
    let ratios: Vec<f64> = (ROWS.iter())
        .map(|r| r.covariance_ms / r.correlation_ms)
        .collect();
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let largest = ratios.iter().copied().fold(0.0, f64::max);
    answers.push(Answer::differs(
        format!("{least:.0} to {largest:.0} × by the table's own rows"),
        "the text's number is none of the table's",
    ));
    // A longer window on the same pixels.
    let nodes = lab.pick(1600, 400, 100);
    let samples = video.pixels(nodes);
    let signal = Signal::new(&samples[..], nodes)?;
    let mut points = Vec::new();
    for length in [25, 50, 100, 200] {
        let plan = Plan::new(&spec(length), &signal)?;
        let quiet = lab.quiet();
        let (network, seconds) = super::least_seconds(3, || plan.run(&signal, &quiet))?;
        points.push((length as f64, 1e6 * seconds / network.len() as f64));
    }
    let power = exponent(&points);
    let mut plot = Plot::log_log(
        "Microseconds per window on the CPU",
        "length W of a window",
        "µs",
    );
    plot.add(format!("{nodes} nodes"), Style::Measured, points);
    answers.push(Answer::differs(
        format!("power {power:.2} of W"),
        "a window is made from the one before it, by the sample that enters and the one that leaves",
    ));
    Ok(Findings {
        sizes: sizes(measured),
        figures: vec![Figure::Plot(plot)],
        answers,
        ..Findings::default()
    })
}

/// Algorithms 1 and 2 of the thesis: the steps that a GPU's memory asks for.
fn steps_for(nodes: usize, windows: u32) -> u32 {
    let n = nodes as f64;
    let memory = |steps: u32| {
        let at_once = f64::from(windows.div_ceil(steps));
        // The thesis divides by 1,204 where it means 1,024.
        (n * at_once * 4.0 + n * n * at_once * 4.0 + n * n * at_once * 4.0 / 3.0) / 1204.0
    };
    (1..windows)
        .find(|steps| memory(*steps) <= GPU_MEMORY)
        .unwrap_or(windows)
}

fn figure_17() -> Findings {
    let windows = |row: &Row| (row.steps * row.windows_per_step).min(889);
    let steps: Vec<u32> = ROWS
        .iter()
        .map(|r| steps_for(r.nodes, windows(r)))
        .collect();
    let at_once: Vec<u32> = (ROWS.iter().zip(&steps))
        .map(|(row, steps)| windows(row).div_ceil(*steps))
        .collect();
    let told = |list: &[u32]| {
        let words: Vec<String> = list.iter().map(u32::to_string).collect();
        words.join(", ")
    };
    let mut plot = Plot::log_log("Steps, and windows per step", "nodes", "number");
    let line = |of: &dyn Fn(usize) -> f64| -> Vec<(f64, f64)> {
        (0..ROWS.len())
            .map(|i| (ROWS[i].nodes as f64, of(i)))
            .collect()
    };
    plot.add(
        "paper: steps",
        Style::Paper,
        line(&|i| f64::from(ROWS[i].steps)),
    );
    plot.add(
        "paper: windows per step",
        Style::Paper,
        line(&|i| f64::from(ROWS[i].windows_per_step)),
    );
    plot.add(
        "steps by Algorithms 1 and 2 with 4 GB free",
        Style::Measured,
        line(&|i| f64::from(steps[i])),
    );
    plot.add(
        "windows per step by them",
        Style::Measured,
        line(&|i| f64::from(at_once[i])),
    );
    let why = "no memory that is free fits all rows: 400 nodes ran in one step with more bytes than those for which 800 nodes took seven. Betz needs no steps: edges of a window do not wait for others";
    Findings {
        sizes: "computed by the thesis' Algorithms 1 and 2".to_owned(),
        figures: vec![Figure::Plot(plot)],
        answers: vec![
            Answer::differs(told(&steps), why),
            Answer::differs(told(&at_once), why),
        ],
        ..Findings::default()
    }
}

fn figure_18() -> Findings {
    Findings {
        answers: vec![
            Answer::unavailable(
                "its points are in a picture, and the bytes of a call are not given",
            ),
            Answer::unavailable("it is the maker's figure of a device that this run does not have"),
        ],
        ..Findings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_network_takes_one_step_and_a_large_one_many() {
        assert_eq!(steps_for(100, 889), 1);
        assert_eq!(steps_for(22_360, 801), 801);
        let steps = steps_for(3200, 801);
        assert!((2..801).contains(&steps), "{steps}");
    }
}
