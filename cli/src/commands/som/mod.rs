//! `betz som`: a self-organising map of data or of a picture.

pub(crate) mod args;
mod assign;
mod file;
mod image;
mod input;
mod live;
pub(crate) mod shown;

use std::path::{Path, PathBuf};
use std::time::Instant;

use betz::device::Ran;
use betz::som::{
    Batch, BatchOptions, Fade, FadeShape, Grid, Lattice, Map, Metric, Neighbourhood, Online,
    OnlineOptions, Samples,
};
use betz::text::count;
use betz::{Error, Progress, Result, progress};
use serde::Serialize;

use self::live::Live;
use crate::device;
use crate::files::{Files, Kind};
use crate::report::{self, Bar, Outcome};
use args::{Action, DiscName, FadeName, MetricName, NeighbourhoodName, Som};

/// Samples presented between two looks at the clock.
const AT_ONCE: usize = 1 << 12;
/// Products of a sample and a node that a quality is worth.
const QUALITY_PRODUCTS: usize = 1 << 30;
/// Most stages that are drawn.
const MOST_STAGES: usize = 1000;

#[derive(Serialize)]
struct MapReport {
    file: String,
    /// 1 for a map in two dimensions.
    layers: usize,
    /// 1 for nodes at positions of their own.
    rows: usize,
    columns: usize,
    dims: usize,
    metric: &'static str,
    samples: usize,
    epochs: usize,
    /// Mean distance of samples from their nearest node.
    quantisation_error: f64,
    /// Part of the samples whose two nearest nodes do not touch.
    topographic_error: f64,
    /// Samples that both errors were measured on.
    quality_samples: usize,
    /// Samples that f32 could not decide, in all epochs (with --exact).
    rechecked: usize,
    /// Seconds of training alone.
    seconds: f64,
    seconds_per_epoch: f64,
    /// Device of the training.
    device: String,
    pictures: Vec<String>,
}

pub(crate) fn run(args: &Som) -> Result<()> {
    if let Some(Action::Assign(args)) = &args.action {
        return assign::run(args);
    }
    let (data, out) = (args.data(), args.out());
    let mut files = Files::new(&args.common)
        .reads("DATA", data)
        .may_read("--positions", args.positions.as_deref());
    files.writes("--out", out, Kind::Map)?;
    files.may_write("--picture", args.picture.as_deref(), Kind::Png)?;
    let stage_files = stage_files(args, &mut files)?;
    let grid = grid(args)?;
    let read = input::read(data, args.array.as_deref())?;
    let samples = Samples::new(&read.values, read.dims).map_err(|e| e.at(data.display()))?;
    report::stop_on_interrupt();
    let bar = Bar::new();
    let mut pictures = Pictures {
        files: stage_files,
        drawn: 0,
        ranges: image::Ranges::of(samples),
    };
    let start = if args.online {
        Map::at_random(grid, samples, args.seed)?
    } else {
        Map::on_plane(grid, samples)?
    };
    let start = start.with_metric(metric(args.metric));
    let mut live = Live::open(args, &start, samples)?;
    let mut shown = Display {
        pictures: &mut pictures,
        live: &mut live,
    };
    let (map, ran) = if args.online {
        online(args, start, samples, &mut shown, &bar)?
    } else {
        batch(args, start, samples, &mut shown, &bar)?
    };
    drop(bar);
    let some = map.evenly(samples, QUALITY_PRODUCTS);
    let some = Samples::new(&some, samples.dims())?;
    let (quality, looked_at) = (map.quality(some)?, some.count());
    live.end(
        ran.epochs as f64,
        quality.quantisation_error,
        quality.topographic_error,
    );
    let assigned = map.assign(samples)?;
    let mut hits = vec![0; map.grid().nodes()];
    for winner in &assigned.winners {
        hits[*winner as usize] += 1;
    }
    live.assigned(samples, &assigned)?;
    let source = file::Source {
        path: data,
        array: args.array.as_deref(),
    };
    file::save(out, source, &map, &hits, &assigned, &live.errors)?;
    let mut drawn: Vec<String> = (pictures.files[..pictures.drawn].iter())
        .map(|p| p.display().to_string())
        .collect();
    if let Some(path) = &args.picture {
        image::draw(&map, &pictures.ranges, path)?;
        drawn.push(path.display().to_string());
    }
    let trained = MapReport {
        file: out.display().to_string(),
        layers: map.grid().layers(),
        rows: map.grid().rows(),
        columns: map.grid().columns(),
        dims: map.dims(),
        metric: map.metric().name(),
        samples: samples.count(),
        epochs: ran.epochs,
        quantisation_error: quality.quantisation_error,
        topographic_error: quality.topographic_error,
        quality_samples: looked_at,
        rechecked: ran.rechecked,
        seconds: ran.seconds,
        seconds_per_epoch: ran.seconds / ran.epochs as f64,
        device: ran.ran.device,
        pictures: drawn,
    };
    report::tell(&trained, args.common.json)?;
    live.stay();
    Ok(())
}

