//! `betz sort train`.

use betz::Result;
use betz::sort::{Reference, Separation, Settings, TrainOptions, train};
use betz::{Error, text::count};
use serde::Serialize;

use super::args::{ReferenceName, SortTrain};
use super::input::Info;
use super::show;
use crate::files::{Files, Kind};
use crate::report::{self, Bar, Outcome};

/// Channels from which on the median of all is taken off, unless said otherwise.
const MEDIAN_FROM: usize = 16;

#[derive(Serialize)]
struct SorterReport {
    file: String,
    units: usize,
    groups: usize,
    channels: usize,
    silent_channels: Vec<u32>,
    clipped_channels: Vec<u32>,
    /// Channels that the probe gives no place.
    unplaced_channels: usize,
    recorded_seconds: f64,
    spikes: u64,
    unlabelled: u64,
    /// Heaps that were echoes of larger units.
    echoes: usize,
    artefacts: u64,
    noise_microvolts: Vec<f32>,
    quantisation_error: Vec<f64>,
    seconds: f64,
    /// Stream that was used.
    stream: String,
    #[serde(skip)]
    sorter: show::SorterFacts,
}

pub(super) fn run(args: &SortTrain) -> Result<()> {
    let mut files = Files::new(&args.common)
        .reads("RAW", &args.raw.raw)
        .may_read("--probe", args.probe.as_deref());
    let (info, source) = Info::of(&args.raw, None)?;
    files = files.reads("RAW", &info.path);
    files.writes("--out", &args.out, Kind::Sorter)?;
    let places = info.places(args.probe.as_deref())?;
    let unplaced = places.iter().filter(|p| p.is_none()).count();
    let mut settings = Settings::new(info.rate_hz, info.microvolts);
    (settings.low_hz, settings.high_hz) = band(&args.band)?;
    settings.threshold = args.threshold;
    settings.focus_um = args.focus;
    settings.artefact_microvolts = args.artefact;
    settings.reference = match args.reference {
        ReferenceName::Auto if info.channels - unplaced >= MEDIAN_FROM => Reference::Median,
        ReferenceName::Auto | ReferenceName::None => Reference::None,
        ReferenceName::Car => Reference::Average,
        ReferenceName::Median => Reference::Median,
        ReferenceName::Lrr => Reference::Regression,
    };
    let (mut voltage, rows) = source.open(&info, &args.raw.part)?;
    let recorded_seconds = (rows.end - rows.start) as f64 / info.rate_hz;
    let options = TrainOptions {
        rows,
        side: args.side.unwrap_or(0),
        epochs: args.epochs,
        apart: Separation {
            d_prime: args.d_prime,
            ..Separation::default()
        },
        forget_seconds: args.forget,
        ..TrainOptions::new(settings, places)
    };
    report::stop_on_interrupt();
    let bar = Bar::new();
    let trained = train(voltage.as_mut(), &options, &bar)?;
    let seconds = bar.seconds();
    drop(bar);
    trained.sorter.save(&args.out)?;
    let sorter = &trained.sorter;
    let learned = SorterReport {
        file: args.out.display().to_string(),
        units: sorter.units().len(),
        groups: sorter.groups().len(),
        channels: sorter.layout().channels(),
        silent_channels: trained.silent,
        clipped_channels: trained.clipped,
        unplaced_channels: unplaced,
        recorded_seconds,
        spikes: trained.spikes,
        unlabelled: trained.unlabelled,
        echoes: trained.echoes,
        artefacts: trained.artefacts,
        noise_microvolts: sorter.layout().noise.clone(),
        quantisation_error: trained.quantisation_error,
        seconds,
        stream: info.stream.name.clone(),
        sorter: show::facts(sorter, &args.out),
    };
    for (what, which) in [
        ("silent", &learned.silent_channels),
        ("clipped", &learned.clipped_channels),
    ] {
        if !which.is_empty() {
            eprintln!("left out, {what}: channels {which:?}");
        }
    }
    report::tell(&learned, args.common.json)
}

impl Outcome for SorterReport {
    fn print(&self) -> Result<()> {
        self.sorter.table()?;
        report::line(&format!(
            "{}: {} of {} in {:.1} s, {} unlabelled, {} of larger units left out, {}; {:.2} s",
            self.file,
            count(self.units as u128, "unit"),
            count(self.spikes, "spike"),
            self.recorded_seconds,
            self.unlabelled,
            if self.echoes == 1 {
                "1 echo".to_owned()
            } else {
                format!("{} echoes", self.echoes)
            },
            count(self.artefacts, "artefact"),
            self.seconds
        ))
    }
}

/// `300,6000`.
fn band(text: &str) -> Result<(f64, f64)> {
    let parsed = text
        .split_once(',')
        .and_then(|(low, high)| Some((low.trim().parse().ok()?, high.trim().parse().ok()?)));
    parsed.ok_or_else(|| {
        Error::argument(format!(
            "--band: expected two frequencies such as 300,6000, got '{text}'"
        ))
    })
}
