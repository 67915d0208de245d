//! `betz network compute --measure sttc`: spike-time tiling, of a recording's spike times.

use std::time::Instant;

use betz::network::file::{NetworkFile, Source};
use betz::network::{Measure, NetworkSpec, Window};
use betz::recording::SpikeForm;
use betz::{Error, Result};

use super::args::{Compute, Span};
use super::input;
use super::request::{Request, keeping};
use super::summary::{Seconds, finish};
use crate::common_args::Behaviors;
use crate::data;
use crate::files::{Files, Kind, hash_of};
use crate::report::{self, Bar};

pub(super) fn run(args: &Compute) -> Result<()> {
    super::on_cpu(&args.common.device)?;
    let mut files = Files::new(&args.common).reads("INPUT", &args.input);
    files.may_write("--out", args.out.as_deref(), Kind::Network)?;
    refuse_others(args)?;
    let edges = &args.edges;
    let Some(reach) = edges.reach else {
        return Err(Error::argument(
            "--reach: expected the time within which spikes are together for --measure sttc, got none",
        ));
    };
    let Some(out) = &args.out else {
        return Err(Error::argument("--out: expected a file, got none"));
    };
    let recording = data::read_recording(&args.input, &Behaviors::default())?;
    if matches!(recording.form, SpikeForm::Signal) {
        return Err(Error::argument(
            "--measure sttc: expected a recording of spikes, got a signal",
        ));
    }
    let tick = recording.tick_seconds;
    let trains = input::trains(&recording)?;
    let read = report::total_seconds();
    let ticks = |option: &str, span: Span| match span {
        Span::Samples(ticks) => Ok(ticks),
        Span::Seconds(seconds) => {
            let ticks = (seconds / tick).round();
            if (1.0..1e15).contains(&ticks) {
                return Ok(ticks as usize);
            }
            Err(Error::argument(format!(
                "{option}: expected at least a tick of {tick} s, got {seconds} s"
            )))
        }
    };
    let window = Window {
        length: ticks("--window", edges.window)?,
        step: ticks("--step", edges.step)?,
    };
    let measure = Measure::SpikeTiling {
        reach: (reach / tick).round() as usize,
    };
    let spec = keeping(NetworkSpec::new(measure, window), edges);
    report::stop_on_interrupt();
    let started = Instant::now();
    let segments = input::segments(&recording);
    let network = trains.tiling_network(&spec, &segments, &Bar::new())?;
    let compute = started.elapsed().as_secs_f64();
    let name = args.input.file_name().unwrap_or(args.input.as_os_str());
    let hash = hash_of(&args.input).map_err(|e| Error::io("read", &args.input, &e))?;
    let mut asked = Request::of(&spec, trains.len(), network.meta().samples);
    asked.sample_seconds = Some(tick);
    asked.segments = segments.len();
    let starts = network.window_start().iter();
    let file = NetworkFile {
        window_seconds: Some(starts.map(|start| *start as f64 * tick).collect()),
        names: Some(recording.channel_names),
        positions: input::positions(recording.electrode_um),
        source: Some(Source {
            name: name.to_string_lossy().into_owned(),
            hash: format!("{hash:016x}"),
        }),
        compact: args.compact,
        ..NetworkFile::new(network)
    };
    let seconds = Seconds {
        read,
        surrogates: None,
        compute,
        write: 0.0,
        total: 0.0,
    };
    finish(args, out, &file, asked, seconds, None)
}

/// Refuses the options that only other measures have.
fn refuse_others(args: &Compute) -> Result<()> {
    let (edges, from) = (&args.edges, &args.from);
    let others = [
        ("--dry-run", args.dry_run),
        ("--memory", args.memory.is_some()),
        ("--full", args.full),
        ("--surrogates", args.chance.surrogates.is_some()),
        ("--bin", from.bin.is_some()),
        ("--frames", from.frames.is_some()),
        ("--nodes", from.nodes.is_some()),
        ("--region", from.region.is_some()),
        ("--channel", from.channel.is_some()),
        ("--downsample", from.downsample.is_some()),
        ("--lags", edges.lags.is_some()),
        ("--hold", edges.hold.is_some()),
        ("--taper", edges.taper != "rectangular"),
    ];
    match others.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((option, _)) => Err(Error::argument(format!(
            "{option}: expected a measure other than sttc"
        ))),
    }
}