/// The pictures of stages, which `files` does not find taken.
fn stage_files(args: &Som, files: &mut Files) -> Result<Vec<PathBuf>> {
    let stages = args.stages.unwrap_or(0);
    if stages > MOST_STAGES {
        return Err(Error::argument(format!(
            "--stages: expected at most {MOST_STAGES}, got {stages}"
        )));
    }
    let paths: Vec<PathBuf> = match &args.picture {
        Some(path) if stages > 0 => (0..=stages).map(|s| stage_file(path, s)).collect(),
        _ => Vec::new(),
    };
    for path in &paths {
        files.writes("--stages", path, Kind::Png)?;
    }
    Ok(paths)
}

impl Outcome for MapReport {
    fn print(&self) -> Result<()> {
        let layers = match self.layers {
            1 => String::new(),
            layers => format!("{layers} x "),
        };
        report::line(&format!(
            "{}: {layers}{} x {} nodes of {} for {}: quantisation error {:.5}, topographic error {:.4} (of {})",
            self.file,
            self.rows,
            self.columns,
            count(self.dims as u128, "number"),
            count(self.samples as u128, "sample"),
            self.quantisation_error,
            self.topographic_error,
            count(self.quality_samples as u128, "sample")
        ))?;
        report::line(&format!(
            "{} in {:.3} s, {:.4} s each, on {}",
            count(self.epochs as u128, "epoch"),
            self.seconds,
            self.seconds_per_epoch,
            self.device
        ))
    }
}

/// Cost of the training.
#[derive(Default)]
struct TrainingCost {
    epochs: usize,
    seconds: f64,
    rechecked: usize,
    ran: Ran,
}

/// Outlets that show the training while it runs.
struct Display<'a> {
    pictures: &'a mut Pictures,
    live: &'a mut Live,
}

/// Pictures of stages, each drawn when its part of the training is done.
struct Pictures {
    files: Vec<PathBuf>,
    drawn: usize,
    ranges: image::Ranges,
}

impl Pictures {
    /// Draws what is due once `done` of `total` are.
    fn draw(&mut self, done: u64, total: u64, map: &mut dyn FnMut() -> Result<Map>) -> Result<()> {
        let stages = self.files.len().saturating_sub(1).max(1) as u64;
        while self.drawn < self.files.len() && done * stages >= self.drawn as u64 * total {
            image::draw(&map()?, &self.ranges, &self.files[self.drawn])?;
            self.drawn += 1;
        }
        Ok(())
    }
}

fn batch(
    args: &Som,
    map: Map,
    samples: Samples<'_>,
    shown: &mut Display<'_>,
    bar: &Bar,
) -> Result<(Map, TrainingCost)> {
    let (first_radius, last_radius) = pair("--radius", args.radius.as_deref(), (0.0, 0.6))?;
    let options = BatchOptions {
        epochs: args.epochs.unwrap_or(30),
        first_radius,
        last_radius,
        exact: args.exact,
    };
    let device = device::open(&args.common.device).map_err(|e| e.at("--device"))?;
    let mut batch = Batch::new(&map, samples, &options, &device)?;
    let total = options.epochs as u64;
    let mut took = TrainingCost::default();
    for done in 0..total {
        shown.pictures.draw(done, total, &mut || batch.map())?;
        shown.live.show(done as f64, total as f64, &mut || {
            let stage = batch.stage()?;
            // Before the first epoch nothing has been won.
            let hits = if done == 0 { Vec::new() } else { stage.hits };
            Ok((stage.map, Some(hits)))
        })?;
        progress::check(bar, "training the map")?;
        let started = Instant::now();
        let epoch = batch.epoch()?;
        took.seconds += started.elapsed().as_secs_f64();
        took.rechecked += epoch.rechecked;
        took.epochs += 1;
        shown.live.epoch(done as f64, epoch.quantisation_error);
        bar.update("training the map", done + 1, total);
    }
    took.ran = batch.ran().clone();
    device::note_fallback(&took.ran, "training");
    let map = batch.map()?;
    (shown.pictures).draw(total, total, &mut || Ok(map.clone()))?;
    let end = total as f64;
    (shown.live).show(end, end, &mut || {
        Ok((map.clone(), Some(map.hits(samples)?)))
    })?;
    Ok((map, took))
}

