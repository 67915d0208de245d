//! Chapter 3 of Galbraith 2010: self-organising maps.

use std::time::Instant;

use betz::Result;
use betz::device::Device;
use betz::som::{
    Batch, BatchOptions, Fade, Grid as MapGrid, Lattice, Map, Neighbourhood, Online, OnlineOptions,
    Samples,
};

use super::figure::{Cells, Figure, Plot, Style};
use super::study::{Answer, Experiment, Findings, Grid, Point, Study, point, short, whole};
use super::{Lab, timed};

/// The chapter's picture.
const WIDTH: usize = 2400;
const HEIGHT: usize = 1800;
/// The chapter's learning rate.
const RATE: f64 = 0.05;
/// The radius of its window of width 5.
const RADIUS: f64 = 2.0;

const RULE: &[Point] = &[
    point(
        "nodes that a rectangular window of width 5 moves",
        "25 (5 × 5)",
    ),
    point(
        "nodes that Listing 3.3 moves (squared distance below r²), r = 2",
        "9",
    ),
    point("the same with r = 1", "1"),
    point("learning rate", "0.05"),
];

const ITERATION: &[Point] = &[
    point("GPU over CPU for small maps", "below 1"),
    point("GPU over CPU for very large maps", "up to 2.5 ×"),
    point("samples of a picture of 2,400 × 1,800 pixels", "4,320,000"),
    point("one line of Figure 3.4", "1,800 inputs"),
];

const STAGES: &[Point] = &[
    point(
        "the map while it is trained, and after all pixels",
        "two pictures",
    ),
    point("the picture that it was trained on", "a photograph"),
];

pub(crate) const STUDY: Study = Study {
    name: "som",
    title: "Self-organising maps: chapter 3 of a thesis made again",
    sources: &[
        "B. V. Galbraith: Computational modeling of biological neural networks on GPUs: strategies and performance. Master's thesis, Marquette University, 2010, chapter 3.",
    ],
    machines: "AMD Phenom at 2.2 to 2.8 GHz, Nvidia GeForce GTX 260 (chapters 4 and 5; chapter 3 names none)",
    remarks: &[
        "The thesis gives the points of Figure 3.3 in a picture alone; its text gives the numbers below. Its photograph is not part of Betz: a made picture of the same size stands for it.",
        "Betz trains by the chapter's rule (one sample after the other), and in batches, a rule that the chapter does not have; the figure shows them as lines of their own.",
    ],
    experiments: &[
        Experiment {
            place: "§3.1.2, §3.3, Listing 3.3",
            title: "the learning rule",
            sizes: "any map",
            points: RULE,
        },
        Experiment {
            place: "Figure 3.3",
            title: "time of an iteration by the size of the map",
            sizes: "maps of unstated sizes, three values per sample",
            points: ITERATION,
        },
        Experiment {
            place: "Figures 3.4 and 3.5",
            title: "states of a map in training",
            sizes: "2,400 × 1,800 pixels",
            points: STAGES,
        },
    ],
};

pub(super) fn run(lab: &Lab<'_>) -> Result<Vec<Findings>> {
    Ok(vec![rule()?, iteration(lab)?, stages(lab)?])
}

/// The chapter's options, for one pass.
fn options(neighbourhood: Neighbourhood, radius: f64) -> OnlineOptions {
    OnlineOptions {
        passes: 1,
        rate: Fade::constant(RATE),
        radius: Fade::constant(radius),
        neighbourhood,
    }
}

/// The number of nodes that one sample moves, and the share of the way that the winner goes.
fn moved(neighbourhood: Neighbourhood, radius: f64) -> Result<(usize, f64)> {
    let grid = MapGrid::new(16, 16, Lattice::Rectangular, false)?;
    let weights: Vec<f32> = (0..256).map(|node| node as f32).collect();
    let map = Map::new(grid, 1, weights)?;
    // Between the node in row 8, column 8, and its neighbour, nearer to the node.
    let sample = [136.25_f32];
    let mut online = Online::new(
        &map,
        Samples::new(&sample, 1)?,
        &options(neighbourhood, radius),
        &Device::cpu(),
    )?;
    online.present(1)?;
    let mut after = map.clone();
    online.write(&mut after)?;
    let pairs = map.weights().iter().zip(after.weights());
    let count = pairs.filter(|(a, b)| a != b).count();
    let share = f64::from(after.weights()[136] - 136.0) / 0.25;
    Ok((count, share))
}

