//! `betz serve`: a page to look at recordings, with what a model makes of them, at networks, at mined episodes and
//! at self-organising maps.

use crate::common_args::Common;
use clap::Args;
use std::io::Read;
use std::path::{Path, PathBuf};

use betz::episode::{Events, is_table, read_table};
use betz::model::Decoder;
use betz::network::file::NetworkFile;
use betz::recording::labels::LabelledInterval;
use betz::recording::{Dataset, Segment};
use betz::stream::{Session, SessionConfig};
use betz::train::LabelSource;
use betz::{Error, Progress, Result};
use betz_monitor::{
    Contents, DecodedRecording, Image, MapView, MinedEpisodes, Monitor, NamedNetwork, Options,
    Source, SpikeTimes,
};

use super::monitor::name_of;
use super::som::shown;
use crate::common_args::{Behaviors, Part};
use crate::data;
use crate::device;
use crate::files::{Kind, refuse_stream};
use crate::labels;
use crate::network_database::{NetworkDatabase, named};
use crate::page::Page;
use crate::page::{LOOK, announce, options};
use crate::replay::replay;
use crate::report::{self, Bar, UntilInterrupted};

#[derive(Args)]
#[command(
    after_help = "Examples:\n  betz serve session.npz\n  betz serve model.betz monday.npz tuesday.npz\n  betz serve div14.net.npz div21.net.npz\n  betz serve session.npz session.net.npz --image cortex.png\n  betz serve culture.npz episodes.csv\n  betz serve map.npz\n  betz serve sorter.betz spikes.npz\n  betz serve session.npz --sessions kept.db --control"
)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    pub(crate) part: Part,
    /// Recordings (.npz, .nwb), networks and maps (.npz), sorters, lists that `betz mine --csv` wrote, and at
    /// most one model, whose estimates are shown with the recordings
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Picture to show below the nodes of networks (.png, .jpg)
    #[arg(long, value_name = "PICTURE")]
    pub(crate) image: Option<PathBuf>,
    /// Position of the picture in the nodes' coordinates: LEFT,TOP,RIGHT,BOTTOM [default: one unit
    /// per pixel from 0,0]
    #[arg(
        long,
        value_name = "L,T,R,B",
        requires = "image",
        allow_hyphen_values = true
    )]
    pub(crate) image_extent: Option<String>,
    /// View to start with: a file that the page saved (E, then *state*)
    #[arg(long, value_name = "FILE")]
    pub(crate) state: Option<PathBuf>,
    /// Intervals with labels, to align trials to: a table `start,stop,name` in seconds (.csv), or arrays of these
    /// names (.npz)
    #[arg(long, value_name = "FILE")]
    pub(crate) labels: Option<PathBuf>,
    /// Keep networks in this database (SQLite), which is made if it is not there: the page lists
    /// them at every start, and with --control keeps, names and deletes them
    #[arg(long, value_name = "FILE.db")]
    pub(crate) sessions: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) page: Page,
}