fn online(
    args: &Som,
    mut map: Map,
    samples: Samples<'_>,
    shown: &mut Display<'_>,
    bar: &Bar,
) -> Result<(Map, TrainingCost)> {
    let device = device::open(&args.common.device).map_err(|e| e.at("--device"))?;
    let usual = OnlineOptions::default();
    let shape = match args.fade {
        Some(FadeName::Linear) => FadeShape::Linear,
        Some(FadeName::Geometric) => FadeShape::Geometric,
        Some(FadeName::OnePerPass) | None => FadeShape::OnePerPass,
    };
    let (first, last) = pair(
        "--radius",
        args.radius.as_deref(),
        (usual.radius.first, usual.radius.last),
    )?;
    let (fast, slow) = pair(
        "--rate",
        args.rate.as_deref(),
        (usual.rate.first, usual.rate.last),
    )?;
    let options = OnlineOptions {
        passes: args.epochs.unwrap_or(usual.passes),
        rate: Fade {
            first: fast,
            last: slow,
            shape: FadeShape::Linear,
        },
        radius: Fade { first, last, shape },
        neighbourhood: match args.neighbourhood {
            Some(NeighbourhoodName::Disc) | None => match args.disc {
                Some(DiscName::Closed) => Neighbourhood::ClosedDisc,
                Some(DiscName::Open) | None => Neighbourhood::Disc,
            },
            Some(other) if args.disc.is_some() => {
                return Err(Error::argument(format!(
                    "--disc: expected --neighbourhood disc, got {}",
                    name_of(other)
                )));
            }
            Some(NeighbourhoodName::Window) => Neighbourhood::Window,
            Some(NeighbourhoodName::Gaussian) => Neighbourhood::Gaussian,
            Some(NeighbourhoodName::Triangle) => Neighbourhood::Triangle,
            Some(NeighbourhoodName::MexicanHat) => Neighbourhood::MexicanHat,
        },
    };
    let mut online = Online::new(&map, samples, &options, &device)?;
    let total = options.passes as u64 * samples.count() as u64;
    let (mut done, mut took) = (0, TrainingCost::default());
    loop {
        shown.pictures.draw(done, total, &mut || {
            online.write(&mut map)?;
            Ok(map.clone())
        })?;
        let all = samples.count() as f64;
        (shown.live).show(done as f64 / all, total as f64 / all, &mut || {
            online.write(&mut map)?;
            Ok((map.clone(), None))
        })?;
        progress::check(bar, "training the map")?;
        let started = Instant::now();
        let presented = online.present(AT_ONCE)?;
        took.seconds += started.elapsed().as_secs_f64();
        if presented == 0 {
            break;
        }
        done += presented as u64;
        bar.update("training the map", done, total);
    }
    took.ran = online.ran().clone();
    device::note_fallback(&took.ran, "training");
    took.epochs = online.passes();
    online.write(&mut map)?;
    Ok((map, took))
}

/// The nodes that `--map` or `--positions` gives.
fn grid(args: &Som) -> Result<Grid> {
    if let Some(path) = &args.positions {
        return file::positions(path).map_err(|e| e.at("--positions"));
    }
    let [layers, rows, columns] = size(&args.map)?;
    let lattice = if args.hex {
        Lattice::Hexagonal
    } else {
        Lattice::Rectangular
    };
    let grid = Grid::new(rows, columns, lattice, args.torus);
    grid.and_then(|grid| grid.with_layers(layers))
        .map_err(|e| e.at("--map"))
}

fn metric(name: MetricName) -> Metric {
    match name {
        MetricName::Euclidean => Metric::Euclidean,
        MetricName::Manhattan => Metric::Manhattan,
        MetricName::Chebyshev => Metric::Chebyshev,
        MetricName::Cosine => Metric::Cosine,
        MetricName::Correlation => Metric::Correlation,
    }
}

/// An option's value as it is written.
fn name_of(value: impl clap::ValueEnum) -> String {
    let name = value.to_possible_value();
    name.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// Layers, rows and columns of `90x70` or `8x8x8`.
fn size(text: &str) -> Result<[usize; 3]> {
    let numbers: Option<Vec<usize>> = (text.split(['x', '×']))
        .map(|number| number.trim().parse().ok())
        .collect();
    match numbers.as_deref() {
        Some(&[rows, columns]) => Ok([1, rows, columns]),
        Some(&[layers, rows, columns]) => Ok([layers, rows, columns]),
        _ => Err(Error::argument(format!(
            "--map: expected rows and columns such as 90x70, or layers, rows and columns such as 8x8x8, got '{text}'"
        ))),
    }
}

/// `16,1`, or one number for both.
fn pair(option: &str, text: Option<&str>, usual: (f64, f64)) -> Result<(f64, f64)> {
    let Some(text) = text else {
        return Ok(usual);
    };
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|n| n.is_finite());
    let parsed = match text.split_once(',') {
        Some((first, last)) => number(first).zip(number(last)),
        None => number(text).map(|n| (n, n)),
    };
    parsed.ok_or_else(|| {
        Error::argument(format!(
            "{option}: expected a first and a last number such as 16,1, got '{text}'"
        ))
    })
}

/// `map-03.png` beside `map.png`.
fn stage_file(path: &Path, stage: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!("{stem}-{stage:02}.png"))
}