fn rule() -> Result<Findings> {
    let (window, rate) = moved(Neighbourhood::Window, RADIUS)?;
    let disc = |radius: f64, expected: usize| -> Result<Answer> {
        let (here, _) = moved(Neighbourhood::Disc, radius)?;
        Ok(Answer::decided(
            here == expected,
            whole(here as u64),
            "the disc is another",
        ))
    };
    Ok(Findings {
        sizes: "a map of 16 × 16, one sample".to_owned(),
        answers: vec![
            Answer::decided(window == 25, whole(window as u64), "the window is another"),
            disc(RADIUS, 9)?,
            disc(1.0, 1)?,
            Answer::decided(
                (rate - RATE).abs() < 1e-4,
                format!("{rate:.4} of the way"),
                "the winner goes another way",
            ),
        ],
        ..Findings::default()
    })
}

/// Samples of a made picture, from its bottom left: three values per pixel.
fn picture(width: usize, height: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(3 * width * height);
    for row in 0..height {
        for column in 0..width {
            let (x, y) = (column as f32 / width as f32, row as f32 / height as f32);
            let sky = (6.0 * x + 2.0 * (5.0 * y).sin()).sin();
            let hill = ((9.0 * y - 3.0 * x).cos() + 1.0) / 2.0;
            let grain = (column * 7919 + row * 104_729) % 251;
            let grain = grain as f32 / 251.0 * 0.06;
            values.push(0.45 + 0.4 * sky + grain);
            values.push(0.2 + 0.6 * hill + grain);
            values.push(0.5 - 0.35 * sky * hill + 0.1 * y + grain);
        }
    }
    values
}

/// Microseconds per sample of the online rule: on one thread, or on a device.
fn online_microseconds(side: usize, values: &[f32], seconds: f64, device: &Device) -> Result<f64> {
    let samples = Samples::new(values, 3)?;
    let grid = MapGrid::new(side, side, Lattice::Rectangular, false)?;
    let map = Map::at_random(grid, samples, 1)?;
    let options = options(Neighbourhood::Window, RADIUS);
    let mut online = Online::new(&map, samples, &options, device)?;
    online.present(16)?;
    let at_once = if online.ran().device == "cpu" {
        256
    } else {
        16_384
    };
    let begun = Instant::now();
    let mut presented = 0;
    loop {
        let more = online.present(at_once)?;
        presented += more;
        if more == 0 || begun.elapsed().as_secs_f64() > seconds {
            break;
        }
    }
    Ok(1e6 * begun.elapsed().as_secs_f64() / presented.max(1) as f64)
}

