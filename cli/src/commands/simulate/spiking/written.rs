//! Files of a simulation: spikes, potentials, a picture.

use std::io::Write;
use std::path::Path;

use betz::Result;
use betz::file::write_atomically;
use betz::recording::{Behavior, OutputInfo, Recording, Segment, SpikeForm, Spikes};
use betz::spiking::{Engine, Movement};

use super::Simulate;
use crate::commands::simulate::activity::Activity;
use crate::commands::simulate::recording_file::RecordingFile;
use crate::commands::simulate::spiking_picture::{self, Moments};
use crate::files::Kind;
use crate::report::{count, number};

/// Spikes as a recording: a channel for each neuron, a tick for each step.
pub(super) fn write_recording(
    engine: &Engine,
    args: &Simulate,
    path: &Path,
    movement: Option<&Movement>,
    interrupted: bool,
) -> Result<RecordingFile> {
    let network = engine.network();
    let spikes = engine.spikes();
    let names = network
        .populations
        .iter()
        .flat_map(|population| (0..population.neurons).map(|i| format!("{}{i}", population.name)));
    let ticks = engine.steps() as i64;
    let recording = Recording {
        tick_seconds: network.step_ms * 1e-3,
        ticks,
        spikes: Spikes::new(
            spikes.iter().map(|spike| spike.step as i64).collect(),
            spikes.iter().map(|spike| spike.neuron).collect(),
        ),
        channel_names: names.collect(),
        behavior: movement.map(|movement| Behavior {
            outputs: ["x", "y"].map(OutputInfo::from).to_vec(),
            values: (0..engine.steps())
                .flat_map(|step| movement.at(step))
                .collect(),
            times: None,
        }),
        segments: vec![Segment {
            start: 0,
            stop: ticks,
        }],
        electrode_um: None,
        form: SpikeForm::Events,
        meta: Some(format!(
            "{{\"source\": \"betz simulate\", \"seed\": {}, \"synapse_hash\": \"{:016x}\", \"hash\": \"{:016x}\"{}}}",
            args.seed,
            engine.synapse_hash(),
            engine.hash(),
            if interrupted {
                ", \"interrupted\": true"
            } else {
                ""
            }
        )),
    };
    recording.write_npz(path)?;
    Ok(RecordingFile::new(&recording, path))
}

/// First words of a file of potentials.
pub(super) const TRACES: Kind = Kind::Table(&["seconds,mV of neuron "]);

/// Seconds rounded to a billionth, so that a table has no binary tails such as 0.7000000000000001.
pub(super) fn whole_nanoseconds(seconds: f64) -> f64 {
    (seconds * 1e9).round() / 1e9
}

/// Potentials of the traced neurons, one row per step.
pub(super) fn write_traces(path: &Path, engine: &Engine) -> Result<()> {
    let traces = engine.potentials();
    let step_seconds = engine.network().step_ms * 1e-3;
    write_atomically(path, |file| {
        write!(file, "seconds")?;
        for (neuron, _) in &traces {
            write!(file, ",mV of neuron {neuron}")?;
        }
        writeln!(file)?;
        let steps = traces
            .iter()
            .map(|(_, values)| values.len())
            .min()
            .unwrap_or(0);
        for step in 0..steps {
            write!(
                file,
                "{}",
                number(whole_nanoseconds((step + 1) as f64 * step_seconds))
            )?;
            for (_, values) in &traces {
                write!(file, ",{}", values[step])?;
            }
            writeln!(file)?;
        }
        Ok(())
    })
}

/// The last moments, those that `activity` heard.
pub(super) fn draw(engine: &Engine, activity: &Activity, path: &Path) -> Result<()> {
    let network = engine.network();
    let to_ms = engine.steps() as f64 * network.step_ms;
    let shown = activity.steps().min(engine.steps());
    let mut spikes = activity.spikes();
    spikes.iter_mut().for_each(|(at, _)| *at += to_ms);
    spiking_picture::draw(
        &Moments {
            title: format!(
                "{}, {}: the last {} ms",
                count(network.neurons(), "neuron"),
                count(engine.synapses(), "synapse"),
                shown as f64 * network.step_ms
            ),
            from_ms: to_ms - shown as f64 * network.step_ms,
            to_ms,
            step_ms: network.step_ms,
            neurons: network.neurons(),
            populations: activity.populations(),
            spikes: &spikes,
            potentials: &engine.potentials(),
        },
        path,
    )
}
