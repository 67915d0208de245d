//! Prints the tables of `benches/record/live.md`: what the loop of a session costs, its recorder, and its replay. The rig is
//! simulated and made beforehand; times of the loop are CPU times of its thread.
//!
//! ```sh
//! cargo run --release -p betz-programs --bin live_figures
//! ```

use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use betz_base::{Error, ErrorKind, Result};
use betz_live::record::{Facts, start};
use betz_live::{Pace, Part, Pipeline, Plan, Replay, Simulation, SimulationOptions};
use betz_recording::OutputInfo;
use betz_rigs::bus::{Estimate, Sink, Stream, open_sink};
use betz_rigs::rig::{Arrival, Block, Rig, host_ns};
use betz_runtime::model::{Decoder, DecoderParts};
use betz_runtime::psc::{Filter, FilterBank};
use rustix::time::{ClockId, clock_gettime};

/// Blocks of 1 ms: those before the first one that counts, and those that count.
const WARM_UP: usize = 300;
const BLOCKS: usize = 3000;
/// Rows of a block.
const ROWS: usize = 30;
/// Bytes that may wait for the disk while the program goes on.
const BEHIND: u64 = 8 << 20;

/// CPU time of this thread, or of the whole process, in microseconds.
fn cpu_us(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 * 1e6 + now.tv_nsec as f64 * 1e-3
}

fn decoder(channels: usize) -> Result<Decoder> {
    let bank = FilterBank::new(vec![Filter {
        tau_seconds: 0.06,
        order: 1,
    }])?;
    let names = (0..channels).map(|c| format!("channel {c}")).collect();
    let outputs = ["x", "y"].map(OutputInfo::from).to_vec();
    Decoder::new(DecoderParts {
        weights: (0..2 * channels).map(|w| 0.01 * (w % 7) as f64).collect(),
        ..DecoderParts::linear(0.02, bank, names, outputs)
    })
}

fn plan(feature: &str) -> Result<Plan> {
    let text = format!(
        "[session]\nmodel = \"linear.betz\"\n[[source]]\nname = \"rig\"\nfrom = \"simulated\"\n\
         [voltage]\nreference = \"median\"\nfeature = \"{feature}\"\n\
         noise = {{ calibrate = \"100ms\", track = \"30s\" }}\n[record]\nto = \"recordings\"\n"
    );
    Plan::parse(&text, Path::new("figures.toml"), &[])
}

/// A value at a share of the sorted `times`.
fn at(times: &[f64], share: f64) -> f64 {
    times[((times.len() - 1) as f64 * share) as usize]
}

struct Chain {
    /// Per block: CPU time of the whole chain, and wall time of the hand-over to the recorder.
    loop_us: Vec<f64>,
    put_us: Vec<f64>,
    writer_us: f64,
    unrecorded: u64,
}

/// Runs a session's loop by hand: block to the recorder, front end, step, datagram out.
fn chain(channels: usize, feature: &str, to: &Path) -> Result<(Chain, std::path::PathBuf)> {
    let options = SimulationOptions {
        channels,
        neurons: channels + channels / 2,
        train_seconds: 1.0,
        run_seconds: 10.0,
        ..SimulationOptions::default()
    };
    let simulation = Simulation::new(&options)?;
    let (plan, model, signal) = (plan(feature)?, decoder(channels)?, simulation.signal());
    let facts = Facts {
        version: 1,
        channels,
        rate: signal.rate,
        microvolts: signal.microvolts,
        voltage: true,
        noise: None,
        unix_seconds: 0.0,
    };
    let mut recorder = start(to, &plan, &model, &facts, host_ns())?;
    let mut pipeline = Pipeline::new(&plan, &model, &signal, true)?;
    let hears =
        UdpSocket::bind("127.0.0.1:0").map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    let address = hears
        .local_addr()
        .map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    let names = ["x".to_owned(), "y".to_owned()];
    let stream = Stream {
        channels,
        outputs: &names,
        step_seconds: 0.02,
    };
    let mut sink: Box<dyn Sink> = open_sink(&format!("udp://{address}"), &stream)?;
    let mut rig = simulation.rig(Part::Run, Pace::Fastest);
    let mut block = Block::new();
    let mut told = Chain {
        loop_us: Vec::new(),
        put_us: Vec::new(),
        writer_us: 0.0,
        unrecorded: 0,
    };
    let mut other_us = 0.0;
    let process = cpu_us(ClockId::ProcessCPUTime);
    let thread = cpu_us(ClockId::ThreadCPUTime);
    for number in 0..WARM_UP + BLOCKS {
        if rig.take(&mut block, Duration::ZERO)? != Arrival::Block {
            break;
        }
        // The blocks come faster than in life; the disk gets its time.
        let put = (number * ROWS * channels * 2) as u64;
        while recorder.counts().written + BEHIND < put {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (begun, put) = (cpu_us(ClockId::ThreadCPUTime), Instant::now());
        recorder.block(0, &block);
        let put = put.elapsed();
        pipeline.take(&block, &mut |step| {
            recorder.step(step);
            sink.give(&Estimate {
                sequence: step.number,
                device: step.end.saturating_sub(1),
                host_ns: step.host_ns,
                sent: None,
                status: step.status.bits(),
                values: step.values,
            })
        })?;
        let spent = cpu_us(ClockId::ThreadCPUTime) - begun;
        if number >= WARM_UP {
            told.loop_us.push(spent);
            told.put_us.push(put.as_secs_f64() * 1e6);
        }
    }
    recorder.end(host_ns())?;
    other_us += cpu_us(ClockId::ThreadCPUTime) - thread;
    told.writer_us = cpu_us(ClockId::ProcessCPUTime) - process - other_us;
    told.unrecorded = recorder.counts().unrecorded;
    told.loop_us.sort_by(f64::total_cmp);
    told.put_us.sort_by(f64::total_cmp);
    Ok((told, recorder.folder().to_owned()))
}

fn main() -> Result<()> {
    println!(
        "| channels, feature | own time per 1 ms block: p50, p99 (µs) | of a core | hand-over to the recorder: p50, p99 (µs) | recorder's thread, of a core | not recorded |"
    );
    println!("|---|---|---|---|---|---|");
    let folder = tempfile::tempdir().map_err(|e| Error::new(ErrorKind::Io, e.to_string()))?;
    let mut recorded = None;
    for channels in [1024, 384, 96] {
        for feature in ["crossings", "sbp"] {
            let (told, to) = chain(channels, feature, folder.path())?;
            let mean = told.loop_us.iter().sum::<f64>() / told.loop_us.len() as f64;
            let life_us = ((WARM_UP + BLOCKS) * 1000) as f64;
            println!(
                "| {channels}, {feature} | {:.1}, {:.1} | {:.2} % | {:.1}, {:.1} | {:.2} % | {} |",
                at(&told.loop_us, 0.5),
                at(&told.loop_us, 0.99),
                mean / 10.0,
                at(&told.put_us, 0.5),
                at(&told.put_us, 0.99),
                100.0 * told.writer_us / life_us,
                told.unrecorded
            );
            recorded = Some(to);
        }
    }
    if let Some(to) = recorded {
        let before = cpu_us(ClockId::ProcessCPUTime);
        let told = Replay::open(&to)?.run(&mut |_| Ok(()))?;
        let seconds = (cpu_us(ClockId::ProcessCPUTime) - before) * 1e-6;
        println!(
            "\nreplay of 96 channels: {:.1} times as fast as life by CPU time, {} of {} steps equal",
            told.seconds / seconds,
            told.compared - told.different,
            told.compared
        );
    }
    Ok(())
}