fn iteration(lab: &Lab<'_>) -> Result<Findings> {
    let sides = lab.pick(
        &[5, 16, 32, 64, 128, 256, 512, 1024][..],
        &[5, 16, 32, 64, 128, 256],
        &[5, 16],
    );
    let values = picture(lab.pick(600, 200, 40), 300);
    let mut grid = Grid::new(
        "Microseconds per sample of three values",
        &[
            "nodes",
            "one after the other, CPU",
            "one after the other, CUDA device",
            "batches, CPU",
            "batches, CUDA device",
        ],
    );
    let mut lines = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
    for (i, side) in sides.iter().enumerate() {
        lab.part("figure 3.3", i, sides.len())?;
        let nodes = side * side;
        let single =
            |device: &Device| online_microseconds(*side, &values, lab.pick(1.0, 0.5, 0.01), device);
        let online = single(&Device::cpu())?;
        let online_gpu = lab.device().ok().map(single).transpose()?;
        // Batches of as many samples as take about as long, whatever the map.
        let count = (lab.pick(4_000_000_000_usize, 100_000_000, 1_000_000) / nodes)
            .clamp(64, values.len() / 3);
        let samples = Samples::new(&values[..3 * count], 3)?;
        let map = Map::at_random(
            MapGrid::new(*side, *side, Lattice::Rectangular, false)?,
            samples,
            1,
        )?;
        let batch = |device: &Device| -> Result<f64> {
            let mut batch = Batch::new(&map, samples, &BatchOptions::default(), device)?;
            batch.epoch()?;
            let (_, seconds) = timed(|| batch.epoch())?;
            Ok(1e6 * seconds / count as f64)
        };
        let cpu = batch(&Device::cpu())?;
        let gpu = lab.device().ok().map(batch).transpose()?;
        let x = nodes as f64;
        lines[0].push((x, online));
        lines[1].extend(online_gpu.map(|gpu| (x, gpu)));
        lines[2].push((x, cpu));
        lines[3].extend(gpu.map(|gpu| (x, gpu)));
        let or_dash = |time: Option<f64>| time.map_or_else(|| "–".to_owned(), short);
        grid.row([
            whole(nodes as u64),
            short(online),
            or_dash(online_gpu),
            short(cpu),
            or_dash(gpu),
        ]);
    }
    let answer = |at: usize, holds: &dyn Fn(f64) -> bool| match (lines[1].get(at), lab.device()) {
        (Some(gpu), _) => {
            let ratio = lines[0][at].1 / gpu.1;
            Answer::decided(
                holds(ratio),
                format!("{} ×", short(ratio)),
                "another machine, whose blocks of threads tell each other their winner without leaving the chip",
            )
        }
        (None, reason) => Answer::unavailable(reason.err().unwrap_or("no CUDA device")),
    };
    let (small, large) = (
        answer(0, &|ratio| ratio < 1.0),
        answer(sides.len() - 1, &|ratio| (1.9..=3.1).contains(&ratio)),
    );
    let mut plot = Plot::log_log(
        "Microseconds per sample by the size of the map",
        "nodes",
        "µs",
    );
    let [online, online_gpu, cpu, gpu] = lines;
    plot.add(
        "one sample after the other, CPU, one thread",
        Style::Measured,
        online,
    );
    plot.add(
        "one sample after the other, CUDA device",
        Style::Measured,
        online_gpu,
    );
    plot.add("batches, CPU, all threads", Style::Measured, cpu);
    plot.add("batches, CUDA device", Style::Measured, gpu);
    Ok(Findings {
        sizes: format!(
            "maps of {} to {} nodes",
            sides[0].pow(2),
            whole((sides[sides.len() - 1] as u64).pow(2))
        ),
        figures: vec![Figure::Plot(plot)],
        grids: vec![grid],
        answers: vec![
            small,
            large,
            Answer::decided(
                WIDTH * HEIGHT == 4_320_000,
                "4,320,000",
                "the product is another",
            ),
            Answer::differs(
                "2,400 inputs",
                "a picture that is 2,400 pixels wide has lines of 2,400; 1,800 is its height",
            ),
        ],
    })
}

/// Figures 3.4 and 3.5: a map in training on a picture, pixel after pixel.
fn stages(lab: &Lab<'_>) -> Result<Findings> {
    let (width, height) = lab.pick((WIDTH, HEIGHT), (WIDTH / 8, HEIGHT / 8), (40, 30));
    let side = lab.pick(24, 24, 8);
    let values = picture(width, height);
    let samples = Samples::new(&values, 3)?;
    let grid = MapGrid::new(side, side, Lattice::Rectangular, false)?;
    let mut map = Map::at_random(grid, samples, 1)?;
    let before = map.quality(samples)?.quantisation_error;
    let mut online = Online::new(
        &map,
        samples,
        &options(Neighbourhood::Window, RADIUS),
        &Device::cpu(),
    )?;
    let mut pictures = vec![cells(&map, "at first")];
    let parts = 3;
    for part in 1..=parts {
        lab.part("figure 3.4", part - 1, parts)?;
        let until = height * part / parts;
        let lines = until - height * (part - 1) / parts;
        online.present(lines * width)?;
        online.write(&mut map)?;
        pictures.push(cells(&map, &format!("{until} lines")));
    }
    let after = map.quality(samples)?.quantisation_error;
    Ok(Findings {
        sizes: format!("{width} × {height} pixels, a map of {side} × {side}, one pass"),
        figures: vec![Figure::Cells("The map as a picture".to_owned(), pictures)],
        answers: vec![
            Answer::decided(
                after < before,
                format!("the quantisation error goes from {before:.4} to {after:.4}"),
                "a constant learning rate forgets the colours of the first lines, which the last lines do not have",
            ),
            Answer::unavailable("the photograph is not part of Betz"),
        ],
        ..Findings::default()
    })
}

/// The weights of a map as colours.
fn cells(map: &Map, title: &str) -> Cells {
    let byte = |w: f32| (w.clamp(0.0, 1.0) * 255.0) as u8;
    let colors = map.weights().chunks_exact(3);
    Cells {
        title: title.to_owned(),
        columns: map.grid().columns(),
        colors: colors
            .map(|c| [byte(c[0]), byte(c[1]), byte(c[2])])
            .collect(),
    }
}