pub(crate) fn run(args: &Serve) -> Result<()> {
    device::cpu_for("a page", &args.common.device)?;
    let mut files = Files::default();
    for path in &args.files {
        refuse_stream(path)?;
        betz_formats::refuse_voltage(path)?;
        files.sort_in(path);
    }
    let anything =
        files.recordings.len() + files.networks.len() + files.maps.len() + files.sorters.len();
    if files.models.len() > 1 || anything == 0 {
        return Err(Error::argument(format!(
            "FILE: expected recordings (.npz, .nwb), networks, maps (.npz) and sorters, at least one, and at most one model, got {anything} of the former and {}{}",
            report::count(files.models.len() as u64, "other file"),
            // Every other file is read as a model.
            (files.models.last()).map_or(String::new(), |p| format!(
                ", the last of them {}",
                p.display()
            ))
        )));
    }
    let model = files
        .models
        .first()
        .map(|path| Ok((name_of(path), Decoder::load(path)?)));
    let model: Option<(String, Decoder)> = model.transpose()?;
    let bar = Bar::new();
    let recordings: Vec<DecodedRecording> = (files.recordings.iter())
        .map(|path| match &model {
            Some((name, model)) => decoded(args, path, name, model, &bar),
            None => as_it_is(args, path),
        })
        .collect::<Result<_>>()?;
    let networks = files.networks.iter().map(|path| network(path));
    let networks = networks.collect::<Result<_>>()?;
    drop(bar);
    let mined = files.mined.iter().map(|path| episodes(path, &files));
    let mined = mined.collect::<Result<_>>()?;
    let mut maps: Vec<MapView> = (files.maps.iter())
        .map(|path| shown::read(path))
        .collect::<Result<_>>()?;
    for path in &files.sorters {
        maps.extend(shown::of_sorter(path)?);
    }
    let shown = Contents {
        recordings,
        networks,
        mined,
        maps,
        labels: (args.labels.as_ref()).map_or(Ok(Vec::new()), |path| labelled(path))?,
        image: args
            .image
            .as_ref()
            .map(|path| image(args, path))
            .transpose()?,
    };
    let options = Options {
        state: args.state.as_ref().map(|path| kept(path)).transpose()?,
        ..options(&args.page)
    };
    // A database that cannot be opened ends the command before the page is there.
    let store = args.sessions.as_deref().map(NetworkDatabase::open);
    let store = store.transpose()?;
    let monitor = Monitor::open(shown, options)?;
    if let Some(store) = store {
        monitor.keep_networks(Box::new(store))?;
    }
    report::stop_on_interrupt();
    let _door = announce(&monitor, &args.page, args.common.json)?;
    while !UntilInterrupted.cancelled() {
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// The intervals of `--labels`.
fn labelled(path: &Path) -> Result<Vec<LabelledInterval>> {
    match labels::source(&path.display().to_string())? {
        LabelSource::Intervals(intervals) => Ok(intervals),
        _ => Err(Error::argument(format!(
            "--labels: expected a file of intervals, .csv or .npz with start, stop and name, got {}",
            path.display()
        ))),
    }
}

/// Most bytes of what a page has kept.
const MOST_KEPT: u64 = 1 << 20;

/// A view that a page has saved.
fn kept(path: &Path) -> Result<serde_json::Value> {
    let file = std::fs::File::open(path).map_err(|e| Error::io("read", path, &e))?;
    let mut text = String::new();
    let read = file.take(MOST_KEPT + 1).read_to_string(&mut text);
    read.map_err(|e| Error::io("read", path, &e))?;
    let value: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let ours = |v: &serde_json::Value| v["betz_state"] == 1 && v["address"].is_string();
    value
        .filter(|v| ours(v) && text.len() as u64 <= MOST_KEPT)
        .ok_or_else(|| {
            Error::argument(format!(
                "--state: expected what a page has kept, JSON with betz_state and address, got {}",
                path.display()
            ))
        })
}

/// The files to show, by kind.
#[derive(Default)]
struct Files<'a> {
    models: Vec<&'a PathBuf>,
    recordings: Vec<&'a PathBuf>,
    networks: Vec<&'a PathBuf>,
    mined: Vec<&'a PathBuf>,
    maps: Vec<&'a PathBuf>,
    sorters: Vec<&'a PathBuf>,
}

impl<'a> Files<'a> {
    fn sort_in(&mut self, path: &'a PathBuf) {
        if NetworkFile::is_one(path) {
            self.networks.push(path);
        } else if Kind::Map.made(path) {
            self.maps.push(path);
        } else if is_npz(path) || betz_formats::is_hdf5(path) {
            self.recordings.push(path);
        } else if is_mined(path) {
            self.mined.push(path);
        } else if Kind::Sorter.made(path) {
            self.sorters.push(path);
        } else {
            self.models.push(path);
        }
    }
}

fn is_mined(path: &Path) -> bool {
    let mut begins = Vec::new();
    let file = betz::file::open_file(path);
    file.is_ok_and(|f| f.take(64).read_to_end(&mut begins).is_ok()) && is_table(&begins)
}

/// Episodes with the first recording whose channels they are of.
fn episodes(path: &Path, files: &Files<'_>) -> Result<MinedEpisodes> {
    let mut first = None;
    for (recording, of) in files.recordings.iter().enumerate() {
        let events = Events::from_recording(&data::read_recording(of, &Behaviors::default())?);
        let events = events.map_err(|e| e.at(of.display()))?;
        match read_table(path, events.alphabet()) {
            Ok(rows) => {
                return Ok(MinedEpisodes {
                    name: name_of(path),
                    recording,
                    events,
                    rows,
                });
            }
            Err(e) => first = first.or(Some(e)),
        }
    }
    Err(first.unwrap_or_else(|| {
        Error::argument(format!(
            "{}: expected also the recording that its episodes were mined from, got none",
            path.display()
        ))
    }))
}

fn network(path: &Path) -> Result<NamedNetwork> {
    Ok(named(name_of(path), NetworkFile::read(path)?))
}

fn image(args: &Serve, path: &Path) -> Result<Image> {
    let bytes = std::fs::read(path).map_err(|e| Error::io("read", path, &e))?;
    let extent = match args.image_extent.as_deref() {
        None => None,
        Some(text) => {
            let numbers: Vec<f64> = text
                .split(',')
                .filter_map(|n| n.trim().parse().ok())
                .collect();
            let four = <[f64; 4]>::try_from(numbers).ok();
            let four =
                four.filter(|e| e.iter().all(|v| v.is_finite()) && e[0] != e[2] && e[1] != e[3]);
            Some(four.ok_or_else(|| {
                Error::argument(format!(
                    "--image-extent: expected LEFT,TOP,RIGHT,BOTTOM in the nodes' coordinates, got {text:?}"
                ))
            })?)
        }
    };
    Ok(Image { bytes, extent })
}

fn is_npz(path: &Path) -> bool {
    path.extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("npz"))
}

/// A recording without a model, on its own clock or in steps of a size for the eye.
fn as_it_is(args: &Serve, path: &Path) -> Result<DecodedRecording> {
    let recording = data::read_recording(path, &args.part.behavior)?;
    let electrode_um = recording.electrode_um.clone();
    let step = data::default_step(&recording);
    let align = |recording| data::dataset(recording, step, &args.part);
    let (dataset, times) =
        SpikeTimes::align(recording, step, align).map_err(|e| e.at(path.display()))?;
    Ok(DecodedRecording {
        times,
        left_out: left_out(&dataset, &args.part),
        source: Source {
            name: name_of(path),
            channel_names: dataset.channel_names.clone(),
            electrode_um,
            outputs: dataset.outputs.clone(),
            step_seconds: dataset.step_seconds,
            speed: 1.0,
            deadline: None,
            model: None,
        },
        dataset,
        estimates: Vec::new(),
        probabilities: Vec::new(),
        delay_steps: 0,
    })
}

/// The steps outside the chosen part, whose spikes are left out; none if the whole recording is shown.
fn left_out(dataset: &Dataset, part: &Part) -> Vec<Segment> {
    if part.segments.is_none() && part.from.is_none() && part.until.is_none() {
        return Vec::new();
    }
    let ends = [Segment {
        start: dataset.steps as i64,
        stop: dataset.steps as i64,
    }];
    let mut begin = 0;
    let mut gaps = Vec::new();
    for segment in dataset.segments.iter().chain(&ends) {
        gaps.push(Segment {
            start: begin,
            stop: segment.start,
        });
        begin = segment.stop;
    }
    gaps.retain(|g| !g.is_empty());
    gaps
}

/// A recording as a model sees it, and what it makes of it.
fn decoded(
    args: &Serve,
    path: &Path,
    name: &str,
    model: &Decoder,
    progress: &dyn Progress,
) -> Result<DecodedRecording> {
    let recording = data::recording_for(model, path, &args.part.behavior)?;
    let electrode_um = recording.electrode_um.clone();
    let step = model.step_seconds();
    let align = |recording| data::dataset(recording, step, &args.part);
    let (dataset, times) =
        SpikeTimes::align(recording, step, align).map_err(|e| e.at(path.display()))?;
    let dataset = betz::input_form::with_behavior(model, dataset)?;
    let mut session = Session::open(model, SessionConfig::default())?;
    let estimates = replay(&mut session, &dataset, progress)?;
    let probabilities = match model.kind() {
        "gated" => betz::train::class_probabilities(model, &dataset)?,
        _ => Vec::new(),
    };
    let mut source = Source::of(name, model);
    source.name = format!("{} through {name}", name_of(path));
    source.electrode_um = electrode_um;
    Ok(DecodedRecording {
        times,
        left_out: left_out(&dataset, &args.part),
        source,
        dataset,
        estimates,
        probabilities,
        delay_steps: model.delay_steps(),
    })
}
